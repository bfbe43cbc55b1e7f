"""Starts worker processes, by fork or as fresh interpreters, and ends them."""

from __future__ import annotations

import os
import signal
import site
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import cloudpickle

from pipeline._external_source.parallel.protocol import CODEC, Start
from pipeline._external_source.parallel.worker import Worker, prepare_process
from pipeline._external_source.spec import SourceSpec
from pipeline._ipc.channel import Channel
from pipeline._ipc.memory import SharedBlock
from pipeline.errors import PipelineError, WorkerError

__all__ = ["PARENT_PYTHONPATH", "WorkerProcess", "fork_worker", "spawn_worker"]

#: The environment variable that keeps the user's PYTHONPATH while a worker starts with one of ours.
PARENT_PYTHONPATH = "DALI_PROXY_PARENT_PYTHONPATH"

_POLL = 0.002  # seconds between looks whether a process has ended


class WorkerProcess:
    """A worker, and the channel to it.

    Attributes:
        pid: of the process.
        channel: to the worker. Closing it ends the worker.
    """

    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid = pid
        self.channel = channel
        self._status: int | None = None  # as waitpid() gave it, once the process has ended

    def wait(self, timeout: float) -> bool:
        """Wait until the process has ended; tell whether it has."""
        deadline = time.monotonic() + timeout
        while self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # somebody else has collected it
                pid, status = self.pid, 0
            if pid:
                self._status = status
            elif time.monotonic() > deadline:
                return False
            else:
                time.sleep(_POLL)
        return True

    def how_it_ended(self) -> str:
        """Say how the process ended."""
        if not self.wait(1.0):
            return "closed its connection"
        code = os.waitstatus_to_exitcode(self._status or 0)
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def end(self, timeout: float) -> None:
        """End the process: wait, then kill it."""
        self.channel.close()
        if not self.wait(timeout):
            os.kill(self.pid, signal.SIGKILL)
            self.wait(timeout)


def fork_worker(specs: Sequence[SourceSpec], max_batch_size: int) -> WorkerProcess:
    """Start a worker by forking this process: it has the sources already."""
    ours, theirs = Channel.pair(CODEC)
    sys.stdout.flush()  # what waits there would be written twice
    sys.stderr.flush()
    with theirs:
        pid = os.fork()
        if pid == 0:
            _run_forked(theirs, specs, max_batch_size)
    ours.peer_pid = pid
    return WorkerProcess(pid, ours)


def _run_forked(theirs: socket.socket, specs: Sequence[SourceSpec], max_batch_size: int) -> None:
    """Be a worker, and never return: what the parent's stack would do next is not this process's business."""
    code = 1
    try:
        channel = Channel(theirs, CODEC, peer_pid=os.getppid())
        prepare_process(channel)
        Worker(channel, specs, max_batch_size).run()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may leave this frame
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def spawn_worker(specs: Sequence[SourceSpec], max_batch_size: int) -> WorkerProcess:
    """Start a worker as a fresh interpreter. The user's main module is not run again.

    Raises:
        WorkerError: the sources can't be pickled.
    """
    try:
        pickled = cloudpickle.dumps(tuple(specs))
    except Exception as error:
        raise WorkerError(
            f'py_start_method="spawn" sends the sources to the workers, but one of them can\'t be pickled: {error}'
        ) from error
    ours, theirs = Channel.pair(CODEC)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "pipeline._external_source.parallel", str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            env=_environment(),
        )
    process.returncode = 0  # from now on, WorkerProcess waits for it
    ours.peer_pid = process.pid
    worker = WorkerProcess(process.pid, ours)
    try:
        with SharedBlock.create(len(pickled)) as block:
            block.array[:] = memoryview(pickled)
            ours.send(Start(len(pickled), max_batch_size, tuple(sys.path)), (block.fd,), timeout=10)
    except PipelineError:
        worker.end(0)
        raise
    return worker


def _environment() -> dict[str, str]:
    """The child's environment: it must find this package, wherever the parent found it."""
    package = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH", "")
    paths = [inherited] if package in (*site.getsitepackages(), site.getusersitepackages()) else [package, inherited]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONSAFEPATH": "1",  # the working directory may hold modules with the names of others
        PARENT_PYTHONPATH: inherited,
    }
