"""Measurements of loaders in several configurations."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil
import torch

from dali_proxy import DALIServer, DataLoader, ServerStats
from dali_proxy._benchmark.datasets import FileDataset, PillowTransform, ProxyTransform
from dali_proxy._demo.compare import EndlessSampler
from dali_proxy._server.advice import others_load
from dali_proxy.pipeline import Pipeline
from dali_proxy.pipeline._definition.file_inputs import FileInputs
from dali_proxy.pipeline._definition.serializing import with_graph
from dali_proxy.pipeline.errors import PipelineError

Placement = Literal["server", "engine", "cores", "consumer"]

_WARM_UP = 6  # maximum number of batches before a measurement: workers start, and batches were prefetched
_USUAL_SIZE = (224, 224)  # of the images for torch, if those of the pipeline have no common size


@dataclass(frozen=True)
class Configuration:
    """How a loader runs.

    Attributes:
        workers: dataset worker processes.
        threads: threads of the pipeline; 0 for torch's loader alone.
        placement: where the pipeline's stages run.
    """

    workers: int
    threads: int = 0
    placement: Placement = "server"

    def __str__(self) -> str:
        """Return the configuration as in a user's code."""
        if not self.threads:
            return f"num_workers={self.workers}"
        place = "" if self.placement == "server" else f", placement={self.placement!r}"
        return f"num_workers={self.workers}, num_threads={self.threads}{place}"


@dataclass(frozen=True)
class Result:
    """A measurement of a loader.

    Attributes:
        configuration: how it ran.
        rate: samples per second.
        cpu: processor time of all processes, in milliseconds per sample.
        limited_by: what limits the speed, "workers" or "pipeline"; empty for torch's loader.
        operators: shares of the operators in the pipeline's processor time, the largest first.
        others: advice if other programs used the cores; else empty, as for torch's loader.
    """

    configuration: Configuration
    rate: float
    cpu: float
    limited_by: str = ""
    operators: Mapping[str, float] | None = None
    others: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return everything as values of JSON."""
        return asdict(self)


class PlainLoaderError(PipelineError):
    """The function for torch's loader failed."""


class Bench:
    """Measures a pipeline and torch's loader on the same files.

    Args:
        pipeline: the pipeline, which must have inputs.
        files: image files.
        inputs: data for other inputs, as for `Pipeline.preview`.
        batch_size: samples in a batch.
        seconds: length of a measurement.
        plain: function of a file's path for torch's loader; None for decoding and resizing by PIL.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        files: Sequence[Path],
        inputs: Mapping[str, Any],
        *,
        batch_size: int,
        seconds: float,
        plain: Callable[[Path], Any] | None = None,
    ) -> None:
        self.pipeline = pipeline
        self.files = files
        self.batch_size = batch_size
        self.seconds = seconds
        self._reader = FileInputs(pipeline._internals.graph, inputs)
        self._plain = plain
        self._size = _USUAL_SIZE

    @property
    def plain_work(self) -> str:
        """What torch's loader does, in words."""
        if self._plain is not None:
            return "your function"
        return f"PIL: decode, resize to {self._size[0]} x {self._size[1]}, convert to float; nothing else"

    def measure(self, configuration: Configuration) -> Result:
        """Measure the pipeline in one configuration."""
        graph = self.pipeline._internals.declared_graph
        pipe = with_graph(self.pipeline, graph, batch_size=self.batch_size, num_threads=configuration.threads)
        with DALIServer(pipe, placement=configuration.placement) as server:
            dataset = FileDataset(self.files, ProxyTransform(self._reader, server.proxy))
            loader = DataLoader(server, dataset, ragged="list", **self._options(configuration.workers))
            batches = _endless(loader)
            self._size = next((size for size in map(_size, _tensors(next(batches))) if size), self._size)
            before: list[ServerStats] = []
            rate, cpu = self._time(batches, lambda: before.append(server.stats()))
            stats = server.stats() - before[0]
            batches.close()
        total = sum(times.seconds for times in stats.operators.values()) or 1.0
        shares = sorted(((times.seconds / total, name) for name, times in stats.operators.items()), reverse=True)
        operators = {name: share for share, name in shares}
        return Result(configuration, rate, cpu, stats.limited_by, operators, others_load(stats))

    def measure_torch(self, workers: int) -> Result:
        """Measure torch's loader.

        Raises:
            PlainLoaderError: the user's function failed, or its results don't form batches.
        """
        dataset = FileDataset(self.files, self._plain or PillowTransform(*self._size))
        batches = _endless(torch.utils.data.DataLoader(dataset, **self._options(workers)))
        try:
            next(batches)
        except Exception as error:
            reason = str(error).strip().splitlines() or [""]  # a worker's error contains its traceback
            raise PlainLoaderError(f"torch's loader failed: {type(error).__name__}: {reason[-1]}") from error
        rate, cpu = self._time(batches, lambda: None)
        batches.close()
        return Result(Configuration(workers), rate, cpu)

    def _options(self, workers: int) -> dict[str, Any]:
        return {
            "batch_size": self.batch_size,
            "num_workers": workers,
            "sampler": EndlessSampler(len(self.files)),
        }

    def _time(self, batches: Iterator[Any], begin: Callable[[], None]) -> tuple[float, float]:
        """Return samples per second, and milliseconds of processor time per sample."""
        warm_up = time.perf_counter() + self.seconds
        for number in range(_WARM_UP):
            next(batches)
            if number and time.perf_counter() > warm_up:
                break
        begin()
        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        used, start, count = _processor_time(processes), time.perf_counter(), 0
        while (elapsed := time.perf_counter() - start) < self.seconds or count < 2:
            next(batches)
            count += 1
        used = _processor_time(processes) - used
        samples = count * self.batch_size
        return samples / elapsed, 1000 * used / samples


def _endless(loader: Iterable[Any]) -> Any:
    """Return a generator of a loader's batches, whose `close` ends the workers."""
    iterator = iter(loader)
    try:
        while True:
            yield next(iterator)
    finally:
        del iterator


def _processor_time(processes: Sequence[psutil.Process]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        yield from itertools.chain.from_iterable(map(_tensors, batch.values()))
    elif isinstance(batch, list | tuple):
        yield from itertools.chain.from_iterable(map(_tensors, batch))


def _size(tensor: torch.Tensor) -> tuple[int, int] | None:
    """Return the height and the width of a batch of images; None for other tensors."""
    if tensor.ndim != 4:
        return None
    _, first, second, third = tensor.shape
    return (first, second) if third in (1, 3, 4) else (second, third) if first in (1, 3, 4) else None
