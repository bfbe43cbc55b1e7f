"""The connection of a process that creates samples: writes them to shared memory and submits them in batches."""

from __future__ import annotations

import itertools
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy._transport.endpoint import Endpoint, open_channel, server_errors
from dali_proxy._transport.fields import pack_labels
from dali_proxy._transport.protocol import AttachSegment, DetachSegment, Goodbye, InputBatch, Submit
from dali_proxy._worker.batch_context import BatchContext, this_thread
from dali_proxy._worker.placeholders import Sample, Submitter
from dali_proxy._worker.tickets import ReleaseQueue, Ticket, TicketWithInputs, discard_through, forget_discard
from dali_proxy.errors import BatchSizeError, SampleTypeError, ServerClosedError, ServerDiedError, StaleReferenceError
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock
from dali_proxy.pipeline._ipc.arena import Arena, Block
from dali_proxy.pipeline._ipc.block_allocator import table_of
from dali_proxy.pipeline._ipc.completion import CompletionReader
from dali_proxy.pipeline._ipc.errors import ArenaFullError, ChannelClosedError, ChannelTimeoutError, IPCError
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._ipc.signals import Interrupted, deferred_signals
from dali_proxy.pipeline._rng import global_batch

# Seconds for which a server counts as alive after a check: a check costs as much as the rest of the proxy's work for a
# sample.
_ALIVE_S = 0.005
_NUMBER, _NBYTES, _DTYPE, _SHAPE = map(attrgetter, ("number", "nbytes", "dtype", "shape"))


