"""A pool of worker processes that read sources or run functions, and the thread that receives their results."""

from __future__ import annotations

import itertools
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from msgspec.structs import replace

from dali_proxy.pipeline._bulk.buffer_pool import Lease, lent_array
from dali_proxy.pipeline._concurrency.cost import Cost
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._external_source.parallel.launch import WorkerProcess, fork_worker, spawn_worker
from dali_proxy.pipeline._external_source.parallel.packing import pack, unpack
from dali_proxy.pipeline._external_source.parallel.protocol import CrashReport, Done, Ended, Failed, Segment, Task
from dali_proxy.pipeline._external_source.parallel.worker import NoCompletions, Specs
from dali_proxy.pipeline._external_source.reader import EndOfData
from dali_proxy.pipeline._external_source.spec import Cycle, SourceSpec
from dali_proxy.pipeline._ipc.arena import Arena, Block
from dali_proxy.pipeline._ipc.arena_reader import ArenaReader
from dali_proxy.pipeline._ipc.channel import Received
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, IPCError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline._user_functions.seeding import Seeds
from dali_proxy.pipeline.errors import WorkerError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.types import BatchInfo

_IN_FLIGHT = 2  # tasks of a worker at once: the current one and the next, so that it never waits for the pool
_PATIENCE = 3.0  # seconds until workers that don't end are killed
_RELEASED_AT_ONCE = 1000
_CALLER = os.path.join("dali_proxy", "pipeline", "_user_functions", "seeding.py")  # calls all code of the user
_UNSEEDED: Seeds = np.empty(0, np.uint64)
_STOPPED_PATIENCE = 1.0  # seconds between checks whether a process is stopped; twice in a row means that it hangs
_MOST_BYTES = 1 << 40  # the tasks in flight bound the memory of the inputs
_ATTEMPTS = 2  # processes that may die during a task before it fails: most deaths aren't the task's fault


class RemoteFailure(Exception):
    """A source or function failed in a worker."""

    def __init__(self, failed: Failed, worker: str) -> None:
        super().__init__(failed.reason)
        self.failed = failed
        self.worker = worker


@dataclass(frozen=True)
class Chunk:
    """Result of a task: samples of a batch for each output, the reader's position after them, and the task's cost."""

    batches: list[TensorListCPU]
    position: int
    cost: Cost


@dataclass(frozen=True)
class _Position:
    """Position of an iterable source after its last task: epoch, calls of its iterator, and whether it ended then."""

    epoch: int = 0
    calls: int = 0
    ended: bool = False


@dataclass(eq=False)
class _Job:
    """A task that is waiting, or that a worker has."""

    task: Task
    worker: int | None = None  # worker that must run it; None for any
    block: Block | None = None  # memory of the inputs
    attempts: int = 0  # processes that died during it
    future: Future[Chunk] = field(default_factory=Future)

    def __str__(self) -> str:
        first, count = self.task.first, self.task.count
        last = f" to {first + count - 1}" if self.block is not None and count > 1 else ""
        return f"sample {first}{last} of {self.task.info}"

    def begin(self) -> bool:
        """Mark the task as begun. Return False if it was cancelled."""
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def fail(self, error: Exception) -> None:
        if self.begin():
            self.future.set_exception(error)


class _Member:
    """A worker of the pool. A process that replaces a dead one is a new member with the same number."""

    def __init__(self, number: int, process: WorkerProcess, waiting: deque[_Job], title: str) -> None:
        self.name = f"worker {number} (pid {process.pid}) of the {title}"
        self.number = number
        self.process = process
        self.channel = process.channel
        self.alive = True
        self.memory = ArenaReader()
        self.waiting = waiting  # tasks for this worker only
        self.jobs: dict[int, _Job] = {}  # its tasks, in the order in which it runs them
        self.begun: set[int] = set()  # sources that it has read
        self.stopped = False  # whether the last check found it stopped by a signal
        self.report = -1  # descriptor of the file where it writes its stack if it crashes or hangs
        self.released: deque[int] = deque()  # tasks whose results are no longer in use; finalizers append to it

    def end(self, timeout: float) -> None:
        self.process.end(timeout)
        self.memory.close()
        report, self.report = self.report, -1
        if report >= 0:
            os.close(report)

    def last_words(self) -> str:
        """Return what the process wrote when it crashed or hung: the reason, and the user's part of the stack."""
        text = os.pread(self.report, 1 << 16, 0).decode(errors="replace") if self.report >= 0 else ""
        reason, _, stacks = text.partition("\n")
        for stack in stacks.split("hread 0x")[1:]:
            lines = stack.splitlines()[1:]
            ours = [number for number, line in enumerate(lines) if _CALLER in line]
            if ours:
                return "\n".join([reason, *lines[: ours[0]]])
        return reason

    def take_released(self) -> tuple[int, ...]:
        count = min(len(self.released), _RELEASED_AT_ONCE)
        return tuple(self.released.popleft() for _ in range(count))


