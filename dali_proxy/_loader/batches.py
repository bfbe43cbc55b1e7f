"""The messages between the training process and a loader's workers: requests for batches, and their results."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import reprlib
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, cast

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from dali_proxy._common.run_delay import run_delay
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._loader.queues import Pickled
from dali_proxy.errors import BatchError
from dali_proxy.pipeline._graph.location import user_traceback
from dali_proxy.pipeline._rng import global_batch
from dali_proxy.pipeline.errors import PipelineError

_SMALL = 1 << 16  # bytes
_COMPUTES = 0.75  # part of its time in which a thread that computes uses a core, or wants one


@dataclass(frozen=True)
class NumberedIndices:
    """An item of the user's sampler and its number. `NumberedSampler` yields these.

    Attributes:
        epoch: epoch number.
        batch: batch number within the epoch.
        indices: dataset indices of a batch, or a single index with ``batch_size=None``; None for an iterable dataset,
            which has no indices.
        rank: rank of the training process when the epoch began.
        keeps_inputs: whether the pipeline's inputs are kept with the batch, for a look at it.
    """

    epoch: int
    batch: int
    indices: Any
    rank: int = 0
    keeps_inputs: bool = False

    @property
    def number_among_ranks(self) -> int:
        """Number of the batch that no batch of another rank has, or that of the epoch for rank 0."""
        number = global_batch(self.rank, self.batch, self.indices)
        return self.batch if number is None else number

    def __reduce__(self) -> tuple[Any, ...]:
        return (
            NumberedIndices,
            (self.epoch, self.batch, self.indices, self.rank, self.keeps_inputs),
        )  # pickled in half the time


@dataclass(frozen=True)
class Chunk:
    """Several batches of one worker, which torch's loader handles as one, so that its cost per batch is divided.

    Attributes:
        numbered: the batches, in order; every n-th batch of the epoch with n workers, as without chunks.
        read: function that reads the samples of a batch; None in the training process.
    """

    numbered: tuple[NumberedIndices, ...]
    read: Callable[[NumberedIndices], Any] | None = None


class Cost(NamedTuple):
    """The cost of a batch in a worker.

    Attributes:
        seconds: elapsed time from the first sample to the submission.
        nbytes: size of the samples in shared memory.
        message: size of the message with the worker's last batch.
        slowest: dataset index of the sample that took longest to read, as text; empty if unknown.
        slowest_seconds: its elapsed time.
        processor: processor time of the thread in these seconds; see also `with_run_delay`.
        samples: elapsed time of each sample, as 32-bit floats; empty if unknown, or on the way from torch's workers.
    """

    seconds: float
    nbytes: int
    message: int
    slowest: str = ""
    slowest_seconds: float = 0.0
    processor: float = 0.0
    samples: bytes = b""


class CollatedBatch(NamedTuple):
    """A batch that a worker has collated. It is a tuple because torch pins the tensors that it finds in tuples.

    Attributes:
        numbered: number and dataset indices of the batch; None on the way from a worker, in a chunk.
        data: result of the user's collate function; its placeholders are submitted.
        position: state of an iterable dataset after the batch; None if unknown.
        cost: cost of the batch in its worker; None if it wasn't measured.
    """

    numbered: Any  # a `NumberedIndices`
    data: Any
    position: bytes | None = None
    cost: Cost | None = None


def with_run_delay(batch: CollatedBatch, before: float) -> CollatedBatch:
    """Return a batch whose processor time includes the time that this thread got no core, if it hardly waited else.

    Reading that computes then doesn't look like waiting for a disk because other programs use the cores.

    Args:
        batch: the batch.
        before: `run_delay` when the batch began.
    """
    cost = batch.cost
    if cost is None or (wanted := cost.processor + run_delay() - before) < _COMPUTES * cost.seconds:
        return batch
    return batch._replace(cost=cost._replace(processor=wanted))


class Pause:
    """A marker that replaces a batch: it is the next worker's turn, or the sampler failed."""


