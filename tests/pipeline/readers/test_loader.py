"""A new format needs only a `Loader` that lists entries and reads one; the base class does the rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._declaration import registry
from dali_proxy.pipeline._declaration.schema import Argument, Kind, OperatorSchema
from dali_proxy.pipeline._executor import BatchRequest, BatchResult
from dali_proxy.pipeline._graph import apply_operator
from dali_proxy.pipeline._operator_api.operator import OutputSpec
from dali_proxy.pipeline._readers.arguments import READER_ARGUMENTS
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.loader import Loader
from pipeline import Pipeline, errors
from pipeline.tensors.cpu import Array


class Shelf:
    """A data set that records the test loader's reads, and can block them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changed = threading.Condition(self.lock)
        self.read: list[int] = []
        self.threads: set[str] = set()
        self.given: dict[int, Array] = {}
        self.held: set[int] = set()  # entries whose reads are blocked

    def take(self, entry: int) -> Array:
        with self.changed:
            self.read.append(entry)
            self.threads.add(threading.current_thread().name)
            self.changed.notify_all()
            assert self.changed.wait_for(lambda: entry not in self.held, timeout=60)
            if entry == 13:
                raise KeyError("thirteen")
            return self.given.setdefault(entry, np.full(entry % 3 + 1, entry, np.int16))

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.read) >= count, timeout=60)

    def release(self) -> None:
        with self.changed:
            self.held.clear()
            self.changed.notify_all()


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    """Register a reader `readers.shelf` of 100 numbers that differ in length, with their numbers and squares."""
    monkeypatch.setattr(registry, "_SCHEMAS", dict(registry._SCHEMAS))
    monkeypatch.setattr(registry, "_IMPLEMENTATIONS", dict(registry._IMPLEMENTATIONS))
    made = Shelf()
    entries = Argument("entries", Kind.INT, "How many.", 100)

    @reads(OperatorSchema("readers.shelf", "Numbers.", arguments=(entries, *READER_ARGUMENTS), outputs=2))
    class ShelfLoader(Loader):
        outputs = (OutputSpec("W", dtype=np.dtype(np.int16)), OutputSpec(shape=(2,), dtype=np.dtype(np.int64)))

        def open(self) -> int:
            return int(self.node.argument("entries"))

        def read(self, entry: int) -> tuple[Array, ...]:
            return made.take(entry), np.array([entry, entry**2])

        def source_info(self, entry: int) -> str:
            return f"number {entry}"

    yield made
    made.release()


def reading(batch_size: int = 4, outputs: int = 2, **arguments: Any) -> Pipeline:
    how = {"num_threads": arguments.pop("num_threads", 2), "prefetch_queue_depth": arguments.pop("pipe_depth", 1)}
    with Pipeline(batch_size=batch_size, device_id=None, **how) as pipe:
        nodes = apply_operator("readers.shelf", (), {"name": "shelf", **arguments})
        assert isinstance(nodes, tuple)
        pipe.set_outputs(*nodes[:outputs])
    return pipe


def test_samples_are_batched_unchanged(shelf: Shelf) -> None:
    pipe = reading()
    numbers, squares = pipe.run()
    assert numbers.layout() == "W"
    assert numbers.shape() == [(1,), (2,), (3,), (1,)]
    assert all(numbers.at(sample) is shelf.given[sample] for sample in range(4))
    assert squares.dense.tolist() == [[0, 0], [1, 1], [2, 4], [3, 9]]
    assert [sample.source_info() for sample in numbers] == [f"number {number}" for number in range(4)]
    assert squares[0].source_info() == ""
    pipe.close()


@pytest.mark.parametrize("depth", [1, 3])
def test_batches_are_read_ahead_as_configured(depth: int, shelf: Shelf) -> None:
    pipe = reading(prefetch_queue_depth=depth)
    for number in range(3):
        pipe.run()
        shelf.wait_for(4 * (number + 1 + depth))
        assert sorted(shelf.read) == list(range(4 * (number + 1 + depth)))
    assert len(shelf.read) == 4 * (3 + depth)
    assert {name.rpartition("-")[0] for name in shelf.threads} == {"dali-shelf"}
    pipe.close()


def test_entries_are_read_at_the_same_time(shelf: Shelf) -> None:
    shelf.held = {0, 1, 2}
    pipe = reading(num_threads=3)
    pipe.schedule_run()
    shelf.wait_for(3)  # each read has begun, and none has ended
    assert sorted(shelf.read) == [0, 1, 2]
    shelf.release()
    assert pipe.share_outputs()[1].dense[:, 0].tolist() == [0, 1, 2, 3]
    pipe.close()


def test_slow_entry_holds_up_only_its_batch_and_those_after_it(shelf: Shelf) -> None:
    shelf.held = {5}
    pipe = reading(pipe_depth=2)
    assert pipe.run()[1].dense[:, 0].tolist() == [0, 1, 2, 3]
    shelf.wait_for(12)  # the batch of entry 5 and one more have begun
    shelf.release()
    assert pipe.run()[1].dense[:, 0].tolist() == [4, 5, 6, 7]
    pipe.close()


def test_other_exceptions_are_errors_of_the_sample(shelf: Shelf) -> None:
    pipe = reading(shard_id=1, num_shards=8, outputs=1)  # begins at 12
    with pytest.raises(errors.OperatorError, match=r"fn.readers.shelf .* failed for sample 1: KeyError: 'thirteen'"):
        pipe.run()
    assert pipe.run()[0].shape() == [(2,), (3,), (1,), (2,)]
    pipe.close()


def test_unneeded_entries_are_not_read(shelf: Shelf) -> None:
    shelf.held = set(range(4, 100))
    pipe = reading(prefetch_queue_depth=20)
    pipe.run()
    shelf.wait_for(6)  # both threads wait
    pipe._internals.runner.executor.readers.skip(4)
    shelf.release()
    pipe.close()
    assert sorted(shelf.read) == list(range(6))


def test_pipeline_that_is_dropped_ends_its_readers(shelf: Shelf) -> None:
    reading().run()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dali-shelf")]


def test_batches_that_are_submitted_have_their_samples_in_order(shelf: Shelf) -> None:
    pipe = reading(entries=13)
    done = threading.Semaphore(0)
    results: dict[int, BatchResult] = {}

    def keep(number: int) -> Any:
        def on_done(result: BatchResult) -> None:
            results[number] = result
            done.release()

        return on_done

    sizes = [4, 4, 2, 3, 4, 1]
    for number, size in enumerate(sizes):
        pipe._internals.runner.submit(BatchRequest(size), keep(number))
    for _ in sizes:
        assert done.acquire(timeout=60)
    read = [results[number].outputs[1].as_array()[:, 0].tolist() for number in range(len(sizes))]
    assert [len(numbers) for numbers in read] == sizes
    assert [number for numbers in read for number in numbers] == [*range(13), *range(5)]
    pipe.close()