class WorkerClient:
    """One process's connection to a server for submitting batches. Thread-safe.

    Args:
        endpoint: endpoint of the server.

    Attributes:
        endpoint: endpoint of the server.
        name: name of this process, such as "worker 0".
        server: token of the server's start that this client is connected to.
        client: client number, assigned by the server.
        arena: shared memory for the samples.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        worker = _worker_info()
        self.name = "main" if worker is None else f"worker {worker.id}"
        # Batches of other loaders have no epoch number. torch draws this seed for each worker and epoch instead.
        self._seed: int = 0 if worker is None else worker.seed
        self._channel, received = open_channel(endpoint, "worker", self.name)
        self.server: bytes = received.message.server
        self.client: int = received.message.client
        page, doorbell = received.fds
        self._completions = CompletionReader(page, doorbell, self._channel)
        self.arena = Arena(
            endpoint.arena_bytes,
            limit=endpoint.arena_bytes_limit,
            completions=self._completions,
            attach=self._attach,
            detach=self._detach,
            before_wait=self.flush,
            timeout=endpoint.timeout,
        )
        self._goodbye = ""
        self._begun = 0.0  # time of the first sample of the next batch, in another library's loader
        self._look_at = 0.0  # time of the next check whether the server is alive
        self._numbers = itertools.count()
        # Requests are sent in the order of their numbers. Reentrant: a signal handler that submits may interrupt the
        # holder.
        self._lock = new_rlock(Level.SUBMISSION, "submission")
        # The requests of batches without a context; see `BatchContext.tickets`. An entry lives as long as its ticket.
        self._tickets: weakref.WeakValueDictionary[Any, Ticket] = weakref.WeakValueDictionary()
        self._releases = ReleaseQueue()
        discard_through(self.server, self._releases.add_batch, preferred=False)  # a consumer's function is faster

    @property
    def alive(self) -> bool:
        """Whether the server is listening, or was listening a moment ago."""
        return not self._channel.closed and (time.monotonic() <= self._look_at or self._is_listening())

    def _is_listening(self) -> bool:
        self._look_at = time.monotonic() + _ALIVE_S
        if self._channel.alive():
            return True
        self._look_at = 0.0
        return False

    def goodbye(self) -> str:
        """Return the server's reason for the end of this connection; empty if it gave none before `close`."""
        with suppress(IPCError):
            for received in self._channel.receive_ready(rest=True):
                received.close_fds()
                if isinstance(received.message, Goodbye):
                    self._goodbye = received.message.reason
        return self._goodbye

    def sample(self, arrays: list[npt.NDArray[Any]], name: str | None = None) -> Sample | None:
        """Copy the inputs of one sample to shared memory. Return None if this isn't `alive`: a caller reconnects then.

        Args:
            arrays: the inputs.
            name: name of the sample, for errors.

        Raises:
            ServerDiedError: the server died while the call waited for free memory.
            ArenaFullError: the samples in use exceed `arena_bytes_limit`.
        """
        if self._channel.closed or (time.monotonic() > self._look_at and not self._is_listening()):
            return None
        try:
            blocks = self.arena.write(arrays)
        except (ChannelClosedError, ChannelTimeoutError):
            with server_errors():
                raise
        except ArenaFullError as error:
            raise self._too_large(arrays, name, error) from None
        context = this_thread.context
        if context is None and not self._begun:
            self._begun = time.perf_counter()
        index = None if context is None else context.index
        if len(arrays) == 1:  # most samples; this takes half as long
            dtypes, shapes = _names_of(arrays[0].dtype), (arrays[0].shape,)
        else:
            dtypes, shapes = _names_of(*map(_DTYPE, arrays)), tuple(map(_SHAPE, arrays))
        return Sample(self, next(self._numbers), blocks, dtypes, shapes, index, name)

    def _copied(self, sample: Sample) -> Sample:
        """Return a copy of a sample that a dataset has kept from a batch of another process of the server."""
        other = sample.client
        if other is self or not (isinstance(other, WorkerClient) and other.endpoint.key == self.endpoint.key):
            return sample
        if other._channel.closed:
            return sample  # it was made before the server's last start: `_check` says so
        copied = self.sample(_arrays(sample), sample.name)
        if copied is None:
            raise ServerDiedError(f"the server is gone{f': {reason}' if (reason := self.goodbye()) else ''}")
        copied.index = sample.index
        return copied

    def _too_large(self, arrays: Sequence[npt.NDArray[Any]], name: str | None, error: ArenaFullError) -> ArenaFullError:
        """Return the error for a sample without space, with its dataset index and name."""
        nbytes, limit, context = sum(array.nbytes for array in arrays), self.arena.limit, this_thread.context
        reason = str(error)
        if nbytes > limit:
            reason = (
                f"a sample of {nbytes} bytes is larger than all shared memory that a process may have for samples, "
                f"{limit} bytes: raise arena_bytes_limit"
            )
        known = {"dataset index": None if context is None else context.index, "sample name": name}
        where = ", ".join(f"{label}: {value}" for label, value in known.items() if value is not None)
        return ArenaFullError(f"{reason} ({where})" if where else reason)

    def submit(self, samples: Sequence[Sample]) -> Ticket:
        """Submit a batch. Return the same ticket if the same samples of the same batch are submitted again.

        Raises:
            BatchSizeError: there are more samples than the pipeline's batch size.
            SampleTypeError: the samples differ in dtype or number of dimensions.
            StaleReferenceError: a sample belongs to another process or an earlier start of the server.
            ServerDiedError: the server is gone.
        """
        context = this_thread.context
        tickets = self._tickets if context is None else context.tickets
        key: tuple[Any, ...] = self.server, *map(_NUMBER, samples)
        if self.endpoint.processes > 1 and any(sample.client is not self for sample in samples):
            key = self.server, *((id(sample.client), sample.number) for sample in samples)
            if key not in tickets:
                samples = [self._copied(sample) for sample in samples]
                self._check(samples)
        else:
            self._check(samples)
        with deferred_signals, self._lock:
            ticket: Ticket | None = tickets.get(key)
            if ticket is None:
                ticket = tickets[key] = self._send(samples, context)
            return ticket

    def flush(self) -> None:
        """Send the batches that `collected_submissions` has collected so far. After an error, `alive` is false."""
        with deferred_signals:
            try:
                self._channel.flush()
                self._channel.wait_written(self.endpoint.timeout)
            except Interrupted:
                raise
            except IPCError:  # as in `_send`
                self._channel.close()

    def close(self) -> None:
        """Disconnect. Submitted batches stay valid."""
        with deferred_signals:
            forget_discard(self.server, self._releases.add_batch)
            self._channel.close()
            self.arena.close()
            self._completions.close()

    def _send(self, samples: Sequence[Sample], context: BatchContext | None) -> Ticket:
        of_samples: list[tuple[Block, ...]] = []
        shapes: list[tuple[tuple[int, ...], ...]] = []
        names, indices = [], []
        for sample in samples:  # faster than a `map` for each
            of_samples.append(sample.blocks)
            shapes.append(sample.shapes)
            names.append(sample.name)
            indices.append(sample.index)
        inputs = tuple(
            [
                InputBatch(dtype, len(shapes[0][number]), table_of(of_samples, shapes, number))
                for number, dtype in enumerate(samples[0].dtypes)
            ]
        )
        try:
            blocks = list(itertools.chain.from_iterable(of_samples))
            seq = self.arena.submit(blocks)
            session, epoch, batch, view = 0, self._seed, seq, 0
            begun, self._begun = self._begun, 0.0
            if context is None:
                number = global_batch(self.endpoint.rank, batch)
            else:
                begun = context.begun
                session, epoch, batch, view = context.session, context.epoch, context.batch, context.requests
                number = global_batch(context.rank, batch, context.indices)
                context.requests += 1
                context.nbytes += sum(map(_NBYTES, blocks))
            if self._releases.waiting:
                self._releases.flush(self._channel.post)
            collects = _collecting.now
            is_written = self._channel.post(
                Submit(
                    seq=seq,
                    session=session,
                    epoch=epoch,
                    batch=batch,
                    view=view,
                    batch_size=len(samples),
                    indices=_packed(indices, context),
                    inputs=inputs,
                    waited_ns=self.arena.waited_ns,
                    names=pack_labels(names) if any(names) else "",
                    global_batch=number,
                    begun_ns=int(begun * 1e9),
                    sent_ns=time.perf_counter_ns(),
                ),
                flush=not collects,
            )
            identity = (self.server, self.client, seq, len(samples), None, (epoch, batch, view, number))
            if context is not None and context.keeps_inputs:
                arrays = zip(*([each.copy() for each in _arrays(sample)] for sample in samples), strict=True)
                ticket: Ticket = TicketWithInputs(*identity, inputs=[*arrays])
            else:
                ticket = Ticket(*identity)
            if not (is_written or collects):
                self._channel.wait_written(self.endpoint.timeout)
            return ticket
        except Interrupted:
            raise  # the request is written when the server reads again; its result is discarded
        except BaseException as error:
            goodbye = self.goodbye()
            self._channel.close()  # a request may be missing, and the server rejects later ones: reconnect
            if goodbye and isinstance(error, ChannelClosedError):
                raise ServerClosedError(f"the server is closed: {goodbye}") from error
            with server_errors():
                raise

    def _check(self, samples: Sequence[Sample]) -> None:
        if self._channel.closed:
            raise StaleReferenceError(f"the samples were made {_before(self)}: call the proxy again")
        size, limit = len(samples), self.endpoint.max_batch_size
        if size > limit:
            raise BatchSizeError(
                f"a batch of {size} samples was passed to a pipeline of batch_size={limit}: make the loader's "
                f"batch_size at most {limit}, or the pipeline's batch_size at least {size}"
            )
        first = samples[0]
        ndims = tuple(map(len, first.shapes))
        for position, sample in enumerate(samples):
            if sample.client is not self:
                raise StaleReferenceError(
                    f"sample {position} was made {_before(sample.client)}: call the proxy again for it"
                )
            if sample.dtypes != first.dtypes or (
                sample.shapes != first.shapes and tuple(map(len, sample.shapes)) != ndims
            ):
                grays = {2, 3} <= {*ndims, *map(len, sample.shapes)}
                gray = "; for a gray image among images with colors, pass image.convert('RGB')" if grays else ""
                raise SampleTypeError(
                    "the samples of a batch must agree in dtype and number of dimensions, but of the inputs "
                    f"({', '.join(spec.name for spec in self.endpoint.inputs)}) sample 0{_at(first)} has "
                    f"{_kinds(first)}, and sample {position}{_at(sample)} has {_kinds(sample)}{gray}"
                )

    def _attach(self, segment_id: int, block: SharedBlock) -> None:
        self._channel.post(AttachSegment(segment_id, block.nbytes), (block.fd,))

    def _detach(self, segment_id: int) -> None:
        self._channel.post(DetachSegment(segment_id))


