"""Where an epoch is, and the form in which a loader's users save it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, IterDataPipe, MapDataPipe

from dali_proxy._common.policies import FilledBatches
from dali_proxy._loader.generators import Generators
from dali_proxy._loader.numbered_datasets import SamplerStart, last_drawn
from dali_proxy._loader.numbered_streams import StreamStart, WorkerPlace
from pipeline._ipc.signals import deferred_signals
from pipeline.errors import ArgumentMismatchError

__all__ = [
    "LoaderState",
    "Progress",
    "SamplerState",
    "kind_of",
    "sampler_with_epochs",
    "start_of_epoch",
    "stateful_sampler",
]

_VERSION = 1

_MUST_AGREE = {
    "kind": "a dataset of the kind",
    "batch_size": "batch_size",
    "samples": "samples",
    "workers": "num_workers (which must stay the same for an iterable dataset: each worker has a part of it)",
}


def kind_of(dataset: Any) -> str:
    """Say how a dataset is read: "map", "iterable" or "datapipe"."""
    if isinstance(dataset, IterDataPipe | MapDataPipe):
        return "datapipe"
    return "iterable" if isinstance(dataset, IterableDataset) else "map"


@dataclass(frozen=True)
class LoaderState:
    """What `DataLoader.state_dict` returns, as an object.

    Attributes:
        kind: how the dataset is read.
        epoch: number of the epoch.
        batches: how many batches of it have been yielded; all before that number, if the dataset has indices.
        done: numbers of batches beyond those that have been yielded, too (``in_order=False``).
        batch_size: of the loader.
        samples: length of the dataset; None for one that has none.
        own: states of the generators that the loader was given, see `Generators`.
        shared: states of the process's; empty where the epoch has not begun.
        seeded: whether the iterator draws a seed for workers, as a new one does, and not one of persistent workers.
        sampler: state of the sampler before it gave the last of these batches, if it has a `state_dict`.
        sampler_epoch: what its `set_epoch` was called with, if it has one.
        workers: for an iterable dataset: how many workers read it.
        last_worker: which of them made the last batch; -1 for none.
        places: where each of them is.
        version: of this form.
    """

    kind: str
    epoch: int
    batches: int = 0
    done: list[int] = field(default_factory=list)
    batch_size: int | None = None
    samples: int | None = None
    own: dict[str, Any] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)
    seeded: bool = True
    sampler: Any = None
    sampler_epoch: int | None = None
    workers: int = 0
    last_worker: int = -1
    places: dict[int, dict[str, Any]] = field(default_factory=dict)
    version: int = _VERSION

    @classmethod
    def of_dict(cls, state: Mapping[str, Any]) -> LoaderState:
        """Make one of what `as_dict` returned, perhaps in another process.

        Raises:
            ArgumentMismatchError: it is none.
        """
        names = {each.name for each in fields(cls)}
        if not isinstance(state, Mapping) or set(state) != names:
            raise ArgumentMismatchError("this isn't a state that dali_proxy.DataLoader.state_dict() returned")
        if state["version"] != _VERSION:
            raise ArgumentMismatchError(f"the state has form {state['version']}, but this version reads {_VERSION}")
        return cls(**copy.deepcopy(dict(state)))

    def as_dict(self) -> dict[str, Any]:
        """Return it as a dict of plain objects and tensors, and of what datasets and samplers have given."""
        return {each.name: copy.deepcopy(getattr(self, each.name)) for each in fields(self)}

    def check(self, other: LoaderState) -> None:
        """Raise unless a loader that is in the state `other` can be brought into this one.

        Raises:
            ArgumentMismatchError: it can't; the message says what differs.
        """
        for name, meaning in _MUST_AGREE.items():
            there, here = getattr(self, name), getattr(other, name)
            if there != here:
                raise ArgumentMismatchError(
                    f"the state belongs to a loader with {meaning} {there}, but this one has {here}"
                )
        if set(self.own) != set(other.own):
            raise ArgumentMismatchError(
                f"the state belongs to a loader with a `generator` in {sorted(self.own) or 'nothing'}, but this one "
                f"has one in {sorted(other.own) or 'nothing'}: it would draw another order"
            )
        if self.sampler is not None and other.sampler is None:
            raise ArgumentMismatchError("the state has that of a sampler, but this sampler has no load_state_dict")

    @property
    def stream_start(self) -> StreamStart:
        """Where the workers of an iterable dataset go on."""
        return StreamStart({number: WorkerPlace(**place) for number, place in self.places.items()}, self.last_worker)


class Progress:
    """How far an iterator is in its epoch. Has no reference to the iterator, so it may outlive it.

    Args:
        state: of the beginning of the epoch, or where it goes on.
        sampler: what the sampler's states are taken from.
        in_order: whether batches come in the order of their numbers.

    Attributes:
        yielded: number and place of a batch that is still to be noted. To set it takes one step, in which no signal
            handler can come.
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
        self._places: dict[int, dict[str, Any] | tuple[int, bytes | None]] = dict(state.places)

    def note(self, number: int, place: bytes | None) -> None:
        """Take note of a batch that was yielded: its number, and where its worker is, if its dataset says so."""
        with deferred_signals:
            self.catch_up()
            self._note(number, place)

    def catch_up(self) -> None:
        """Note the batch that is still to be noted."""
        with deferred_signals:
            yielded, self.yielded = self.yielded, None
            if yielded is not None:
                self._note(*yielded)

    def _note(self, number: int, place: bytes | None) -> None:
        if self._begin.kind == "iterable":
            self._last_worker = number % self._begin.workers
            self._places[self._last_worker] = (number // self._begin.workers + 1, place)
            self._batches += 1
        elif self._begin.kind == "datapipe":
            self._batches += 1
        elif self._in_order:
            self._batches = number + 1  # those before have failed, if they were not yielded
        else:
            self._done.add(number)
            while self._batches in self._done:
                self._done.remove(self._batches)
                self._batches += 1
        self._sampler.after(self._batches)

    @property
    def sampler_at_end(self) -> Any:
        """State from which the sampler comes to its end: only the sampler knows what it does there. None before it."""
        self.catch_up()
        state = self._sampler.after(self._batches)
        return {**state, "drain": True} if self.finished and self._batches and state is not None else None

    def state(self) -> LoaderState:
        """Return where it is."""
        self.catch_up()
        return replace(
            self._begin,
            batches=self._batches,
            done=sorted(self._done),
            sampler=self._sampler.after(self._batches) if self._batches else self._begin.sampler,
            last_worker=self._last_worker,
            places={number: _place(place) for number, place in self._places.items()},
        )


def _place(place: dict[str, Any] | tuple[int, bytes | None]) -> dict[str, Any]:
    if isinstance(place, dict):
        return place
    batches, data = place
    dataset, iterator, ended = (None, None, False) if data is None else pickle.loads(data)
    return {"batches": batches, "dataset": dataset, "iterator": iterator, "ended": ended}


class SamplerState:
    """Takes the states of a sampler, which is ahead of the batches that have been yielded.

    Args:
        sampler: one with `state_dict` and `load_state_dict`, or None.
        items: what is drawn from it, batch by batch.
        filled: what fills the last batch, if something does.
    """

    def __init__(self, sampler: Any, items: Iterable[Any] = (), filled: FilledBatches | None = None) -> None:
        self._sampler = sampler
        self._items = items
        self._filled = filled
        self._before: dict[int, Any] = {}  # by number of the batch that comes next

    @property
    def taker(self) -> Callable[[int], None] | None:
        """What a `NumberedSampler` calls; None if there is no state to take."""
        return None if self._sampler is None else self._take

    def _take(self, number: int) -> None:
        self._before[number] = self.now()

    def now(self) -> Any:
        """Return the state that the sampler is in."""
        if self._sampler is None:
            return None
        first = None if self._filled is None or self._filled.first is None else list(self._filled.first)
        return {"state": copy.deepcopy(self._sampler.state_dict()), "first": first, "drain": False}

    def after(self, batches: int) -> Any:
        """Return the state from which an epoch goes on when so many batches are done; see `last_drawn`.

        States before that are forgotten.
        """
        last = last_drawn(batches)
        for old in [each for each in self._before if each < last]:
            del self._before[old]
        return self._before.get(last)

    def start(self, state: LoaderState, goes_on: bool) -> SamplerStart:
        """Return where the sampler starts; one that doesn't go on is left alone."""
        start = SamplerStart(state.batches, frozenset(state.done))
        if not goes_on or self._sampler is None or state.sampler is None:
            return start
        return replace(start, load=partial(self._load, state.sampler))

    def _load(self, state: Any) -> None:
        self._sampler.load_state_dict(copy.deepcopy(state["state"]))
        if self._filled is not None:
            self._filled.resume_after(state["first"])
        if state["drain"]:
            for _ in self._items:
                pass


def start_of_epoch(loader: DataLoader[Any], epoch: int) -> LoaderState:
    """Return the state in which an epoch begins."""
    kind = kind_of(loader.dataset)
    return LoaderState(
        kind=kind,
        epoch=epoch,
        batch_size=loader.batch_size,
        samples=_length(loader.dataset) if kind == "map" else None,
        own=Generators(loader).own(),
        workers=max(loader.num_workers, 1) if kind == "iterable" else 0,
    )


def _length(dataset: Any) -> int | None:
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):  # a dataset whose sampler knows what there is needs none
        return None


def stateful_sampler(loader: DataLoader[Any]) -> Any:
    """Return the one of a loader's samplers that can say where it is, or None."""
    if kind_of(loader.dataset) != "map":
        return None
    for sampler in _samplers(loader):
        if callable(getattr(sampler, "state_dict", None)) and callable(getattr(sampler, "load_state_dict", None)):
            return sampler
    return None


def sampler_with_epochs(loader: DataLoader[Any]) -> Any:
    """Return the one of a loader's samplers that is told the epoch, as `DistributedSampler` is, or None."""
    for sampler in _samplers(loader):
        if callable(getattr(sampler, "set_epoch", None)) and isinstance(getattr(sampler, "epoch", None), int):
            return sampler
    return None


def _samplers(loader: DataLoader[Any]) -> list[Any]:
    if loader.batch_sampler is None:
        return [loader.sampler]
    # torch's takes no more from its sampler than the batches that it has given, of others we don't know.
    inner = [loader.batch_sampler.sampler] if type(loader.batch_sampler) is BatchSampler else []
    return [loader.batch_sampler, *inner]
