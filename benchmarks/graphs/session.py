"""Measure graphs in both libraries in turn, round after round, in one process."""

from __future__ import annotations

import statistics
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

import torch

from benchmarks.child import GRACE, Caller, RivalError
from benchmarks.gpu.budget import Budget
from benchmarks.graphs.side import DEPTH, Setup, Side, Summary
from benchmarks.measurement import Measurement, measure, settle
from benchmarks.operators.session import OURS, THEIRS
from benchmarks.targets import Figure

#: Batches before the first measurement: buffers grow, and kernels are compiled when samples first need them.
FIRST_BATCHES = 40
#: Seconds that a graph may take apart from its measurements, by whether it runs on a GPU.
PATIENCE = {False: 600.0, True: 120.0}


@dataclass
class Result:
    """The results of one graph with one batch size.

    Attributes:
        graph: name of the graph.
        batch_size: samples per batch.
        rounds: measurements of each library, one per round.
        failures: reasons of failure, by library.
    """

    graph: str
    batch_size: int
    rounds: dict[str, list[Measurement]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def rate(self, side: str) -> Figure | None:
        """Return the samples per second of a library."""
        rounds = self.rounds.get(side)
        return Figure.from_rounds([one.rate for one in rounds]) if rounds else None

    def cpu_ms(self, side: str) -> float:
        """Return the median of a library's milliseconds of processor time per sample."""
        return statistics.median(one.cpu_per_sample for one in self.rounds[side]) * 1e3

    def cores(self, side: str) -> float:
        """Return the median of the cores that a library used."""
        return statistics.median(one.cpu_seconds / one.seconds for one in self.rounds[side])

    @property
    def speed(self) -> Figure | None:
        """Our rate divided by DALI's, of paired rounds."""
        return self._figure([ours.rate / theirs.rate for ours, theirs in self._pairs()])

    @property
    def cpu_ratio(self) -> Figure | None:
        """Our processor time per sample divided by DALI's, of paired rounds."""
        ratios = [ours.cpu_per_sample / max(theirs.cpu_per_sample, 1e-9) for ours, theirs in self._pairs()]
        return self._figure(ratios)

    def _pairs(self) -> list[tuple[Measurement, Measurement]]:
        return list(zip(self.rounds.get(OURS, ()), self.rounds.get(THEIRS, ()), strict=False))

    @staticmethod
    def _figure(rounds: list[float]) -> Figure | None:
        return Figure.from_rounds(rounds) if rounds else None


def measure_all(graphs: Sequence[str], batch_sizes: Sequence[int], setup: Setup, budget: Budget) -> Iterator[Result]:
    """Measure graphs until the time is over; replace the process if one hangs or crashes.

    Args:
        graphs: names of the graphs.
        batch_sizes: batch sizes; all graphs are measured with the first, then with the next.
        setup: the rest of the setup.
        budget: time budget, which records what it leaves out.
    """
    child: Caller | None = None
    try:
        for batch_size in batch_sizes:
            for graph in graphs:
                if not budget.allows(f"{graph}, batches of {batch_size}"):
                    continue
                left = budget.limit - budget.elapsed
                child = child or Caller(graph, measure_graph, setup)
                child.name, child.grace = graph, min(PATIENCE[setup.device_id is not None], left + GRACE)
                try:
                    child.begin(graph, batch_size, left)
                    result = child.end(4 * setup.rounds * setup.seconds)
                except RivalError as error:
                    result = Result(graph, batch_size, failures={OURS: str(error), THEIRS: str(error)})
                    if not error.reported:  # it hangs, or has ended
                        child.close()
                        child = None
                yield result
    finally:
        if child is not None:
            child.close()


def measure_graph(setup: Setup, graph: str, batch_size: int, seconds_left: float) -> Result:
    """Build a graph in both libraries, compare the outputs, and measure in turn.

    Args:
        setup: setup of the pipelines.
        graph: name of the graph.
        batch_size: samples per batch.
        seconds_left: seconds after which no further round starts.
    """
    if setup.device_id is not None:
        torch.cuda.init()  # `measure` synchronizes the device through torch
    end = time.perf_counter() + seconds_left
    result = Result(graph, batch_size)
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        outputs: dict[str, list[Summary]] = {}
        for name in (OURS, THEIRS) if setup.with_dali else (OURS,):
            try:
                side = stack.enter_context(closing(Side(name, graph, batch_size, setup)))
                outputs[name], sides[name] = side.describe(), side
            except Exception:  # noqa: BLE001  # the other library continues after any error
                result.failures[name] = traceback.format_exc()
        if len(sides) == 2 and not _agree(*outputs.values()):
            result.failures = {name: f"the outputs differ: {described}" for name, described in outputs.items()}
            return result
        streams = {name: side.stream() for name, side in sides.items()}
        for number in range(setup.rounds):
            if number and time.perf_counter() > end:
                break
            for name in sorted(streams, reverse=bool(number % 2)):
                settle(time.process_time)  # no prefetching of the other library takes part
                warm_up = DEPTH + 1 if number else FIRST_BATCHES
                result.rounds.setdefault(name, []).append(measure(streams[name], setup.seconds, warm_up=warm_up))
    return result


def _agree(ours: list[Summary], theirs: list[Summary]) -> bool:
    return len(ours) == len(theirs) and all(our.agrees(their) for our, their in zip(ours, theirs, strict=True))
