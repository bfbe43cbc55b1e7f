"""What travels between the training process and a loader's workers: which batch to make, and what became of it."""

from __future__ import annotations

import copyreg
import io
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any, NamedTuple

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import get_worker_info

from dali_proxy._loader.queues import Pickled

__all__ = ["Made", "NumberedIndices", "Packed", "Unmade"]


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


@dataclass(frozen=True)
class Unmade:
    """A batch that a worker could not make, for a reason that the training process wants to deal with.

    Attributes:
        numbered: which batch it is.
        error: what happened; wrapped when it comes from another process, since not every exception can be pickled.
        index: dataset index that was being read, as text; empty if unknown.
        worker: who tried.
        place: as of a `Made`; unknown.
    """

    numbered: NumberedIndices
    error: Exception | Any
    index: str
    worker: str
    place: None = None

    @classmethod
    def of(cls, numbered: NumberedIndices, error: Exception, index: str) -> Unmade:
        """Describe the exception that is being handled."""
        worker = get_worker_info()
        if worker is None:
            return cls(numbered, error, index, f"main (pid {os.getpid()})")
        name = f"worker {worker.id}"
        wrap: Any = ExceptionWrapper  # it has no types
        wrapped = wrap(where=f"in DataLoader {name.replace(' ', ' process ')}")
        return cls(numbered, wrapped, index, f"{name} (pid {os.getpid()})")

    def exception(self) -> Exception:
        """Return the exception, as torch would have raised it."""
        if isinstance(self.error, Exception):
            return self.error
        try:
            self.error.reraise()
        except Exception as error:  # noqa: BLE001  # it is what was asked for
            return error.with_traceback(None)
        raise AssertionError("reraise raises")

    @property
    def traceback(self) -> str:
        """The worker's traceback, as text; empty where the exception has it itself."""
        return "" if isinstance(self.error, Exception) else str(self.error.exc_msg)


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