def _before(client: Submitter) -> str:
    """Return when samples of another or a closed connection were made."""
    goodbye = client.goodbye()
    return (
        f"before the server said that {goodbye}" if goodbye else "in another process or before the server's last start"
    )


def _arrays(sample: Sample) -> list[npt.NDArray[Any]]:
    """Return the inputs of a sample, as views of the arena."""
    return [
        np.frombuffer(block.array, dtype, math.prod(shape), block.offset).reshape(shape)
        for block, dtype, shape in zip(sample.blocks, sample.dtypes, sample.shapes, strict=True)
    ]


@lru_cache(maxsize=256)
def _names_of(*dtypes: np.dtype[Any]) -> tuple[str, ...]:
    """Return the names of dtypes. Cached: NumPy takes 5 % of the time of decoding an image to build one."""
    return tuple([str(dtype.name) for dtype in dtypes])


def _packed(indices: list[Any], context: BatchContext | None) -> str:
    packed = pack_labels(indices)
    if packed or context is None:
        return packed
    try:  # a dataset with __getitems__ returns its samples in the order of the indices
        return pack_labels(list(context.indices)) if len(context.indices) == len(indices) else ""
    except TypeError:
        return ""  # the sampler's batches aren't sequences


def _kinds(sample: Sample) -> str:
    return ", ".join(
        f"{dtype} with {len(shape)} dimensions" for dtype, shape in zip(sample.dtypes, sample.shapes, strict=True)
    )


