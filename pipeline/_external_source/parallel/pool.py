"""A pool of worker processes that read sources, and the thread that receives their results."""

from __future__ import annotations

import itertools
import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from pipeline._concurrency.finalizers import THREAD_PREFIX
from pipeline._concurrency.locks import Level, new_lock
from pipeline._external_source.parallel.launch import WorkerProcess, fork_worker, spawn_worker
from pipeline._external_source.parallel.packing import unpack
from pipeline._external_source.parallel.protocol import Done, Ended, Failed, Segment, Task
from pipeline._external_source.reader import EndOfData
from pipeline._external_source.spec import Cycle, SourceSpec
from pipeline._ipc.arena_reader import ArenaReader
from pipeline._ipc.channel import Received
from pipeline._ipc.errors import ChannelClosedError, IPCError
from pipeline._kernels.views import Lease, lent_array
from pipeline.errors import WorkerError
from pipeline.tensors.cpu import TensorListCPU
from pipeline.types import BatchInfo

__all__ = ["Chunk", "RemoteFailure", "WorkerPool"]

_IN_FLIGHT = 2  # tasks of a worker at once: the current one and the next, so that it never waits for the pool
_PATIENCE = 3.0  # seconds until workers that don't end are killed
_RELEASED_AT_ONCE = 1000
_ATTEMPTS = 2  # processes that may die during a task before it fails: most deaths aren't the task's fault


class RemoteFailure(Exception):
    """A source failed in a worker.

    Attributes:
        failed: message of the worker.
        worker: name of the worker.
    """

    def __init__(self, failed: Failed, worker: str) -> None:
        super().__init__(failed.reason)
        self.failed = failed
        self.worker = worker


@dataclass(frozen=True)
class Chunk:
    """Result of a task: samples of a batch for each output, and the reader's position after them."""

    batches: list[TensorListCPU]
    position: int


