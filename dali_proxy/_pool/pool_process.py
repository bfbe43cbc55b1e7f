"""The process of a server's dataset workers: the side of the process that owns the server."""

from __future__ import annotations

import os
import pickle
import subprocess

from dali_proxy._common.process_exit import describe_exit
from dali_proxy._transport.endpoint import Endpoint
from dali_proxy.errors import ServerDiedError
from pipeline._ipc.interpreter import child_environment, import_path, interpreter_path
from pipeline._ipc.signals import deferred_signals
from pipeline._ranks import current_ranks

__all__ = ["PoolProcess"]

_PROGRAM = "from dali_proxy._pool.supervisor import main; main()"
_PATIENCE = 5.0  # seconds that the process may take to end


class PoolProcess:
    """Starts the process of the dataset workers. Call `begin` when the server listens.

    Args:
        folder: an empty folder, as the working directory of the start: nothing there shadows a module.
    """

    def __init__(self, folder: str) -> None:
        with deferred_signals:
            self._process = subprocess.Popen(
                [interpreter_path(), "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**child_environment(), **current_ranks().variable},
                cwd=folder,
                start_new_session=True,
            )

    def begin(self, endpoint: Endpoint, count: int) -> None:
        """Start the workers, and wait until they run.

        Raises:
            ServerDiedError: the process ended while it started.
        """
        settings = (endpoint, count, _working_directory(), import_path())
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(pickle.dumps(settings))
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            reason = describe_exit(self._process.wait())
            raise ServerDiedError(f"the dataset workers didn't start: their process {reason}; see its output above")

    def stop(self) -> None:
        """End the workers."""
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed or can't be read
        return ""
