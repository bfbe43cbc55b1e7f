"""Train ResNet-50 from each loader, and compare with its speed on batches already on the GPU."""

from __future__ import annotations

import importlib.util
import itertools
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from benchmarks.child import Caller, RivalError
from benchmarks.gpu.session import Session
from benchmarks.gpu.trainer import Speed, Step, Trainer, trainer_of
from benchmarks.measurement import PATIENCE, settle
from benchmarks.rivals.base import Batch, Rival
from benchmarks.rivals.nvidia_proxy import NvidiaProxy
from benchmarks.rivals.nvidia_reader import NvidiaReader
from benchmarks.rivals.ours import modes_of_ours
from benchmarks.rivals.torch_best import TorchBest
from benchmarks.workload import READER_KIND, Setup

BATCH_SIZES = (256, 64, 32)
"""In order of importance, in case time runs out."""

EAGER = "eager"
"""One launch per kernel: with small batches, the training's own Python code limits its speed."""

REPLAY = "CUDA graph"
"""One launch per step: the GPU limits the speed, for any batch size."""

LAUNCHES = (EAGER, REPLAY)
"""All kinds of training."""

REPLAYED = (256, 64, 32)
"""Batch sizes with both kinds of training."""

LAST = ("ours, thread", "nvidia-proxy", "nvidia-dali")
"""Loaders that share the interpreter's lock with the training, which costs small batches most: measured last."""

BLOCK = 0.5
"""Seconds of a block of steps. The training's own speed drifts within seconds, so only adjacent blocks are compared."""

KIND = "paths"
"""What a dataset passes to its loader."""

RESIDENT = 4
"""Number of batches that stay on the GPU, for comparison."""

DECISION = 50.0
"""Seconds of training until the measurement begins even if ``placement="auto"`` hasn't chosen."""

DRAINED = 64
"""Largest number of batches to take before the measurement: more than any loader prefetches."""

DRAINING = 0.5
"""Largest number of seconds for that. Prefetched batches would make a slow loader look fast."""

START = 30.0 + DECISION
"""Seconds that opening a loader, choosing cuDNN's kernels and a placement may take, besides the measurement."""


@dataclass(frozen=True)
class Share:
    """Training from one loader with one batch size.

    Attributes:
        loader: Name of the rival.
        batch_size: Samples per batch.
        launches: How steps are launched, `EAGER` or `REPLAY`.
        rates: Samples per second in each block of batches from the loader.
        resident: Samples per second in blocks of batches on the GPU: before the first of these blocks and after each.
        cpu_cores: Cores that all processes used while training from the loader.
        resident_cores: Cores without the loader's work.
        taking: Milliseconds of processor time that the training's thread spends on taking a batch, without waiting.
        report: What the loader reports about itself.
    """

    loader: str
    batch_size: int
    launches: str
    rates: tuple[float, ...]
    resident: tuple[float, ...]
    cpu_cores: float
    resident_cores: float
    taking: float
    report: str = ""

    @property
    def shares(self) -> list[float]:
        """The shares of the blocks."""
        return shares_of_blocks(self.rates, self.resident)

    @property
    def share(self) -> float:
        """The median of the shares."""
        return statistics.median(self.shares)

    @property
    def chosen(self) -> str:
        """The placement and its reason, as the loader reports them; empty for other loaders."""
        return next((line for line in self.report.splitlines() if line.startswith("placement ")), "")

    def __str__(self) -> str:
        low, high = quartiles(self.shares)
        spread = f"{low:.1%}..{high:.1%}"
        return (
            f"  batch {self.batch_size:>4}, {self.launches:<10}  {self.loader:<26}{self.share:>7.1%}  {spread:<16}"
            f"{statistics.median(self.rates):>8,.0f} of {statistics.median(self.resident):>6,.0f} img/s, "
            f"{self.cpu_cores:4.1f} cores (training alone {self.resident_cores:.1f}), "
            f"{self.taking:.2f} ms to take a batch" + (f"\n      {self.chosen}" if "auto" in self.loader else "")
        )


