"""A host in a process of its own: the parent's side."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from dali_proxy._common.process_exit import how_ended
from dali_proxy._host.control import CONTROL_CODEC, Ready, Start, StartFailed, Stop
from dali_proxy._host.driver_files import remove_driver_files
from dali_proxy._host.forks import prepare_for_forks
from dali_proxy._host.options import HostOptions
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy.errors import ProxyError, ServerDiedError
from pipeline._concurrency.forking import no_forks
from pipeline._ipc.channel import Channel
from pipeline._ipc.errors import ChannelClosedError, IPCError
from pipeline._ipc.interpreter import child_environment, import_path, interpreter_path
from pipeline._ipc.memory import SharedBlock
from pipeline._ipc.signals import deferred_signals

__all__ = ["ProcessHost"]

_STOP_PATIENCE = 10.0  # seconds that the host has to end in order, before it is killed
# As `python -m dali_proxy._host`, but the module is imported, as any other: `__main__` may know another `pipeline`.
_PROGRAM = "import sys; from dali_proxy._host.__main__ import main; sys.exit(main())"
_LOOK = 1.0  # seconds until a host that hasn't ended is looked at: one that is stopped (SIGSTOP) never ends in order


class ProcessHost:
    """Starts `python -m dali_proxy._host` and waits until it serves. `ThreadHost` has the same interface.

    The child is a fresh interpreter: the user's `__main__` is not imported again. It is in a session of its own, so
    that Ctrl-C reaches this process only, and it ends by itself when this process dies.

    Args:
        pipeline: the pipeline, as `Pipeline.serialize_for_host` made it.
        options: how to run.
        start_timeout: seconds that it may take to start.

    Raises:
        BuildError: the pipeline can't run here.
        ServerDiedError: the process ended before it served.

    Attributes:
        pid: of the host's process.
        local: None: results on a GPU are shared between the processes.
    """

    local: LocalExchange | None = None

    def __init__(self, pipeline: bytes, options: HostOptions, start_timeout: float = 120.0) -> None:
        # A worker forked by another thread would, as long as it lives, keep a pipe open that Popen waits for.
        with deferred_signals, no_forks:
            self._process = self._open(options)
        self.pid = self._process.pid
        try:
            self._start(pipeline, options, start_timeout)
        except BaseException:
            self._kill()
            raise

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def how_it_ended(self, patience: float = 5.0) -> str:
        """Say how the process ended; empty while it runs.

        Args:
            patience: seconds to wait for its end, which is seen on sockets earlier: much earlier on a busy machine.
        """
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            return ""
        return f"its process (pid {self.pid}) {how_ended(code)}"

    def stop(self, reason: str) -> None:
        """End it in order; kill it if that takes too long."""
        try:
            end = time.monotonic() + _LOOK
            self._control.send(Stop(), timeout=_LOOK)
            try:
                self._process.wait(max(end - time.monotonic(), 0.0))
            except subprocess.TimeoutExpired:
                if not _is_stopped(self.pid):
                    self._process.wait(_STOP_PATIENCE)
        except (IPCError, subprocess.TimeoutExpired):
            pass  # it has ended already, or does not
        finally:
            self._kill()

    def _open(self, options: HostOptions) -> subprocess.Popen[bytes]:
        self._control, theirs = Channel.pair(CONTROL_CODEC)
        try:
            with theirs:
                return subprocess.Popen(
                    [interpreter_path(), "-c", _PROGRAM, str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    env=child_environment(),
                    cwd=os.path.dirname(options.path),  # empty, so no module there has the name of another
                    start_new_session=True,
                )
        except BaseException:
            self._control.close()
            raise

    def _start(self, pipeline: bytes, options: HostOptions, timeout: float) -> None:
        both = pipeline + options.planned_half
        block = SharedBlock.create(max(len(both), 1))
        try:
            block.array[: len(both)] = memoryview(both)
            message = Start(
                nbytes=len(pipeline),
                planned_nbytes=len(options.planned_half),
                directory=_working_directory(),
                sys_path=import_path(),
                path=options.path,
                key=options.key,
                server=options.server,
                unclaimed_bytes=options.unclaimed_bytes,
                arena_bytes_limit=options.arena_bytes_limit,
                is_half=options.is_half,
            )
            self._control.send(message, (block.fd,), timeout=timeout)
            prepare_for_forks()
            answer = self._control.receive(timeout).message
        except ChannelClosedError as error:
            how = self.how_it_ended() or str(error)
            raise ServerDiedError(f"the server didn't start: {how}; see its output above") from error
        finally:
            block.close()
        if isinstance(answer, StartFailed):
            raise answer.rebuild() from ProxyError(f"in the server's process\n\n{answer.text}")
        if not isinstance(answer, Ready):
            raise ProxyError(f"the server's process answered {type(answer).__name__}")

    def _kill(self) -> None:
        self._control.close()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        remove_driver_files(self.pid)


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # no such file system, or no such process
        return False
    return status.rpartition(")")[2].split()[0] in ("T", "t")


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:  # somebody removed it, or it can't be read
        return ""
