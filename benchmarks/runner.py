"""Measure rivals in turn, round after round, so that other load on the machine affects all of them alike."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from benchmarks.check import check_agreement
from benchmarks.child import Child, RivalError
from benchmarks.gpu_memory import memory_by_group
from benchmarks.machine import core_count
from benchmarks.measurement import Measurement
from benchmarks.rivals.base import Rival
from benchmarks.workload import Setup


@dataclass
class KindResult:
    """The results of one kind of input.

    Attributes:
        setup: The loaded setup.
        rounds: The measurements of each rival, one per round.
        failures: Reasons of failure of the rivals that ``rounds`` lacks.
        reports: Rivals' reports about themselves from the last round.
        gpu_memory: MiB of GPU memory of a rival's processes in the last round, if the driver reports it.
    """

    setup: Setup
    rounds: dict[str, list[Measurement]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)
    gpu_memory: dict[str, float] = field(default_factory=dict)

    def rate(self, name: str) -> float:
        """Return the median of a rival's rates, in samples per second."""
        return statistics.median(measurement.rate for measurement in self.rounds[name])

    def other_cores(self) -> float:
        """Return how many cores the rest of the machine used during the measurement, on average."""
        measurements = [measurement for done in self.rounds.values() for measurement in done]
        seconds = sum(measurement.seconds for measurement in measurements)
        return sum(measurement.other_cpu_seconds for measurement in measurements) / seconds if seconds else 0.0

    def ratios(self, name: str, reference: str) -> list[float]:
        """Return the rate of ``reference`` divided by the rate of ``name``, one figure per round."""
        pairs = zip(self.rounds[reference], self.rounds[name], strict=True)
        return [ours.rate / theirs.rate for ours, theirs in pairs]


def run_kind(
    rivals: Sequence[Rival],
    setup: Setup,
    *,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
    go_on: Callable[[], bool] = lambda: True,
) -> KindResult:
    """Start every rival that loads this kind, check its batches, and measure the rivals in turn.

    A rival that fails or hangs is left out and named in the failures; the others continue.

    Args:
        rivals: Rivals to compare.
        setup: What they load.
        rounds: Number of measurements of each rival.
        seconds: Duration of one measurement.
        say: Called with progress messages.
        go_on: Called before each round; the first False ends the measurement.

    Returns:
        The results.
    """
    result = KindResult(setup)
    taking_part = []
    for rival in rivals:
        if setup.kind in rival.kinds:
            if reason := _cannot(rival, setup):
                result.failures[rival.name] = reason
            else:
                taking_part.append(rival)
    with ExitStack() as stack:
        children: dict[str, Child] = {}
        statistics_of = {}
        at_once = max(1, core_count() // 2)
        for first in range(0, len(taking_part), at_once):
            some = taking_part[first : first + at_once]
            started = {rival.name: stack.enter_context(Child(rival, setup)) for rival in some}
            for name, child in started.items():
                say(f"{setup.kind}: {name} starts")
                try:
                    statistics_of[name] = child.check()
                except RivalError as error:
                    result.failures[name] = str(error)
                    child.close()
                    continue
                children[name] = child
        check_agreement({name: found for name, found in statistics_of.items() if found is not None})
        measured: dict[str, list[Measurement]] = {name: [] for name in children}
        for number in range(rounds):
            if not go_on():
                break
            # Each round begins with another rival, so that none always follows the same one.
            order = list(children)
            shift = number % max(len(order), 1)
            for name in order[shift:] + order[:shift]:
                say(f"{setup.kind}: round {number + 1} of {rounds}, {name}")
                try:
                    measured[name].append(children[name].measure(seconds))
                except RivalError as error:
                    result.failures[name] = str(error)
                    children.pop(name).close()
        _ask_last(children, result)
        for child in children.values():  # all at once, then wait for one after the other
            child.let_go()
    result.rounds = {name: done for name, done in measured.items() if name in children and done}
    return result


def _ask_last(children: dict[str, Child], result: KindResult) -> None:
    for name, child in children.items():
        try:
            if report := child.report():
                result.reports[name] = report
        except RivalError as error:
            result.reports[name] = str(error)
    if result.setup.device_id is not None:
        pids = {name: [process.pid for process in child.family()] for name, child in children.items()}
        result.gpu_memory = memory_by_group(pids)


def _cannot(rival: Rival, setup: Setup) -> str | None:
    if setup.device.split(":")[0] not in rival.devices:
        return f"does not run on {setup.device}"
    return rival.unavailable()
