"""A server with a name: it runs hosts for the jobs of its user, and ends after the last one."""

from __future__ import annotations

import math
import os
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial

from dali_proxy._common.folders import is_refused, remove_folder
from dali_proxy._common.named_sockets import locked_folder
from dali_proxy._common.process_exit import TERMINATED, describe_exit
from dali_proxy._host.control import (
    ATTACH_KEY,
    CONTROL_CODEC,
    Failed,
    Greeting,
    Ready,
    Serve,
    Start,
    StartFailed,
    Stop,
)
from dali_proxy._host.host import Host
from dali_proxy._host.options import HostOptions
from dali_proxy._host.starting import make_host, read_start, shared_bytes
from dali_proxy._host.user_modules import imported_files
from dali_proxy._transport.fields import clip
from dali_proxy._transport.protocol import VERSION, check_versions
from dali_proxy.errors import NameTakenError
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.switching import begin_short_turns
from dali_proxy.pipeline._ipc.channel import Channel, Received
from dali_proxy.pipeline._ipc.channel_server import ChannelServer
from dali_proxy.pipeline._ipc.errors import IPCError, ProtocolError

_PATIENCE = 8.0  # seconds that running batches may take when a host stops
_GONE = "the process that started it has ended"


class _Running:
    """A host on a thread, for the jobs whose pipelines are equal.

    Attributes:
        identity: what these jobs have in common; None if it has only one job.
        jobs: the options of the jobs that use it, by their connections.
        left: connections of jobs that wait for its end.
        host: the host, once it is built.
        reason: why it must end as soon as it is built; empty if it must not.
        thread: its thread.
    """

    def __init__(self, identity: object) -> None:
        self.identity = identity
        self.jobs: dict[Channel, HostOptions] = {}
        self.left: list[Channel] = []
        self.host: Host | None = None
        self.reason = ""
        self.thread: threading.Thread | None = None


