"""Runs requests: queue, executor, results, delivery. Lives on the host's thread, so nothing here needs a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from dali_proxy._host.clients import Consumer, Worker, check_count
from dali_proxy._host.options import HostOptions
from dali_proxy._host.planning import Planning
from dali_proxy._host.requests import Request, State
from dali_proxy._host.scheduler import Scheduler
from dali_proxy._host.store import Store
from dali_proxy._host.totals import Totals
from dali_proxy._transport.failures import describe
from dali_proxy._transport.fetch_ahead import AHEAD
from dali_proxy._transport.origin import pack_keys
from dali_proxy._transport.publisher import OutputBuffer, ResultPublisher, StagedResult
from dali_proxy.errors import StaleReferenceError
from pipeline import Pipeline
from pipeline._ipc.errors import IPCError
from pipeline._operator_api.request import BatchRequest, BatchResult, TensorList
from pipeline.errors import PipelineError

__all__ = ["Runner", "Send"]


class Send(Protocol):
    """Sends a message to a consumer; one that is gone is no error."""

    def __call__(self, consumer: Consumer, message: object, fds: Sequence[int] = ()) -> None: ...


class Runner:
    """What happens to a request from its submission to its delivery, or to its end without one.

    Args:
        pipeline: what to run; it is built.
        publisher: where results go.
        options: how the host runs.
        call_soon: has a function called on the host's thread; called by threads of the executor.
        send: sends to a consumer.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        publisher: ResultPublisher,
        options: HostOptions,
        call_soon: Callable[[Callable[[], None]], None],
        send: Send,
    ) -> None:
        self._pipeline = pipeline
        self._executor = pipeline.executor
        self._publisher = publisher
        self._planning = Planning(options.planned_half) if options.planned_half else None
        self._executor.output_allocator = self._allocate
        self._call_soon = call_soon
        self._send = send
        self._scheduler = Scheduler(self._executor.concurrency, self._start)
        self._store = Store(options.unclaimed_bytes, self._drop)
        self._tells_origin = options.is_half
        self._totals = Totals()

    def submit(self, request: Request, read_inputs: Callable[[], Mapping[str, TensorList]]) -> None:
        """Take a request.

        Args:
            request: the request.
            read_inputs: returns its inputs; if that fails, the request does.

        Raises:
            PipelineError: reading the inputs failed.
        """
        worker = request.worker
        request.waiter = worker.awaited.pop(request.seq, None)
        if self._store.is_closed(request.session) or request.seq in worker.unwanted:
            worker.unwanted.discard(request.seq)
            request.state = State.GONE
            self._totals.dropped += 1
            worker.completions.complete(request.seq)
            return
        self._store.add(request)
        try:
            request.inputs = dict(read_inputs())
        except Exception as error:
            worker.completions.complete(request.seq)
            self._finish(request, None, error)
            raise
        self._totals.bytes_in += sum(batch.nbytes for batch in request.inputs.values())
        self._scheduler.add(request)

    def fetch(self, consumer: Consumer, worker: Worker | None, client: int, seq: int) -> None:
        """Send a result to a consumer, now or when it is there.

        Args:
            consumer: who asks.
            worker: who submits the batch; None if it is gone.
            client: its number.
            seq: its number of the request.
        """
        request = self._store.find(client, seq)
        if request is None:
            if worker is not None and seq >= worker.submitted:
                worker.awaited[seq] = consumer
                check_count(len(worker.awaited), "awaited batches that were not submitted")
            else:
                self.refuse(consumer, client, seq, "the batch was already fetched or discarded")
        elif request.state is State.DONE:
            self._deliver(request, consumer)
        else:
            request.waiter = consumer

    def release(self, worker: Worker | None, client: int, seq: int) -> None:
        """Forget a request that nobody wants; arguments as for `fetch`."""
        request = self._store.find(client, seq)
        if request is not None:
            self._drop(request)
        elif worker is not None and seq >= worker.submitted:
            worker.unwanted.add(seq)
            check_count(len(worker.unwanted), "unwanted batches that were not submitted")

    def close_session(self, session: int) -> None:
        """Forget the requests of a session, and those that will come for it."""
        self._store.close_session(session)

    def forget_worker(self, worker: Worker) -> None:
        """Take note that a worker is gone.

        Its requests stay: a worker that has finished its part of a dataset ends before its last batches are fetched.
        """
        self._totals.arena_wait += worker.waited
        for seq, consumer in worker.awaited.items():
            self.refuse(consumer, worker.client, seq, f"{worker!r} ended before it submitted the batch")
        for request in self._store:
            if request.worker is worker and request.state is State.DONE and not request.session:
                self._store.leave_unclaimed(request)

    def forget_consumer(self, consumer: Consumer) -> None:
        """Take note that a consumer is gone, and its iterators with it."""
        for session in consumer.sessions:
            self._store.close_session(session)
        for request in self._store:
            if request.waiter is consumer:
                request.waiter = None

    def refuse(self, consumer: Consumer, client: int, seq: int, why: str) -> None:
        """Answer a fetch of what isn't there."""
        self._send(consumer, describe(StaleReferenceError(why), client, seq, (), f"client {client}", 0))

    def report(self, workers: Iterable[Worker]) -> dict[str, Any]:
        """Return the counters."""
        self._scheduler.measure()
        return {
            **self._totals.report(self._scheduler, workers),
            "waiting_results": len(self._store),
            "operators": {
                times.name: times.report()
                for times in [
                    *self._executor.statistics.operators(),
                    *(self._planning.times() if self._planning else ()),
                ]
            },
        }

    def close(self) -> None:
        """Forget everything."""
        for request in self._store:
            self._drop(request)

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
        staged: StagedResult | None = None
        error: Exception | None = result.error
        if error is None:
            try:
                staged = self._stage(request, result.outputs)
            except Exception as failed:  # noqa: BLE001  # whatever it is, it belongs to this batch
                error = failed
        self._call_soon(partial(self._finish_run, request, staged, error))

    def _allocate(self, output: int, nbytes: int) -> OutputBuffer | None:
        if self._planning is not None and output not in self._planning.handed_on:
            return None  # what goes to the GPU will lie in one slot
        return self._publisher.allocate(output, nbytes)

    def _stage(self, request: Request, outputs: Sequence[TensorList]) -> StagedResult:
        planned = None if self._planning is None else self._planning.plan(outputs, request.key)
        return self._publisher.stage(outputs) if planned is None else self._publisher.stage_planned(planned)

    def _finish_run(self, request: Request, staged: StagedResult | None, error: Exception | None) -> None:
        self._scheduler.finished()
        try:
            self._finish(request, staged, error)
        except Exception as failed:  # noqa: BLE001  # an error that can't be described, for example
            if staged is not None:
                staged.discard()
            self._finish(request, None, failed)

    def _finish(self, request: Request, staged: StagedResult | None, error: Exception | None) -> None:
        if request.state is State.GONE:
            if staged is not None:
                staged.discard()
            return
        worker = request.worker
        request.state = State.DONE
        request.staged = staged
        if error is not None:
            request.failure = describe(
                error, worker.client, request.seq, request.indices, worker.name, worker.pid, request.files
            )
        self._totals.count(request)
        if request.waiter is not None:
            self._deliver(request, request.waiter)
        elif worker.gone and not request.session:
            self._store.leave_unclaimed(request)

    def _deliver(self, request: Request, consumer: Consumer) -> None:
        self._store.remove(request)
        request.state = State.GONE
        staged, request.staged = request.staged, None
        if staged is None:
            self._send(consumer, request.failure)
            return
        worker = request.worker
        try:
            following = self._store.following(request, 2 * AHEAD)
            result, fds = self._publisher.publish(
                consumer.account,
                worker.client,
                request.seq,
                staged,
                origin=request.origin(samples=staged.prepared is None) if self._tells_origin else None,
                session=request.session,
                following=pack_keys([(each.worker.client, each.seq) for each in following]),
            )
        except IPCError as error:
            staged.discard()
            self._send(consumer, describe(error, worker.client, request.seq, (), worker.name, worker.pid))
            return
        self._send(consumer, result, fds)

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