def _at(sample: Sample) -> str:
    known = {"dataset index": sample.index, "named": sample.name}
    said = ", ".join(f"{what} {value}" for what, value in known.items() if value is not None)
    return f" ({said})" if said else ""


def process_of_batch(endpoint: Endpoint) -> int:
    """Return the number of the server's process for the batch that this thread is making."""
    context = this_thread.context
    if context is not None and context.indices is not None:
        return endpoint.process_of(context.rank, context.batch)
    # The samples of an iterable dataset may belong to later batches, and those of other loaders to any.
    worker = _worker_info()
    return endpoint.process_of(endpoint.rank, 0 if worker is None else worker.id)


def _worker_info() -> Any:
    """Return torch's description of this process if it is a loader's worker, else None."""
    torch_data = sys.modules.get("torch.utils.data")
    return None if torch_data is None else torch_data.get_worker_info()


@dataclass
class _Connection:
    """This process's single connection to a server, which all proxies and loaders share."""

    # One lock per server: a finalizer that disconnects from another server may interrupt any thread.
    lock: threading.RLock = field(default_factory=partial(new_rlock, Level.CONNECTION, "connection"))
    client: WorkerClient | None = None


class _Collecting(threading.local):
    now = False  # whether this thread's submissions are sent together


_collecting = _Collecting()


class collected_submissions:  # named like a function
    """Send the batches that this thread submits in the block together at its end: the server then wakes only once."""

    __slots__ = ()

    def __enter__(self) -> None:
        _collecting.now = True

    def __exit__(self, *exc_info: object) -> None:
        send_collected()
        _collecting.now = False


def send_collected() -> None:
    """Send what this thread has collected in `collected_submissions`: nothing else does so while it waits for a result.

    The user's dataset may run a loop of its own.
    """
    if _collecting.now:
        for connection in list(_connections.values()):
            if connection.client is not None:
                connection.client.flush()


_connections: dict[str, _Connection] = {}
os.register_at_fork(after_in_child=_connections.clear)


def worker_client(endpoint: Endpoint) -> WorkerClient:
    """Return this process's connection to a server. Connect on the first call and after a restart.

    Raises:
        ServerClosedError: the server isn't running.
        ServerDiedError: the server was running before, but isn't running now.
    """
    connection = _connections.get(endpoint.path) or _connections.setdefault(endpoint.path, _Connection())
    client = connection.client
    if client is not None and client.alive:
        return client
    with connection.lock, deferred_signals:
        client = connection.client
        if client is not None and client.alive:
            return client
        if client is not None:
            client.goodbye()  # an error may need it
            client.close()
        try:
            connection.client = WorkerClient(endpoint)
        except ServerClosedError as error:
            if client is None:
                raise
            raise ServerDiedError(f"the server that this process was connected to is gone: {error}") from None
        return connection.client


def close_worker_client(endpoint: Endpoint) -> None:
    """End this process's connections to a server, if there are any."""
    for each in endpoint.of_processes:
        connection = _connections.pop(each.path, None)
        if connection is None:
            continue
        with connection.lock:
            client, connection.client = connection.client, None
        if client is not None:
            client.close()
