"""The host: accepts the connections of workers and consumers, and dispatches their messages.

A `HostRunner` handles the messages about batches. One thread does all of this except running the pipeline. It waits for
nothing but the sockets: the executor reports through `call_soon`, which wakes it. So no state here needs a lock.
"""

from __future__ import annotations

import itertools
import os
import resource
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from dali_proxy._host.clients import Consumer, DatasetWorker, Monitor, Pool, Worker
from dali_proxy._host.dispatcher import Dispatcher
from dali_proxy._host.options import HostOptions
from dali_proxy._host.pinning import Pinner
from dali_proxy._host.reports import Reports
from dali_proxy._host.runner import HostRunner
from dali_proxy._host.variant import Variant
from dali_proxy._transport.endpoint import MONITOR_KEY, monitor_path
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.fields import clip
from dali_proxy._transport.protocol import (
    CODEC,
    VERSION,
    Advance,
    AttachSegment,
    BatchRead,
    CloseSession,
    DatasetWorkers,
    DetachSegment,
    Fetch,
    Goodbye,
    Hello,
    LoopReport,
    NotPlaced,
    OpenSession,
    PipelineThreads,
    Place,
    ReadBatch,
    Release,
    StatsRequest,
    Submit,
    Welcome,
    check_versions,
)
from dali_proxy._transport.publisher import ResultPublisher
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._cuda.pinned import PinnedMemory
from dali_proxy.pipeline._definition import Pipeline
from dali_proxy.pipeline._definition.serializing import deserialize_for_host
from dali_proxy.pipeline._ipc.channel import Channel, Received
from dali_proxy.pipeline._ipc.channel_server import ChannelServer
from dali_proxy.pipeline._ipc.errors import IPCError, ProtocolError
from dali_proxy.pipeline._ipc.frames import close_all

_SPARE = 64  # descriptors that a new client may need
_ORPHANED = 1.0  # seconds until this process knows that its parent has ended
_WITH_FDS = (AttachSegment, BatchRead, ReadBatch)  # their handlers own the descriptors


