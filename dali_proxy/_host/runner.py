"""The path of a batch through the host: submit, run, deliver.

All of it lives on the host's thread, so nothing here needs a lock. Only `_done` and `_inputs_read` run on the
executor's threads, one after the other, and they touch no state of the host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

from dali_proxy._host.clients import Consumer, Worker, check_count
from dali_proxy._host.host_trace import EXECUTED, FINISHED, QUEUED, HostTrace
from dali_proxy._host.measured import Measured
from dali_proxy._host.options import HostOptions
from dali_proxy._host.requests import Request, Shared, State, Store
from dali_proxy._host.scheduler import IsHeld, Scheduler
from dali_proxy._host.sharing import Sharing
from dali_proxy._host.totals import Totals
from dali_proxy._host.variant import Variant
from dali_proxy._transport.failures import describe
from dali_proxy._transport.protocol import Advance, CloseSession, Fetch, OpenSession, Release, Submit
from dali_proxy._transport.publisher import ResultPublisher, StagedResult
from dali_proxy.errors import StaleReferenceError
from dali_proxy.pipeline._cuda.errors import context_failure
from dali_proxy.pipeline._executor.depth import Depth
from dali_proxy.pipeline._executor.statistics import StepTimes, added
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult, TensorList, as_batch_error
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import PipelineError

# Bytes of inputs and outputs up to which this thread runs the cheap phases of a batch itself: waking another one would
# take as long, and the other clients hardly wait.
_OWN_BYTES = 1 << 18
_HELD_CHECK = 0.1  # seconds between checks whether requests are still held
_SUSPECTS = 3  # batches that the error of a lost GPU names
_REASONS = 64  # ends of connections whose reasons are kept
_GONE = (
    "the batch was already fetched or discarded. Each batch can be fetched once: a placeholder that was pickled into a "
    "file, such as a cache on the disk, can't be used again. Keep the proxy's inputs there"
)


class HostRunner:
    """Handles the messages about batches.

    A batch takes this path: `submit` queues it, `_start_queued` gives it to the executor, which calls `_done` and
    `_inputs_read`; `_finish` stores its result; `_deliver` sends the result to the consumer that asked with `fetch`, or
    that allowed it with `advance`. `release`, `close_session` and the limit on unclaimed results end it earlier.

    A result on the GPU is finished after the GPU's work: if the server dies, no consumer waits for work that never
    ends, or reads incomplete data.

    Args:
        variant: variant of the pipeline that runs first.
        publisher: destination of the results.
        options: the host's settings.
        call_soon: schedules a function on the host's thread; the executor's threads call it.
        call_later: the same after some seconds; only the host's thread calls it.
        on_lost_gpu: called with a text when CUDA's context is lost, instead of finishing the batch; None to finish it
            with the error, like any other.

    Attributes:
        workers: connected workers, by client number; the host adds them.
        consumers: connected consumers; the host adds them.
        variant: variant of the pipeline that runs the requests that the executor gets from now on; see `place`.
        trace: the trace that records batches, or None; `Reports` changes it.
        on_outputs: called with the next batch that succeeds and its outputs, on a thread of the executor, or None.
    """

    def __init__(
        self,
        variant: Variant,
        publisher: ResultPublisher,
        options: HostOptions,
        call_soon: Callable[[Callable[[], None]], None],
        call_later: Callable[[float, Callable[[], None]], None],
        on_lost_gpu: Callable[[str], None] | None = None,
    ) -> None:
        self.workers: dict[int, Worker] = {}
        self.consumers: set[Consumer] = set()
        self._jobs = 1
        self.variant = variant
        self.trace: HostTrace | None = None
        self.on_outputs: Callable[[Request, Sequence[TensorList]], None] | None = None
        self._publisher = publisher
        self._call_soon = call_soon
        self._call_later = call_later
        self._on_lost_gpu = on_lost_gpu
        self._depths: dict[int, Depth] = {}  # by number of the variant
        self._scheduler = Scheduler(self._depth(variant).value)
        self._measured: Measured | None = None
        self._is_held_now: IsHeld | None = None  # decides about requests while a variant is measured
        self._checks_held = False  # whether `_start_held` will be called
        self._store = Store(options.unclaimed_bytes)
        self._totals = Totals()
        self._sessions: dict[int, Consumer] = {}  # open iterators, by number
        self._refused: dict[int, str] = {}  # why connections of workers were ended, by client: the last ones
        self._bytes_out = _OWN_BYTES  # size of the last result
        self._copying = 0  # results that wait for the GPU
        self._shares = options.shares
        self._sharing = Sharing()

    # Submission -------------------------------------------------------------------------------------------------

    def submit(self, worker: Worker, message: Submit) -> None:
        """Queue a batch. If its inputs can't be read, the batch fails, and the consumer that fetches it gets the error.

        Raises:
            ProtocolError: the message doesn't fit the pipeline or the worker's shared memory.
        """
        seq = message.seq
        worker.completions.begin(seq)
        worker.submitted += 1
        worker.waited = message.waited_ns / 1e9
        key = BatchKey(message.epoch, message.batch, message.view, message.global_batch)
        request = Request(
            worker, self.variant, seq, message.session, key, message.batch_size, message.indices, message.names
        )
        request.waiter = worker.awaited.pop(seq, None)
        if request.session in self._store.closed_sessions or seq in worker.released:
            worker.released.discard(seq)
            request.state = State.GONE
            self._totals.dropped += 1
            worker.completions.complete(seq)
            return
        self._store.add(request)
        if self.trace is not None:
            self.trace.submitted(request, message)
        try:
            request.inputs = self.variant.read_inputs(message, request)
        except Exception as error:
            worker.completions.complete(seq)
            self._finish(request, None, error)
            if isinstance(error, ProtocolError) or not isinstance(error, PipelineError):
                raise
            return
        for batch in request.inputs.values():
            request.bytes_in += batch.nbytes
        self._totals.bytes_in += request.bytes_in
        may_be_equal = self._shares and request.session and (self._most_consumers > 1 or self._sharing.known)
        if may_be_equal and self._follows(request):
            return
        self._enqueue(request)

    def _enqueue(self, request: Request) -> None:
        if (look_ahead := self.variant.executor.look_ahead) is not None:
            request.ahead = look_ahead.announce(request.inputs, request.size)
        request.state = State.QUEUED
        self._scheduler.add(request)
        self._start_queued()

    # Equal requests ---------------------------------------------------------------------------------------------

    def note_jobs(self, count: int) -> None:
        """Note the number of jobs whose processes may connect: the first batches of one are kept for the others."""
        self._jobs = count
        if self._is_unused():
            self._sharing.clear()

    def _follows(self, request: Request) -> bool:
        """Return whether a request gets the result of an equal one, now or when that is done."""
        variant = self.variant
        if self._measured is not None or variant.order is not None or variant.executor.device_id is not None:
            return False  # a leader might be held; results come in order; results aren't on the CPU
        shared = request.shared = self._sharing.find(request, self._most_consumers)
        if shared is None or shared.leader is request:
            return False
        if shared.staged is not None and shared.leader.state in (State.DONE, State.GONE):
            self._follow(request, shared, shared.staged.share())
        else:
            request.state = State.FOLLOWING
            shared.followers.append(request)
        return True

    @property
    def _most_consumers(self) -> int:
        """Number of processes that fetch results, or will soon: a job's process connects when its loop begins."""
        return max(len(self.consumers), self._jobs)

    def _is_unused(self) -> bool:
        """Return whether no iterator is open, and at most one process could open one."""
        return not self._sessions and self._most_consumers < 2

    def _follow(self, request: Request, shared: Shared, staged: StagedResult) -> None:
        """Finish a request with the results of an equal one."""
        request.inputs, request.variant = {}, shared.leader.variant
        request.worker.completions.complete(request.seq)
        self._totals.shared += 1
        self._sharing.use(shared, self._most_consumers)
        self._finish(request, staged, None)

    def _lead(self, request: Request, failed: bool) -> None:
        """Let the followers of a request that is done have its results, or compute the next of them if it has none."""
        shared = request.shared
        if shared is None or shared.leader is not request:
            return
        if failed or (shared.staged is None and shared.followers):
            if (follower := self._sharing.abandon(shared)) is not None:
                self._enqueue(follower)
            return
        followers, shared.followers = shared.followers, []
        results = [shared.staged.share() for _ in followers if shared.staged is not None]
        self._sharing.finish(shared)
        for follower, staged in zip(followers, results, strict=True):
            self._follow(follower, shared, staged)

    # Execution --------------------------------------------------------------------------------------------------

    def _start_queued(self) -> None:
        """Give queued requests to the executor until it is full."""
        scheduler = self._scheduler
        while scheduler.turns and (request := scheduler.take(self._is_held_now)) is not None:
            request.variant, request.number = self.variant, self.variant.next_number()
            inputs, request.inputs = request.inputs, {}
            self._totals.end_stage(request, "queue", self._sessions.get(request.session))
            if self.trace is not None:
                self.trace.ended(request, QUEUED)
            inputs_read = partial(self._inputs_read, request)
            run = BatchRequest(request.size, inputs, request.key, inputs_read, ahead=request.ahead, title=request.title)
            on_caller = self._bytes_out + request.bytes_in < _OWN_BYTES
            try:
                request.variant.submit(run, partial(self._done, request), on_caller=on_caller)
            except Exception as error:  # noqa: BLE001  # any error here belongs to this batch
                self._inputs_read(request)
                self._done(request, BatchResult(error=as_batch_error(error, "a batch began")))
        if self._measured is not None and self._scheduler.queued and not self._checks_held:
            self._checks_held = True
            self._call_later(_HELD_CHECK, self._start_held)

    def _start_held(self) -> None:
        """Start requests that were held; no message says that a worker waits for memory."""
        self._checks_held = False
        self._start_queued()

    def place(self, consumer: Consumer, variant: Variant, measured: bool) -> None:
        """Run queued and later requests with another variant of the pipeline; see `Place`."""
        running, self.variant = self.variant, variant
        self._measured = Measured(consumer, variant.number) if measured else None
        self._is_held_now = None if self._measured is None else partial(self._is_held, self._measured)
        # A variant that is new begins with the depth that the search found for the other one. Merged batches need more.
        depth = self._depth(variant, begin=0 if running.executor.merges else self._scheduler.depth)
        self._scheduler.depth = depth.value
        if depth.value > variant.executor.concurrency:
            variant.executor.widen(depth.value)
        self._start_queued()

    def _is_held(self, measured: Measured, request: Request, requests: Collection[Request]) -> bool:
        """Return whether requests have to wait while a variant of the pipeline is measured, because no loop needs them.

        Args:
            measured: the variant.
            request: the first of them.
            requests: all requests of the same source.
        """
        session = request.session
        consumer = self._sessions.get(session)
        if consumer is None or any(each.shared is not None and each.shared.followers for each in requests):
            return False
        through = consumer.sessions[session]
        if request.key.iteration <= through + self._scheduler.depth:
            return False
        return measured.holds(session, through, requests)

    def _depth(self, variant: Variant, begin: int = 0) -> Depth:
        """Return the search for the number of batches in the executor of a variant of the pipeline.

        Args:
            variant: the variant.
            begin: number to begin with, if the search hasn't begun.
        """
        depth = self._depths.get(variant.number)
        if depth is None:
            executor, changed = variant.executor, partial(self._set_depth, variant)
            depth = Depth(executor.concurrency, executor.most_concurrent, changed, executor.merges, begin)
            self._depths[variant.number] = depth
        return depth

    def _set_depth(self, variant: Variant, depth: int) -> None:
        variant.executor.widen(depth)
        if variant is self.variant:
            self._scheduler.depth = depth

    def _done(self, request: Request, result: BatchResult) -> None:
        # On a thread of the executor, or on this one if the batch takes little time. Its stream, if it has one, is
        # current: copies to slots follow the batch.
        staged: StagedResult | None = None
        error: Exception | None = result.error
        if error is None:
            try:
                on_outputs = self.on_outputs
                if on_outputs is not None:
                    on_outputs(request, result.outputs)
                staged = request.variant.stage(result.outputs, request.key)
            except Exception as failed:  # noqa: BLE001  # any error here belongs to this batch
                error = failed
        if staged is not None and staged.on_gpu:
            request.copying = staged
        finish = partial(self._finish_run, request, staged, error)
        if request.variant.order is None:
            self._call_soon(finish)
        else:
            request.variant.order.enter(request.number, partial(self._call_soon, finish))

    def _inputs_read(self, request: Request) -> None:
        # After `_done`, on a thread of the executor that waits for the GPU, or on this one if there is no GPU work.
        request.worker.completions.complete(request.seq)
        staged, request.copying = request.copying, None
        if staged is None:
            return
        error: Exception | None = None
        try:
            staged.wait()
        except Exception as failed:  # noqa: BLE001  # any error here belongs to this batch
            error = failed
        self._call_soon(partial(self._finish_copy, request, staged, error))

    def _is_wanted(self, request: Request) -> bool:
        """Return whether a consumer takes the result of a batch at once; without a session, whether all are taken."""
        if request.session in self._sessions:
            return self._subscriber(request) is not None
        return len(self._store) <= self._scheduler.running + self._scheduler.queued + self._copying

    def _finish_copy(self, request: Request, staged: StagedResult, error: Exception | None) -> None:
        self._copying -= 1
        self._finish(request, staged, error)

    def _finish_run(self, request: Request, staged: StagedResult | None, error: Exception | None) -> None:
        if request.ahead:
            request.forget_ahead()
        self._bytes_out = 0 if staged is None else staged.nbytes
        self._totals.end_stage(request, "pipeline", self._sessions.get(request.session))
        if self.trace is not None:
            self.trace.ended(request, EXECUTED)
        limits = self._scheduler.waits(self._is_held_now) and self._is_wanted(request)
        self._depths[request.variant.number].finish(limits, self._bytes_out + request.bytes_in)
        self._scheduler.finish()
        self._start_queued()
        if staged is not None and staged.on_gpu:
            self._copying += 1
            return  # `_finish_copy` finishes it
        self._finish(request, staged, error)

    def _finish(self, request: Request, staged: StagedResult | None, error: Exception | None) -> None:
        """Store a result or a failure until a consumer fetches it; deliver it if one waits."""
        if error is not None and staged is not None:
            staged.discard()
            staged = None
        if error is not None and self._has_lost_gpu(request, error):
            return
        if staged is not None and request.shared is not None and request.shared.leader is request:
            request.shared.keep(staged)
        if request.state is State.GONE:
            if staged is not None:
                staged.discard()
            self._lead(request, error is not None)
            return
        worker = request.worker
        request.state = State.DONE
        request.staged = staged
        if error is not None:
            try:
                request.failure = request.describe(error)
            except Exception as failed:  # noqa: BLE001  # an error that can't be described
                request.failure = request.describe(failed)
        self._totals.count(request)
        if self._measured is not None:
            self._measured.finish(request.variant.number)
        # Failures are sent only to a consumer that asks.
        consumer = request.waiter or (None if staged is None else self._subscriber(request))
        if consumer is not None:
            self._deliver(request, consumer)
        elif worker.gone and not request.session:
            self._drop(self._store.add_unclaimed(request))
        if request.shared is not None:
            self._lead(request, error is not None)

    def _has_lost_gpu(self, request: Request, error: Exception) -> bool:
        """Return whether CUDA's context is lost. Then all batches are lost, and none is known to be the cause."""
        device_id = request.variant.executor.device_id
        if self._on_lost_gpu is None or device_id is None:
            return False
        reason = context_failure(device_id)
        if not reason:
            return False
        first = str(error).partition("\n")[0]
        self._on_lost_gpu(
            f"lost its CUDA context ({reason}): a kernel accessed invalid memory, or failed. "
            f"{self._suspects(request)}. CUDA reports this late, here by: {first}. To find the kernel, set "
            "CUDA_LAUNCH_BLOCKING=1 or use compute-sanitizer"
        )
        return True

    def _suspects(self, request: Request) -> str:
        """Return the batches that the GPU may have been computing, the oldest first, and the operators there."""
        running = [each for each in self._store if each.state is State.RUNNING and each.variant is request.variant]
        oldest = sorted({*running, request}, key=lambda each: each.number)[:_SUSPECTS]
        batches = ", then ".join(
            f"batch {each.key.iteration} of epoch {each.key.epoch}"
            + (f" (dataset indices {listed(each.indices)})" if any(each.indices) else "")
            for each in oldest
        )
        operators = ", ".join(
            node.display + (f" at {node.location}" if node.location.line else "")
            for node in request.variant.executor.suspects()
        )
        return f"The GPU had to compute {batches}; the operators there are {operators}"

    # Delivery ---------------------------------------------------------------------------------------------------

    def fetch(self, consumer: Consumer, message: Fetch) -> None:
        """Send a result to a consumer, now or when the batch is done."""
        client, seq = message.client, message.seq
        request = self._store.find(client, seq)
        if request is None:
            worker = self.workers.get(client)
            if worker is not None and seq >= worker.submitted:
                worker.awaited[seq] = consumer
                check_count(len(worker.awaited), "awaited batches that were not submitted")
            else:
                _refuse(consumer, client, seq, self._refused.get(client, _GONE))
        elif request.state is State.DONE:
            self._deliver(request, consumer)
        else:
            request.waiter = consumer
            if self._measured is not None:
                self._start_queued()  # it isn't held any more

    def advance(self, consumer: Consumer, message: Advance) -> None:
        """Send the results of a session up to a batch, now or when they are done."""
        session = message.session
        if message.through <= consumer.sessions.get(session, message.through):
            return  # the session is closed
        consumer.sessions[session] = message.through
        for request in self._store.done_in(session, message.through):
            if request.staged is not None and self._subscriber(request) is consumer:
                self._deliver(request, consumer)
        if self._measured is not None:
            self._start_queued()

    def _subscriber(self, request: Request) -> Consumer | None:
        """Return the consumer that has allowed the result of a batch; see `advance`."""
        consumer = self._sessions.get(request.session)
        allowed = consumer is not None and request.key.iteration <= consumer.sessions[request.session]
        return consumer if allowed else None

    def _deliver(self, request: Request, consumer: Consumer) -> None:
        self._store.remove(request)
        request.state = State.GONE
        if self.trace is not None:
            self.trace.ended(request, FINISHED)
        staged, request.staged = request.staged, None
        if staged is None:
            consumer.send(request.failure)
            return
        worker = request.worker
        try:
            result, fds = self._publisher.publish(
                consumer.account,
                worker.client,
                request.seq,
                staged,
                origin=request.origin(samples=staged.prepared is None) if request.variant.sends_origin else None,
                session=request.session,
                variant=request.variant.number,
                batch=request.key.iteration,
                indices=request.labels,
                names=request.name_labels,
            )
        except Exception as error:  # noqa: BLE001  # no memory is left, for example: the consumer must not wait
            staged.discard()
            consumer.send(describe(error, worker.client, request.seq, (), worker.name, worker.pid))
            return
        consumer.send(result, fds)

    # Early ends -------------------------------------------------------------------------------------------------

    def release(self, client: Worker | Consumer, message: Release) -> None:
        """Drop batches that won't be fetched; a batch that isn't submitted yet will be dropped then."""
        for number, seq in message.unpack():
            request = self._store.find(number, seq)
            worker = self.workers.get(number)
            if request is not None:
                self._store.remove(request)
                self._drop([request])
            elif worker is not None and seq >= worker.submitted:
                worker.released.add(seq)
                check_count(len(worker.released), "unwanted batches that were not submitted")

    def open_session(self, consumer: Consumer, message: OpenSession) -> None:
        """Add an iterator of a consumer."""
        if not message.session:
            raise ProtocolError("0 isn't a session")  # all requests without a session have 0
        consumer.sessions[message.session] = -1
        self._sessions[message.session] = consumer
        check_count(len(consumer.sessions), "iterators of one process")

    def close_session(self, consumer: Consumer, message: CloseSession) -> None:
        """Drop the requests of an iterator, and those that will come for it."""
        if message.session in consumer.sessions:  # else it is closed already, or belongs to another consumer
            del consumer.sessions[message.session]
            self._sessions.pop(message.session, None)
            self._drop(self._store.close_session(message.session))
            self._sharing.close_session(message.session, self._is_unused())

    def forget_worker(self, worker: Worker, error: Exception | None) -> None:
        """Remove a worker that has disconnected.

        Its requests stay: a worker that has finished its share of a dataset ends before its last batches are fetched.

        Args:
            worker: the worker.
            error: reason why the server ended the connection; None if the worker did.
        """
        del self.workers[worker.client]
        self._totals.arena_wait += worker.waited
        reason = f"{worker!r} ended before it submitted the batch"
        if error is not None:
            reason = f"the server ended the connection of {worker!r}: {error}"
            self._refused[worker.client] = reason
            if len(self._refused) > _REASONS:
                del self._refused[next(iter(self._refused))]
        for seq, consumer in worker.awaited.items():
            _refuse(consumer, worker.client, seq, reason)
        for request in self._store:
            if request.worker is worker and request.state is State.DONE and not request.session:
                self._drop(self._store.add_unclaimed(request))

    def forget_consumer(self, consumer: Consumer) -> None:
        """Remove a consumer that has disconnected, and its iterators."""
        self.consumers.discard(consumer)
        self._totals.adopt(consumer)
        if self._measured is not None and self._measured.consumer is consumer:
            self._measured = self._is_held_now = None
        for worker in self.workers.values():
            worker.awaited = {seq: other for seq, other in worker.awaited.items() if other is not consumer}
        for session in consumer.sessions:
            self._sessions.pop(session, None)
            self._drop(self._store.close_session(session))
            self._sharing.close_session(session, self._is_unused())
        for request in self._store:
            if request.waiter is consumer:
                request.waiter = None
        self._start_queued()

    def close(self) -> None:
        """Drop all requests."""
        self._sharing.clear()
        for request in self._store:
            request.shared = None  # nothing is computed any more
        self._drop(self._store.clear())

    def _drop(self, requests: Iterable[Request]) -> None:
        """Free the memory of requests that the store no longer has; `_finish` frees the results of those that run."""
        for request in requests:
            shared = request.shared
            if request.state is State.FOLLOWING and shared is not None:
                shared.followers.remove(request)
            if request.state is State.QUEUED:
                self._scheduler.drop(request)
            if request.state in (State.QUEUED, State.FOLLOWING):
                request.inputs = {}
                request.forget_ahead()
                request.worker.completions.complete(request.seq)
            elif request.state is State.DONE:
                request.discard()
            was_queued = request.state is State.QUEUED
            request.state = State.GONE
            self._totals.dropped += 1
            if was_queued:
                self._lead(request, failed=True)

    # Statistics -------------------------------------------------------------------------------------------------

    def report(self, operators: Iterable[StepTimes]) -> dict[str, Any]:
        """Return the counters.

        Args:
            operators: times of the operators of all variants.
        """
        self._scheduler.measure()
        return {
            **self._totals.report(self._scheduler, self.workers.values(), self.consumers),
            "waiting_results": len(self._store),
            "depth_reason": self._depth(self.variant).reason,
            "operators": {times.name: times.report() for times in added(operators)},
        }


def _refuse(consumer: Consumer, client: int, seq: int, why: str) -> None:
    """Answer a fetch of a batch that doesn't exist."""
    consumer.send(describe(StaleReferenceError(why), client, seq, (), f"client {client}", 0))
