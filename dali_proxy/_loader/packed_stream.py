"""`PackedStream`: packs the samples of an iterable dataset into batches by tokens."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from torch.utils.data import Dataset

from dali_proxy._loader.numbered_streams import state_of
from dali_proxy._loader.packing_plan import PackingPlan, SampleSizes
from dali_proxy._loader.window_sampler import WindowSampler
from dali_proxy.pipeline.errors import ArgumentMismatchError


class PackedStream(WindowSampler):
    """Batch sampler for one rank that packs an iterable dataset, as `PackedBatchSampler` packs one with indices.

    It reads samples ahead until they fill `window` batches, and plans these for all ranks: every rank reads the whole
    stream, which must be the same on all of them, so the dataset mustn't divide it by rank or worker. This process
    reads it, and sends the samples to the workers. So let the stream have what describes a sample, such as its text and
    the path and size of its image; `transform` reads the file, in a worker.

    With `dali_proxy.DataLoader`, batches and random numbers are the same for any number of ranks that divides `ranks`,
    and any number of workers. A run may resume with other numbers: load the `state_dict` of any rank into the loaders
    of all ranks. The state says where the window begins, and its samples are read once more. This takes the state of
    the dataset or its iterator, if it has `state_dict` and `load_state_dict`; otherwise the stream is read again from
    its beginning. The state also has a checksum of the window's lengths, so a stream that returns other samples after a
    resume is an error.

    Args:
        dataset: iterable of samples, such as an `IterableDataset`. If it has `set_epoch`, that is called.
        tokens: largest number of tokens of a batch.
        length: function that returns the number of tokens of a sample.
        cost: function that returns a further cost of a sample, or several, or None.
        transform: function that returns the sample for the batch, given a sample of the stream. Workers call it, with
            the proxy.
        window: number of batches that are planned together.
        stateful: whether to resume by the state of the dataset. Pass False if its state isn't exact, as with `shuffle`
            of Hugging Face's iterable datasets, which leave the buffer out: the stream is then read again.
        seed: seed of the order of a window's batches.
        ranks: the number of batches of a window is a multiple of it; by default, as for `PackedBatchSampler`.
        rank: number of this rank; by default, that of `distributed.environment` when an epoch begins.
        world_size: number of ranks, likewise.

    Raises:
        ArgumentValueError: a number isn't positive; or, when it is read: a sample has more than `tokens` tokens.
        ArgumentMismatchError: when it is read: the stream doesn't return the samples of the run that is resumed.

    Attributes:
        dataset: dataset for the loader: it returns the transformed samples of a batch of this sampler.

    Example:
        >>> stream = PackedStream("a bbb cc dddd".split(), 5, len, window=2, ranks=1)
        >>> sorted([stream.dataset[each] for each in batch] for batch in stream)
        [['a', 'dddd'], ['bbb', 'cc']]
        >>> loader = DataLoader(server, stream.dataset, batch_sampler=stream, num_workers=4)  # doctest: +SKIP
    """

    _beginning: ClassVar[Mapping[str, Any]] = {
        **{"window_batch": 0, "window_sample": 0, "window_lengths": None},
        **{"stream": None, "iterator": None},
    }

    def __init__(
        self,
        dataset: Any,
        tokens: int,
        length: Callable[[Any], int],
        *,
        cost: Callable[[Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        window: int = 32,
        stateful: bool = True,
        seed: int = 0,
        ranks: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        super().__init__(ranks, rank, world_size, tokens=tokens, window=window)
        self._stream, self._tokens, self._window, self._seed = dataset, tokens, window, seed
        self._length, self._cost, self._stateful = length, cost, stateful
        self.dataset = StreamSamples(transform)

    @property
    def _identity(self) -> dict[str, int]:
        return {"seed": self._seed, "tokens": self._tokens, "window": self._window}

    def _rest(self) -> Iterator[tuple[Sequence[int], dict[str, Any]]]:
        position, place = self._position, self._place_of_window
        samples = self._samples(place)
        number = place["window_batch"]
        held: list[tuple[StreamSample, int]] = []
        begin = place["window_sample"]
        while True:
            ended = self._read(samples, held, begin, 1.0)
            lengths = _checksum(held)
            if place["window_lengths"] not in (None, lengths):
                raise ArgumentMismatchError(
                    f"the stream doesn't return the samples of the run that is resumed, from its sample {begin} on: "
                    "it must return the same in each run; if its state leaves something out, such as the buffer of a "
                    "shuffle, pass stateful=False"
                )
            if not held:
                return
            batches = self._packed(held, number)
            begin, held = begin + len(held), []
            end = number + len(batches)
            behind = {"window_batch": end, "window_sample": begin}
            if self._stateful and not ended:  # streams that have ended begin again
                states = {"stream": state_of(self._stream), "iterator": state_of(samples)}
                behind.update(copy.deepcopy(states))
            for each in range(max(number, position), end):
                # The next window is read in parts, so that no batch waits for all of it.
                self._read(samples, held, begin, (each + 1 - number) / len(batches))
                if each + 1 == end:
                    place = {**behind, "window_lengths": _checksum(held)}
                yield batches[each - number], place
            number = end

    def _samples(self, place: dict[str, Any]) -> Iterator[Any]:
        """Return an iterator over the stream, at the place of a window."""
        if callable(set_epoch := getattr(self._stream, "set_epoch", None)):
            set_epoch(self.epoch)
        if not self._stateful:
            place = {**place, "stream": None, "iterator": None}
        if place["stream"] is not None:
            self._stream.load_state_dict(copy.deepcopy(place["stream"]))
        samples: Any = iter(self._stream)
        if place["iterator"] is not None:
            samples.load_state_dict(copy.deepcopy(place["iterator"]))
        elif place["stream"] is None:
            samples = islice(samples, place["window_sample"], None) if place["window_sample"] else samples
        found: Iterator[Any] = samples
        return found

    def _read(self, samples: Iterator[Any], held: list[tuple[StreamSample, int]], begin: int, share: float) -> bool:
        """Read samples until they fill a share of a window; return whether the stream has ended.

        The first one has the position `begin` in the stream.
        """
        room = share * self._window * self._tokens * _FULL - sum(length for _, length in held)
        while room > 0 and (sample := next(samples, _END)) is not _END:
            held.append((StreamSample(begin + len(held), sample), int(self._length(sample))))
            room -= held[-1][1]
        return room > 0

    def _packed(self, held: list[tuple[StreamSample, int]], number: int) -> list[list[int]]:
        costs = None if self._cost is None else [self._cost(each.sample) for each, _ in held]
        sizes = SampleSizes([length for _, length in held], costs)
        key = self._seed, number
        plan = PackingPlan(np.arange(len(held)), sizes, self._tokens, self._window, self._running, key)
        return [[held[each][0] for each in batch.tolist()] for batch in plan.rest().batches]


class StreamSample(int):
    """The position of a sample in a stream, with the sample.

    Attributes:
        sample: the sample.
    """

    sample: Any

    def __new__(cls, position: int, sample: Any) -> StreamSample:
        """Return a position with a sample."""
        self = super().__new__(cls, position)
        self.sample = sample
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamSample, (int(self), self.sample)


class StreamSamples(Dataset[Any]):
    """Dataset whose indices have the samples of a stream.

    Args:
        transform: function that returns the sample for the batch, or None.
    """

    def __init__(self, transform: Callable[[Any], Any] | None) -> None:
        self._transform = transform

    def __getitem__(self, index: StreamSample) -> Any:
        return index.sample if self._transform is None else self._transform(index.sample)


def _checksum(held: Sequence[tuple[StreamSample, int]]) -> int:
    return zlib.crc32(np.array([length for _, length in held], np.int64).data)


_END = object()
_FULL = 0.98  # of a window: samples can't be divided