class _Door:
    """The address where the processes of one job connect, and their dataset workers.

    Args:
        path: path of the socket.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.dispatcher = Dispatcher()


class Host:
    """Serves one pipeline to any number of processes.

    The jobs of a server with a name may share a host; see `admit`.

    Args:
        pipeline: pipeline to run; the host builds it, and `close` closes it.
        options: settings.
        local: receives GPU results that this same process will fetch.
        on_lost_gpu: see `HostRunner`.

    Raises:
        BuildError: the pipeline can't run here.

    Attributes:
        server: sockets and event loop of the host; `server.watch` adds descriptors to it.
        may_use_gpu: whether a variant of the pipeline uses a GPU.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        options: HostOptions,
        local: LocalExchange | None = None,
        on_lost_gpu: Callable[[str], None] | None = None,
    ) -> None:
        pipeline.build()
        self._options = options
        self._cache = pipeline._internals.cache  # all variants use it
        # Not the pipeline's device_id: where no operator needs a GPU, there may be none, and CUDA must not be called.
        device_id = pipeline._internals.runner.executor.device_id
        device_id = options.device_id if device_id is None else device_id
        self.may_use_gpu = device_id is not None
        self._publisher = ResultPublisher(device_id, local)
        self._pinner: Pinner | None = None
        self._client_numbers = itertools.count(1)
        self._clients: dict[Channel, Worker | Consumer | Monitor | None] = {}
        self._doors: dict[Channel, _Door] = {}
        self._paths = {options.path}  # of the jobs' sockets
        self.server = ChannelServer(
            CODEC,
            on_message=self._receive,
            on_close=self._close_client,
            farewell=lambda error: Goodbye(clip(f"it ended this connection: {error}")),
        )
        try:
            self._listen(options.path, options.key)
        except BaseException:
            self.server.close()
            raise
        first = Variant(0, pipeline, self._publisher, options.host_stage_only, options.device_stage)
        self._variants: dict[int, Variant] = {0: first}
        self._wanted = Place(0)  # what a consumer chose
        self._wanting: Consumer | None = None  # that consumer
        self._failed: dict[int, str] = {}  # variants that can't run, with the reasons
        self._building: threading.Thread | None = None
        server = self.server
        runner = self._runner = HostRunner(
            first, self._publisher, options, server.call_soon, server.call_later, on_lost_gpu
        )
        self._pin_for(first)
        reports = self._reports = Reports(
            runner,
            lambda: list(self._variants.values()),
            self.server.call_soon,
            self._clients.values,
            self._cache,
            options.siblings,
        )
        self._handlers: dict[type, dict[type, Callable[..., None]]] = {
            Worker: {
                AttachSegment: self._attach_segment,
                DetachSegment: self._detach_segment,
                Submit: runner.submit,
                Release: runner.release,
            },
            Consumer: {
                Fetch: runner.fetch,
                Release: runner.release,
                OpenSession: runner.open_session,
                Advance: runner.advance,
                CloseSession: self._close_session,
                ReadBatch: lambda client, *message: self._doors[client.channel].dispatcher.read(client, *message),
                DatasetWorkers: lambda client, message: self._doors[client.channel].dispatcher.resize(message.count),
                Place: self._place,
                PipelineThreads: self._resize_threads,
                StatsRequest: reports.answer,
                LoopReport: reports.note_loops,
            },
            Monitor: {Hello: self._welcome_monitor, StatsRequest: reports.answer},
            DatasetWorker: {
                BatchRead: lambda client, *message: self._doors[client.channel].dispatcher.finish(client, *message)
            },
            Pool: {},
        }

    def run(self) -> None:
        """Serve until `stop` is called."""
        self._reports.begin()
        self.server.run()

    def stop(self, reason: str = "it was stopped") -> None:
        """Make `run` return soon, after all clients were notified. Any thread may call this."""
        self.server.call_soon(partial(self._say_goodbye, reason))

    def admit(self, path: str, key: bytes) -> None:
        """Let the processes of another job connect. Call this on the host's thread.

        Args:
            path: path of their socket; its folder exists.
            key: secret that they know.

        Raises:
            IPCError: the socket can't be created.
        """
        self._listen(path, key)
        self._paths.add(path)
        self._runner.note_jobs(len(self._paths))

    def _listen(self, path: str, key: bytes) -> None:
        self.server.listen(path, key, partial(self._open, _Door(path)))
        self.server.listen(monitor_path(path), MONITOR_KEY, self._open_monitor)

    def dismiss(self, path: str, reason: str) -> None:
        """End the connections of a job's processes; see `admit`. Other jobs continue."""
        self._paths.discard(path)
        self._runner.note_jobs(len(self._paths))
        for each in (path, monitor_path(path)):
            self.server.stop_listening(each)
        for channel in [channel for channel, door in self._doors.items() if door.path == path]:
            with suppress(IPCError):
                channel.post(Goodbye(reason))
            self.server.end(channel)

    def is_gpu_busy(self) -> bool:
        """Return whether the GPU has work of batches left."""
        return any(variant.executor.is_gpu_busy() for variant in list(self._variants.values()))

    def close(self) -> None:
        """End the executor's threads and free all memory. Call it after `run` has returned."""
        self.server.close()
        if self._pinner is not None:
            self._pinner.close()
        if self._building is not None:
            self._building.join()
        for variant in self._variants.values():
            variant.close()
        self._runner.close()
        self._publisher.close()

    def _say_goodbye(self, reason: str) -> None:
        for channel in self._clients:
            try:
                channel.post(Goodbye(reason))
            except IPCError:
                continue  # the client is disconnecting
        self.server.stop()

    # Placement --------------------------------------------------------------------------------------------------

    def _place(self, consumer: Consumer, message: Place) -> None:
        number = message.variant
        if number > len(self._options.alternatives):
            raise ProtocolError(f"there is no variant {number}")
        self._wanted, self._wanting = message, consumer
        if number in self._variants:
            is_here = consumer in self._clients.values()  # it may have ended while the variant was built
            self._runner.place(consumer, self._variants[number], message.measured and is_here)
        elif number in self._failed:
            consumer.send(NotPlaced(number, self._failed[number]))
        self._build_next()

    def _build_next(self) -> None:
        """Build a variant that a consumer wants, or will want soon, on a thread: others don't wait for CUDA."""
        wanted = [self._wanted.variant]
        if self._wanted.measured:
            wanted += range(len(self._options.alternatives) + 1)
        number = next((each for each in wanted if each not in self._variants and each not in self._failed), None)
        if number is not None and self._building is None:
            building = threading.Thread(target=self._build, args=(number,), name=f"{THREAD_PREFIX}build", daemon=True)
            try:
                building.start()
            except RuntimeError as error:  # the limit of threads is reached
                assert self._wanting is not None  # only a consumer wants a variant that isn't built
                self._wanting.send(NotPlaced(number, str(error)))
            else:
                self._building = building

    def _build(self, number: int) -> None:
        alternative = self._options.alternatives[number - 1]
        built: Variant | Exception
        try:
            pipeline = deserialize_for_host(alternative.pipeline)
            pipeline._internals.cache = self._cache
            try:
                pipeline.build()
                stages = alternative.host_stage_only, alternative.device_stage
                built = Variant(number, pipeline, self._publisher, *stages)
            except BaseException:
                pipeline._internals.close()
                raise
        except Exception as error:  # noqa: BLE001  # a consumer gets it
            built = error
        self.server.call_soon(partial(self._finish_building, number, built))

    def _finish_building(self, number: int, built: Variant | Exception) -> None:
        assert self._building is not None  # it has called this
        self._building.join()
        self._building = None
        if isinstance(built, Exception):
            self._failed[number] = clip(f"{type(built).__name__}: {built}")
        else:
            self._variants[number] = built
            self._pin_for(built)
        if number == self._wanted.variant and self._wanting is not None:
            self._place(self._wanting, self._wanted)
        else:
            self._build_next()

    def _resize_threads(self, consumer: Consumer, message: PipelineThreads) -> None:
        for variant in self._variants.values():
            variant.executor.resize(message.count)

    def _pin_for(self, variant: Variant) -> None:
        """Pin the workers' shared memory if a variant reads it with a GPU."""
        device_id = variant.executor.device_id
        if device_id is None or self._pinner is not None:
            return
        self._pinner = Pinner(partial(PinnedMemory.from_memory, device_id=device_id))
        for worker in self._runner.workers.values():
            worker.arena.pin(self._pinner.pin)

    # Connections ------------------------------------------------------------------------------------------------

    def _open(self, door: _Door, channel: Channel) -> None:
        self._clients[channel] = None  # its first message is `Hello`, with its role
        self._doors[channel] = door
        if _has_few_descriptors():
            self._publisher.trim()  # each idle slot has a descriptor

    def _open_monitor(self, channel: Channel) -> None:
        self._clients[channel] = Monitor(channel, self.server)

    def _receive(self, channel: Channel, received: Received) -> None:
        client, message = self._clients[channel], received.message
        try:
            if client is None:
                self._greet(channel, message)
                return
            handler = self._handlers[type(client)].get(type(message))
            if handler is None:
                raise ProtocolError(f"a {type(client).__name__.lower()} sent {type(message).__name__}")
            if isinstance(message, _WITH_FDS):
                fds, received = received.fds, Received(message)
                handler(client, message, fds)
            else:
                handler(client, message)
        finally:
            if received.fds:
                received.close_fds()

    def _greet(self, channel: Channel, hello: object) -> None:
        if not isinstance(hello, Hello):
            raise ProtocolError(f"the first message of a client must be Hello, not {type(hello).__name__}")
        self._check_version(channel, hello)
        number = next(self._client_numbers)
        fds: tuple[int, ...] = ()
        nbytes = 0
        if hello.role == "worker":
            pin = None if self._pinner is None else self._pinner.pin
            worker = Worker(channel, number, hello.name, self._options.arena_bytes_limit, pin)
            self._clients[channel] = self._runner.workers[number] = worker
            fds = worker.completions.fds
        elif hello.role == "consumer":
            account = self._publisher.account()
            self._clients[channel] = consumer = Consumer(channel, account, self.server)
            self._runner.consumers.add(consumer)
            fds, nbytes = account.control_fds, account.control_nbytes
        elif hello.role == "dataset worker":
            self._clients[channel] = DatasetWorker(channel, self.server)
        elif hello.role == "pool":
            self._clients[channel] = Pool(channel, self.server)
        else:
            raise ProtocolError(f"unknown role of a client: {hello.role!r}")
        channel.post(Welcome(client=number, server=self._options.server, control_nbytes=nbytes), fds)
        client = self._clients[channel]
        if isinstance(client, DatasetWorker):
            self._doors[channel].dispatcher.add(client)
        elif isinstance(client, Consumer):
            self._doors[channel].dispatcher.welcome(client)
        elif isinstance(client, Pool):
            self._doors[channel].dispatcher.join(client)

    def _welcome_monitor(self, monitor: Monitor, hello: Hello) -> None:
        self._check_version(monitor.channel, hello)
        monitor.send(Welcome(server=self._options.server))

    def _check_version(self, channel: Channel, hello: Hello) -> None:
        try:
            check_versions(server=VERSION, client=hello.version, name=f"process {channel.peer_pid}")
        except ProtocolError:
            channel.post(Welcome())  # the client compares the versions, too
            raise

    def _close_client(self, channel: Channel, error: Exception | None) -> None:
        client, door = self._clients.pop(channel), self._doors.pop(channel, None)
        if isinstance(client, Monitor) and door is not None:
            self._leave(client, door.dispatcher)
        elif isinstance(client, Worker):
            client.disconnect()
            self._runner.forget_worker(client, error)

    def _leave(self, client: Monitor, dispatcher: Dispatcher) -> None:
        if isinstance(client, Consumer):
            dispatcher.drop(client)
            self._runner.forget_consumer(client)
            self._reports.forget(client)
            client.account.close()
        elif isinstance(client, DatasetWorker):
            dispatcher.remove(client)
        elif isinstance(client, Pool):
            # If its owner has ended, that is the error of all waiting loops, and this host ends, too.
            end = partial(dispatcher.end, "the process that starts the dataset workers has ended, see its output")
            self.server.call_later(_ORPHANED, end)

    # Messages ---------------------------------------------------------------------------------------------------

    def _attach_segment(self, worker: Worker, message: AttachSegment, fds: tuple[int, ...]) -> None:
        if len(fds) != 1:
            close_all(fds)
            raise ProtocolError(f"expected one descriptor with an arena segment, not {len(fds)}")
        worker.arena.attach(message.segment, fds[0], message.nbytes)

    def _close_session(self, consumer: Consumer, message: CloseSession) -> None:
        self._doors[consumer.channel].dispatcher.drop(consumer, message.session)
        self._runner.close_session(consumer, message)

    def _detach_segment(self, worker: Worker, message: DetachSegment) -> None:
        worker.arena.detach(message.segment)


def _has_few_descriptors() -> bool:
    try:
        return len(os.listdir("/dev/fd")) > resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _SPARE
    except OSError:  # not even one, to list the others
        return True
