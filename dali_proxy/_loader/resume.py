"""The position in an epoch, and the form in which users save it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, NamedTuple

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, IterDataPipe, MapDataPipe

from dali_proxy._common.policies import FilledBatches
from dali_proxy._loader.generators import DrawWatch, Generators
from dali_proxy._loader.numbered_datasets import SamplerStart, last_drawn
from dali_proxy._loader.numbered_streams import StreamStart, WorkerPosition
from dali_proxy._loader.rank_batch_sampler import RankBatchSampler
from dali_proxy._loader.state_checks import check_fields
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline._ipc.signals import deferred_signals
from dali_proxy.pipeline.errors import ArgumentMismatchError

_VERSION = 1
_ADDED = {"sampler_class", "seed", "rank"}  # fields that states of earlier versions don't have

_MUST_AGREE = {
    "kind": "dataset kind",
    "batch_size": "batch_size",
    "samples": "dataset length",
    "workers": "num_workers",
}


def kind_of(dataset: Any) -> str:
    """Return the kind of a dataset: "map", "iterable" or "datapipe"."""
    if isinstance(dataset, IterDataPipe | MapDataPipe):
        return "datapipe"
    return "iterable" if isinstance(dataset, IterableDataset) else "map"


@dataclass(frozen=True)
class LoaderState:
    """The state of a loader; `DataLoader.state_dict` returns it as a dict.

    Attributes:
        kind: kind of the dataset; see `kind_of`.
        epoch: epoch number.
        batches: number of batches yielded in the epoch. For a map-style dataset, these are the batches with the numbers
            0 to `batches` - 1.
        done: numbers of further batches that have been yielded (``in_order=False``).
        batch_size: batch size of the loader.
        samples: length of the dataset; None for a dataset without a length.
        sampler_class: class of the sampler, which decides the order of the samples; empty for an iterable dataset, or
            if unknown.
        seed: seed of the server's pipeline; None if the pipeline doesn't use it, or if unknown.
        rank: rank of the loader's process; None if unknown.
        own: states of the user's generators; see `Generators`.
        shared: states of the process's global generators; empty if the epoch hasn't begun.
        seeded: whether the iterator draws a seed for its workers; true for a new iterator, false for the later epochs
            of persistent workers.
        sampler: state of the sampler before it yielded the last of the `batches`; None if it has no `state_dict`.
        sampler_epoch: epoch that was set by the sampler's `set_epoch`; None without this method.
        workers: number of workers that read an iterable dataset; otherwise 0.
        last_worker: number of the worker that made the last batch; -1 for none.
        positions: position of each of these workers.
        version: version of this format.
    """

    kind: str
    epoch: int
    batches: int = 0
    done: list[int] = field(default_factory=list)
    batch_size: int | None = None
    samples: int | None = None
    sampler_class: str = ""
    seed: int | None = None
    rank: int | None = None
    own: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)
    seeded: bool = True
    sampler: Any = None
    sampler_epoch: int | None = None
    workers: int = 0
    last_worker: int = -1
    positions: dict[int, dict[str, Any]] = field(default_factory=dict)
    version: int = _VERSION

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> LoaderState:
        """Create a state from a dict that `as_dict` returned, possibly in another process.

        Raises:
            ArgumentMismatchError: the dict isn't a state, has a different version, or is damaged.
        """
        names = {each.name for each in fields(cls)}
        if not isinstance(state, Mapping) or not names - _ADDED <= set(state) <= names:
            raise ArgumentMismatchError("this isn't a state that dali_proxy.DataLoader.state_dict() returned")
        if state["version"] != _VERSION:
            raise ArgumentMismatchError(
                f"the state has format {state['version']}, but this version of dali-proxy reads format {_VERSION}"
            )
        check_fields(state)
        return cls(**copy.deepcopy(dict(state)))

    def as_dict(self) -> dict[str, Any]:
        """Return the state as a dict of plain objects, tensors, and the states of datasets and samplers."""
        return {each.name: copy.deepcopy(getattr(self, each.name)) for each in fields(self)}

    def check(self, other: LoaderState) -> None:
        """Raise an error unless a loader in the state `other` can be restored to this one.

        Raises:
            ArgumentMismatchError: the states don't match; the message names the difference.
        """
        for name, meaning in _MUST_AGREE.items():
            there, here = getattr(self, name), getattr(other, name)
            if there != here:
                hint = "; it must not change: each worker reads its part of the dataset" if name == "workers" else ""
                raise ArgumentMismatchError(
                    f"the state was saved with {meaning} {there!r}, but this loader has {meaning} {here!r}{hint}"
                )
        if set(self.own) != set(other.own):
            raise ArgumentMismatchError(
                f"the objects that have a `generator` must be the same, or the order would differ: the state was saved "
                f"with {sorted(self.own) or 'none'}, but this loader has {sorted(other.own) or 'none'}"
            )
        for name, state in self.own.items():
            if state.shape != other.own[name].shape:
                raise ArgumentMismatchError(
                    f"the state of the generator of the {name} is damaged, or belongs to a generator on another device"
                )
        if self.sampler_class not in ("", other.sampler_class):
            raise ArgumentMismatchError(
                f"the state was saved with the sampler {self.sampler_class}, but this loader has "
                f"{other.sampler_class}, so the order would differ"
            )
        if self.sampler is not None and other.sampler is None:
            raise ArgumentMismatchError(
                "the state contains a sampler's state, but this loader's sampler has no load_state_dict"
            )
        # Each rank may have its own seed, and all may load the state of one rank.
        if self.rank == other.rank and self.seed not in (None, other.seed):
            warn_caller(
                f"the state was saved with another seed of the pipeline: the next samples are the same as without the "
                f"stop, but their random numbers aren't. Create the pipeline with seed={self.seed} to get the same"
            )

    @property
    def stream_start(self) -> StreamStart:
        """Position at which the workers of an iterable dataset resume."""
        return StreamStart(
            {number: WorkerPosition(**position) for number, position in self.positions.items()}, self.last_worker
        )


class Progress:
    """The position of an iterator in its epoch. It holds no reference to the iterator, so it may outlive the iterator.

    Args:
        state: state at the beginning of the epoch, or the state from which it resumes.
        sampler: states of the sampler.
        in_order: whether batches arrive in the order of their numbers.

    Attributes:
        yielded: number and worker's state of a batch that isn't counted yet. It is set in a single step, which no
            signal handler can interrupt.
    """

    def __init__(self, state: LoaderState, sampler: SamplerState, in_order: bool) -> None:
        self.finished = False
        self.yielded: tuple[int, bytes | None] | None = None
        self._begin = state
        self._sampler = sampler
        self._in_order = in_order
        self._batches = state.batches
        self._done = set(state.done)
        self._last_worker = state.last_worker
        self._positions: dict[int, dict[str, Any] | _Position] = dict(state.positions)

    def note(self, number: int, position: bytes | None) -> None:
        """Count a batch that was yielded.

        Args:
            number: batch number.
            position: state of an iterable dataset after the batch; None if unknown.
        """
        with deferred_signals:
            self.catch_up()
            self.yielded = number, position
            self.catch_up()

    def catch_up(self) -> None:
        """Count the batch in `yielded`, if there is one."""
        with deferred_signals:
            if self.yielded is None:
                return
            (number, position), self.yielded = self.yielded, None
            if self._begin.kind == "iterable":
                self._last_worker = number % self._begin.workers
                self._positions[self._last_worker] = _Position(number // self._begin.workers + 1, position)
                self._batches += 1
            elif self._begin.kind == "datapipe":
                self._batches += 1
            elif self._in_order:
                self._batches = number + 1  # earlier batches were yielded or have failed
            else:
                self._done.add(number)
                while self._batches in self._done:
                    self._done.remove(self._batches)
                    self._batches += 1
            self._sampler.after(self._batches)

    @property
    def sampler_at_end(self) -> Any:
        """State from which a finished epoch's sampler is read to its end (some need this); None during the epoch."""
        self.catch_up()
        state = self._sampler.after(self._batches)
        return {**state, "drain": True} if self.finished and self._batches and state is not None else None

    def state(self) -> LoaderState:
        """Return the current state. Warn if it isn't enough to resume."""
        self.catch_up()
        if self._batches and self._sampler.watch is not None and self._sampler.watch.found:
            warn_caller(
                "the sampler draws from a global random generator whenever it yields an item. Other code draws from "
                "it, too, so the order after load_state_dict differs: give the sampler its own torch.Generator in an "
                "attribute `generator`, or state_dict and load_state_dict"
            )
        return replace(
            self._begin,
            batches=self._batches,
            done=sorted(self._done),
            sampler=self._sampler.after(self._batches) if self._batches else self._begin.sampler,
            last_worker=self._last_worker,
            positions={number: _position_dict(position) for number, position in self._positions.items()},
        )


