"""The fetching side of a server's dataset workers: requests for batches, and the batches that have arrived."""

from __future__ import annotations

import pickle
import weakref
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from dali_proxy._common.batch_reading import BatchRequest
from dali_proxy._pool.parcel import open_batch
from dali_proxy._transport.protocol import BatchRead
from dali_proxy.errors import ServerDiedError, WorkerDiedError
from dali_proxy.pipeline._executor.available_memory import in_flight_bytes
from dali_proxy.pipeline._ipc.frames import close_all
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline._ranks import current_ranks

if TYPE_CHECKING:
    from dali_proxy._consumer.consumer import ConsumerClient

_TURN = 0.05  # seconds between two checks of the caller


class PendingRead:
    """A batch that was requested from the dataset workers."""

    def __init__(self, request: BatchRequest, consumer: ConsumerClient) -> None:
        self.request = request
        self._consumer = consumer
        self._answer: tuple[BatchRead, tuple[int, ...]] | None = None
        self._lost = self._dropped = False
        self._number = -1  # the consumer's number for the request

    @property
    def done(self) -> bool:
        """Whether the batch has arrived or is lost."""
        return self._answer is not None or self._lost or self._consumer.ended

    @property
    def nbytes(self) -> int:
        return self._consumer.result_size(self.request.session)

    def result(self) -> Any:
        """Return the batch that has arrived, or raise its error. Call this only once.

        Raises:
            ServerClosedError, ServerDiedError: it is lost with the server.
            WorkerDiedError: the workers that read it died.
        """
        if self._answer is None:
            self._consumer.check()
        if self._lost:
            raise ServerDiedError("the server was started again since this epoch began, and doesn't know its batches")
        assert self._answer is not None  # it is done
        (message, fds), self._answer = self._answer, None
        if not message.error:
            return open_batch(message, fds)[0]
        numbered = self.request.numbered
        indices = numbered.indices if isinstance(numbered.indices, list | tuple) else [numbered.indices]
        raise WorkerDiedError(
            f"batch {numbered.batch} of epoch {numbered.epoch} can't be read: {message.error}. Its dataset indices: "
            f"{listed(indices)}"
        )

    def send(self) -> None:
        """Send the request, unless the server doesn't know the iterator: another one has started it again.

        Raises:
            ProxyError: it is too large.
        """
        self._lost = not self._consumer.has_session(self.request.session)
        if self._lost:
            return
        data = pickle.dumps(self.request._replace(data=None), protocol=5)
        request = self.request
        self._number = self._consumer.read_batch(request.session, data, request.data, self.arrive, request.slow)

    def arrive(self, message: BatchRead, fds: tuple[int, ...]) -> None:
        """Store the answer."""
        if self._dropped:
            close_all(fds)
        else:
            self._answer = message, fds

    def drop(self) -> None:
        """Forget the batch: its iterator has ended."""
        self._dropped = True
        self._consumer.forget_read(self._number)
        answer, self._answer = self._answer, None
        if answer is not None:
            close_all(answer[1])


class Connected(Protocol):
    """A handle of a server."""

    @property
    def consumer(self) -> Any:
        """This process's connection to the server."""

    @property
    def owned(self) -> bool:
        """Whether this process has started the server."""


class DatasetPool:
    """The dataset workers of a server, as a loader sees them.

    Attributes:
        in_flight_bytes: limit for the results of one loader that are in flight.
        name, member: names of the workers, and of one, for messages.
    """

    name, member = "the dataset workers are", "dataset worker"

    in_flight_bytes: int

    def __init__(self, server: Connected, num_workers: int | Literal["auto"]) -> None:
        self._num_workers = num_workers
        self._server = weakref.proxy(server)  # in a cycle, the server would run until the garbage collector does
        self.divide()

    def divide(self) -> None:
        """Divide the workers and the memory among the ranks of this machine, when an epoch begins."""
        shared = self._num_workers != "auto" or not self._server.owned
        self._users = current_ranks().local_world_size if shared else 1
        self.in_flight_bytes = in_flight_bytes()

    @property
    def ready(self) -> int:
        """Number of workers that one loader keeps busy; 0 if the number changes, and the loader reads itself now."""
        count = self._connect().dataset_workers if self._num_workers == "auto" else self._num_workers
        return -(-count // self._users)

    def put(self, data: bytes) -> SharedBlock:
        """Store a pickled reader in shared memory. Workers can read it while a request needs it."""
        block = SharedBlock.create(len(data))
        block.array[:] = np.frombuffer(data, np.uint8)
        return block

    def request(self, request: BatchRequest) -> PendingRead:
        """Request a batch.

        Raises:
            ProxyError: the request is too large.
        """
        pending = PendingRead(request, self._connect())
        pending.send()
        return pending

    def _connect(self) -> ConsumerClient:
        consumer: ConsumerClient = self._server.consumer
        return consumer

    def wait(self) -> None:
        """Wait a moment for batches."""
        self._connect().receive(_TURN)

    def handle(self) -> None:
        """Handle the batches that have come."""
        self._connect().receive(0.0)
