"""The host: takes batches from workers, runs them through the pipeline, gives results to consumers.

One thread does all of this except running the pipeline. It never waits for anything but the sockets: the executor
reports through `call_soon`, which wakes it. So no state here needs a lock.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from functools import partial

from dali_proxy.errors import StaleReferenceError
from dali_proxy.failures import describe
from dali_proxy.host.clients import Consumer, Worker
from dali_proxy.host.options import HostOptions
from dali_proxy.host.requests import Request, State
from dali_proxy.host.scheduler import Scheduler
from dali_proxy.host.store import Store
from dali_proxy.host.totals import Totals
from dali_proxy.transport.exchange import LocalExchange
from dali_proxy.transport.protocol import (
    CODEC,
    AttachRing,
    CloseSession,
    DetachRing,
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
from dali_proxy.transport.publisher import ResultPublisher, StagedResult
from pipeline import Pipeline
from pipeline.errors import PipelineError
from pipeline.executor.request import BatchRequest, BatchResult, TensorList
from pipeline.external_source.data import check_batch
from pipeline.ipc.channel import Channel, Received
from pipeline.ipc.channel_server import ChannelServer
from pipeline.ipc.errors import IPCError, ProtocolError
from pipeline.rng import BatchKey
from pipeline.tensors import TensorListCPU

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
        self._publisher = ResultPublisher(pipeline.device_id, local)
        self._executor = pipeline.executor
        self._executor.output_allocator = self._publisher.allocate
        self._totals = Totals()
        self._processor_time = 0.0
        depth = max(pipeline.cpu_queue_size, pipeline.gpu_queue_size)
        self._scheduler = Scheduler(depth + 1, self._start)
        self._store = Store(options.unclaimed_bytes, self._drop)
        self._client_numbers = itertools.count(1)
        self._workers: dict[int, Worker] = {}
        self._clients: dict[Channel, Worker | Consumer | None] = {}
        self._server = ChannelServer(
            options.path,
            options.key,
            CODEC,
            on_open=self._open,
            on_message=self._receive,
            on_close=self._close_client,
        )
        self._handlers: dict[type, Callable[..., None]] = {
            AttachRing: self._attach_ring,
            DetachRing: self._detach_ring,
            Submit: self._submit,
            Fetch: self._fetch,
            Release: self._release,
            OpenSession: self._open_session,
            CloseSession: self._close_session,
            StatsRequest: self._report,
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
        self._pipeline.close()
        for request in self._store:
            self._drop(request)
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

    # Clients ----------------------------------------------------------------------------------------------------

    def _open(self, channel: Channel) -> None:
        self._clients[channel] = None  # it says with its first message what it is

    def _receive(self, channel: Channel, received: Received) -> None:
        client, message = self._clients[channel], received.message
        try:
            if client is None:
                self._greet(channel, message)
                return
            handler = self._handlers.get(type(message))
            if handler is None:
                raise ProtocolError(f"a client sent {type(message).__name__}")
            if isinstance(message, AttachRing):
                fds, received = received.fds, Received(message)
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
            worker = Worker(channel, number, hello.name)
            self._clients[channel] = self._workers[number] = worker
            fds, nbytes = worker.completions.fds, 0
        else:
            account = self._publisher.consumer()
            self._clients[channel] = Consumer(channel, account)
            fds, nbytes = account.control_fds, account.control_nbytes
        channel.post(Welcome(number, self._options.server, nbytes), fds)

    def _close_client(self, channel: Channel, error: Exception | None) -> None:
        client = self._clients.pop(channel)
        if isinstance(client, Worker):
            self._forget_worker(client)
        elif isinstance(client, Consumer):
            for session in list(client.sessions):
                self._store.close_session(session)
            for request in self._store:
                if request.waiter is client:
                    request.waiter = None
            client.account.close()

    def _forget_worker(self, worker: Worker) -> None:
        # Its results stay: a worker that has finished its part of a dataset ends before its last batches are fetched.
        worker.disconnect()
        del self._workers[worker.client]
        self._totals.ring_wait += worker.waited
        for seq, consumer in worker.awaited.items():
            self._refuse(consumer, worker.client, seq, f"{worker!r} ended before it submitted the batch")
        for request in self._store:
            if request.worker is worker and request.state is State.DONE and not request.session:
                self._store.leave_unclaimed(request)

    # Workers ----------------------------------------------------------------------------------------------------

    def _attach_ring(self, worker: Worker, message: AttachRing, fds: tuple[int, ...]) -> None:
        if len(fds) != 1:
            raise ProtocolError(f"{len(fds)} descriptors came with a ring")
        worker.ring.attach(message.ring, fds[0], message.nbytes)

    def _detach_ring(self, worker: Worker, message: DetachRing) -> None:
        worker.ring.detach(message.ring)

    def _submit(self, worker: Worker, message: Submit) -> None:
        worker.completions.begin(message.seq)
        worker.submitted += 1
        worker.waited = message.waited_ns / 1e9
        request = Request(
            worker,
            message.seq,
            message.session,
            BatchKey(message.epoch, message.batch, message.view),
            message.batch_size,
            message.indices,
        )
        request.waiter = worker.awaited.pop(message.seq, None)
        if self._store.is_closed(message.session):
            request.state = State.GONE
            worker.completions.complete(message.seq)
            return
        self._store.add(request)
        try:
            request.inputs = self._read_inputs(worker, message)
        except PipelineError as error:
            worker.completions.complete(message.seq)
            self._finish(request, None, error)
            if isinstance(error, ProtocolError):
                raise
            return
        self._scheduler.add(request)

    def _read_inputs(self, worker: Worker, message: Submit) -> dict[str, TensorList]:
        if len(message.inputs) != len(self._inputs):
            raise ProtocolError(f"{len(message.inputs)} inputs came for {len(self._inputs)}")
        inputs: dict[str, TensorList] = {}
        for node, part in zip(self._inputs, message.inputs, strict=True):
            dtype, table = part.unpack()
            batch = TensorListCPU(worker.ring.views(table, dtype))
            if len(batch) != message.batch_size:
                raise ProtocolError(f"{len(batch)} samples came for a batch of {message.batch_size}")
            self._totals.bytes_in += batch.nbytes
            inputs[node.name] = check_batch(batch, node, self._pipeline.max_batch_size)
        return inputs

    def _start(self, request: Request) -> None:
        worker, seq = request.worker, request.seq
        inputs, request.inputs = request.inputs, {}
        try:
            self._pipeline.submit(
                BatchRequest(request.size, inputs, request.key, partial(worker.completions.complete, seq)),
                partial(self._done, request),
            )
        except PipelineError as error:
            worker.completions.complete(seq)
            self._done(request, BatchResult(error=error))

    def _done(self, request: Request, result: BatchResult) -> None:
        # On a thread of the executor. Its stream, if it has one, is current: copies to slots follow the batch.
        staged, error = None, result.error
        if error is None:
            try:
                staged = self._publisher.stage(result.outputs)
            except PipelineError as failed:
                error = failed
        self._server.call_soon(partial(self._finish_run, request, staged, error))

    def _finish_run(self, request: Request, staged: StagedResult | None, error: PipelineError | None) -> None:
        self._scheduler.finished()
        self._finish(request, staged, error)

    def _finish(self, request: Request, staged: StagedResult | None, error: PipelineError | None) -> None:
        if request.state is State.GONE:
            if staged is not None:
                staged.discard()
            return
        worker = request.worker
        request.state = State.DONE
        request.staged = staged
        if error is not None:
            request.failure = describe(error, worker.client, request.seq, request.indices, worker.name, worker.pid)
        self._totals.count(request)
        if request.waiter is not None:
            self._deliver(request, request.waiter)
        elif worker.gone and not request.session:
            self._store.leave_unclaimed(request)

    # Consumers --------------------------------------------------------------------------------------------------

    def _fetch(self, consumer: Consumer, message: Fetch) -> None:
        request = self._store.find(message.client, message.seq)
        if request is None:
            worker = self._workers.get(message.client)
            if worker is not None and message.seq >= worker.submitted:
                worker.awaited[message.seq] = consumer
                return
            self._refuse(consumer, message.client, message.seq, "the batch was fetched or discarded before")
        elif request.state is State.DONE:
            self._deliver(request, consumer)
        else:
            request.waiter = consumer

    def _deliver(self, request: Request, consumer: Consumer) -> None:
        self._store.remove(request)
        request.state = State.GONE
        staged, request.staged = request.staged, None
        if staged is None:
            self._send(consumer, request.failure)
            return
        try:
            result, fds = self._publisher.publish(consumer.account, request.worker.client, request.seq, staged)
        except IPCError as error:
            staged.discard()
            worker = request.worker
            self._send(consumer, describe(error, worker.client, request.seq, (), worker.name, worker.pid))
            return
        self._send(consumer, result, fds)

    def _refuse(self, consumer: Consumer, client: int, seq: int, why: str) -> None:
        self._send(consumer, describe(StaleReferenceError(why), client, seq, (), f"client {client}", 0))

    def _send(self, consumer: Consumer, message: object, fds: Sequence[int] = ()) -> None:
        try:
            consumer.channel.post(message, fds)
        except IPCError as error:  # it is gone, or doesn't read; its memory is freed with it
            self._server.end(consumer.channel, error)

    def _release(self, client: Worker | Consumer, message: Release) -> None:
        for number, seq in message.unpack():
            request = self._store.find(number, seq)
            if request is not None:
                self._drop(request)

    def _open_session(self, consumer: Consumer, message: OpenSession) -> None:
        consumer.sessions.add(message.session)
        self._store.open_session(message.session)

    def _close_session(self, consumer: Consumer, message: CloseSession) -> None:
        consumer.sessions.discard(message.session)
        self._store.close_session(message.session)

    def _drop(self, request: Request) -> None:
        """Forget a request that nobody wants; if the executor has it, what it makes is thrown away."""
        self._store.remove(request)
        if request.state is State.QUEUED:
            self._scheduler.drop(request)
            request.inputs = {}
            request.worker.completions.complete(request.seq)
        elif request.state is State.DONE:
            request.discard()
        request.state = State.GONE
        self._totals.dropped += 1

    def _report(self, client: Consumer, message: StatsRequest) -> None:
        self._scheduler.measure()
        report = self._totals.report(
            self._scheduler, self._workers.values(), host_seconds=time.thread_time() - self._processor_time
        )
        report["waiting_results"] = len(self._store)
        report["operators"] = {
            step.name: {"batches": step.batches, "seconds": step.seconds} for step in self._executor.statistics.steps()
        }
        client.channel.post(Stats(message.token, json.dumps(report)))
