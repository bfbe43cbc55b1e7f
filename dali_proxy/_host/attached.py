"""A host in a server with a name: the side of the job."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field

from dali_proxy._common.named_sockets import named_socket
from dali_proxy._host.control import (
    ATTACH_KEY,
    CONTROL_CODEC,
    PYTHON,
    Greeting,
    Serve,
    Stop,
)
from dali_proxy._host.options import HostOptions
from dali_proxy._host.process import is_stopped, open_process
from dali_proxy._host.starting import check_ready, in_time, read_bytes, reason_of_end, shared_bytes, start_host
from dali_proxy._host.user_modules import changed_files
from dali_proxy._transport.endpoint import OtherReleaseError
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.protocol import VERSION, check_versions
from dali_proxy.errors import NameTakenError, ProxyError, ServerClosedError, ServerDiedError
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.connecting import connect
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ChannelTimeoutError, IPCError, ProtocolError
from dali_proxy.pipeline._ipc.interpreter import import_path, working_directory
from dali_proxy.pipeline._ipc.signals import deferred_signals, let_through
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline.errors import ArgumentMismatchError

_STOP_PATIENCE = 10.0  # seconds for an orderly end of the job
_LOOK = 1.0  # seconds between checks whether the server is stopped (SIGSTOP)
_TRIES = 0.02  # seconds between two looks at a server that is ending, or that another process is starting


@dataclass(frozen=True)
class Name:
    """The name of a server, and what to do about it.

    Attributes:
        name: the name.
        linger: seconds that the server waits for another job after the last one has ended.
        attaches: whether to use a server that runs.
        creates: whether to start one if none runs.
        description: what jobs without a pipeline get, to make one.
        opens_files: whether the pipeline may open files, so that the working directory matters.
        calls_functions: whether it calls the user's functions, so that `sys.path` matters, too.
        uses_gpu: whether the server uses the pipeline's GPU.
    """

    name: str
    linger: float = 0.0
    attaches: bool = False
    creates: bool = True
    description: bytes = field(default=b"", repr=False)
    opens_files: bool = False
    calls_functions: bool = False
    uses_gpu: bool = False


class AttachedHost:
    """Runs a pipeline in the process of a server with a name. `ProcessHost` has the same interface.

    The server belongs to no process: it ends after its last job, whichever process has created it.

    Args:
        pipeline: the pipeline, from `serialize_for_host`.
        options: settings.
        name: the server.
        start_timeout: seconds that the start may take.

    Raises:
        BuildError: the pipeline can't run there.
        NameTakenError: such a server runs, and `name` doesn't attach to it.
        ServerClosedError: no such server runs, and `name` doesn't create it.
        ArgumentMismatchError: the pipeline would mean something else in that server's process.
        OtherReleaseError: the server belongs to another release of dali-proxy.

    Attributes:
        pid: ID of the server's process.
        local: None: results on a GPU are shared between the processes.
    """

    local: LocalExchange | None = None

    def __init__(self, pipeline: bytes, options: HostOptions, name: Name, start_timeout: float = 120.0) -> None:
        self._failure = ""
        with deferred_signals:
            self._control = _connected(options, name, time.monotonic() + start_timeout)
            try:
                self.pid = self._start(pipeline, options, start_timeout)
            except BaseException:
                self._control.close()
                raise

    @property
    def alive(self) -> bool:
        return self._control.alive()

    def describe_exit(self, patience: float = 5.0) -> str:
        """Return how the host ended; empty while it runs. The exit code is unknown, because the process isn't a child.

        Args:
            patience: seconds to wait for its end.
        """
        deadline = time.monotonic() + patience
        while self._control.alive():
            if time.monotonic() > deadline:
                return ""
            let_through(time.sleep, _TRIES)
        return f"its process (pid {self.pid}) {self._reason() or 'ended, or was killed'}"

    def stop(self, reason: str) -> None:
        """End this job's host. The server and other jobs continue; after the last job, the server ends."""
        try:
            begin = time.monotonic()
            self._control.send(Stop(), timeout=_LOOK)
            while time.monotonic() - begin < _STOP_PATIENCE and not is_stopped(self.pid):
                with suppress(ChannelTimeoutError):
                    self._control.receive(_LOOK)
        except IPCError:
            pass  # it has ended
        finally:
            self._control.close()

    def _start(self, pipeline: bytes, options: HostOptions, timeout: float) -> int:
        try:
            return start_host(self._control, pipeline, options, timeout).pid
        except ChannelClosedError as error:
            raise ServerDiedError(
                f"the server ended while it started the pipeline: {self._reason() or error}"
            ) from error

    def _reason(self) -> str:
        """Return the reason that the process gave for its end, if any."""
        self._failure = reason_of_end(self._control) or self._failure
        return self._failure


