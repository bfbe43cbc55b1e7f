"""The consumer's connection to a server: fetch results, release unused ones, request statistics."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dali_proxy._consumer.device_stage import DeviceStages
from dali_proxy._consumer.pending_requests import (
    Deadline,
    Key,
    PendingRequest,
    PendingRequests,
    SentAhead,
    fresh,
    without_frames,
)
from dali_proxy._consumer.shared_channel import SharedChannel
from dali_proxy._transport.endpoint import Endpoint, open_channel, server_errors
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy._transport.failures import rebuild
from dali_proxy._transport.opener import DeferredOutputs, ResultOpener, copied_from_cpu, on_gpu
from dali_proxy._transport.protocol import (
    Advance,
    BatchRead,
    Computed,
    DatasetWorkers,
    Failure,
    Fetch,
    Goodbye,
    LoopReport,
    NotPlaced,
    OpenSession,
    PipelineThreads,
    Place,
    ReadBatch,
    Result,
    SlotsDetached,
    Stats,
    StatsRequest,
)
from dali_proxy._worker.tickets import ReleaseQueue, Ticket, discard_through, forget_discard
from dali_proxy._worker.worker import send_collected
from dali_proxy.errors import ProxyError, ServerClosedError, ServerDiedError, StaleReferenceError
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._cuda.errors import CudaError
from dali_proxy.pipeline._ipc.channel import Received
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ChannelTimeoutError, IPCError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline._operator_api.trace import Trace
from dali_proxy.pipeline.tensors.torch_memory import refuse_capture

_END = 5.0  # seconds in which a server notices that its GPU is in error
_GLANCE = 0.1  # seconds between checks
_UNASKED = 0.005  # seconds to wait for a result that the server may send unasked, before it is requested


class ConsumerClient:
    """Connection of a process to a server, for fetching results. Thread-safe.

    Waiting threads take turns at the channel: see `SharedChannel`. The server sends the next batches of a session
    early, so that they have arrived when a thread requests them. If an executor runs the device stage, a separate
    thread receives, so that batches progress while no other thread waits.

    Args:
        endpoint: address of the server.
        how_it_ended: returns how the server ended if this process can know, else an empty string.
        local: exchange of the server, if it runs in this process.
        device_stages: for each variant of the pipeline, the serialized device stage that continues its batches; None if
            the server runs the whole pipeline.
        device_id: GPU to copy results to that the server computed on another GPU; None to leave them there.

    Raises:
        BuildError: the device stage can't run here.

    Attributes:
        server: token that identifies one start of the server.
        waited: seconds that threads have waited for results.
        variant: variant of the pipeline that computed the last batch that was taken; see `place`.
        computed: batches that the server has computed in the variant that is measured; None if none is.
        refused: for variants of the pipeline that can't run, the reason.
        dataset_workers: number of dataset workers, of a server that changes it; see `resize_pool`.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        how_it_ended: Callable[[], str] = str,
        local: LocalExchange | None = None,
        device_stages: Sequence[bytes | None] = (),
        device_id: int | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._how_it_ended = how_it_ended
        self._device_id = device_id
        self._stages = DeviceStages(device_stages)
        try:
            channel, received = open_channel(endpoint, "consumer", "main")
        except BaseException:
            self._stages.close()
            raise
        self._launches, self._continues = self._stages.device_id is not None, bool(self._stages)
        self._opener = ResultOpener(received.fds, received.message.control_nbytes, local, self._stages.device_id)
        self.server: bytes = received.message.server
        self.waited = 0.0
        self.variant = 0
        self.computed: Computed | None = None
        self._measured: int | None = None  # number of the variant that is measured
        self.refused = self._stages.refused
        self.dataset_workers = 0
        self._reads: dict[int, Callable[[BatchRead, tuple[int, ...]], None]] = {}  # requested batches, by number
        self._requests = PendingRequests()
        self._lock, self._ahead = self._requests.lock, self._requests.ahead
        self._channel = SharedChannel(channel, self._requests, self._file, self._explain_end)
        self._taking = new_rlock(Level.DELIVERY, "delivery")
        self._goodbye = ""
        self._tokens = itertools.count()
        self._releases = ReleaseQueue()
        discard_through(self.server, self._discard)
        if self._stages.wait_for_all:
            try:
                self._channel.receive_always()
            except BaseException:  # the limit of threads is reached
                self.close()
                raise

    def outputs(self, ticket: Ticket, patience: float | None = None) -> tuple[Any, ...]:
        """Wait for a batch and return its outputs: the same objects in every call.

        Args:
            ticket: ticket of the batch.
            patience: seconds to wait, unless the server's timeout is shorter; 0 or None for no limit.

        Raises:
            BatchError: the batch failed.
            StaleReferenceError: the batch belongs to an earlier start of the server, or to another server.
            ServerDiedError: the server is gone.
        """
        with deferred_signals:
            if ticket.error is not None:
                raise fresh(ticket.error)
            if ticket.outputs is not None:
                return ticket.outputs
            if ticket.server != self.server:
                raise StaleReferenceError(
                    "the batch belongs to an earlier start of the server, or to the proxy of another server: make the "
                    "dataset with the proxy of the loader's server"
                )
            if self._launches:  # when messages arrive
                refuse_capture()
            key = ("batch", ticket.client, ticket.seq)
            begin = time.perf_counter()
            try:
                unasked = _UNASKED if self._ahead.sessions else 0.0
                answer: DeferredOutputs | Exception = self._ask(
                    key, Fetch(ticket.client, ticket.seq), patience, unasked
                )
                if isinstance(answer, Exception) and isinstance(answer.__cause__, CudaError):
                    answer = self._reason_of_end() or answer
            finally:
                self.waited += time.perf_counter() - begin
            with self._taking:  # threads that request the same batch get the same tensors
                # If another thread was first, the ticket has the batch, and `answer` may be an error.
                if ticket.outputs is None and ticket.error is None:
                    ticket.claimed = True
                    if isinstance(answer, Exception):
                        ticket.error = answer
                    else:
                        request = self._requests.get(key)
                        ticket.outputs = self._delivered(answer.tensors())
                        if request is not None:
                            ticket.samples, self.variant = request.samples, request.variant
                self._requests.forget(key)  # not earlier: another thread would fetch the batch again
                if ticket.outputs is not None:
                    return ticket.outputs
            assert ticket.error is not None
            raise fresh(ticket.error)

    def _delivered(self, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copy outputs on other GPUs to this process's GPU. torch orders the copies by the current streams.

        Copy those on the CPU, too, if this process already holds many of the server's slots.
        """
        if self._opener.cpu.lends_many:
            outputs = tuple([copied_from_cpu(output) for output in outputs])
        if self._device_id is None:
            return outputs
        return tuple([on_gpu(output, self._device_id) for output in outputs])

    def _reason_of_end(self) -> ProxyError | None:
        """Return the reason for the end of the connection, if it ends soon: a GPU in error ends its server."""
        end = time.monotonic() + _END
        while not self._channel.ended and time.monotonic() < end:
            self._channel.receive(_GLANCE)
        return self._channel.end

    @property
    def ended(self) -> bool:
        """Whether the connection has ended, for any reason."""
        return self._channel.ended

    @deferred_signals
    def glance(self) -> None:
        """Handle what has arrived, while threads wait for other connections. Record whether the server is gone."""
        if self._continues:
            self._stages.release_finished()
        if not self._channel.note_if_ended():
            self._channel.receive_ready()

    def check(self) -> None:
        """Raise if the connection has ended; see `SharedChannel.check`."""
        self._channel.check()

    def open_session(self, session: int) -> SentAhead:
        """Open the session of an iterator, and return its results: batches submitted for it belong to this process."""
        with deferred_signals, server_errors(), self._channel.guard:
            self._channel.send(OpenSession(session), self._endpoint.timeout)
            with self._lock:
                return self._ahead.open(session)

    def has_session(self, session: int) -> bool:
        """Return whether the session of an iterator is open here."""
        return session in self._ahead.sessions

    def read_batch(
        self,
        session: int,
        request: bytes,
        reader: SharedBlock,
        arrive: Callable[[BatchRead, tuple[int, ...]], None],
        slow: bool = False,
    ) -> int:
        """Request that a dataset worker reads a batch. Return a number for `forget_read`.

        Args:
            session: session of the batch.
            request: the pickled request.
            reader: the pickled reader.
            arrive: called with the answer and its descriptors, which it owns, while a thread receives. It isn't called
                if the connection ends.
            slow: see `ReadBatch`.

        Raises:
            ProxyError: the request is too large.
        """
        number = next(self._tokens)
        with deferred_signals, self._channel.guard:
            self._reads[number] = arrive
            try:
                self._channel.post(
                    ReadBatch(number=number, session=session, request=request, reader_nbytes=reader.nbytes, slow=slow),
                    (reader.fd,),
                )
            except ChannelClosedError as error:
                self._channel.note_end(error)
            except IPCError as error:
                del self._reads[number]
                raise ProxyError(f"a batch can't be requested: {error}") from error
        return number

    def forget_read(self, number: int) -> None:
        """Forget a request for a batch of a session that ends: the server may not answer it any more."""
        self._reads.pop(number, None)

    @deferred_signals
    def receive(self, seconds: float) -> None:
        """Wait until a message arrives, for some seconds at most, and handle it; for 0, those that have arrived."""
        if seconds:
            self._channel.receive(seconds)
        else:
            self._channel.receive_ready()

    def advance(self, session: int, batch: int, in_order: bool) -> None:
        """Record that a thread is about to request a batch of a session, so that the server sends the next ones.

        Args:
            session: the session.
            batch: number of the batch.
            in_order: whether no thread will request batches with smaller numbers.
        """
        with self._lock:
            known = self._ahead.sessions.get(session)
            if known is None:
                return
            if in_order and known.keys:
                self._requests.forget_batches(known.unused(batch))
            if (through := known.advance(batch)) is not None:
                with suppress(IPCError):  # the server is gone: the next request raises that
                    self._channel.post(Advance(session, through))

    def place(self, variant: int, measured: bool) -> None:
        """Let the server run later batches with another variant of the pipeline: 0 for the first, n for the n-th other.

        It may take seconds until the server has built it. `self.variant` shows when its batches arrive. A variant in
        `self.refused` isn't run.

        Args:
            variant: number of the variant.
            measured: whether `self.computed` is needed, until the next call.
        """
        self.computed, self._measured = None, variant if measured else None
        if variant not in self.refused:
            self._notify(Place(variant, measured))

    def resize_pool(self, count: int) -> None:
        """Let the server change the number of its dataset workers. `self.dataset_workers` shows when it has."""
        self._notify(DatasetWorkers(count))

    def resize_threads(self, count: int) -> None:
        """Let the server change the number of the pipeline's threads."""
        self._notify(PipelineThreads(count))

    def result_size(self, session: int) -> int:
        """Return the size of the last result of a session in the server's memory; 0 if there was none."""
        known = self._ahead.sessions.get(session)
        return 0 if known is None else known.nbytes

    def close_session(self, session: int) -> None:
        """Close the session of an iterator that has ended: cancel its remaining batches. Finalizers may call this."""
        self._releases.add_session(session)
        self._flush_if_safe()

    def statistics(self, subject: str = "stats") -> dict[str, Any]:
        """Request a report of the server and return it; see `StatsRequest`."""
        token = next(self._tokens)
        key = ("stats", token)
        with deferred_signals:
            try:
                answer: dict[str, Any] = self._ask(key, StatsRequest(token, subject))
            finally:
                self._requests.forget(key)
        if subject == "stats":
            self._stages.add_times(answer["operators"])
        return answer

    def report_loops(self, report: LoopReport) -> None:
        """Send the counters of this process's loops to the server, for monitors. Finalizers may call this."""
        if self._channel.is_safe():
            with deferred_signals:
                self._notify(report)

    def _notify(self, message: Any) -> None:
        """Send a message that has no answer. If the server is gone, the next request raises that."""
        with self._channel.guard, suppress(IPCError):
            self._channel.post(message)

    def trace(self, trace: Trace | None) -> None:
        """Record the device stages in a trace from now on; None to stop."""
        self._stages.trace(trace)

    @deferred_signals
    def close(self) -> None:
        """Disconnect. Fetched tensors stay valid."""
        forget_discard(self.server, self._discard)
        self._flush_if_safe()
        self._channel.close(ServerClosedError("the server was stopped"))
        self._stages.close()
        self._opener.close()

    def _ask(self, key: Key, message: Any, patience: float | None = None, unasked: float = 0.0) -> Any:
        """Send a request unless it was sent, and wait for its answer, which stays until `PendingRequests.forget`.

        Args:
            key: identifies the answer.
            message: the request.
            patience: seconds to wait, unless the server's timeout is shorter; 0 or None for no limit.
            unasked: seconds to wait before the request is sent, because the server may send the answer unasked.
        """
        with self._lock:  # a finalizer that closes a session must not come in between
            if self._channel.end is not None:
                raise fresh(self._channel.end)
            request = self._requests.get(key)
            if request is None:
                request = self._requests[key] = PendingRequest()
            self._ahead.forget(key[1:])
            arrived = request.answer is not None
        if arrived and not self._continues:  # the usual case: the server has sent it early
            if self._releases.waiting:
                self._flush_if_safe()
            return request.answer
        send_collected()
        deadline = Deadline(self._endpoint.timeout, self._channel.peer_pid, patience)
        self._channel.receive_ready()
        if self._continues:
            self._stages.release_finished()
        if unasked and not request.sent:
            self._channel.wait(request, deadline, time.monotonic() + unasked)
        with self._lock:
            new = not request.sent and request.answer is None
            request.sent = True
        try:
            if new:
                self._send(message, deadline)
        except BaseException:  # including those of signal handlers: a later call must not wait for an unsent request
            request.sent = False
            raise
        if self._releases.waiting:  # added by a finalizer; if the batch arrived early, no message carried them
            self._flush_if_safe()
        if request.answer is None:
            self._channel.wait(request, deadline)
        return request.answer

    def _file(self, received: Received) -> None:
        message = received.message
        if isinstance(message, Result):
            try:
                self._take(message, received.fds)
            except BaseException as error:  # including those of signal handlers: no thread may wait for a lost batch
                lost = ProxyError(f"a batch arrived, but was lost while it was received: {error!r}")
                self._requests.answer(("batch", message.client, message.seq), lost)
                raise
            return
        if isinstance(message, BatchRead) and (arrive := self._reads.pop(message.number, None)) is not None:
            arrive(message, received.fds)
            with self._lock:
                self._requests.changed.notify_all()
            return
        if received.fds:
            received.close_fds()
        if isinstance(message, Failure):
            key = ("batch", message.client, message.seq)
            with self._lock:
                request = self._requests.get(key)
            if request is not None and not request.coming:
                self._requests.answer(key, rebuild(message))
        elif isinstance(message, Stats):
            self._requests.answer(("stats", message.token), json.loads(message.text))
        elif isinstance(message, SlotsDetached):
            self._opener.detach(message.slots)
        elif isinstance(message, NotPlaced):
            self.refused[message.variant] = message.reason
        elif isinstance(message, Computed) and message.variant == self._measured:
            self.computed = message
        elif isinstance(message, DatasetWorkers):
            self.dataset_workers = message.count
        elif isinstance(message, Goodbye):
            self._goodbye = message.reason

    def _take(self, result: Result, fds: tuple[int, ...]) -> None:
        key = ("batch", result.client, result.seq)
        with self._lock:  # a finalizer that closes a session must not come in between
            request = self._requests.get(key)
            nbytes, on_gpu = 0, False
            for output in result.outputs:
                nbytes += output.nbytes
                on_gpu |= output.device != "cpu"
            self._ahead.note_size(result.session, nbytes, on_gpu)
            if request is None and self._ahead.arrive(result.session, key[1:], result.batch):
                request = self._requests[key] = PendingRequest()
                request.sent = True
            if request is not None:
                source = result.origin or result
                request.coming, request.variant = source is not result, result.variant
                request.samples = (source.indices, source.names)
        stage = None if result.origin is None else self._stages.get(result.variant)
        if stage is None:
            answer = self._open(result, fds, self._opener.receive)
            if result.origin is not None:  # another process chose this variant of the pipeline
                reason = self.refused.get(result.variant, "it isn't known")
                answer = ProxyError(f"the GPU's part of the pipeline can't run here: {reason}")
            self._requests.answer(key, answer)
            return
        opened = self._opener.open_batches if result.prepared is None else self._opener.open_prepared
        inputs = self._open(result, fds, opened)
        if isinstance(inputs, Exception):
            self._requests.answer(key, inputs)
        elif request is not None and result.prepared is not None:
            self._requests.answer(key, stage.issue(result, *inputs))
        elif request is not None:
            stage.start(result, inputs, partial(self._requests.answer, key))

    def _open(self, result: Result, fds: tuple[int, ...], opened: Callable[[Result, tuple[int, ...]], Any]) -> Any:
        try:
            return opened(result, fds)
        except ChannelClosedError as error:  # another thread stops or restarts the server
            return self._channel.end or self._explain_end(error)
        except Exception as error:  # noqa: BLE001  # raised for the requesting thread, not for this one
            return without_frames(ProxyError(f"a batch arrived, but its memory can't be opened here: {error}"), error)

    def _explain_end(self, error: ChannelClosedError) -> ProxyError:
        if self._goodbye:
            return ServerClosedError(f"the server is closed: {self._goodbye}")
        return ServerDiedError(f"the server is gone: {self._how_it_ended() or error}")

    def _send(self, message: Any, deadline: Deadline) -> None:
        try:
            with self._channel.guard:
                self._flush()
                self._channel.send(message, deadline.left)
        except ChannelTimeoutError as error:
            raise deadline.error() from error
        except ChannelClosedError as error:
            raise fresh(self._channel.note_end(error)) from error

    def _discard(self, client: int, seq: int) -> None:
        """Release the batch of a ticket that was freed unused. Finalizers call this, anywhere in any thread."""
        self._releases.add_batch(client, seq)
        self._flush_if_safe()

    def _flush_if_safe(self) -> None:
        if not self._channel.is_safe():
            return
        try:
            with deferred_signals, self._channel.guard:
                self._flush()
        except IPCError:
            return  # the server is gone, and the batches with it

    def _flush(self) -> None:
        self._releases.flush(self._channel.post, self._requests.forget_batches, self._requests.forget_session)