def shares_of_blocks(rates: Sequence[float], resident: Sequence[float]) -> list[float]:
    """Return the rate of each block from a loader, divided by the mean rate of the resident blocks around it.

    The mean cancels a drift that is steady during three blocks.

    Args:
        rates: Rates from the loader.
        resident: Rates with resident batches: before the first block from the loader, and after each.

    Example:
        >>> shares_of_blocks([95.0, 60.0], [100.0, 90.0, 110.0])
        [1.0, 0.6]
    """
    pairs = itertools.pairwise(resident)
    return [rate / ((before + after) / 2) for rate, (before, after) in zip(rates, pairs, strict=True)]


def quartiles(shares: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile, between which half of the shares lie."""
    low, high = np.quantile(shares, (0.25, 0.75))
    return float(low), float(high)


def loaders(device_id: int | None) -> list[Rival]:
    """Return our modes and placements, NVIDIA's proxy and pipeline, and torch's loader written as well as we can."""
    return [*modes_of_ours(device_id), NvidiaProxy(), NvidiaReader(), TorchBest()]


def kind_for(rival: Rival) -> str:
    """Return what a loader is given: NVIDIA's pipeline has no dataset and reads the files itself.

    Example:
        >>> kind_for(NvidiaProxy()), kind_for(NvidiaReader())
        ('paths', 'reader')
    """
    return KIND if KIND in rival.kinds else READER_KIND


def missing() -> str | None:
    """Return why training can't be measured, or None if it can."""
    return None if importlib.util.find_spec("torchvision") else "torchvision is not installed, which has the ResNet-50"


def measure_training(
    session: Session,
    rivals: Sequence[Rival],
    batch_sizes: Sequence[int] = BATCH_SIZES,
    seconds: float = 4.0,
    network: str = "resnet50",
    launches: Sequence[str] = LAUNCHES,
) -> Iterator[Share]:
    """Train from each loader in turn in one process; from NVIDIA's, which have separate CUDA libraries, in another.

    Args:
        session: Setup and budget.
        rivals: Loaders to compare.
        batch_sizes: Batch sizes, the most important one first.
        seconds: Duration of the blocks from a loader and with resident batches, with the pauses between them.
        network: A model of torchvision, or ``"tiny"``.
        launches: Kinds of training: `EAGER`, `REPLAY` or both.

    Yields:
        The result of each loader and batch size that there was time for.
    """
    taking_part = {}
    possible = {size: possible_launches(launches, size, session.setup.device) for size in batch_sizes}
    for size in batch_sizes:
        if not possible[size]:
            session.say(f"  batch {size} left out: batches of {REPLAYED} train with a {REPLAY}, on a GPU")
    for rival in rivals:
        if session.setup.device.split(":")[0] not in rival.devices or (reason := rival.unavailable()):
            session.say(f"  {rival.name} left out: {reason}")
        else:
            taking_part[rival.name] = rival
    with _Processes() as processes:
        for process in [processes.of(rival) for rival in taking_part.values()]:  # none imports while another one trains
            with session.guarded(f"the start of {process.name}"):
                process.wait()
        for batch_size, name in in_turn(batch_sizes, list(taking_part)):
            what = f"training, batch {batch_size}, {name}"
            rival = taking_part.get(name)
            if rival is None or not possible[batch_size] or not session.budget.allows(what):
                continue
            session.say(what)
            process = processes.of(rival)
            setup = session.of_kind(kind_for(rival), batch_size=batch_size)
            process.begin(rival, network, setup, seconds, possible[batch_size])
            try:
                shares: list[Share] = process.end(4 * (seconds + 2 * (BLOCK + PATIENCE)))
            except RivalError as error:
                session.fail(what, str(error))
                if not error.reported:  # it hangs, or has ended
                    processes.end(rival)
                    del taking_part[name]
                continue
            yield from shares


class _Processes(ExitStack):
    """Processes that train. In each, cuDNN chooses its kernels once per batch size, which takes 5 to 14 s."""

    def __init__(self) -> None:
        super().__init__()
        self._running: dict[str, Caller] = {}

    def of(self, rival: Rival) -> Caller:
        """Return the process that trains from a loader; a new one after `end`."""
        whose = self._whose(rival)
        if whose not in self._running:
            self._running[whose] = self.enter_context(Caller(f"training from {whose}", train_from, grace=START))
        return self._running[whose]

    def end(self, rival: Rival) -> None:
        """End the process that trains from a loader."""
        self._running.pop(self._whose(rival)).close()

    def _whose(self, rival: Rival) -> str:
        return "NVIDIA's loader" if isinstance(rival, NvidiaProxy | NvidiaReader) else "ours and torch's"


def in_turn(batch_sizes: Sequence[int], loaders: Sequence[str]) -> list[tuple[int, str]]:
    """Return batch sizes and loaders in the order of measurement: what is `LAST` with small batches comes last.

    Example:
        >>> in_turn([256, 64], ["ours, thread", "torch-best"])
        [(256, 'ours, thread'), (256, 'torch-best'), (64, 'torch-best'), (64, 'ours, thread')]
    """
    pairs = list(itertools.product(batch_sizes, loaders))
    return sorted(pairs, key=lambda pair: pair[0] != batch_sizes[0] and pair[1] in LAST)


def possible_launches(launches: Iterable[str], batch_size: int, device: str) -> list[str]:
    """Return the kinds of training that are measured with a batch size on a device.

    Example:
        >>> possible_launches(LAUNCHES, 64, "cuda:0")
        ['eager', 'CUDA graph']
        >>> possible_launches(LAUNCHES, 128, "cuda:0"), possible_launches(LAUNCHES, 64, "cpu")
        (['eager'], ['eager'])
    """
    replays = batch_size in REPLAYED and device != "cpu"
    return [name for name in launches if name == EAGER or replays]


def train_from(
    rival: Rival,
    network: str,
    setup: Setup,
    seconds: float,
    launches: Sequence[str] = (EAGER,),
    trainer: Trainer | None = None,
) -> list[Share]:
    """Train from one loader, and on its first batches, in turn; each kind of training yields a share."""
    trainer = trainer or trainer_of(setup.device, network)
    with closing(rival.stream(setup)) as stream:
        resident = [images.clone() for images, _ in itertools.islice(stream, RESIDENT)]
        steps = {name: trainer.step if name == EAGER else trainer.replayed(resident[0]) for name in launches}
        shares = [_share(rival, stream, resident, (trainer, *step), setup, seconds) for step in steps.items()]
        resident.clear()  # frees the GPU's memory
        steps.clear()
    trainer.free()
    return shares


def _share(
    rival: Rival,
    stream: Iterator[Batch],
    resident: Sequence[torch.Tensor],
    training: tuple[Trainer, str, Step],
    setup: Setup,
    seconds: float,
) -> Share:
    trainer, launches, step = training
    kept = itertools.cycle(resident)
    batches = (images for images, _ in stream)
    trainer.rate(kept, BLOCK / 2, warm_up=8, step=step)  # in the first steps, cuDNN chooses its kernels
    rival.adapt()
    end = time.perf_counter() + DECISION
    while trainer.goes_on(not rival.is_ready() and time.perf_counter() < end):
        step(next(batches))
    blocks: list[Speed] = []
    alone: list[Speed] = []
    report = ""

    def rest() -> None:
        settle()
        alone.append(trainer.rate(kept, BLOCK, warm_up=2, step=step))

    end = time.perf_counter() + seconds
    rest()
    while trainer.goes_on(not blocks or time.perf_counter() < end):
        drain(batches)
        blocks.append(trainer.rate(batches, BLOCK, warm_up=6, step=step, on_begin=rival.mark))
        report = rival.report()
        rest()
    return Share(
        rival.name,
        setup.batch_size,
        launches,
        rates=tuple(block.rate for block in blocks),
        resident=tuple(block.rate for block in alone),
        cpu_cores=statistics.median(block.cores for block in blocks),
        resident_cores=statistics.median(block.cores for block in alone),
        taking=statistics.median(block.taking for block in blocks),
        report=report,
    )


def drain(batches: Iterator[Any]) -> None:
    """Take what a loader has prefetched."""
    end = time.perf_counter() + DRAINING
    for _ in itertools.islice(batches, DRAINED):
        if time.perf_counter() > end:
            break


def as_json(share: Share) -> dict[str, Any]:
    """Return a share for the document."""
    return {**asdict(share), "share": round(share.share, 4)}
