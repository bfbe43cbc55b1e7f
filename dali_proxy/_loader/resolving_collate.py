"""The collate function that a loader shows to other code: loops of torch's own loader get tensors from it."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import _utils, get_worker_info

from dali_proxy._common.nested import find
from dali_proxy._common.policies import LastBatchPolicy
from dali_proxy._loader.batch_transform import seeded
from dali_proxy._loader.collate import submit_rest
from dali_proxy._server.resolving import resolved
from dali_proxy._worker.placeholders import Placeholder, SampleRef
from dali_proxy.pipeline._ipc.pickling import for_spawned
from dali_proxy.pipeline._rng import global_batch
from dali_proxy.pipeline.errors import ArgumentMismatchError

if TYPE_CHECKING:
    from dali_proxy._loader.loader_options import LoaderOptions

_REBUILT = (
    "this batch isn't made by dali_proxy.DataLoader, but by a loader of torch that other code has made from its "
    "dataset and collate_fn. Accelerate's prepare and skip_first_batches (also in the Trainer of transformers) and Ray "
    "Train's prepare_data_loader do that. "
)
_KEEP = (
    "iterate over the dali_proxy.DataLoader itself instead of the result of that call; with several ranks, give it a "
    "DistributedSampler"
)

_MOST_EARLY = 16  # if there is no first batch, because the first worker has no data

_collates: weakref.WeakSet[ResolvingCollate] = weakref.WeakSet()  # those of this process


class ResolvingCollate:
    """A loader's collate function, for other code that makes a loader from the first one's parts.

    Frameworks pass `loader.dataset` and `loader.collate_fn` to a new `torch.utils.data.DataLoader`, which knows nothing
    of placeholders. In the process that iterates, a call of this object returns tensors. In a worker of torch's loader,
    it returns a `CollatedBatchOfWorker`, which becomes tensors when the process that iterates unpickles it.

    Args:
        loader: the loader, whose options apply. This object keeps no reference to it.
        function: the user's collate function.

    Raises:
        ArgumentMismatchError: (by calls) the loader has an option that other loaders can't apply.
    """

    def __init__(self, loader: LoaderOptions, function: Callable[[Any], Any]) -> None:
        self.__wrapped__ = function
        self._key = secrets.token_hex(8)
        self._maker = os.getpid()
        self._server = loader.dali_server
        self._ragged = loader.ragged
        self._earlier_shapes = loader._earlier_shapes
        self._transform = loader.batch_transform
        self._refused = _refused_option(loader)
        self._count = 0  # batches of this process
        self._counts_in = 0
        self._early: dict[int, Any] | None = {}  # batches that came before the first one; None after that
        _collates.add(self)

    def __call__(self, samples: Any) -> Any:
        try:
            return self._collated(samples)
        except StopIteration as stop:
            raise _ends_epoch(stop)  # noqa: B904  # it has its cause

    def _collated(self, samples: Any) -> Any:
        if self._refused:
            raise ArgumentMismatchError(_REBUILT + self._refused)
        _note_indices(samples)
        data = submit_rest(self.__wrapped__(samples))
        number = self._count if self._counts_in == os.getpid() else 0
        self._counts_in, self._count = os.getpid(), number + 1
        worker = get_worker_info()
        if worker is None or self._maker == os.getpid():  # the latter: a loop inside a worker of another loader
            return self._resolved(data, torch.initial_seed(), number)
        return CollatedBatchOfWorker(self._key, data, worker.seed - worker.id, worker.id + number * worker.num_workers)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.__wrapped__, name)

    def __copy__(self) -> ResolvingCollate:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ResolvingCollate:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "__wrapped__": for_spawned(self.__wrapped__), "_maker": 0, "_early": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        _collates.add(self)

    def __repr__(self) -> str:
        return f"<collate_fn of a dali_proxy.DataLoader: {self.__wrapped__!r}>"

    def _resolved(self, data: Any, seed: int, number: int) -> Any:
        """Return a batch with tensors in place of the placeholders, in the process that iterates."""
        pins = getattr(threading.current_thread(), "_target", None) is _utils.pin_memory._pin_memory_loop
        if pins and self._transform is not None:
            raise ArgumentMismatchError(
                f"{_REBUILT}Its thread for pin_memory can't run batch_transform, because that seeds the random "
                "generators of the process: pass pin_memory=False, or call the function in the loop"
            )
        batch = self._tensors(data, number)
        if pins and any(tensor.is_cuda for tensor in find(batch, torch.Tensor)):  # they belong to the thread's stream
            raise ArgumentMismatchError(
                f"{_REBUILT}The pipeline's outputs are on the GPU, where nothing can be pinned: pass pin_memory=False"
            )
        if self._transform is None:
            return batch
        among_ranks = global_batch(self._server.endpoint.rank, number)
        with seeded(np.random.SeedSequence([seed, number if among_ranks is None else among_ranks])):
            return self._transform(batch)

    def _tensors(self, data: Any, number: int) -> Any:
        """Resolve a batch and compare its shapes with those of the first one, which may arrive later than others.

        Raises:
            BatchError: the batch, or one that came before the first one, has samples of several shapes, and the first
                one hasn't. (torch has the batch that came earlier already: this error can only take another's place.)
        """
        if self._early is None:
            return resolved(self._server, data, self._ragged, self._earlier_shapes)
        batch = resolved(self._server, data, self._ragged, None)
        self._early[number] = data
        if number == 0 or len(self._early) == _MOST_EARLY:
            early, self._early = self._early, None
            for _, each in sorted(early.items()):  # their results are kept in their tickets
                resolved(self._server, each, self._ragged, self._earlier_shapes)
        return batch


class CollatedBatchOfWorker(Placeholder):
    """A batch that a worker of torch's loader has collated. Unpickling returns the batch with tensors.

    Args:
        key: key of the `ResolvingCollate`.
        data: result of the user's collate function; its placeholders are submitted.
        seed: seed of this epoch's random numbers of `batch_transform`.
        number: number of the batch in the epoch.
    """

    __slots__ = ("_arguments",)

    advice = (
        "It becomes tensors on its way from a worker of torch's loader to the training process. A function that "
        "changes batches in the worker belongs into the collate_fn of dali_proxy.DataLoader."
    )

    def __init__(self, key: str, data: Any, seed: int, number: int) -> None:
        self._arguments = (key, data, seed, number)

    def __repr__(self) -> str:
        return "the result of loader.collate_fn"

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, self._arguments


class _Failure(ExceptionWrapper):
    """An exception in place of a batch, which torch's loader raises when it is the batch's turn."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def reraise(self) -> None:
        raise self._error


