"""What travels between the training process and a loader's workers: which batch to make, and what became of it."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import reprlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple, cast

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._loader.queues import Pickled

__all__ = ["Made", "NumberedIndices", "Packed", "Pause", "Unmade"]


_SMALL = 1 << 16  # bytes


@dataclass(frozen=True)
class NumberedIndices:
    """What a `NumberedSampler` yields: an item of the user's sampler and its number.

    Attributes:
        epoch: number of the epoch.
        batch: number of the batch in it.
        indices: dataset indices of a batch, or a single one with ``batch_size=None``; None where the dataset counts for
            itself.
    """

    epoch: int
    batch: int
    indices: Any

    def __reduce__(self) -> tuple[Any, ...]:
        return (NumberedIndices, (self.epoch, self.batch, self.indices))  # pickled in half the time


class Made(NamedTuple):
    """A batch that a worker has made. A tuple, because torch pins what it finds in tuples.

    Attributes:
        numbered: which batch it is.
        data: what the user's collate function returned, its placeholders submitted.
        place: where an iterable dataset is after it; None if unknown.
    """

    numbered: NumberedIndices
    data: Any
    place: bytes | None = None


class Pause:
    """In the place of a batch: nothing comes. The next worker has its turn, or the sampler failed."""


@dataclass(eq=False)
class Unmade:
    """A batch that could not be made, because the dataset, the collate function or our own code raised.

    It travels like a batch. torch would lose some exceptions or end the worker for them: `StopIteration` would end the
    epoch, and `SystemExit` the worker.

    Attributes:
        numbered: which batch it is.
        error: the exception; wrapped when it comes from another process, since not every exception can be pickled. None
            after `exception` gave it away.
        index: dataset index that was being read; None if unknown.
        worker: the process that tried, such as "worker 1 (pid 4711)".
        place: as of a `Made`; unknown.
    """

    numbered: NumberedIndices
    error: BaseException | Any
    index: Any
    worker: str
    place: None = None

    @classmethod
    def of(cls, numbered: NumberedIndices, error: BaseException, index: Any, own: OwnWorker) -> Unmade:
        """Describe an exception.

        Args:
            numbered: the batch.
            error: the exception.
            index: dataset index that was being read; None if unknown.
            own: which worker this process is, of the loader that wants the batch.
        """
        worker = get_worker_info()  # it names the process, whichever loader's worker that is
        name = f"{'main' if worker is None else f'worker {worker.id}'} (pid {os.getpid()})"
        place = _place_of(numbered, index)
        if isinstance(error, StopIteration):
            stop, error = error, RuntimeError(f"StopIteration was raised for {place}, which would end the epoch")
            error.__cause__ = stop
        if own.id is None:
            if hasattr(error, "add_note"):  # since Python 3.11
                error.add_note(f"for {place}, in {name}")
            return cls(numbered, error, index, name)
        wrap: Any = ExceptionWrapper  # it has no types
        wrapped = wrap(
            (type(error), error, error.__traceback__), where=f"in DataLoader worker process {own.id}, for {place}"
        )
        wrapped.exc_type = _picklable_type(type(error))
        return cls(numbered, wrapped, index, name)

    def exception(self) -> BaseException:
        """Return the exception, as torch would have raised it; call it once."""
        if isinstance(self.error, BaseException):  # it will refer to the frames that hold this object
            error, self.error = self.error, None
            return error
        try:
            self.error.reraise()
        except BaseException as error:  # noqa: BLE001  # it is what was asked for
            return error.with_traceback(None)
        raise AssertionError("reraise raises")

    @property
    def traceback(self) -> str:
        """The worker's traceback, as text; empty where the exception has it itself."""
        return str(getattr(self.error, "exc_msg", ""))


def _place_of(numbered: NumberedIndices, index: Any) -> str:
    """Say what was being made."""
    if index is not None:
        return f"dataset index {index}"
    batch = f"batch {numbered.batch} of epoch {numbered.epoch}"
    return batch if numbered.indices is None else f"{batch} (dataset indices {reprlib.repr(numbered.indices)})"


def _picklable_type(kind: type[BaseException]) -> type[BaseException]:
    """Return an exception's type, or its next base that another process can import: a local class is none."""
    for base in kind.__mro__:
        try:
            pickle.dumps(base)
        except Exception:  # noqa: BLE001  # the metaclass may be the user's
            continue
        return cast("type[BaseException]", base)
    return RuntimeError


class Packed(Pickled):
    """A batch on its way from a worker.

    torch would pickle it where nobody catches what goes wrong (an object that can't be pickled, no descriptor left for
    a tensor): the worker would die of it, or a thread of a queue print it and leave the training process to wait for
    ever. Here it is an exception of the worker.

    Args:
        made: the batch.
    """

    __slots__ = ()

    def __init__(self, made: Made | Unmade) -> None:
        file = io.BytesIO()
        _Pickler(file).dump(made)
        super().__init__(file.getvalue())


class _Pickler(pickle.Pickler):
    """Pickles small tensors by value: a descriptor for each, which torch would send, costs more than their bytes.

    Everything else is pickled as a `ForkingPickler` does it. That looks reducers up in several dicts for each object.
    """

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        shared: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]  # has no public name
        self.dispatch_table = {**copyreg.dispatch_table, **shared, torch.Tensor: partial(_reduce, shared[torch.Tensor])}


def _reduce(otherwise: Callable[[torch.Tensor], Any], tensor: torch.Tensor) -> Any:
    small = 0 < tensor.nbytes <= _SMALL and tensor.layout == torch.strided and tensor.device.type == "cpu"
    if not small or tensor.requires_grad or tensor.is_quantized:
        return otherwise(tensor)
    plain = tensor.resolve_conj().resolve_neg().contiguous()
    dtype = tensor.dtype
    return _small_tensor, (plain.reshape(-1).view(torch.uint8).numpy().tobytes(), dtype, tuple(tensor.shape))


def _small_tensor(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(shape)
