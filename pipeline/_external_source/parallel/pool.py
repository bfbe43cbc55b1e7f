"""A pool of worker processes that read sources, and the thread that hands tasks out to them."""

from __future__ import annotations

import itertools
import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from pipeline._concurrency.finalizers import THREAD_PREFIX
from pipeline._external_source.parallel.launch import WorkerProcess, fork_worker, spawn_worker
from pipeline._external_source.parallel.packing import lend, unpack
from pipeline._external_source.parallel.protocol import Done, Ended, Failed, Segment, Task
from pipeline._external_source.reader import EndOfData
from pipeline._external_source.spec import SourceSpec
from pipeline._ipc.channel import Received
from pipeline._ipc.errors import ChannelClosedError, IPCError
from pipeline._ipc.ring_reader import RingReader
from pipeline.errors import WorkerError
from pipeline.tensors.cpu import TensorListCPU
from pipeline.types import BatchInfo

__all__ = ["Part", "RemoteFailure", "WorkerPool"]

_IN_FLIGHT = 2  # tasks at a worker at once: one that it does, and the next, so that it never waits for us
_PATIENCE = 3.0  # seconds that workers have to end, before they are killed
_RELEASED_AT_ONCE = 1000


class RemoteFailure(Exception):
    """A source failed in a worker.

    Attributes:
        failed: what the worker said.
        worker: which worker.
    """

    def __init__(self, failed: Failed, worker: str) -> None:
        super().__init__(failed.reason)
        self.failed = failed
        self.worker = worker


@dataclass(frozen=True)
class Part:
    """What a task made: a batch, or a part of one, for each output; and the reader's position after it."""

    batches: list[TensorListCPU]
    position: int


@dataclass(frozen=True, eq=False)
class _Job:
    """A task that is waiting, or that a worker has."""

    task: int
    source: int
    info: BatchInfo
    first: int
    count: int
    skip: int
    future: Future[Part] = field(default_factory=Future)

    def message(self, released: tuple[int, ...]) -> Task:
        info = self.info
        return Task(self.task, self.source, info.iteration, info.epoch_idx, self.first, self.count, self.skip, released)


class _Member:
    """A worker, as the pool knows it."""

    def __init__(self, number: int, process: WorkerProcess) -> None:
        self.name = f"worker {number} (pid {process.pid}) of the parallel external sources"
        self.process = process
        self.channel = process.channel
        self.memory = RingReader()
        self.waiting: deque[_Job] = deque()  # for this worker only
        self.jobs: dict[int, _Job] = {}  # that it has
        self.released: deque[int] = deque()  # tasks whose results are used no more; finalizers append to it

    def take_released(self) -> tuple[int, ...]:
        count = min(len(self.released), _RELEASED_AT_ONCE)
        return tuple(self.released.popleft() for _ in range(count))


