"""`PackedStream`: packed batches of an iterable dataset, the same for any number of ranks and workers."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from torch.utils.data import IterableDataset

from dali_proxy import DALIServer, DataLoader, PackedCollate, PackedStream, fn, pipeline_def
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError

TOKENS, COUNT = 512, 240


@pipeline_def(batch_size=16, num_threads=2, device_id=None, seed=3)
def noisy() -> Any:
    return fn.external_source(name="x") + fn.random.uniform(range=(0, 1), shape=(4, 2))


@pytest.fixture
def server() -> Iterator[DALIServer]:
    with DALIServer(noisy(), mode="thread") as running:
        yield running


class Stream(IterableDataset[Any]):
    """Samples of 10 to 120 tokens. Epochs differ."""

    def __init__(self) -> None:
        self.lengths = np.random.default_rng(1).integers(10, 120, COUNT).tolist()
        self.position = self.epoch = self.read = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        first, self.position = self.position, 0
        for index in range(first, COUNT):
            self.position, self.read = index + 1, self.read + 1
            yield {"input_ids": [index + 1000 * self.epoch] * self.lengths[index]}
        self.position = 0


class StatefulStream(Stream):
    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


class StatefulIterator(Stream):
    def __iter__(self) -> Any:
        return _Iterator(self)


class _Iterator:
    def __init__(self, stream: Stream) -> None:
        self.stream, self.position = stream, 0

    def __next__(self) -> Any:
        if self.position == COUNT:
            raise StopIteration
        self.position, self.stream.read = self.position + 1, self.stream.read + 1
        index = self.position - 1
        return {"input_ids": [index + 1000 * self.stream.epoch] * self.stream.lengths[index]}

    def state_dict(self) -> dict[str, int]:
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.position = state["position"]


class ForgetfulStream(StatefulStream):
    """A stream whose state leaves out a sample that it has read ahead, as the buffer of a shuffle."""

    def state_dict(self) -> dict[str, int]:
        return {"position": min(self.position + 1, COUNT)}


def length(sample: Any) -> int:
    return len(sample["input_ids"])


def packed(kind: type[Stream] = Stream, **options: Any) -> PackedStream:
    return PackedStream(kind(), TOKENS, length, **{"window": 8, "ranks": 4} | options)


def loader(server: DALIServer, kind: type[Stream], rank: int = 0, ranks: int = 1, **options: Any) -> DataLoader:
    proxy = server.proxy

    def submitted(sample: Any) -> Any:
        return {**sample, "x": [proxy(np.full((4, 2), sample["input_ids"][0], np.float32))]}

    stream = packed(kind, transform=submitted, rank=rank, world_size=ranks)
    return DataLoader(server, stream.dataset, batch_sampler=stream, collate_fn=PackedCollate(), **options)


def hashed(batch: Any) -> str:
    parts = [batch[name].numpy().tobytes() for name in ("input_ids", "x", "cu_seqlens")]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def epoch(loaders: list[Any]) -> list[str]:
    """Return the hashes of all ranks' batches, in order."""
    steps = list(itertools.zip_longest(*loaders))
    return [hashed(batch) for step in steps for batch in step]


@pytest.fixture
def expected(server: DALIServer) -> list[str]:
    return epoch([loader(server, Stream)])


def test_batches_are_full_and_have_every_sample_once() -> None:
    stream = packed()
    batches = list(stream)
    content: Any = stream.dataset
    sizes = [sum([len(content[each]["input_ids"]) for each in batch]) for batch in batches]
    assert max(sizes) <= TOKENS
    assert np.mean(sizes[:-4]) > 0.95 * TOKENS
    assert sorted(each for batch in batches for each in batch) == list(range(COUNT))
    assert len(batches) % 4 == 0
    assert list(packed()) == batches != list(packed(seed=1))


@pytest.mark.parametrize(("ranks", "workers"), [(1, 1), (2, 0), (2, 2), (4, 1)])
def test_batches_are_the_same_for_any_number_of_ranks_and_workers(
    server: DALIServer, expected: list[str], ranks: int, workers: int
) -> None:
    made = [loader(server, Stream, rank, ranks, num_workers=workers) for rank in range(ranks)]
    assert epoch(made) == expected


def dealt(streams: list[Any]) -> list[tuple[int, list[tuple[int, str]]]]:
    """Return number, positions and hashes of the samples of all ranks' batches, in order."""
    found = []
    for step in itertools.zip_longest(*streams):
        for batch in step:
            samples = [(int(each), hashlib.sha256(str(each.sample).encode()).hexdigest()) for each in batch]
            found.append((batch.global_batch, samples))
    return found


@pytest.mark.parametrize("kind", [Stream, StatefulStream, StatefulIterator])
def test_ranks_of_any_number_continue_each_other(kind: type[Stream]) -> None:
    def streams(ranks: int, state: dict[str, Any] | None = None) -> list[PackedStream]:
        made = [packed(kind, ranks=8, rank=rank, world_size=ranks) for rank in range(ranks)]
        for each in made if state is not None else []:
            each.load_state_dict(state or {})
        return made

    expected = dealt(streams(1))
    assert len(expected) == 32
    for before, after, steps in itertools.product((1, 2, 4, 8), (1, 2, 4, 8), (0, 1, 3)):
        stopped = streams(before)
        done = dealt([itertools.islice(each, steps) for each in stopped])
        states = [each.state_dict() for each in stopped]
        assert states == states[:1] * before
        made = done + dealt(streams(after, states[-1]))
        whole = 32 - (32 - before * steps) % after  # the last step divides batches if there are too few for its ranks
        assert made[:whole] == expected[:whole]
        rest, other = (sorted(each for _, batch in batches[whole:] for each in batch) for batches in (made, expected))
        assert rest == other


