"""A rival in a process of its own, so that one that hangs can be ended and none disturbs another."""

from __future__ import annotations

import multiprocessing
import traceback
from contextlib import closing
from multiprocessing.connection import Connection
from types import TracebackType

import psutil

from benchmarks.check import Statistics, check_stream
from benchmarks.measurement import Measurement, measure
from benchmarks.rivals.base import Rival
from benchmarks.workload import Setup

GRACE = 60.0
"""Seconds that a rival may take to start, to give an answer beyond what it measures, and to end by itself."""


class RivalError(RuntimeError):
    """A rival failed, or gave no answer in time."""


class Child:
    """Runs one rival with one setup in a fresh process, and keeps its stream open between measurements.

    Args:
        rival: The rival.
        setup: What it loads.
        grace: Seconds of patience for each step.
    """

    def __init__(self, rival: Rival, setup: Setup, grace: float = GRACE) -> None:
        self.name = rival.name
        self.grace = grace
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(rival, setup, other))
        self._process.start()
        other.close()

    def check(self) -> Statistics | None:
        """Has the rival start and look at its first batches.

        Raises:
            RivalError: It failed, its batches are wrong, or it took too long.
        """
        answer = self._answer(self.grace)
        assert answer is None or isinstance(answer, Statistics)
        return answer

    def measure(self, seconds: float) -> Measurement:
        """Has the rival measured for some seconds.

        Raises:
            RivalError: It failed or gave no answer in time.
        """
        self._connection.send(seconds)
        answer = self._answer(seconds + self.grace)
        assert isinstance(answer, Measurement)
        return answer

    def close(self) -> None:
        """Ends the process, and whatever it started, by force if it must."""
        family = self._family()
        self._connection.close()
        self._process.join(self.grace)
        for process in {*family, *self._family()}:
            if process.is_running():
                process.kill()
        self._process.join()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _family(self) -> list[psutil.Process]:
        try:
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _answer(self, timeout: float) -> object:
        if not self._connection.poll(timeout):
            raise RivalError(f"{self.name} gave no answer in {timeout:.0f} s")
        try:
            answer = self._connection.recv()
        except EOFError:
            raise RivalError(f"the process of {self.name} died") from None
        if isinstance(answer, str):
            raise RivalError(f"{self.name} failed:\n{answer}")
        return answer


def _serve(rival: Rival, setup: Setup, connection: Connection) -> None:
    # A spawned process hands its own start method on. Workers start as they do in a user's script.
    multiprocessing.set_start_method(None, force=True)
    with closing(rival.stream(setup)) as stream:
        try:
            connection.send(None if rival.yardstick else check_stream(stream, setup))
            while True:
                connection.send(measure(stream, connection.recv()))
        except EOFError:  # the runner has what it wanted
            return
        except Exception:  # noqa: BLE001  # whatever a rival raises is told to the runner
            connection.send(traceback.format_exc())