@dataclass(frozen=True)
class PastProgress:
    """A `Progress` at one moment, for a copy of a loader.

    Attributes:
        position: the position.
        finished, sampler_at_end: those of the `Progress`.
    """

    position: LoaderState
    finished: bool
    sampler_at_end: Any

    @classmethod
    def of(cls, progress: Progress | PastProgress) -> PastProgress:
        """Return what a `Progress` is now."""
        return cls(progress.state(), progress.finished, progress.sampler_at_end)

    def state(self) -> LoaderState:
        """Return the position."""
        return self.position


class _Position(NamedTuple):
    """Position of a worker of this process. Saved states have dicts, because they may come from anywhere.

    Attributes:
        batches: number of its batches.
        data: pickled states that the worker sent with its last batch; None if it has none.
    """

    batches: int
    data: bytes | None


def _position_dict(position: dict[str, Any] | _Position) -> dict[str, Any]:
    if not isinstance(position, _Position):
        return position
    dataset, iterator, ended = (None, None, False) if position.data is None else pickle.loads(position.data)
    return {"batches": position.batches, "dataset": dataset, "iterator": iterator, "ended": ended}


class SamplerState:
    """Saves and restores the states of a sampler, which is ahead of the batches that have been yielded.

    Args:
        sampler: sampler with `state_dict` and `load_state_dict`, or None.
        items: items of the sampler, batch by batch.
        filled: batch sampler that fills the last batch (policy FILL); None for other policies.

    Attributes:
        watch: watches the draws of a sampler without a state; None for no watch.
    """

    watch: DrawWatch | None = None

    def __init__(self, sampler: Any, items: Iterable[Any] = (), filled: FilledBatches | None = None) -> None:
        self._sampler = sampler
        self._items = items
        self._filled = filled
        self._exact = isinstance(sampler, RankBatchSampler)
        self._before: dict[int, Any] = {}  # states, by the number of the next batch

    @property
    def taker(self) -> Callable[[int], None] | None:
        """Callback for a `NumberedSampler`, which saves the current state; None if the sampler has no state."""
        return None if self._sampler is None else self._take

    def _take(self, number: int) -> None:
        self._before[number] = self.now()

    def now(self) -> Any:
        """Return the current state of the sampler."""
        if self._sampler is None:
            return None
        first = None if self._filled is None or self._filled.first is None else list(self._filled.first)
        return {"state": copy.deepcopy(self._sampler.state_dict()), "first": first, "drain": False}

    def after(self, batches: int) -> Any:
        """Return the state from which an epoch resumes after `batches` batches; see `last_drawn`.

        Discard earlier states.
        """
        if not self._before:
            return None
        last = last_drawn(batches, self._exact)
        for old in [each for each in self._before if each < last]:
            del self._before[old]
        return self._before.get(last)

    def start(self, state: LoaderState, resumes: bool) -> SamplerStart:
        """Return the starting position of the sampler. Restore its state only when it resumes."""
        start = SamplerStart(state.batches, frozenset(state.done))
        if not resumes or self._sampler is None or state.sampler is None:
            return start
        return replace(start, load=partial(self._load, state.sampler), exact=self._exact)

    def _load(self, state: Any) -> None:
        self._sampler.load_state_dict(copy.deepcopy(state["state"]))
        if self._filled is not None:
            self._filled.resume_after(state["first"])
        if state["drain"]:
            for _ in self._items:
                pass