class Jobs:
    """Accepts jobs at the socket of a name, and runs a host for each pipeline.

    A connection belongs to one job: it sends `Start`, and the host serves the job until it sends `Stop` or ends. All
    state belongs to the thread that calls `run`. A host has a thread, sockets and counters of its own.

    Args:
        serve: the description of the server.
        description: what jobs without a pipeline get, to make one.

    Raises:
        NameTakenError: another server has the name.
    """

    def __init__(self, serve: Serve, description: bytes) -> None:
        self._serve, self._description = serve, description
        self._running: list[_Running] = []
        self._by_channel: dict[Channel, _Running] = {}
        self._starting = True  # the creator hasn't come yet
        self._present: set[Channel] = set()  # connections of jobs that haven't stopped
        self._caches: list[ValueCache] = []
        self._arrivals = 0
        self._status = 0  # exit code; the server must end if it isn't 0
        self._is_short = False
        self._server = ChannelServer(
            CONTROL_CODEC,
            on_message=self._receive,
            on_close=self._close,
            farewell=lambda error: Failed(clip(f"ended this connection: {error}")),
        )
        try:
            with locked_folder(serve.path):
                if os.path.exists(serve.path) and not is_refused(serve.path):
                    raise NameTakenError(f"a server with the name {os.path.basename(serve.path)!r} is running")
                self._server.listen(serve.path, ATTACH_KEY, self._present.add)
        except BaseException:
            self._server.close()
            raise

    def run(self, creator: Channel) -> int:
        """Serve until the last job has ended, or until `terminate` is called. Return the exit code of the process.

        Args:
            creator: connection of the process that creates the server, which closes it when its own job has started.
        """

        def note_start() -> None:
            with suppress(IPCError):
                creator.receive_ready()
                return
            self._server.unwatch(fd)
            creator.close()
            self._starting = False
            self._end_if_unused()

        fd = creator.fileno()
        self._server.watch(fd, note_start)
        self._server.run()  # at its end, the name is free
        for running in self._running:
            if running.thread is not None:
                running.thread.join()
        for cache in self._caches:
            cache.close()
        return self._status

    def terminate(self) -> None:
        """End all jobs, and then the server. Signal handlers may call this."""
        self._server.call_soon(self._terminate)

    def _terminate(self) -> None:
        self._status = TERMINATED
        for channel in self._by_channel:
            self._server.post(channel, Failed(describe_exit(TERMINATED)))
        for running in self._running:
            self._stop(running, "its process was terminated")
        self._end_if_unused()

    def _stop(self, running: _Running, reason: str) -> None:
        """Stop a host; it needn't be built yet."""
        running.identity, running.reason = None, reason
        if running.host is not None:
            running.host.stop(reason)
        self._server.call_later(_PATIENCE, partial(self._end_stuck, running))

    def _end_stuck(self, running: _Running) -> None:
        """End the process if a batch doesn't end that nobody needs, and no job is left, or none may continue."""
        if running in self._running and (self._status or not self._by_channel):
            os._exit(self._status or 1)

    # Connections ------------------------------------------------------------------------------------------------

    def _receive(self, channel: Channel, received: Received) -> None:
        message = received.message
        try:
            if isinstance(message, Greeting):
                self._greet(channel, message)
            elif isinstance(message, Start) and channel not in self._by_channel and len(received.fds) == 1:
                self._start(channel, *read_start(received))
                received = Received(message)
            elif isinstance(message, Stop) and channel in self._by_channel:
                self._leave(channel, "it was stopped")
            else:
                raise ProtocolError(f"a job sent {type(message).__name__}")
        finally:
            received.close_fds()

    def _greet(self, channel: Channel, greeting: Greeting) -> None:
        try:
            check_versions(server=VERSION, client=greeting.version, name=f"process {channel.peer_pid}")
        except ProtocolError:
            channel.post(Greeting())  # the client compares the versions, too
            raise
        with shared_bytes(self._description) as block:
            answer = Greeting(
                directory=self._serve.directory,
                sys_path=self._serve.sys_path,
                devices=os.environ.get("CUDA_VISIBLE_DEVICES", ""),
                description_nbytes=len(self._description),
                modules=imported_files(),
            )
            self._server.post(channel, answer, (block.fd,))

    def _close(self, channel: Channel, error: Exception | None) -> None:
        self._present.discard(channel)
        if channel in self._by_channel:
            self._leave(channel, _GONE)
        self._end_if_unused()
        if channel.peer_pid == self._serve.creator:
            _release_output()

    # Jobs -------------------------------------------------------------------------------------------------------

    def _start(self, channel: Channel, pipeline: bytes, options: HostOptions) -> None:
        self._arrivals += 1
        identity = _identity(pipeline, options)
        running = next((each for each in self._running if identity is not None and each.identity == identity), None)
        if running is None:
            running = _Running(identity)
            self._running.append(running)
            running.thread = threading.Thread(
                target=self._run, args=(running, pipeline, options), name=f"{THREAD_PREFIX}proxy-host", daemon=True
            )
            running.thread.start()
        self._by_channel[channel] = running
        running.jobs[channel] = options
        if running.host is not None:
            running.host.server.call_soon(partial(self._admit, running, running.host, channel, options))

    def _run(self, running: _Running, pipeline: bytes, options: HostOptions) -> None:
        # On the host's thread.
        call_soon = self._server.call_soon
        try:
            host = make_host(pipeline, options, self._fail, self._caches)
        except Exception as error:  # noqa: BLE001  # the jobs get it
            call_soon(partial(self._refuse, running, StartFailed.from_error(error, traceback.format_exc())))
            return
        imported_files()
        call_soon(partial(self._serve_jobs, running, host, options.path))
        try:
            host.run()
        finally:
            host.close()
            call_soon(partial(self._finish, running))

    def _serve_jobs(self, running: _Running, host: Host, path: str) -> None:
        running.host = host
        if host.may_use_gpu and not self._is_short:
            self._is_short = True
            begin_short_turns()
        if running.reason:
            host.stop(running.reason)
            return
        for channel, options in running.jobs.items():
            if options.path == path:
                self._server.post(channel, Ready(os.getpid()))
            else:
                host.server.call_soon(partial(self._admit, running, host, channel, options))
        if not any(options.path == path for options in running.jobs.values()):  # the job that came first has left
            host.server.call_soon(partial(host.dismiss, path, _GONE))

    def _admit(self, running: _Running, host: Host, channel: Channel, options: HostOptions) -> None:
        # On the host's thread.
        answer: Ready | StartFailed = Ready(os.getpid())
        try:
            host.admit(options.path, options.key)
        except Exception as error:  # noqa: BLE001  # the job gets it
            answer = StartFailed.from_error(error, traceback.format_exc())
        self._server.call_soon(partial(self._answer, running, channel, answer))

    def _answer(self, running: _Running, channel: Channel, answer: Ready | StartFailed) -> None:
        if channel in running.jobs:
            self._server.post(channel, answer)

    def _refuse(self, running: _Running, answer: StartFailed) -> None:
        for channel in list(running.jobs):
            del self._by_channel[channel], running.jobs[channel]
            self._server.post(channel, answer)
        self._finish(running)

    def _leave(self, channel: Channel, reason: str) -> None:
        """End a job: its host, too, unless other jobs use it."""
        self._present.discard(channel)
        running = self._by_channel.pop(channel)
        options = running.jobs.pop(channel)
        if reason == _GONE:
            remove_folder(os.path.dirname(options.path))  # it would have done this
        if running.jobs and running.host is not None:
            running.host.server.call_soon(partial(self._dismiss, running.host, channel, options, reason))
            return
        if running.jobs:  # `_serve_jobs` closes its socket
            self._server.end(channel)
            return
        running.left.append(channel)
        self._stop(running, reason)

    def _dismiss(self, host: Host, channel: Channel, options: HostOptions, reason: str) -> None:
        # On the host's thread.
        host.dismiss(options.path, reason)
        self._server.call_soon(partial(self._server.end, channel))

    def _finish(self, running: _Running) -> None:
        self._running.remove(running)
        for channel in running.jobs:
            del self._by_channel[channel]
        ended = [*running.left, *running.jobs]
        self._present.difference_update(ended)
        if not self._ends():  # otherwise, the end of this process is the answer of its last job
            for channel in ended:
                self._server.end(channel)
        self._end_if_unused()

    def _ends(self) -> bool:
        return self._is_unused() and (bool(self._status) or not self._serve.linger)

    def _is_unused(self) -> bool:
        return not (self._running or self._present or self._starting)

    def _end_if_unused(self) -> None:
        if self._ends():
            self._server.stop()
        elif self._is_unused() and self._serve.linger < math.inf:
            self._server.call_later(self._serve.linger, partial(self._end_if_none_came, self._arrivals))

    def _end_if_none_came(self, arrivals: int) -> None:
        if arrivals == self._arrivals and self._is_unused():
            self._server.stop()

    def _fail(self, reason: str) -> None:
        """End at once: what is left to do needs CUDA, which fails. All jobs get the reason."""
        for channel in list(self._by_channel):
            with suppress(IPCError):
                channel.send(Failed(clip(reason, 1 << 16)), timeout=1)
        os._exit(1)


def _identity(pipeline: bytes, options: HostOptions) -> object:
    """Return what jobs must have in common to share a host; None if they can't share one."""
    if not options.shares:
        return None
    sizes = options.unclaimed_bytes, options.arena_bytes_limit
    return pipeline, options.host_stage_only, options.device_stage, options.alternatives, options.device_id, sizes


def _release_output() -> None:
    """Write to nothing from now on: programs that read the output of the process that has ended would wait for us."""
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(null, number)
    os.close(null)