@dataclass(eq=False)
class FailedBatch:
    """A batch that failed because the dataset, the collate function or our own code raised.

    It is sent like a batch. torch would mishandle a few exceptions: `StopIteration` would end the epoch, and
    `SystemExit` would end the worker.

    Attributes:
        numbered: number and dataset indices of the batch.
        error: the exception; wrapped if it comes from another process, since not every exception can be pickled. None
            after `exception` has returned it.
        index: dataset index that was being read; None if unknown.
        worker: name of the process, such as "worker 1 (pid 4711)".
        kind: module and name of the exception's class, if the other process can't send it: only the training process
            can import a class of the script. Else None.
        position: always None; see `CollatedBatch.position`.
        cost: likewise.
    """

    numbered: NumberedIndices
    error: BaseException | Any
    index: Any
    worker: str
    kind: tuple[str, str] | None = None
    position: None = None
    cost: None = None

    @classmethod
    def from_error(cls, numbered: NumberedIndices, error: BaseException, index: Any, own: OwnWorker) -> FailedBatch:
        """Create a `FailedBatch` from an exception.

        Args:
            numbered: number and dataset indices of the batch.
            error: the exception.
            index: dataset index that was being read; None if unknown.
            own: this process's role in the loader that the batch belongs to.
        """
        worker = get_worker_info()  # identifies the process, even if it is a worker of another loader
        name = f"{'main' if worker is None else f'worker {worker.id}'} (pid {os.getpid()})"
        described = _described(numbered, index)
        if isinstance(error, StopIteration):
            stop, error = error, RuntimeError(f"StopIteration was raised for {described}, which would end the epoch")
            error.__cause__ = stop
        if own.id is None:
            if hasattr(error, "add_note"):  # since Python 3.11
                error.add_note(f"for {described}, in {name}")
            return cls(numbered, error, index, name)
        wrap: Any = ExceptionWrapper  # torch doesn't annotate it
        wrapped = wrap(
            (type(error), error, user_traceback(error) if isinstance(error, PipelineError) else error.__traceback__),
            where=f"in DataLoader worker process {own.id}, for {described}",
        )
        wrapped.exc_type = _picklable_type(type(error))
        kind = None if wrapped.exc_type is type(error) else (type(error).__module__, type(error).__qualname__)
        return cls(numbered, wrapped, index, name, kind)

    def exception(self) -> BaseException:
        """Return the exception as torch would raise it, with the dataset index of the sample. Call this only once."""
        error = self._rebuilt()
        if self.index is not None and not isinstance(error, BatchError):  # a dataset may raise an object again
            with suppress(AttributeError):  # a class may refuse other attributes
                error.dataset_index, error.dataset_indices = self.index, (self.index,)  # type: ignore[attr-defined]
        return error

    def _rebuilt(self) -> BaseException:
        if isinstance(self.error, BaseException):  # its traceback will refer to the frames that hold this object
            error, self.error = self.error, None
            return error
        if self.kind is not None:
            self.error.exc_type = _own_type(*self.kind, base=self.error.exc_type)
        try:
            self.error.reraise()
        except BaseException as error:  # noqa: BLE001  # the caller asked for this exception
            return error.with_traceback(None)
        raise AssertionError("reraise raises")

    @property
    def traceback(self) -> str:
        """The worker's traceback as text; empty if the exception carries the traceback itself."""
        return str(getattr(self.error, "exc_msg", ""))


def _described(numbered: NumberedIndices, index: Any) -> str:
    """Describe the batch or sample that failed."""
    if index is not None:
        return f"dataset index {index}"
    batch = f"batch {numbered.batch} of epoch {numbered.epoch}"
    return batch if numbered.indices is None else f"{batch} (dataset indices {reprlib.repr(numbered.indices)})"


def _picklable_type(kind: type[BaseException]) -> type[BaseException]:
    """Return an exception's type, or its nearest base that another process can import (unlike a local class)."""
    for base in kind.__mro__:
        try:
            pickle.dumps(base)
        except Exception:  # noqa: BLE001  # a user's metaclass may raise anything
            continue
        return cast("type[BaseException]", base)
    return RuntimeError


def _own_type(module: str, name: str, base: type[BaseException]) -> type[BaseException]:
    """Return a class of an exception that this process has, or `base`."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, base) else base


class Packed(Pickled):
    """A pickled batch that a worker sends.

    torch would pickle the batch where no code catches errors (an object that can't be pickled, no file descriptor left
    for a tensor): the worker would die, or a queue's thread would print the error and the training process would wait
    forever. Pickling here turns the error into an exception of the worker.

    Args:
        collated: the batch.
    """

    __slots__ = ()

    def __init__(self, collated: CollatedBatch) -> None:
        numbered, data, position, cost = collated
        file = io.BytesIO()
        pickler = pickle.Pickler(file)
        pickler.dispatch_table = _dispatch_table(len(copyreg.dispatch_table), len(_SHARED))
        pickler.dump((numbered, data, position, *(cost or ())))  # a plain tuple takes less time than named ones
        super().__init__(file.getvalue())

    def __len__(self) -> int:
        return len(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_unpacked, (self._data,))


def _unpacked(data: bytes) -> CollatedBatch:
    numbered, content, position, *cost = pickle.loads(data)
    return CollatedBatch(numbered, content, position, Cost(*cost) if cost else None)


_SHARED: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # has no public name


@lru_cache(maxsize=1)
def _dispatch_table(known: int, shared: int) -> dict[type, Any]:
    """Return the reducers of types, while there are so many known ones and so many for shared memory.

    Small tensors are pickled by value: the file descriptors that torch would send cost more than the bytes. Everything
    else is pickled as by `ForkingPickler`, which looks up the reducer of each object in several dicts.
    """
    return {**copyreg.dispatch_table, **_SHARED, torch.Tensor: partial(_reduce, _SHARED[torch.Tensor])}


def _reduce(otherwise: Callable[[torch.Tensor], Any], tensor: torch.Tensor) -> Any:
    small = 0 < tensor.nbytes <= _SMALL and tensor.layout == torch.strided and tensor.device.type == "cpu"
    if not small or tensor.requires_grad or tensor.is_quantized:
        return otherwise(tensor)
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    dtype = tensor.dtype
    return _small_tensor, (plain.reshape(-1).view(torch.uint8).numpy().tobytes(), dtype, tuple(tensor.shape))


def _small_tensor(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