def start_of_epoch(loader: DataLoader[Any], epoch: int, seed: int | None, rank: int) -> LoaderState:
    """Return the state in which an epoch begins, with the seed of the pipeline in a rank."""
    kind = kind_of(loader.dataset)
    return LoaderState(
        kind=kind,
        epoch=epoch,
        batch_size=batch_size_of(loader),
        samples=_length(loader.dataset) if kind == "map" else None,
        sampler_class=type(_samplers(loader)[-1]).__name__ if kind == "map" else "",
        seed=seed,
        rank=rank,
        own=Generators(loader).own(),
        workers=max(loader.num_workers, 1) if kind == "iterable" else 0,
    )


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):  # a dataset needs no length if it has a custom sampler
        return None


def batch_size_of(loader: DataLoader[Any]) -> int | None:
    """Return the batch size of a loader: users may change that of its batch sampler. None if the user passed none."""
    return loader.batch_size and int(getattr(loader.batch_sampler, "batch_size", loader.batch_size))


def stateful_sampler(loader: DataLoader[Any]) -> Any:
    """Return the loader's sampler that has `state_dict` and `load_state_dict`, or None."""
    if kind_of(loader.dataset) != "map":
        return None
    for sampler in _samplers(loader):
        if callable(getattr(sampler, "state_dict", None)) and callable(getattr(sampler, "load_state_dict", None)):
            return sampler
    return None


def sampler_with_epochs(loader: DataLoader[Any]) -> Any:
    """Return the loader's sampler that has `set_epoch`, such as a `DistributedSampler`, or None."""
    for sampler in _samplers(loader):
        if callable(getattr(sampler, "set_epoch", None)) and isinstance(getattr(sampler, "epoch", None), int):
            return sampler
    return None


def _samplers(loader: DataLoader[Any]) -> list[Any]:
    if loader.batch_sampler is None:
        return [loader.sampler]
    # torch's batch sampler draws only the samples of the batches that it has yielded; others may draw more.
    inner = [loader.batch_sampler.sampler] if type(loader.batch_sampler) is BatchSampler else []
    return [loader.batch_sampler, *inner]
