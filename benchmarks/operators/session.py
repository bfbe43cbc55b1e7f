"""Measure cases on both sides in turn, round after round, so that other load on the machine affects both alike."""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.operators.cases import Case
from benchmarks.operators.child import Child, SideError
from benchmarks.operators.side import SIDES, OutputSummary, Timing

OURS, THEIRS = SIDES


@dataclass
class Result:
    """The results of one case.

    Attributes:
        case: measured case.
        rounds: the timings of each side, one per round; empty for a side that failed or was missing.
        failures: reasons of failure, by side.
        on_gpu: milliseconds that the GPU works for one batch, by side.
        load: load average of the machine when the measurement began: threads that ran or waited for a core.
    """

    case: Case
    rounds: dict[str, list[Timing]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    on_gpu: dict[str, float] = field(default_factory=dict)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def speeds(self) -> list[float]:
        """Our speed divided by DALI's, one figure per round."""
        return [theirs.milliseconds / ours.milliseconds for ours, theirs in self._pairs()]

    @property
    def thrift(self) -> list[float]:
        """DALI's CPU time divided by ours, one figure per round."""
        return [
            theirs.cpu_seconds / theirs.batches / (ours.cpu_seconds / ours.batches) for ours, theirs in self._pairs()
        ]

    def _pairs(self) -> list[tuple[Timing, Timing]]:
        return list(zip(self.rounds.get(OURS, ()), self.rounds.get(THEIRS, ()), strict=False))

    def milliseconds(self, side: str) -> float | None:
        """Return the median of a side's milliseconds per batch."""
        rounds = self.rounds.get(side)
        return statistics.median(timing.milliseconds for timing in rounds) if rounds else None


def measure_all(cases: Sequence[Case], folder: Path, options: argparse.Namespace, on_gpu: bool) -> Iterator[Result]:
    """Measure cases one after the other until the time is over; the remaining cases fail.

    Args:
        cases: cases to measure.
        folder: folder from `data.write_files`.
        options: rounds, seconds, threads, limit.
        on_gpu: whether operators run on GPU 0.
    """
    begin = time.monotonic()
    with _children(folder, options, on_gpu) as children:
        for case in cases:
            if time.monotonic() - begin > options.limit:
                yield Result(case, failures={child.name: "the time was over" for child in children})
            else:
                yield _measure(case, children, options)


def trace_all(results: Sequence[Result], folder: Path, options: argparse.Namespace) -> None:
    """Add to each result how long the GPU works for a batch, in new processes, because tracing slows the host down."""
    with _children(folder, options, on_gpu=True) as children:
        for result in results:
            for child in children:
                if child.name in result.rounds:
                    with suppress(SideError):
                        child.open(result.case)
                        result.on_gpu[child.name] = child.trace()


@contextmanager
def _children(folder: Path, options: argparse.Namespace, on_gpu: bool) -> Iterator[list[Child]]:
    """Start a process for each library that is installed."""
    names = [name for name in SIDES if name == OURS or has_dali()]
    with ExitStack() as stack:
        yield [stack.enter_context(Child(name, folder, options.threads, on_gpu)) for name in names]


def _measure(case: Case, children: Sequence[Child], options: argparse.Namespace) -> Result:
    result = Result(case)
    outputs: dict[str, list[OutputSummary]] = {}
    for child in children:
        try:
            outputs[child.name] = child.open(case)
        except SideError as error:
            result.failures[child.name] = str(error)
    if len(outputs) == len(SIDES) and not _agree(case, outputs[OURS], outputs[THEIRS]):
        result.failures = {name: f"the outputs differ: {summaries}" for name, summaries in outputs.items()}
        return result
    able = [child for child in children if child.name in outputs]
    for number in range(options.rounds):
        for child in able if number % 2 else able[::-1]:
            if child.name in result.failures:
                continue
            try:
                result.rounds.setdefault(child.name, []).append(child.measure(options.seconds))
            except SideError as error:
                result.failures[child.name] = str(error)
                result.rounds.pop(child.name, None)
    return result


def _agree(case: Case, ours: Sequence[OutputSummary], theirs: Sequence[OutputSummary]) -> bool:
    """Return whether the outputs have the same means: a check that both libraries do the same work."""
    return len(ours) == len(theirs) and all(
        our.dtype == their.dtype
        and (
            case.random or (our.shape == their.shape and math.isclose(our.mean, their.mean, rel_tol=0.02, abs_tol=0.01))
        )
        for our, their in zip(ours, theirs, strict=True)
    )


def has_dali() -> bool:
    """Return whether NVIDIA DALI is installed."""
    try:
        return importlib.util.find_spec("nvidia.dali") is not None
    except ModuleNotFoundError:
        return False