@dataclass(eq=False)
class _Job:
    """A task that is waiting, or that a worker has."""

    task: int
    source: int
    info: BatchInfo
    first: int
    count: int
    worker: int | None  # worker that must run it; None for any
    skip: int
    attempts: int = 0  # processes that died during it
    future: Future[Chunk] = field(default_factory=Future)

    def __str__(self) -> str:
        return f"sample {self.first} of {self.info}"

    def message(self, skip: int, released: tuple[int, ...]) -> Task:
        info = self.info
        return Task(self.task, self.source, info.iteration, info.epoch_idx, self.first, self.count, skip, released)

    def begin(self) -> bool:
        """Mark the task as begun. Return False if it was cancelled."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def fail(self, error: Exception) -> None:
        if self.begin():
            self.future.set_exception(error)


class _Member:
    """A worker of the pool. A process that replaces a dead one is a new member with the same number."""

    def __init__(self, number: int, process: WorkerProcess, waiting: deque[_Job]) -> None:
        self.name = f"worker {number} (pid {process.pid}) of the parallel external sources"
        self.number = number
        self.process = process
        self.channel = process.channel
        self.alive = True
        self.memory = ArenaReader()
        self.waiting = waiting  # tasks for this worker only
        self.jobs: dict[int, _Job] = {}  # its tasks, in the order in which it runs them
        self.begun: set[int] = set()  # sources that it has read
        self.released: deque[int] = deque()  # tasks whose results are no longer in use; finalizers append to it

    def take_released(self) -> tuple[int, ...]:
        count = min(len(self.released), _RELEASED_AT_ONCE)
        return tuple(self.released.popleft() for _ in range(count))


class WorkerPool:
    """Worker processes that read sources. They begin tasks in the order of submission.

    The pool replaces a process that dies. It retries the current task of this process once, and the task fails if the
    next process dies, too; the other tasks go to other workers. The new process reads an iterable source from its
    beginning, and skips the items that were already read.

    Args:
        specs: the sources.
        max_batch_size: largest batch size of the pipeline.
        num_workers: number of processes.
        start_method: "fork" or "spawn".

    Raises:
        WorkerError: the processes couldn't be started.
    """

    def __init__(self, specs: Sequence[SourceSpec], max_batch_size: int, num_workers: int, start_method: str) -> None:
        self._owner = os.getpid()
        self._specs = specs
        # Guards the queues, `_closed`, `_positions`, and the members and their jobs.
        self._lock = new_lock(Level.SOURCE_POOL, "source pool")
        self._numbers = itertools.count()
        self._waiting: deque[_Job] = deque()  # tasks for any worker
        self._positions: dict[int, tuple[int, int]] = {}  # of iterable sources: epoch, and number of items read
        self._closed = False
        self._members: list[_Member] = []
        #: Sizes of the workers' segments of shared memory, in bytes.
        self.segment_sizes: list[int] = []
        self._start = partial(fork_worker if start_method == "fork" else spawn_worker, specs, max_batch_size)
        self._doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            for number in range(num_workers):
                self._members.append(_Member(number, self._start(), deque()))
        except BaseException:
            self._end_workers(0)
            os.close(self._doorbell)
            raise
        self._thread = threading.Thread(target=self._serve, name=f"{THREAD_PREFIX}external-source-pool", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._members)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process IDs of the workers."""
        return tuple(member.process.pid for member in self._members)

    def submit(
        self, source: int, info: BatchInfo, first: int, count: int, *, worker: int | None = None, skip: int = 0
    ) -> Future[Chunk]:
        """Request samples of a batch.

        Args:
            source: number of the source.
            info: the batch.
            first: position of the first sample.
            count: number of samples.
            worker: worker that must run the task; None for any.
            skip: number of items to skip first.

        Returns:
            A future of the result. It raises `EndOfData`, `RemoteFailure` or `WorkerError`. Cancel or drop it
            to discard the result.
        """
        job = _Job(next(self._numbers), source, info, first, count, worker, skip)
        with self._lock:
            if self._closed:
                job.fail(_ended())
                return job.future
            self._queue_of(job).append(job)
            self._dispatch()
            if not all(member.alive for member in self._members):
                os.eventfd_write(self._doorbell, 1)
        return job.future

    def close(self) -> None:
        """End the workers. Do nothing if they were already ended, or in a forked child."""
        if os.getpid() != self._owner or self._doorbell < 0:
            return
        with self._lock:
            self._closed = True
        os.eventfd_write(self._doorbell, 1)
        self._thread.join()
        self._fail_all()
        self._end_workers(_PATIENCE)
        doorbell, self._doorbell = self._doorbell, -1
        os.close(doorbell)

    def _end_workers(self, timeout: float) -> None:
        for member in self._members:
            member.channel.close()  # all of them first, so that they end at the same time
        for member in self._members:
            member.process.end(timeout)
            member.memory.close()

    def _fail_all(self) -> None:
        with self._lock:
            left = [*self._waiting]
            for member in self._members:
                left += [*member.waiting, *member.jobs.values()]
                member.waiting.clear()
                member.jobs.clear()
            self._waiting.clear()
        for job in left:
            job.fail(_ended())

    def _queue_of(self, job: _Job) -> deque[_Job]:
        return self._waiting if job.worker is None else self._members[job.worker].waiting

    def _dispatch(self) -> None:
        """Send waiting tasks to workers, first to those without tasks. The caller holds the lock."""
        for room in range(_IN_FLIGHT):
            for member in self._members:
                if member.alive and len(member.jobs) <= room:
                    self._send_next(member)

    def _send_next(self, member: _Member) -> None:
        queues = [queue for queue in (member.waiting, self._waiting) if queue]
        while queues:
            queue = min(queues, key=lambda each: each[0].task)
            job = queue.popleft()
            if job.begin():
                member.jobs[job.task] = job
                skip = job.skip if job.source in member.begun else self._start_of(job)
                member.begun.add(job.source)
                with suppress(IPCError):  # the worker is gone; `_serve` will notice
                    member.channel.post(job.message(skip, member.take_released()))
                return
            queues = [each for each in queues if each]

    def _start_of(self, job: _Job) -> int:
        """Return the number of items that a fresh process must skip before it runs a task."""
        epoch, position = self._positions.get(job.source, (0, 0))
        begins_anew = self._specs[job.source].cycle is Cycle.RAISE and epoch != job.info.epoch_idx
        return job.skip or (0 if begins_anew else position)

    # The thread -------------------------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Receive results and replace dead workers, until the pool is closed."""
        poll = select.poll()
        poll.register(self._doorbell, select.POLLIN)
        watched: dict[int, _Member] = {}
        while not self._closed:
            for member in self._members:
                if member.alive and member not in watched.values():
                    watched[member.channel.fileno()] = member
                    poll.register(member.channel.fileno(), select.POLLIN | select.POLLRDHUP)
            for fd, _ in poll.poll():
                if fd == self._doorbell:
                    os.eventfd_read(fd)
                elif why := self._listen(watched[fd]):
                    poll.unregister(fd)
                    self._remove(watched.pop(fd), why)
            self._replace_dead()

    def _listen(self, member: _Member) -> str:
        """Receive the messages of a worker. Return why it can't continue, or an empty string."""
        try:
            for received in member.channel.receive_ready():
                self._handle(member, received)
        except ChannelClosedError:
            return f"{member.name} {member.process.describe_exit()}"
        except Exception as error:  # noqa: BLE001 - no error may end this thread
            return f"{member.name} sent a message that can't be read: {type(error).__name__}: {error}"
        return ""

    def _handle(self, member: _Member, received: Received) -> None:
        message = received.message
        if isinstance(message, Segment):
            member.memory.attach(message.segment, received.fds[0], message.nbytes)
            self.segment_sizes.append(message.nbytes)
            return
        received.close_fds()
        if not isinstance(message, Done | Ended | Failed):
            return
        chunk = self._chunk(member, message) if isinstance(message, Done) else None  # if this fails, the job stays
        with self._lock:
            job = member.jobs.pop(message.task, None)
            if job is not None and isinstance(message, Done) and self._specs[job.source].iterable:
                self._positions[job.source] = (job.info.epoch_idx, message.position)
            self._dispatch()
        if job is None:
            return
        if chunk is not None:
            job.future.set_result(chunk)
        elif isinstance(message, Failed):
            job.future.set_exception(RemoteFailure(message, member.name))
        else:
            job.future.set_exception(EndOfData())

    def _chunk(self, member: _Member, done: Done) -> Chunk:
        memory = member.memory.view(done.segment, done.offset, (done.nbytes,), "uint8")
        lent = lent_array(memory, Lease(partial(member.released.append, done.task)))
        return Chunk([unpack(lent, output) for output in done.outputs], done.position)

    def _remove(self, member: _Member, why: str) -> None:
        """Remove a worker that can't continue, and requeue its tasks.

        Fail the current task instead if it is the second time that a worker died during it.
        """
        member.process.end(0)
        member.memory.close()
        failed: _Job | None = None
        with self._lock:
            member.alive = False
            jobs = list(member.jobs.values())
            member.jobs.clear()
            if jobs:
                jobs[0].attempts += 1
            if jobs and jobs[0].attempts >= _ATTEMPTS:
                failed = jobs.pop(0)
                if self._specs[failed.source].iterable:  # the next task needs the next item
                    self._positions[failed.source] = (failed.info.epoch_idx, self._start_of(failed) + 1)
            for job in reversed(jobs):
                self._queue_of(job).appendleft(job)
            self._dispatch()
        if failed is not None:
            failed.fail(
                WorkerError(f"{why}; it was reading: {failed}; another worker had already died while reading it")
            )

    def _replace_dead(self) -> None:
        """Replace each process that died, once there are tasks for it."""
        for member in [each for each in self._members if not each.alive]:
            if self._closed or not (member.waiting or self._waiting):
                continue
            try:
                process = self._start()
            except Exception as error:  # noqa: BLE001 - the error belongs to the stranded tasks
                self._fail_stranded(member, error)
                continue
            with self._lock:
                self._members[member.number] = _Member(member.number, process, member.waiting)
                self._dispatch()

    def _fail_stranded(self, member: _Member, error: Exception) -> None:
        """Fail the tasks that only this worker may run, or all tasks if no worker is left. A later start may work."""
        with self._lock:
            stranded = [*member.waiting]
            member.waiting.clear()
            if not any(each.alive for each in self._members):
                stranded += self._waiting
                self._waiting.clear()
        for job in stranded:
            job.fail(WorkerError(f"{member.name} died, and could not be started again: {error}"))


def _ended() -> WorkerError:
    return WorkerError("the workers of the parallel external sources were ended: the pipeline is closed")