def function_of(collate_fn: Any) -> Any:
    """Return the user's function in a `ResolvingCollate`; other functions as they are."""
    return collate_fn.__wrapped__ if isinstance(collate_fn, ResolvingCollate) else collate_fn


def _refused_option(loader: LoaderOptions) -> str:
    """Return which option of a loader can't be applied in another loader, and what to do; empty if there is none."""
    if loader.on_error != "raise":
        return f"It can't apply on_error={loader.on_error!r}, because it can't repeat a batch. Remove it, or {_KEEP}"
    if loader.last_batch_policy is LastBatchPolicy.FILL:
        return f"It can't apply LastBatchPolicy.FILL, because its sampler makes the batches. Remove it, or {_KEEP}"
    if loader.dali_server.cluster is not None:
        return f"It can't use servers in a cluster, which read the dataset themselves: {_KEEP}"
    return ""


def _note_indices(samples: Any) -> None:
    """Let errors name the dataset indices, if this is called by torch's loader, which passes only the samples."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") != _utils.fetch.__name__:
        frame = frame.f_back
    if frame is None:
        return
    indices = frame.f_locals.get("possibly_batched_index")
    if not getattr(frame.f_locals.get("self"), "auto_collation", False):
        indices, samples = [indices], [samples]
    if isinstance(indices, list | tuple) and isinstance(samples, list) and len(indices) == len(samples):
        for index, sample in zip(indices, samples, strict=True):
            for ref in find(sample, SampleRef):
                ref.sample.index = index if ref.sample.index is None else ref.sample.index


def _arrived(key: str, data: Any, seed: int, number: int) -> Any:
    """Return what torch's loader gets for a batch of a worker."""
    collate = next((each for each in list(_collates) if each._key == key), None)
    if collate is None:  # another process than the one that iterates has unpickled it
        return data
    # An exception that is raised in torch's queue would lose the batch, and torch would wait for it.
    try:
        return collate._resolved(data, seed, number)
    except StopIteration as stop:
        return _Failure(_ends_epoch(stop))
    except Exception as error:  # noqa: BLE001  # torch's loader raises it
        return _Failure(error)


def _ends_epoch(stop: StopIteration) -> RuntimeError:
    error = RuntimeError("collate_fn or batch_transform raised StopIteration, which would end the epoch")
    error.__cause__ = stop
    return error
