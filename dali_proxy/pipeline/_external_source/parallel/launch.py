"""Starts worker processes, by fork or as fresh interpreters, and ends them."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from contextlib import suppress

from dali_proxy.pipeline._concurrency.forking import no_forks
from dali_proxy.pipeline._concurrency.interrupts import blocked_interrupts
from dali_proxy.pipeline._external_source.parallel.protocol import CODEC, Start
from dali_proxy.pipeline._external_source.parallel.worker import Specs, Worker, prepare_process
from dali_proxy.pipeline._external_source.spec import SourceSpec
from dali_proxy.pipeline._ipc import pickling
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.interpreter import child_environment, import_path, interpreter_path
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline.errors import PipelineError, SerializationError, WorkerError

_POLL = 0.002  # seconds between checks whether a process has ended
_KILLED_PATIENCE = 10.0  # seconds that the system may take to end a process that was killed
# Like `python -m`, but as an imported module: `__main__` might find another module `pipeline`.
_PROGRAM = f"import sys; from {__package__}.__main__ import main; sys.exit(main())"


_running: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()


class WorkerProcess:
    """A worker, and the channel to it."""

    def __init__(self, pid: int, channel: Channel) -> None:
        self.pid = pid
        self.channel = channel
        self._status: int | None = None  # from waitpid(), once the process has ended
        _running.add(self)

    def wait(self, timeout: float) -> bool:
        """Wait until the process has ended. Return whether it has."""
        deadline = time.monotonic() + timeout
        while self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # other code has collected it
                pid, status = self.pid, 0
            if pid:
                self._status = status
            elif time.monotonic() > deadline:
                return False
            else:
                time.sleep(_POLL)
        return True

    def describe_exit(self) -> str:
        """Return how the process ended."""
        if not self.wait(1.0):
            return "closed its connection"
        code = os.waitstatus_to_exitcode(self._status or 0)
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:  # real-time signals have no names
            return f"was killed by signal {-code}"

    def end(self, timeout: float) -> None:
        """End the process: wait for it, then kill it."""
        self.channel.close()
        if not self.wait(timeout):
            os.kill(self.pid, signal.SIGKILL)
            self.wait(_KILLED_PATIENCE)


def worker_pids() -> list[int]:
    """Return the IDs of the processes that this process has started, and that haven't ended as far as it knows."""
    return [each.pid for each in list(_running) if each._status is None]


def fork_worker(specs: Specs, max_batch_size: int) -> WorkerProcess:
    """Start a worker by forking this process, so that it has the sources and functions.

    Raises:
        WorkerError: the system refuses.
    """
    _flush_output()  # else the child would write buffered output again
    with no_forks:  # another child would keep the worker's end open and hide its death
        ours, theirs = Channel.pair(CODEC)
        with theirs, blocked_interrupts():
            try:
                pid = os.fork()
            except OSError as error:
                raise WorkerError(f"a worker process of the pipeline could not be forked: {error}") from error
            if pid == 0:
                _run_forked(theirs, specs, max_batch_size)
    ours.peer_pid = pid
    return WorkerProcess(pid, ours)


def _run_forked(theirs: socket.socket, specs: Specs, max_batch_size: int) -> None:
    """Run a worker, and exit: this process must not return into the parent's stack."""
    code = 1
    try:
        gc.freeze()  # finalizers of inherited objects would wait for threads that only the parent has
        channel = Channel(theirs, CODEC, peer_pid=os.getppid())
        prepare_process(channel)
        Worker(channel, specs, max_batch_size).run()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may leave this frame
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            _flush_output()
        finally:
            os._exit(code)


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # None, full or closed
            stream.flush()


def spawn_worker(specs: Specs, max_batch_size: int) -> WorkerProcess:
    """Start a worker as a fresh interpreter. The user's main module is not run again.

    Raises:
        WorkerError: a source or function can't be pickled.
    """
    named = {
        f"parallel external source {n}" if isinstance(spec, SourceSpec) else f"Python function {n}": (
            spec.source if isinstance(spec, SourceSpec) else spec.function
        )
        for n, spec in enumerate(specs)
    }
    try:
        pickled = pickling.dumps(tuple(specs), named)
    except SerializationError as error:
        raise WorkerError(
            f'py_start_method="spawn" sends sources and functions to the workers: {error}. Or use '
            'py_start_method="fork", with which the workers inherit them'
        ) from error
    ours, theirs = Channel.pair(CODEC)
    with theirs:
        process = subprocess.Popen(
            [interpreter_path(), "-c", _PROGRAM, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            env=child_environment(PYTHONSAFEPATH="1"),  # modules in the working directory may shadow others
        )
    process.returncode = 0  # from now on, WorkerProcess waits for it
    ours.peer_pid = process.pid
    worker = WorkerProcess(process.pid, ours)
    try:
        with SharedBlock.create(len(pickled)) as block:
            block.array[:] = memoryview(pickled)
            ours.send(Start(len(pickled), max_batch_size, import_path()), (block.fd,), timeout=10)
    except PipelineError:
        worker.end(0)
        raise
    return worker