class WorkerPool:
    """Worker processes that read sources. Tasks are begun in the order in which they were submitted.

    A worker that dies breaks the pool: every task that isn't done fails, and so does every later one.

    Args:
        specs: the sources.
        max_batch_size: of the pipeline.
        num_workers: how many processes.
        start_method: "fork" or "spawn".

    Raises:
        WorkerError: they could not be started.
    """

    def __init__(self, specs: Sequence[SourceSpec], max_batch_size: int, num_workers: int, start_method: str) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()  # guards the queues, `_broken`, and the jobs of members
        self._numbers = itertools.count()
        self._waiting: deque[_Job] = deque()  # for whichever worker is free
        self._broken = ""  # why no more tasks are done
        self._members: list[_Member] = []
        self._doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        start = fork_worker if start_method == "fork" else spawn_worker
        try:
            for number in range(num_workers):
                self._members.append(_Member(number, start(specs, max_batch_size)))
        except BaseException:
            self._end_workers(0)
            os.close(self._doorbell)
            raise
        self._thread = threading.Thread(target=self._serve, name=f"{THREAD_PREFIX}external-source-pool", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """How many workers there are."""
        return len(self._members)

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes."""
        return tuple(member.process.pid for member in self._members)

    def submit(
        self, source: int, info: BatchInfo, first: int, count: int, *, worker: int | None = None, skip: int = 0
    ) -> Future[Part]:
        """Have samples of a batch read.

        Args:
            source: number of the source.
            info: which batch.
            first: the first sample.
            count: how many samples.
            worker: the worker that has to do it; None for any.
            skip: items to pass over first.

        Returns:
            A future of the result. It raises `EndOfData`, `RemoteFailure` or `WorkerError`. Cancel it, or drop it,
            when the result is not wanted.
        """
        job = _Job(next(self._numbers), source, info, first, count, skip)
        with self._lock:
            if self._broken:
                job.future.set_exception(WorkerError(self._broken))
                return job.future
            (self._waiting if worker is None else self._members[worker].waiting).append(job)
            self._hand_out()
        return job.future

    def close(self) -> None:
        """End the workers. May be called twice; in a forked child it does nothing."""
        if os.getpid() != self._owner or self._doorbell < 0:
            return
        self._break("the workers of the parallel external sources were ended: the pipeline is closed")
        os.eventfd_write(self._doorbell, 1)
        self._thread.join()
        self._end_workers(_PATIENCE)
        doorbell, self._doorbell = self._doorbell, -1
        os.close(doorbell)

    def _end_workers(self, timeout: float) -> None:
        for member in self._members:
            member.channel.close()  # all of them at first, so that they end at the same time
        for member in self._members:
            member.process.end(timeout)
            member.memory.close()

    def _hand_out(self) -> None:
        """Give waiting tasks to workers: to those that have none first. The lock is held."""
        for room in range(_IN_FLIGHT):
            for member in self._members:
                if len(member.jobs) <= room:
                    self._give(member)

    def _give(self, member: _Member) -> None:
        queues = [queue for queue in (member.waiting, self._waiting) if queue]
        while queues:
            queue = min(queues, key=lambda each: each[0].task)
            job = queue.popleft()
            if job.future.set_running_or_notify_cancel():
                member.jobs[job.task] = job
                try:
                    member.channel.post(job.message(member.take_released()))
                except IPCError:
                    pass  # the worker is gone, and `_serve` is about to see it
                return
            queues = [each for each in queues if each]

    def _serve(self) -> None:
        """Receive results, until the pool is closed or a worker dies."""
        poll = select.poll()
        poll.register(self._doorbell, select.POLLIN)
        members = {member.channel.fileno(): member for member in self._members}
        for fd in members:
            poll.register(fd, select.POLLIN | select.POLLRDHUP)
        while not self._broken:
            for fd, _ in poll.poll():
                member = members.get(fd)
                if member is not None:
                    self._listen(member)

    def _listen(self, member: _Member) -> None:
        try:
            for received in member.channel.receive_ready():
                self._handle(member, received)
        except ChannelClosedError:
            doing = ", ".join(f"sample {job.first} of {job.info}" for job in member.jobs.values()) or "nothing"
            self._break(f"{member.name} {member.process.how_it_ended()}; it was working on: {doing}")
        except IPCError as error:
            self._break(f"{member.name} sent a message that can't be read: {error}")

    def _handle(self, member: _Member, received: Received) -> None:
        message = received.message
        if isinstance(message, Segment):
            member.memory.attach(message.segment, received.fds[0], message.nbytes)
            return
        received.close_fds()
        if not isinstance(message, Done | Ended | Failed):
            return
        with self._lock:
            job = member.jobs.pop(message.task, None)
            self._hand_out()
        if job is None:
            return
        if isinstance(message, Done):
            job.future.set_result(self._part(member, message))
        elif isinstance(message, Ended):
            job.future.set_exception(EndOfData())
        else:
            job.future.set_exception(RemoteFailure(message, member.name))

    def _part(self, member: _Member, done: Done) -> Part:
        memory = member.memory.view(done.segment, done.offset, (done.nbytes,), "uint8")
        lent = lend(memory, partial(member.released.append, done.task))
        return Part([unpack(lent, output) for output in done.outputs], done.position)

    def _break(self, why: str) -> None:
        """Fail everything that isn't done."""
        with self._lock:
            self._broken = self._broken or why
            left = [*self._waiting]
            self._waiting.clear()
            running: list[_Job] = []
            for member in self._members:
                left += member.waiting
                running += member.jobs.values()
                member.waiting.clear()
                member.jobs.clear()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                running.append(job)
        for job in running:
            job.future.set_exception(WorkerError(self._broken))
