"""Measure all rivals of a job in turn, round after round, each in its own process."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from benchmarks.child import Helper, RivalError
from benchmarks.comparison.check import Difference, check_batches
from benchmarks.comparison.jobs import JOBS
from benchmarks.comparison.memory import memory_of
from benchmarks.comparison.rival import Cores
from benchmarks.comparison.rivals import RIVALS
from benchmarks.measurement import Measurement, measure, settle

WARM_UP = 16
"""Batches to discard before each measurement: more than a rival prefetches while another one runs. SPDL in a subprocess
prefetches fourteen."""

GRACE = 60.0
"""Seconds that a rival may take to start, and to answer after its measurement."""

IMPORTS = 120.0
"""Seconds that all processes of a job may take in addition, to import torch."""


@dataclass(frozen=True)
class Start:
    """How a rival started.

    Attributes:
        seconds: From the creation of the loader to its first batch, with the imports that only this rival needs.
        version: Name and version of its packages.
        differences: The difference of each output from the reference.
    """

    seconds: float
    version: str
    differences: list[Difference]


@dataclass
class RivalResult:
    """The results of one rival: how it started, a measurement per round, and the memory afterwards, in MiB."""

    start: Start
    rounds: list[Measurement] = field(default_factory=list)
    memory: float = 0.0

    @property
    def rate(self) -> float:
        """The median of the rates, in samples per second."""
        return statistics.median(one.rate for one in self.rounds)

    @property
    def cpu_milliseconds(self) -> float:
        """The median of the processor time of all processes for one sample."""
        return statistics.median(one.cpu_per_sample for one in self.rounds) * 1e3


@dataclass
class JobResult:
    """The results of a job.

    Attributes:
        job: Its name.
        rivals: Results by rival.
        failures: Reasons why rivals have none.
    """

    job: str
    rivals: dict[str, RivalResult] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def other_cores(self) -> float:
        """Return how many cores the rest of the machine used, on average."""
        rounds = [one for result in self.rivals.values() for one in result.rounds]
        seconds = sum(one.seconds for one in rounds)
        return sum(one.other_cpu_seconds for one in rounds) / seconds if seconds else 0.0


def run_job(
    name: str, rivals: Sequence[str], cores: Cores, *, rounds: int, seconds: float, say: Callable[[str], None]
) -> JobResult:
    """Start the rivals of a job one after the other, check their batches, and measure them in turn.

    A rival that fails is left out and named in the failures.

    Args:
        name: The job.
        rivals: Names of the rivals.
        cores: What each of them may use.
        rounds: Measurements of each rival.
        seconds: Duration of a measurement.
        say: Called with progress messages.
    """
    job = JOBS[name]
    result = JobResult(name)
    with ExitStack() as stack:
        # All processes import torch at once. Then their loaders start one after the other.
        children = {
            rival: stack.enter_context(Helper(rival, _serve, rival, name, cores, grace=GRACE))
            for rival in rivals
            if RIVALS[rival].does(job)
        }
        for child in children.values():
            child.answer(IMPORTS)
        for rival, child in list(children.items()):
            say(f"{name}: {rival} starts")
            try:
                result.rivals[rival] = RivalResult(child.ask("start"))
            except RivalError as error:
                result.failures[rival] = str(error)
                children.pop(rival).close()
        for number in range(rounds):
            order = list(children)
            shift = number % max(len(order), 1)  # no rival always follows the same one
            for rival in order[shift:] + order[:shift]:
                say(f"{name}: round {number + 1} of {rounds}, {rival}")
                try:
                    measured = children[rival].ask(seconds * job.seconds, seconds * job.seconds)
                except RivalError as error:
                    result.failures[rival] = str(error)
                    result.rivals.pop(rival)
                    children.pop(rival).close()
                    continue
                result.rivals[rival].rounds.append(measured)
        for rival, child in children.items():
            result.rivals[rival].memory = memory_of(child.family())
            child.let_go()
    return result


def _serve(rival_name: str, job_name: str, cores: Cores, connection: Connection) -> None:
    """Run one rival: wait, start it and describe that, then answer each number of seconds with a measurement."""
    connection.send("ready")
    connection.recv()
    job, rival = JOBS[job_name], RIVALS[rival_name]
    job.prepare()
    if reason := rival.unavailable():
        raise RuntimeError(reason)
    rival.prepare(job)
    begin = time.perf_counter()
    with closing(rival.stream(job, cores)) as stream:
        first = next(stream)
        started = time.perf_counter() - begin
        differences = check_batches(itertools.chain([first], stream), job)
        settle()
        connection.send(Start(started, rival.version(), differences))
        while True:
            measured = measure(stream, connection.recv(), warm_up=WARM_UP)
            settle()
            connection.send(measured)