class WorkerPool:
    """Worker processes that read sources or run functions. They begin tasks in the order of submission.

    The pool replaces a process that dies. It retries the current task of this process once, and the task fails if the
    next process dies, too; the other tasks go to other workers. The new process reads an iterable source from its
    beginning, and skips the items that were already read.

    Raises:
        WorkerError: the processes couldn't be started.
    """

    def __init__(
        self,
        specs: Specs,
        max_batch_size: int,
        num_workers: int,
        start_method: str,
        title: str = "parallel external sources",
    ) -> None:
        self._owner = os.getpid()
        self._specs = specs
        self._title = title
        # Guards the queues, `_closed`, `_positions`, and the members and their jobs.
        self._lock = new_lock(Level.SOURCE_POOL, "source pool")
        self._numbers = itertools.count()
        self._waiting: deque[_Job] = deque()  # tasks for any worker
        self._positions: dict[int, _Position] = {}  # of iterable sources
        self._closed = False
        self._next_check = 0.0  # for stopped processes
        self._members: list[_Member] = []
        #: Sizes of the workers' segments of shared memory, in bytes.
        self.segment_sizes: list[int] = []
        self._segments: list[tuple[Segment, int]] = []  # with the inputs, and their descriptors
        self._arena = Arena(
            1 << 20,
            limit=_MOST_BYTES,
            completions=NoCompletions(),
            attach=self._attach,
            detach=lambda segment: None,  # only requests shrink an arena, and there are none
        )
        self._start = partial(fork_worker if start_method == "fork" else spawn_worker, specs, max_batch_size)
        self._doorbell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        try:
            with deferred_signals:
                for number in range(num_workers):
                    self._members.append(_Member(number, self._start(), deque(), title))
            self._thread = threading.Thread(
                target=self._serve, name=f"{THREAD_PREFIX}external-source-pool", daemon=True
            )
            self._thread.start()
        except BaseException:
            self._end_workers(0)
            self._arena.close()
            os.close(self._doorbell)
            raise

    @property
    def size(self) -> int:
        """Number of workers."""
        return len(self._members)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process IDs of the workers."""
        return tuple(member.process.pid for member in self._members)

    def samples_ahead(self) -> int:
        """Return the number of samples that are waiting, or that workers process."""
        with self._lock:
            jobs = [*self._waiting, *(job for member in self._members for job in member.jobs.values())]
        return sum([job.task.count for job in jobs])

    def submit(
        self,
        source: int,
        info: BatchInfo,
        first: int,
        count: int,
        *,
        worker: int | None = None,
        skip: int = 0,
        seeds: Seeds = _UNSEEDED,
    ) -> Future[Chunk]:
        """Request samples of a batch.

        Args:
            source: number of the source.
            info: the batch.
            first: position of the first sample.
            count: number of samples.
            worker: worker that must run the task; None for any.
            skip: number of calls of an iterator to repeat first.
            seeds: seed of each sample, or of the batch; empty to leave the generators alone.

        Returns:
            A future of the result. It raises `EndOfData`, `RemoteFailure` or `WorkerError`. Cancel or drop it
            to discard the result.
        """
        return self._add(_Job(self._task(source, info, first, count, seeds, skip), worker))

    def submit_function(
        self,
        function: int,
        info: BatchInfo,
        first: int,
        inputs: Sequence[TensorListCPU],
        count: int,
        seeds: Seeds,
        timeout: float = 0.0,
    ) -> Future[Chunk]:
        """Request that a function processes samples of a batch. Return a future like that of `submit`.

        Args:
            function: number of the function.
            info: the batch, for messages.
            first: position of the first sample.
            inputs: the samples of each input. They are copied.
            count: number of samples.
            seeds: seed of each sample, or of the batch.
            timeout: seconds that a call may take; 0 for no limit.
        """
        task = self._task(function, info, first, count, seeds, timeout=timeout)
        try:
            block, packed = pack(
                self._arena, inputs, self._lock
            )  # so that no worker starts meanwhile without the segment
        except ChannelClosedError:
            return self._refused(_Job(task))
        task = replace(task, segment=block.segment_id, offset=block.offset, nbytes=block.nbytes, inputs=packed)
        return self._add(_Job(task, block=block))

    def _task(
        self, source: int, info: BatchInfo, first: int, count: int, seeds: Seeds, skip: int = 0, timeout: float = 0.0
    ) -> Task:
        number, raw = next(self._numbers), seeds.tobytes()
        return Task(number, source, info.iteration, info.epoch_idx, first, count, skip, (), raw, timeout)

    def _attach(self, segment: int, block: SharedBlock) -> None:
        """Send a segment with inputs to all workers. Later ones get it when they start. The caller holds the lock."""
        message = Segment(segment, block.nbytes)
        self._segments.append((message, os.dup(block.fd)))
        for member in self._members:
            with suppress(IPCError):  # the worker is gone; `_serve` will notice
                member.channel.post(message, self._segments[-1][1:])

    def _add(self, job: _Job) -> Future[Chunk]:
        with self._lock:
            if self._closed:
                return self._refused(job)
            self._queue_of(job).append(job)
            self._dispatch()
            if not all(member.alive for member in self._members):
                os.eventfd_write(self._doorbell, 1)
        return job.future

    def _refused(self, job: _Job) -> Future[Chunk]:
        job.fail(self._ended())
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
        self._arena.close()
        for _, fd in self._segments:
            os.close(fd)
        self._segments.clear()
        doorbell, self._doorbell = self._doorbell, -1
        os.close(doorbell)

    def _end_workers(self, timeout: float) -> None:
        for member in self._members:
            member.channel.close()  # all of them first, so that they end at the same time
        for member in self._members:
            member.end(timeout)

    def _fail_all(self) -> None:
        with self._lock:
            left = [*self._waiting]
            for member in self._members:
                left += [*member.waiting, *member.jobs.values()]
                member.waiting.clear()
                member.jobs.clear()
            self._waiting.clear()
        for job in left:
            job.fail(self._ended())

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
            queue = min(queues, key=lambda each: each[0].task.task)
            job = queue.popleft()
            if job.begin():
                task = job.task
                member.jobs[task.task] = job
                skip = task.skip if task.source in member.begun else self._start_of(task)
                member.begun.add(task.source)
                with suppress(IPCError):  # the worker is gone; `_serve` will notice
                    member.channel.post(replace(task, skip=skip, released=member.take_released()))
                return
            queues = [each for each in queues if each]

    def _start_of(self, task: Task) -> int:
        """Return how many calls of an iterator a fresh process must repeat before it runs a task."""
        at = self._positions.get(task.source, _Position())
        this_epoch = at.epoch == task.epoch
        spec = self._specs[task.source]
        begins_anew = isinstance(spec, SourceSpec) and spec.cycle is Cycle.RAISE and not this_epoch
        found_again = at.ended and this_epoch  # the task itself repeats the call that found the end
        return task.skip or (0 if begins_anew else at.calls - found_again)

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
            for fd, _ in poll.poll(_STOPPED_PATIENCE * 1000):
                if fd == self._doorbell:
                    os.eventfd_read(fd)
                elif why := self._listen(watched[fd]):
                    poll.unregister(fd)
                    self._remove(watched.pop(fd), why)
            self._kill_stopped()
            self._replace_dead()

    def _kill_stopped(self) -> None:
        """Kill processes that have tasks, but were stopped by a signal: nothing else would end the wait for them."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _STOPPED_PATIENCE
        for member in self._members:
            stopped = member.alive and bool(member.jobs) and _is_stopped(member.process.pid)
            if stopped and member.stopped:
                with suppress(ProcessLookupError):
                    os.kill(member.process.pid, signal.SIGKILL)  # its socket closes, which `_listen` notices
            member.stopped = stopped

    def _listen(self, member: _Member) -> str:
        """Receive the messages of a worker. Return why it can't continue, or an empty string."""
        try:
            for received in member.channel.receive_ready():
                self._handle(member, received)
        except ChannelClosedError:
            exit = "was stopped by a signal, and killed" if member.stopped else member.process.describe_exit()
            return f"{member.name} {exit}"
        except Exception as error:  # noqa: BLE001 - no error may end this thread
            return f"{member.name} sent a message that can't be read: {type(error).__name__}: {error}"
        return ""

    def _handle(self, member: _Member, received: Received) -> None:
        message = received.message
        if isinstance(message, Segment):
            member.memory.attach(message.segment, received.fds[0], message.nbytes)
            self.segment_sizes.append(message.nbytes)
            return
        if isinstance(message, CrashReport):
            member.report = received.fds[0]
            return
        received.close_fds()
        if not isinstance(message, Done | Ended | Failed):
            return
        chunk = self._chunk(member, message) if isinstance(message, Done) else None  # if this fails, the job stays
        with self._lock:
            job = member.jobs.pop(message.task, None)
            if job is not None and not isinstance(message, Failed) and self._is_iterable(job.task):
                ended = isinstance(message, Ended)
                self._positions[job.task.source] = _Position(job.task.epoch, message.position, ended)
            self._dispatch()
        if job is None:
            return
        if chunk is not None:
            job.future.set_result(chunk)
        elif isinstance(message, Failed):
            job.future.set_exception(RemoteFailure(message, member.name))
        else:
            job.future.set_exception(EndOfData(message.position))

    def _chunk(self, member: _Member, done: Done) -> Chunk:
        memory = member.memory.view(done.segment, done.offset, (done.nbytes,), "uint8")
        lent = lent_array(memory, Lease(partial(member.released.append, done.task)))
        batches = [unpack(lent, output) for output in done.outputs]
        return Chunk(batches, done.position, Cost(done.processor, done.elapsed))

    def _remove(self, member: _Member, why: str) -> None:
        """Remove a worker that can't continue, and requeue its tasks.

        Fail the current task instead if it is the second time that a worker died during it.
        """
        stack = member.last_words()
        timed_out = bool(stack) and not stack.startswith("Fatal Python error")
        member.end(0)
        failed: _Job | None = None
        with self._lock:
            member.alive = False
            jobs = list(member.jobs.values())
            member.jobs.clear()
            if jobs:
                jobs[0].attempts += 1
            if jobs and (jobs[0].attempts >= _ATTEMPTS or timed_out):
                failed = jobs.pop(0)
                task = failed.task
                if self._is_iterable(task):  # the next task needs the next item
                    self._positions[task.source] = _Position(task.epoch, self._start_of(task) + 1)
            for job in reversed(jobs):
                self._queue_of(job).appendleft(job)
            self._dispatch()
        if failed is not None:
            late = f"{member.name} was killed: a call took longer than {failed.task.timeout:g} s (timeout=)"
            failed.fail(WorkerError(_describe(failed, late if timed_out else why, stack, timed_out)))

    def _is_iterable(self, task: Task) -> bool:
        spec = self._specs[task.source]
        return isinstance(spec, SourceSpec) and spec.iterable

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
                replacement = _Member(member.number, process, member.waiting, self._title)
                for segment, fd in self._segments:
                    with suppress(IPCError):  # likewise
                        replacement.channel.post(segment, (fd,))
                self._members[member.number] = replacement
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

    def _ended(self) -> WorkerError:
        return WorkerError(f"the workers of the {self._title} were ended: the pipeline is closed")


def _describe(failed: _Job, why: str, stack: str, timed_out: bool) -> str:
    doing = "reading" if failed.block is None else "processing"
    again = "" if timed_out else f"; another worker had already died while {doing} it"
    shown = "\n  its stack:\n" + stack if stack else ""
    return f"{why}; it was {doing}: {failed}{again}{shown}"


def _is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal such as SIGSTOP."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"T", b"t")
    except OSError:
        return False