def read_description(name: str) -> bytes:
    """Return the description of a server that runs.

    Raises:
        ServerClosedError: no server with this name runs.
        OtherReleaseError: it belongs to another release of dali-proxy.
    """
    with deferred_signals:
        channel, _, description = _greeted(named_socket(name))
        channel.close()
        return description


def _connected(options: HostOptions, name: Name, deadline: float) -> Channel:
    """Return a connection to the server, which is started if that is needed and allowed."""
    path = named_socket(name.name)
    attaches = name.attaches
    while True:
        try:
            channel, greeting, _ = _greeted(path)
        except ServerClosedError:
            if not name.creates:
                raise
        else:
            if not attaches:
                channel.close()
                raise NameTakenError(
                    f"a server with the name {name.name!r} runs (pid {channel.peer_pid}): attach to it, or choose "
                    "another name"
                )
            try:
                _check_alike(name, greeting)
            except BaseException:
                channel.close()
                raise
            return channel
        try:
            return _created(options, name, path, deadline)
        except NameTakenError:  # another process was faster
            if not attaches or time.monotonic() > deadline:
                raise
        except ServerClosedError:
            if time.monotonic() > deadline:
                raise
        let_through(time.sleep, _TRIES)


def _created(options: HostOptions, name: Name, path: str, deadline: float) -> Channel:
    """Start the process of the server, and return the connection of its first job."""
    process, parent = open_process(os.path.dirname(options.path))
    with parent:
        try:
            with shared_bytes(name.description) as block:
                serve = Serve(path, name.linger, os.getpid(), working_directory(), import_path(), len(name.description))
                parent.send(serve, (block.fd,), timeout=10)
            left = max(deadline - time.monotonic(), 0.0)
            with in_time(process.pid, left):
                answer = parent.receive(left).message
        except ChannelClosedError as error:
            raise ServerDiedError(f"the server didn't start: {error}; see its output above") from error
        except ProxyError:
            process.kill()  # it hangs
            raise
        finally:
            process.wait()  # it has forked the server, or has failed
        check_ready(answer)
        return _greeted(path)[0]  # the server waits for this before `parent` is closed


def _greeted(path: str) -> tuple[Channel, Greeting, bytes]:
    """Connect to the server at `path`. Return the connection, the server's greeting and its description."""
    name = os.path.basename(path)
    none = f"no server with the name {name!r} runs (its socket would be {path})"
    try:
        channel = connect(path, ATTACH_KEY, CONTROL_CODEC)
    except ChannelClosedError as error:
        raise ServerClosedError(none) from error
    try:
        channel.send(Greeting(), timeout=10)
        received = channel.receive(timeout=10)
        greeting = received.message
        if not isinstance(greeting, Greeting):
            received.close_fds()
            raise ProxyError(f"the server {name!r} answered {type(greeting).__name__} to a greeting")
        try:
            check_versions(server=greeting.version, client=VERSION, name="this process")
        except ProtocolError as error:
            received.close_fds()
            raise OtherReleaseError(f"the server {name!r} can't be used: {error}") from None
        description = read_bytes(received.fds[0], greeting.description_nbytes)
        if greeting.python != PYTHON:
            raise OtherReleaseError(
                f"the server {name!r} runs Python {greeting.python}, and this process {PYTHON}: they can't exchange "
                "functions"
            )
        return channel, greeting, description
    except BaseException as error:
        channel.close()
        if isinstance(error, ChannelClosedError):  # it is ending
            raise ServerClosedError(none) from error
        if isinstance(error, ChannelTimeoutError):
            raise ProxyError(f"the server {name!r} (pid {channel.peer_pid}) is alive, but doesn't answer") from error
        raise


def _check_alike(name: Name, greeting: Greeting) -> None:
    """Check that the pipeline means the same in the server's process as in this one.

    Raises:
        ArgumentMismatchError: it doesn't.
    """
    checks = (
        (name.opens_files or name.calls_functions, "working directory", greeting.directory, working_directory()),
        (name.calls_functions, "sys.path", ":".join(greeting.sys_path), ":".join(import_path())),
    )
    for matters, what, there, here in checks:
        if matters and there != here:
            raise ArgumentMismatchError(
                f"the pipeline opens files or calls functions, so the server {name.name!r} must have the same {what} "
                f"as this process: it has {there!r}, and this process has {here!r}"
            )
    if name.calls_functions and (changed := changed_files(greeting.modules)):
        raise ArgumentMismatchError(
            f"the pipeline calls functions, and the server {name.name!r} has imported {listed(changed)} before the "
            "last change: use another name, or let the server end"
        )
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if name.uses_gpu and greeting.devices != devices:
        raise ArgumentMismatchError(
            f"the server {name.name!r} has CUDA_VISIBLE_DEVICES={greeting.devices!r}, and this process has "
            f"{devices!r}: the numbers of GPUs differ"
        )
