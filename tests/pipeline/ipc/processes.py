"""Forked children for tests: they run a function, and exit with 0 if it succeeds."""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable


class Child:
    """A forked child that runs `target` and exits with 0, or prints the exception and exits with 1."""

    def __init__(self, target: Callable[[], object]) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                target()
                code = 0
            except BaseException:  # noqa: BLE001 - the parent must learn of every failure
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def join(self, timeout: float = 60.0) -> None:
        """Wait for the child, and check that it exits with 0."""
        fd = os.pidfd_open(self.pid)
        try:
            ready, _, _ = select.select([fd], [], [], timeout)
        finally:
            os.close(fd)
        if not ready:
            self.kill()
            raise AssertionError("the child did not end")
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0


class Gate:
    """A pipe that lets processes wait for each other."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def open(self) -> None:
        os.write(self.writer, b"x")

    def wait(self, timeout: float = 60.0) -> None:
        assert select.select([self.reader], [], [], timeout)[0], "the gate was never opened"
        os.read(self.reader, 1)

    def close(self) -> None:
        os.close(self.reader)
        os.close(self.writer)
