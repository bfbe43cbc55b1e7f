"""The host: talks to workers and consumers, and has a `Runner` run what they want.

One thread does all of this except running the pipeline. It never waits for anything but the sockets: the executor
reports through `call_soon`, which wakes it. So no state here needs a lock.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from functools import partial

from dali_proxy._host.clients import Consumer, Worker, check_count
from dali_proxy._host.options import HostOptions
from dali_proxy._host.pinning import Pinner
from dali_proxy._host.requests import Request
from dali_proxy._host.runner import Runner
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.protocol import (
    CODEC,
    AttachSegment,
    CloseSession,
    DetachSegment,
    Fetch,
    Goodbye,
    Hello,
    OpenSession,
    Release,
    Stats,
    StatsRequest,
    Submit,
    Welcome,
)
from dali_proxy._transport.publisher import ResultPublisher
from pipeline import Pipeline
from pipeline._bulk.gather import gathered
from pipeline._external_source.data import check_batch, declares_data
from pipeline._ipc.channel import Channel, Received
from pipeline._ipc.channel_server import ChannelServer
from pipeline._ipc.errors import IPCError, ProtocolError
from pipeline._ipc.frames import close_all
from pipeline._kernels.pinned import PinnedMemory
from pipeline._operator_api.request import TensorList
from pipeline._rng import BatchKey
from pipeline.errors import PipelineError

__all__ = ["Host"]


class Host:
    """Serves one pipeline to any number of processes.

    Args:
        pipeline: what to run; built here, closed by `close`.
        options: where and how.
        local: takes results on a GPU if they are fetched in this very process.

    Raises:
        BuildError: the pipeline can't run here.
    """

    def __init__(self, pipeline: Pipeline, options: HostOptions, local: LocalExchange | None = None) -> None:
        pipeline.build()
        self._pipeline = pipeline
        self._options = options
        self._inputs = tuple(pipeline.inputs.values())
        self._declared = {node.index for node in self._inputs if declares_data(node)}
        self._path_inputs = {node.inputs[0].node for node in pipeline.graph.find("io.file.read")}
        # Not the pipeline's: where no operator needs a GPU, there may be none, and CUDA must not be called.
        device_id = pipeline.executor.device_id
        self._publisher = ResultPublisher(device_id, local)
        self._pinner = None if device_id is None else Pinner(partial(PinnedMemory.of, device_id=device_id))
        self._client_numbers = itertools.count(1)
        self._workers: dict[int, Worker] = {}
        self._clients: dict[Channel, Worker | Consumer | None] = {}
        self._processor_time = 0.0
        self._server = ChannelServer(
            options.path,
            options.key,
            CODEC,
            on_open=self._open,
            on_message=self._receive,
            on_close=self._close_client,
        )
        self._runner = Runner(pipeline, self._publisher, options, self._server.call_soon, self._send)
        self._handlers: dict[type, dict[type, Callable[..., None]]] = {
            Worker: {
                AttachSegment: self._attach_segment,
                DetachSegment: self._detach_segment,
                Submit: self._submit,
                Release: self._release,
            },
            Consumer: {
                Fetch: self._fetch,
                Release: self._release,
                OpenSession: self._open_session,
                CloseSession: self._close_session,
                StatsRequest: self._report,
            },
        }

    def run(self) -> None:
        """Serve until `stop` is called."""
        self._processor_time = time.thread_time()
        self._server.run()

    def stop(self, reason: str = "it was stopped") -> None:
        """Have `run` return soon, after telling all clients why. May be called from any thread."""
        self._server.call_soon(partial(self._say_goodbye, reason))

    def close(self) -> None:
        """End the executor's threads and free all memory, after `run` has returned."""
        self._server.close()
        if self._pinner is not None:
            self._pinner.close()
        self._pipeline.close()
        self._runner.close()
        self._publisher.close()

    def watch(self, fd: int, callback: Callable[[], None]) -> None:
        """Have `callback` called on the host's thread whenever `fd` can be read; before `run`."""
        self._server.watch(fd, callback)

    def unwatch(self, fd: int) -> None:
        """End `watch`; on the host's thread."""
        self._server.unwatch(fd)

    def _say_goodbye(self, reason: str) -> None:
        for channel in self._clients:
            try:
                channel.post(Goodbye(reason))
            except IPCError:
                continue  # it is going anyway
        self._server.stop()

    # Connections ------------------------------------------------------------------------------------------------

    def _open(self, channel: Channel) -> None:
        self._clients[channel] = None  # it says with its first message what it is

    def _receive(self, channel: Channel, received: Received) -> None:
        client, message = self._clients[channel], received.message
        try:
            if client is None:
                self._greet(channel, message)
                return
            handler = self._handlers[type(client)].get(type(message))
            if handler is None:
                raise ProtocolError(f"a {type(client).__name__.lower()} sent {type(message).__name__}")
            if isinstance(message, AttachSegment):
                fds, received = received.fds, Received(message)  # the arena's from now on
                handler(client, message, fds)
            else:
                handler(client, message)
        finally:
            received.close_fds()

    def _greet(self, channel: Channel, hello: object) -> None:
        if not isinstance(hello, Hello):
            raise ProtocolError(f"a client began with {type(hello).__name__}")
        number = next(self._client_numbers)
        fds: tuple[int, ...]
        if hello.role == "worker":
            pin = None if self._pinner is None else self._pinner.pin
            worker = Worker(channel, number, hello.name, self._options.arena_bytes_limit, pin)
            self._clients[channel] = self._workers[number] = worker
            fds, nbytes = worker.completions.fds, 0
        elif hello.role != "consumer":
            raise ProtocolError(f"a client wants to be {hello.role!r}")
        else:
            account = self._publisher.account()
            self._clients[channel] = Consumer(channel, account)
            fds, nbytes = account.control_fds, account.control_nbytes
        channel.post(Welcome(number, self._options.server, nbytes), fds)

    def _close_client(self, channel: Channel, error: Exception | None) -> None:
        client = self._clients.pop(channel)
        if isinstance(client, Worker):
            client.disconnect()
            del self._workers[client.client]
            self._runner.forget_worker(client)
        elif isinstance(client, Consumer):
            for worker in self._workers.values():
                worker.awaited = {seq: other for seq, other in worker.awaited.items() if other is not client}
            self._runner.forget_consumer(client)
            client.account.close()

    def _send(self, consumer: Consumer, message: object, fds: Sequence[int] = ()) -> None:
        try:
            consumer.channel.post(message, fds)
        except IPCError as error:  # it is gone, or doesn't read; its memory is freed with it
            self._server.end(consumer.channel, error)

    # Messages ---------------------------------------------------------------------------------------------------

    def _attach_segment(self, worker: Worker, message: AttachSegment, fds: tuple[int, ...]) -> None:
        if len(fds) != 1:
            close_all(fds)
            raise ProtocolError(f"{len(fds)} descriptors came with an arena")
        worker.arena.attach(message.segment, fds[0], message.nbytes)

    def _detach_segment(self, worker: Worker, message: DetachSegment) -> None:
        worker.arena.detach(message.segment)

    def _submit(self, worker: Worker, message: Submit) -> None:
        worker.completions.begin(message.seq)
        worker.submitted += 1
        worker.waited = message.waited_ns / 1e9
        key = BatchKey(message.epoch, message.batch, message.view)
        request = Request(worker, message.seq, message.session, key, message.batch_size, message.indices)
        try:
            self._runner.submit(request, partial(self._read_inputs, worker, message, request))
        except ProtocolError:
            raise
        except PipelineError:
            return  # of this batch; whoever fetches it gets it

    def _read_inputs(self, worker: Worker, message: Submit, request: Request) -> dict[str, TensorList]:
        if len(message.inputs) != len(self._inputs):
            raise ProtocolError(f"{len(message.inputs)} inputs came for {len(self._inputs)}")
        inputs: dict[str, TensorList] = {}
        for node, part in zip(self._inputs, message.inputs, strict=True):
            dtype, table = part.unpack()
            batch = worker.arena.batch(table, dtype)
            if len(batch) != message.batch_size:
                raise ProtocolError(f"{len(batch)} samples came for a batch of {message.batch_size}")
            if node.index in self._path_inputs:  # for errors: its memory will have been reused by then
                request.paths = gathered(batch)
            checked = node.index in self._declared
            inputs[node.name] = check_batch(batch, node, self._pipeline.max_batch_size) if checked else batch
        return inputs

    def _fetch(self, consumer: Consumer, message: Fetch) -> None:
        self._runner.fetch(consumer, self._workers.get(message.client), message.client, message.seq)

    def _release(self, client: Worker | Consumer, message: Release) -> None:
        for number, seq in message.unpack():
            self._runner.release(self._workers.get(number), number, seq)

    def _open_session(self, consumer: Consumer, message: OpenSession) -> None:
        if not message.session:
            raise ProtocolError("0 isn't a session")  # it is everybody's who has none
        consumer.sessions.add(message.session)
        check_count(len(consumer.sessions), "iterators of one process")

    def _close_session(self, consumer: Consumer, message: CloseSession) -> None:
        if message.session in consumer.sessions:  # else it is closed already, or another's
            consumer.sessions.remove(message.session)
            self._runner.close_session(message.session)

    def _report(self, consumer: Consumer, message: StatsRequest) -> None:
        report = self._runner.report(self._workers.values())
        report["host"] = time.thread_time() - self._processor_time
        self._send(consumer, Stats(message.token, json.dumps(report)))
