"""The process of a server's dataset workers: the side of the process that owns the server."""

from __future__ import annotations

import pickle
import socket
import subprocess
from contextlib import suppress

import psutil

from dali_proxy._common.process_exit import describe_exit
from dali_proxy._transport.endpoint import Endpoint
from dali_proxy.errors import ProxyError, ServerDiedError
from dali_proxy.pipeline._concurrency.forking import no_forks
from dali_proxy.pipeline._ipc.interpreter import child_environment, import_path, interpreter_path, working_directory
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline._ranks import current_ranks

# The server may end, and remove the folder in which the process starts, while the process imports torch.
_PROGRAM = """
import os, sys
sys.path[:] = filter(None, sys.path)
os.chdir("/")
from dali_proxy._pool.supervisor import main
main()
"""
_START_PATIENCE = 120.0  # seconds that the process may take to import torch and to start the workers
_BEGUN = b"1"  # what the process sends then
_PATIENCE = 5.0  # seconds that it may take to end


class PoolProcess:
    """Starts the process of the dataset workers. Call `begin` when the server listens.

    The folder, the working directory of the start, is empty: nothing there shadows a module.
    """

    def __init__(self, folder: str) -> None:
        self._begun = False  # whether it has said that the workers have started
        with deferred_signals, no_forks:
            self._socket, theirs = socket.socketpair()
            try:
                with theirs:
                    # Datasets may print: as with torch's workers, to this process's output. It isn't buffered, because
                    # the workers are killed at the end.
                    self._process = subprocess.Popen(
                        [interpreter_path(), "-u", "-c", _PROGRAM, str(theirs.fileno())],
                        stdin=subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                        env={**child_environment(), **current_ranks().variable},
                        cwd=folder,
                        start_new_session=True,
                    )
            except BaseException:
                self._socket.close()
                raise

    @property
    def ended(self) -> str:
        """How the process has ended; empty while it runs."""
        code = self._process.poll()
        return "" if code is None else describe_exit(code)

    def begin_later(self, endpoint: Endpoint, modules: tuple[str, ...] = ()) -> None:
        """Let the server start workers, and change their number, without waiting for that; see `Settings.modules`."""
        with suppress(ConnectionError):  # it has ended already
            self._socket.sendall(pickle.dumps((endpoint, 0, working_directory(), import_path(), modules)))

    def largest_worker(self) -> int:
        """Return the memory of the largest worker in bytes (its proportional set size); 0 without workers."""
        with suppress(psutil.Error):  # a worker has just ended
            workers = psutil.Process(self._process.pid).children()
            return max((worker.memory_full_info().pss for worker in workers), default=0)
        return 0

    def begin(self, endpoint: Endpoint, count: int) -> None:
        """Start the workers, and wait until they run.

        Raises:
            ProxyError: the process hangs.
            ServerDiedError: the process ended while it started.
        """
        settings = (endpoint, count, working_directory(), import_path())
        self._socket.settimeout(_START_PATIENCE)
        try:
            self._socket.sendall(pickle.dumps(settings))
            answer = self._socket.recv(1)
        except TimeoutError as error:
            raise ProxyError(
                f"the dataset workers didn't start within {_START_PATIENCE:g} s: their process (pid "
                f"{self._process.pid}) is alive, but doesn't answer"
            ) from error
        except ConnectionError:
            answer = b""
        self._begun = answer == _BEGUN
        if not self._begun:
            reason = describe_exit(self._process.wait())
            raise ServerDiedError(f"the dataset workers didn't start: their process {reason}; see its output above")

    def stop(self) -> None:
        """End the workers. Don't wait for a process that still starts."""
        process = self._process
        with suppress(OSError):  # it has ended, or nothing has arrived
            self._socket.settimeout(0.0)
            self._begun = self._begun or self._socket.recv(1) == _BEGUN
        if not self._begun:
            process.kill()
        self._socket.close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
