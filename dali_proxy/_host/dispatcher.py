"""Deals the batches that consumers want to be read to the dataset workers."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from msgspec.structs import replace

from dali_proxy._host.clients import Consumer, DatasetWorker, Pool, ReadTask, check_count
from dali_proxy._transport.protocol import BatchRead, DatasetWorkers, Goodbye, ReadBatch
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.frames import close_all

_AT_ONCE = 2  # tasks of a worker: one that it reads, and the next one, so that it needn't wait
_DEATHS = 2  # workers that may die while they read a batch


class Dispatcher:
    """Deals tasks to dataset workers, on the host's thread. Consumers take turns, so none waits for a fast one.

    A worker that dies costs no batch: others read its tasks again. A batch whose workers die twice fails.

    The number of workers is that of the process that starts them, or, after `resize`, what the owner of the server
    wants. A worker that isn't wanted any more finishes its tasks, and is then told to end.
    """

    def __init__(self) -> None:
        self._workers: list[DatasetWorker] = []
        self._leaving: list[DatasetWorker] = []  # those that finish their last tasks
        self._pool: Pool | None = None
        self._wanted: int | None = None  # number of workers; None while the pool decides
        self._asked = 0  # number that the pool was asked to run
        self._told = 0  # number that the consumers know
        self._consumers: set[Consumer] = set()
        self._queues: dict[Consumer, deque[ReadTask]] = {}  # those with tasks, the next one first
        self._numbers = itertools.count()
        self._ended = ""  # reason why no worker will come any more

    def read(self, consumer: Consumer, message: ReadBatch, fds: Sequence[int]) -> None:
        """Queue a task of a consumer."""
        if len(fds) != 1:
            close_all(fds)
            raise ProtocolError(f"expected one descriptor with a request to read a batch, not {len(fds)}")
        task = ReadTask(consumer, message, fds[0])
        if message.session not in consumer.sessions:  # it has ended
            task.close()
            return
        queue = self._queues.setdefault(consumer, deque())
        queue.append(task)
        check_count(len(queue), "batches to read")
        self._deal()

    def finish(self, worker: DatasetWorker, message: BatchRead, fds: Sequence[int]) -> None:
        """Forward a batch to its consumer."""
        try:
            if message.number not in worker.tasks or len(fds) > 1:
                raise ProtocolError(f"a dataset worker sent batch {message.number}, which it wasn't asked for")
            task = worker.tasks.pop(message.number)
            if task.consumer is not None:
                task.consumer.send(replace(message, number=task.message.number), fds)
            task.close()
        finally:
            close_all(fds)
        self._deal()

    def resize(self, count: int) -> None:
        """Set the number of workers. They start and end later, and no batch is lost or read twice."""
        self._wanted = count
        self._balance()

    def welcome(self, consumer: Consumer) -> None:
        """Let a consumer that has connected know the number of workers from now on."""
        self._consumers.add(consumer)
        if self._told:
            consumer.send(DatasetWorkers(self._told))

    def join(self, pool: Pool) -> None:
        """Use a process that starts workers, which has connected."""
        self._pool, self._asked, self._ended = pool, 0, ""
        self._balance()

    def add(self, worker: DatasetWorker) -> None:
        """Add a worker that has connected."""
        self._workers.append(worker)
        self._deal()

    def remove(self, worker: DatasetWorker) -> None:
        """Remove a worker that has disconnected. Let others read its batches."""
        for group in (self._workers, self._leaving):
            if worker in group:
                group.remove(worker)
        tasks, worker.tasks = worker.tasks, {}
        for position, task in enumerate(tasks.values()):
            task.deaths += position == 0  # it read the first one; the others were queued
        for task in reversed(tasks.values()):
            if task.consumer is None:
                task.close()
            elif task.deaths >= _DEATHS:
                self._fail(
                    task, f"{task.deaths} dataset workers died while they read it, the last one was {worker.pid}"
                )
            else:
                self._queues.setdefault(task.consumer, deque()).appendleft(task)
        self._deal()

    def end(self, reason: str) -> None:
        """Fail all batches from now on: no worker will come any more."""
        self._ended, self._pool = reason, None
        for worker in (*self._workers, *self._leaving):
            for task in worker.tasks.values():
                self._fail(task, reason)
            worker.tasks = {}
        self._deal()

    def drop(self, consumer: Consumer, session: int | None = None) -> None:
        """Drop the tasks of an iterator that has ended; without a session, of a consumer that has disconnected."""
        if session is None:
            self._consumers.discard(consumer)
        others: deque[ReadTask] = deque()
        for task in self._queues.pop(consumer, ()):
            if session in (None, task.message.session):
                task.close()
            else:
                others.append(task)
        if others:
            self._queues[consumer] = others
        for worker in (*self._workers, *self._leaving):
            for task in worker.tasks.values():
                if task.consumer is consumer and session in (None, task.message.session):
                    task.consumer = None  # its results belong to a closed session, so the host drops them
        self._balance()

    def _fail(self, task: ReadTask, reason: str) -> None:
        if task.consumer is not None:
            task.consumer.send(BatchRead(number=task.message.number, error=reason))
        task.close()

    def _balance(self) -> None:
        """Bring the number of workers closer to the wanted one. The last worker stays while batches are queued."""
        if self._wanted is None:
            return
        count = max(self._wanted, 1 if self._queues else 0)
        while len(self._workers) < count and self._leaving:
            self._workers.append(self._leaving.pop())
        while len(self._workers) > count:
            worker = min(self._workers, key=lambda each: len(each.tasks))
            self._workers.remove(worker)
            self._leaving.append(worker)
        for worker in [each for each in self._leaving if not each.tasks]:
            self._leaving.remove(worker)
            worker.send(Goodbye("it isn't needed any more"))
        if self._pool is not None and count != self._asked:
            self._asked = count
            self._pool.send(DatasetWorkers(count))
        told = min(len(self._workers), self._wanted)
        if told != self._told:
            self._told = told
            for consumer in tuple(self._consumers):
                consumer.send(DatasetWorkers(told))

    def _deal(self) -> None:
        """Send tasks to the workers with the fewest, until all workers have enough."""
        self._balance()
        while self._queues:
            worker = min(self._workers, key=_load, default=None)
            if not self._ended and (worker is None or _load(worker) >= _AT_ONCE):
                return
            consumer = next(iter(self._queues))
            queue = self._queues.pop(consumer)
            task = queue.popleft()
            if queue:
                self._queues[consumer] = queue  # at the end: it is the other consumers' turn
            if self._ended or worker is None:
                self._fail(task, self._ended)
                continue
            number = next(self._numbers)
            worker.tasks[number] = task
            worker.send(replace(task.message, number=number), (task.fd,))


def _load(worker: DatasetWorker) -> int:
    """Return the number of tasks of a worker. One with a slow task gets no further one, which would wait for it."""
    return _AT_ONCE if any(task.message.slow for task in worker.tasks.values()) else len(worker.tasks)
