"""Measure in separate processes: one that hangs can be ended, and none affects another."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

import psutil

from benchmarks.check import Statistics, check_stream
from benchmarks.measurement import Measurement, measure, settle
from benchmarks.rivals.base import Rival
from benchmarks.workload import Setup

GRACE = 60.0
"""Seconds that a process may take to start, and to answer after its measurement."""

ENDING = 20.0
"""Seconds that it may take to end before it is killed."""

START_METHOD = "spawn"
"""Start method of the processes: nothing of this process affects a measurement."""


class RivalError(RuntimeError):
    """A process failed, or didn't answer in time.

    Attributes:
        reported: Whether the process reported the error. Then it still runs and may accept further calls.
    """

    reported = False


@dataclass(frozen=True)
class Failure:
    """The answer of a process that failed."""

    traceback: str


class Helper:
    """A fresh process that answers requests.

    Args:
        name: Name for error messages.
        serve: Function that the process calls with the arguments and its connection. Its exceptions become failures.
        arguments: Arguments of ``serve``, before the connection.
        grace: Seconds to wait for each step.
    """

    def __init__(self, name: str, serve: Callable[..., None], *arguments: Any, grace: float = GRACE) -> None:
        self.name = name
        self.grace = grace
        context = multiprocessing.get_context(START_METHOD)
        self._connection, other = context.Pipe()
        self._process = context.Process(target=_begin, args=(serve, arguments, other))
        self._process.start()
        other.close()

    def ask(self, question: Any, seconds: float = 0.0) -> Any:
        """Send a request, and wait for the answer.

        Args:
            question: Object that ``serve`` receives.
            seconds: Expected duration of a successful answer; ``grace`` is added.

        Raises:
            RivalError: It failed or didn't answer in time.
        """
        self.tell(question)
        return self.answer(seconds)

    def tell(self, question: Any) -> None:
        """Send a request without waiting for the answer."""
        with suppress(BrokenPipeError):  # the process may have sent the reason before it ended
            self._connection.send(question)

    def answer(self, seconds: float = 0.0) -> Any:
        """Wait for the next answer, requested or not.

        Raises:
            RivalError: It failed or didn't answer in time.
        """
        timeout = seconds + self.grace
        if not self._connection.poll(timeout):
            self._tell_where_it_is()
            raise RivalError(f"{self.name} gave no answer in {timeout:.0f} s")
        try:
            answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            raise RivalError(f"the process of {self.name} died") from None
        if isinstance(answer, Failure):
            error = RivalError(f"{self.name} failed:\n{answer.traceback}")
            error.reported = True
            raise error
        return answer

    def _tell_where_it_is(self) -> None:
        """Let the process print the stacks of its threads."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)

    def family(self) -> list[psutil.Process]:
        """Return the process and its descendants that still run."""
        try:
            parent = psutil.Process(self._process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def let_go(self) -> None:
        """Ask the process to end, without waiting. Idempotent."""
        self._connection.close()

    def close(self) -> None:
        """End the process and its descendants, by force if necessary."""
        family = self.family()
        self.let_go()
        self._process.join(min(self.grace, ENDING))
        for process in {*family, *self.family()}:
            if process.is_running():
                process.kill()
        self._process.join()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Child(Helper):
    """A process that runs one rival with one setup, and keeps its stream open between measurements.

    Args:
        rival: The rival to run.
        setup: What the rival loads.
        grace: Seconds to wait for each step.
    """

    def __init__(self, rival: Rival, setup: Setup, grace: float = GRACE) -> None:
        super().__init__(rival.name, _measure_rival, rival, setup, grace=grace)

    def check(self) -> Statistics | None:
        """Let the rival start and check its first batches.

        Raises:
            RivalError: It failed, its batches are wrong, or it took too long.
        """
        answer = self.answer()
        assert answer is None or isinstance(answer, Statistics)
        return answer

    def measure(self, seconds: float) -> Measurement:
        """Let the rival measure for the given number of seconds.

        Raises:
            RivalError: It failed or didn't answer in time.
        """
        answer = self.ask(seconds, seconds)
        assert isinstance(answer, Measurement)
        return answer

    def report(self) -> str:
        """Return what the rival reports about the last measurement; empty if it reports nothing.

        Raises:
            RivalError: It failed or didn't answer in time.
        """
        return str(self.ask(None))


class Caller(Helper):
    """A process that calls one function repeatedly.

    Args:
        name: Name for error messages.
        function: Picklable callable.
        bound: First arguments of the function.
        grace: Seconds to wait for each step.
    """

    def __init__(self, name: str, function: Callable[..., Any], *bound: Any, grace: float = GRACE) -> None:
        super().__init__(name, _answer_calls, function, bound, grace=grace)
        self._ready = False

    def wait(self) -> None:
        """Wait until everything is imported.

        Raises:
            RivalError: It failed, or took too long.
        """
        if not self._ready:
            self.answer(GRACE)
            self._ready = True

    def begin(self, *arguments: Any) -> None:
        """Call the function with these arguments after the bound ones, without waiting."""
        self.tell(arguments)

    def end(self, seconds: float = 0.0) -> Any:
        """Wait for the result. A call that raised doesn't affect the next one.

        Args:
            seconds: Expected duration of a successful call; ``grace`` is added.

        Raises:
            RivalError: It raised or didn't answer in time.
        """
        self.wait()
        return self.answer(seconds)


def _begin(serve: Callable[..., None], arguments: tuple[Any, ...], connection: Connection) -> None:
    # A spawned process inherits the start method. Workers must start as they do in a user's script.
    multiprocessing.set_start_method(None, force=True)
    faulthandler.register(signal.SIGUSR1)
    try:
        serve(*arguments, connection)
    except (EOFError, BrokenPipeError):  # the client has left
        return
    except Exception:  # noqa: BLE001  # the client receives every exception
        with suppress(BrokenPipeError):
            connection.send(Failure(traceback.format_exc()))


def _measure_rival(rival: Rival, setup: Setup, connection: Connection) -> None:
    with closing(rival.stream(setup)) as stream:
        statistics = None if rival.yardstick else check_stream(stream, setup)
        settle()
        connection.send(statistics)
        report = ""
        while True:
            seconds = connection.recv()
            if seconds is None:
                connection.send(report)
                continue
            measured = measure(stream, seconds, rival.mark)
            report = rival.report()
            settle()
            connection.send(measured)


def _answer_calls(function: Callable[..., Any], bound: tuple[Any, ...], connection: Connection) -> None:
    connection.send(None)
    while True:
        arguments = connection.recv()
        try:
            answer = function(*bound, *arguments)
        except Exception:  # noqa: BLE001  # the client receives every exception
            answer = Failure(traceback.format_exc())
        connection.send(answer)
