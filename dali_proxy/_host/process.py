"""A host in a separate process: the parent's side."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from dali_proxy._common.process_exit import describe_exit
from dali_proxy._host.control import CONTROL_CODEC, Stop
from dali_proxy._host.driver_files import remove_driver_files
from dali_proxy._host.options import HostOptions
from dali_proxy._host.starting import reason_of_end, start_host
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy.errors import ServerDiedError
from dali_proxy.pipeline._concurrency.forking import no_forks
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, IPCError
from dali_proxy.pipeline._ipc.interpreter import child_environment, interpreter_path
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline._ranks import current_ranks

_STOP_PATIENCE = 10.0  # seconds for an orderly shutdown before the host is killed
# Like `python -m dali_proxy._host`, but as an imported module: `__main__` might find another module `pipeline`.
# Garbage collection would take a tenth of the time of the imports, and visit the modules again whenever it runs.
_PROGRAM = """
import gc, sys
gc.disable()
from dali_proxy._host.__main__ import main
gc.freeze()
gc.enable()
sys.exit(main())
"""
#: Seconds in which the system closes all sockets of a process that ends.
CLOSING = 0.5
_LOOK = 1.0  # seconds before checking whether the host is stopped (SIGSTOP), in which case it can't shut down


class ProcessHost:
    """Starts `python -m dali_proxy._host` and waits until it serves. `ThreadHost` has the same interface.

    The child is a fresh interpreter: it doesn't import the user's `__main__` again. It has a separate session, so that
    Ctrl-C only reaches this process, and it exits when this process dies.

    Args:
        pipeline: the pipeline, from `serialize_for_host`.
        options: settings.
        start_timeout: seconds that the start may take.
        opened: the process that `open_process` has started; None to start one.

    Raises:
        BuildError: the pipeline can't run here.
        ServerDiedError: the process ended before it served.
        ProxyError: it doesn't serve in time.

    Attributes:
        pid: ID of the host's process.
        local: None: results on a GPU are shared between the processes.
    """

    local: LocalExchange | None = None

    def __init__(
        self,
        pipeline: bytes,
        options: HostOptions,
        start_timeout: float = 120.0,
        opened: tuple[subprocess.Popen[bytes], Channel] | None = None,
    ) -> None:
        with deferred_signals:
            self._process, self._control = opened or open_process(os.path.dirname(options.path), options.hides_gpus)
        self.pid = self._process.pid
        self._failure, self._asked = "", False
        try:
            self._start(pipeline, options, start_timeout)
        except BaseException:
            self._kill()
            raise

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def is_ending(self) -> bool:
        """Whether the process has ended, has said why it will, or has closed its sockets."""
        return not self.alive or bool(self._reason()) or not self._control.alive()

    def describe_exit(self, patience: float = 5.0) -> str:
        """Return how the process ended, or why it is ending; empty while it runs.

        Args:
            patience: seconds to wait for its end. On a busy machine, a process ends long after its sockets have closed.
        """
        try:
            code = self._process.wait(min(patience, CLOSING))
        except subprocess.TimeoutExpired:
            if reason := self._reason():  # a batch that never ends may delay its end
                return f"its process (pid {self.pid}) {reason}"
            if self._control.alive():  # it closed only one connection
                return ""
            try:
                code = self._process.wait(max(patience - CLOSING, 0.0))
            except subprocess.TimeoutExpired:
                return ""
        return f"its process (pid {self.pid}) {self._reason() or describe_exit(code)}"

    def ask_to_stop(self) -> None:
        """Ask the host to stop, unless this was called before. `stop` waits for its end.

        Raises:
            IPCError: it has ended already.
        """
        if not self._asked:
            self._asked = True
            self._control.send(Stop(), timeout=_LOOK)

    def stop(self, reason: str) -> None:
        """Stop the host in an orderly way; kill it if that takes too long, or if it is stopped by a signal."""
        try:
            begin = time.monotonic()
            self.ask_to_stop()
            while not self._ends_within(_LOOK) and time.monotonic() - begin < _STOP_PATIENCE:
                if is_stopped(self.pid) or self._reason():
                    break
        except IPCError:
            pass  # it has ended already
        finally:
            self._kill()

    def _ends_within(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _start(self, pipeline: bytes, options: HostOptions, timeout: float) -> None:
        try:
            start_host(self._control, pipeline, options, timeout)
        except ChannelClosedError as error:
            reason = self.describe_exit() or str(error)
            raise ServerDiedError(f"the server didn't start: {reason}; see its output above") from error

    def _reason(self) -> str:
        """Return the reason that the process gave for its end, if any."""
        self._failure = reason_of_end(self._control) or self._failure
        return self._failure

    def _kill(self) -> None:
        self._control.close()
        if self._process.poll() is None:
            self._process.kill()
        self._ends_within(_STOP_PATIENCE if not self._failure else _LOOK)  # the driver may have to end a kernel first
        remove_driver_files(self.pid)


def open_process(folder: str, hides_gpus: bool = False) -> tuple[subprocess.Popen[bytes], Channel]:
    """Return a new process that waits for its first message, and the channel to it.

    Args:
        folder: an empty folder, as the working directory of the start: nothing there shadows a module.
        hides_gpus: whether the process sees no GPU.
    """
    environment = {**child_environment(), **current_ranks().variable}
    if hides_gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    with no_forks:  # a worker that another thread forks meanwhile would inherit a pipe that Popen waits for
        control, theirs = Channel.pair(CONTROL_CODEC)
        try:
            with theirs:
                process = subprocess.Popen(
                    [interpreter_path(), "-c", _PROGRAM, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env=environment,
                    cwd=folder,
                    start_new_session=True,
                )
                control.peer_pid = process.pid
                return process, control
        except BaseException as error:
            control.close()
            if isinstance(error, BlockingIOError):
                reason = "the limit of processes is reached (ulimit -u, or pids.max of the container)"
                raise BlockingIOError(error.errno, f"the server can't be started: {reason}") from error
            raise


def is_stopped(pid: int) -> bool:
    """Return whether a signal (SIGSTOP) has stopped a process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # there is no /proc, or no such process
        return False
    return status.rpartition(")")[2].split()[0] in ("T", "t")