def test_run_may_stop_several_times() -> None:
    expected, found = dealt([packed(StatefulStream)]), []
    state: dict[str, Any] | None = None
    for ranks in (4, 1, 1, 2, 4, 2, 1, 1, 2):  # the last one finds nothing left
        made = [packed(StatefulStream, rank=rank, world_size=ranks) for rank in range(ranks)]
        for each in made if state is not None else []:
            each.load_state_dict(state or {})
        found += dealt([itertools.islice(each, 2) for each in made])
        state = made[0].state_dict()
    assert found == expected


@pytest.mark.parametrize("steps", [12, 16])
def test_stream_that_does_not_resume_exactly_is_an_error(steps: int) -> None:
    stopped = packed(ForgetfulStream)
    for _ in zip(range(steps), stopped, strict=False):
        pass
    resumed = packed(ForgetfulStream)
    resumed.load_state_dict(stopped.state_dict())
    with pytest.raises(ArgumentMismatchError, match=r"the run that is resumed, .* pass stateful=False"):
        list(resumed)
    resumed = packed(ForgetfulStream, stateful=False)
    resumed.load_state_dict(stopped.state_dict())
    assert list(resumed) == list(packed())[steps:]


@pytest.mark.combinations
@pytest.mark.parametrize("kind", [Stream, StatefulStream, StatefulIterator])
@pytest.mark.parametrize(
    ("steps", "before", "after"),
    [(2, (2, 1), (4, 0)), (5, (4, 0), (1, 2)), (8, (1, 1), (2, 0)), (2, (8, 0), (4, 1)), (8, (1, 0), (8, 0))],
)
def test_run_resumes_with_other_numbers_of_ranks_and_workers(
    server: DALIServer,
    expected: list[str],
    kind: type[Stream],
    steps: int,
    before: tuple[int, int],
    after: tuple[int, int],
) -> None:
    stopped = loader(server, kind, 0, before[0], num_workers=before[1])
    for _ in zip(range(steps), stopped, strict=False):
        pass
    state = stopped.state_dict()
    resumed = [loader(server, kind, rank, after[0], num_workers=after[1]) for rank in range(after[0])]
    for each in resumed:
        each.load_state_dict(state)
    assert epoch(resumed) == expected[steps * before[0] :]


def test_later_epochs_differ_and_resume(server: DALIServer, expected: list[str]) -> None:
    whole = loader(server, Stream)
    assert epoch([whole]) == expected
    second = epoch([whole])
    assert len(second) == len(expected)
    assert set(second).isdisjoint(expected)
    stopped = loader(server, Stream)
    epoch([stopped])
    next(iter(stopped))
    resumed = loader(server, Stream)
    resumed.load_state_dict(stopped.state_dict())
    assert epoch([resumed]) == second[1:]


@pytest.mark.parametrize("kind", [StatefulStream, StatefulIterator])
def test_stream_with_a_state_is_not_read_from_its_beginning(kind: type[Stream]) -> None:
    stopped = packed(kind)
    for _ in zip(range(20), stopped, strict=False):
        pass
    stream = kind()
    resumed = PackedStream(stream, TOKENS, length, window=8, ranks=4)
    resumed.load_state_dict(stopped.state_dict())
    assert [list(batch) for batch in resumed] == [list(batch) for batch in packed(kind)][20:]
    assert stream.read < COUNT / 2 + 60


def test_next_window_is_read_in_parts() -> None:
    stream = Stream()
    batches = iter(PackedStream(stream, TOKENS, length, window=8, ranks=1))
    next(batches)
    first, before = stream.read, stream.read
    for _ in range(7):
        next(batches)
        assert 0 < stream.read - before < first / 3
        before = stream.read


def test_lost_batches_are_made_again(expected: list[str]) -> None:
    """The indices of a batch have its samples, so any process can make it."""
    with DALIServer(noisy(), restart="on-failure") as server:
        made = loader(server, Stream, num_workers=1)
        batches = iter(made)
        hashes = [hashed(next(batches))]
        os.kill(server.pid or 0, signal.SIGKILL)
        hashes += [hashed(batch) for batch in batches]
    assert hashes == expected


def test_state_of_another_plan_is_refused() -> None:
    state = packed().state_dict()
    with pytest.raises(ArgumentMismatchError, match="saved with window=8, but this sampler has window=16"):
        packed(window=16).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"), [({"window": 0}, "window must be a whole number, 1"), ({"ranks": 0}, "ranks must be")]
)
def test_wrong_numbers_are_errors(options: Any, message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        packed(**options)


def test_long_sample_is_an_error() -> None:
    with pytest.raises(ArgumentValueError, match="has 120 tokens, but a batch holds 100"):
        list(PackedStream([[0] * 120], 100, len))
