"""Iterators that get their size from a reader, compared with NVIDIA DALI; no sample is lost."""

from __future__ import annotations

import importlib
import itertools
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import dali_proxy
from dali_proxy import (
    DALIClassificationIterator,
    DALIGenericIterator,
    DALIRaggedIterator,
    LastBatchPolicy,
    distributed,
)
from pipeline import Pipeline, errors, fn
from tests.dali_proxy.iterators.datasets import epochs, numbers

EPOCHS = 5


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("files")
    paths = [folder / f"{number:02}.bin" for number in range(1, 18)]
    for path in paths:
        path.write_bytes(b"x")
    return [str(path) for path in paths]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


def reading(library: str, files: list[str], batch_size: int = 2, name: str = "r", **options: Any) -> Any:
    """Return a pipeline with one output, the numbers of the files from 1."""
    dali, fn = importlib.import_module(library), importlib.import_module(f"{library}.fn")
    arguments = {key[5:]: options.pop(key) for key in list(options) if key.startswith("pipe_")}
    pipe = dali.Pipeline(**{"batch_size": batch_size, "num_threads": 1, "device_id": None, **arguments})
    with pipe:
        _, labels = fn.readers.file(files=files, labels=list(range(1, len(files) + 1)), name=name, **options)
        pipe.set_outputs(labels)
    return pipe


def iterate(
    library: str,
    files: list[str],
    batch_size: int,
    shards: list[int],
    policy: str,
    auto_reset: bool = False,
    **options: Any,
) -> tuple[int, int, Any]:
    """Return the sizes and batches of an iterator over several shards; no batches if it has none."""
    plugin = dali_proxy if library == "pipeline" else importlib.import_module("nvidia.dali.plugin.pytorch")
    pipes = [reading(library, files, batch_size, shard_id=shard, **options) for shard in shards]
    try:
        iterator = plugin.DALIGenericIterator(
            pipes, ["x"], reader_name="r", last_batch_policy=plugin.LastBatchPolicy[policy], auto_reset=auto_reset
        )
        return len(iterator), iterator._size, epochs(iterator, EPOCHS, None if auto_reset else iterator.reset)
    except RuntimeError:
        if policy != "DROP":
            raise
        return 0, 0, []
    finally:
        for pipe in pipes:
            getattr(pipe, "close", lambda: None)()


@pytest.mark.combinations
@pytest.mark.parity
@pytest.mark.parametrize("stick", [False, True], ids=["moving", "sticking"])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("policy", [policy.name for policy in LastBatchPolicy])
def test_parity(files: list[str], policy: str, padded: bool, stick: bool) -> None:
    """DALI's iterator is wrong in one case.

    With DROP and padding, it doesn't read an epoch to its end when other shards have one more batch, and begins the
    next one with padding.

    The calls alternate between the two ways to start an epoch, `auto_reset` and `reset()`.
    """
    auto_resets = itertools.cycle((False, True))
    results: list[Any]
    ours_begins_right = 0
    for (count, shards), batch_size in itertools.product(
        ((7, [[0]]), (7, [[0, 1], [1]]), (7, [[0, 1, 2], [2, 0]]), (16, [[0, 1, 2]]), (14, [[2, 3, 1, 0], [3]])),
        (1, 3, 8),
    ):
        options = {"num_shards": max(shards[0]) + 1, "pad_last_batch": padded, "stick_to_shard": stick}
        largest, smallest = -(-count // options["num_shards"]), count // options["num_shards"]
        unread = -(-largest // batch_size) > -(-smallest // batch_size)
        for ids, auto_reset in zip(shards, auto_resets, strict=False):
            results = [
                iterate(library, files[:count], batch_size, ids, policy, auto_reset, **options)
                for library in ("nvidia.dali", "pipeline")
            ]
            if policy == "DROP" and padded and unread:
                assert results[0][:2] == results[1][:2]
                if results[1][2]:
                    assert results[0][2] != results[1][2]
                    firsts = [epoch[0][0][0] for epoch in results[1][2]]
                    moved = [ids[0] if stick else (ids[0] + epoch) % options["num_shards"] for epoch in range(EPOCHS)]
                    assert firsts == [count * shard // options["num_shards"] + 1 for shard in moved]
                    ours_begins_right += 1
            else:
                assert results[0] == results[1], (count, ids, batch_size)
    assert ours_begins_right or not (policy == "DROP" and padded)


@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("policy", list(LastBatchPolicy))
def test_iterators_do_the_same(files: list[str], policy: LastBatchPolicy, padded: bool, auto_reset: bool) -> None:
    def results(kind: Any, *names: list[str]) -> Any:
        pipes = [Pipeline(batch_size=3, num_threads=1, device_id=None) for _ in range(2)]
        for shard, pipe in enumerate(pipes):
            with pipe:
                pipe.set_outputs(
                    *fn.readers.file(
                        files=files, labels=[*range(17)], name="r", shard_id=shard, num_shards=2, pad_last_batch=padded
                    )
                )
        iterator = kind(pipes, *names, reader_name="r", last_batch_policy=policy, auto_reset=auto_reset)
        labels = []
        for _ in range(3):
            labels.append([[each["label"].flatten().tolist() for each in batch] for batch in iterator])
        return len(iterator), iterator._size, labels

    expected = results(DALIGenericIterator, ["data", "label"])
    assert results(DALIRaggedIterator, ["data", "label"]) == expected
    assert results(DALIClassificationIterator) == expected


@pytest.mark.combinations
@pytest.mark.parametrize("padded", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 5])
@pytest.mark.parametrize("shards", [1, 2, 3])
def test_samples_come_once_an_epoch_with_partial(files: list[str], shards: int, batch_size: int, padded: bool) -> None:
    """Without padding, samples that filled an epoch's last batch are missing in the next epoch, as in DALI."""
    _, _, made = iterate(
        "pipeline", files, batch_size, list(range(shards)), "PARTIAL", num_shards=shards, pad_last_batch=padded
    )
    for epoch in made[:1] if not padded else made:
        given = sorted(number for batch in epoch for part in batch for number in part)
        assert given == list(range(1, len(files) + 1))


@pytest.mark.combinations
@pytest.mark.parametrize("stick", [False, True], ids=["moving", "sticking"])
@pytest.mark.parametrize("policy", [policy.name for policy in LastBatchPolicy])
def test_ranks_have_equal_numbers_of_batches(files: list[str], policy: str, stick: bool) -> None:
    """Each rank has an iterator over its own shard, with the arguments of `distributed.Environment.shard`."""
    for samples, ranks, batch_size in itertools.product((4, 5, 8, 17), (2, 3, 4), (1, 3)):
        options = {**distributed.Environment(world_size=ranks).shard, "stick_to_shard": stick}
        del options["shard_id"]
        numbers = {
            tuple(map(len, iterate("pipeline", files[:samples], batch_size, [rank], policy, **options)[2]))
            for rank in range(ranks)
        }
        assert len(numbers) == 1, (samples, ranks, batch_size)


def test_shard_without_samples_left_gives_an_empty_tensor(files: list[str]) -> None:
    pipes = [reading("pipeline", files[:7], shard_id=shard, num_shards=3, pad_last_batch=True) for shard in range(3)]
    iterator = DALIGenericIterator(pipes, ["x"], reader_name="r", last_batch_policy=LastBatchPolicy.PARTIAL)
    last = list(iterator)[-1]
    assert [tuple(each["x"].shape) for each in last] == [(0, 1), (0, 1), (1, 1)]


def test_size_is_that_of_the_data_set(files: list[str]) -> None:
    pipe = reading("pipeline", files, pad_last_batch=True)
    iterator = DALIGenericIterator(pipe, ["x"], reader_name="r", last_batch_policy=LastBatchPolicy.PARTIAL)
    assert iterator._size == iterator.size == len(files)
    assert sum(batch[0]["x"].numel() for batch in iterator) == len(files)


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({}, {"pad_last_batch": True}, "pad_last_batch"),
        ({}, {"stick_to_shard": True}, "stick_to_shard"),
        ({}, {"num_shards": 3}, "number_of_shards"),
    ],
)
def test_readers_must_agree(files: list[str], first: Any, second: Any, what: str) -> None:
    common = {"num_shards": 2}
    pipes = [reading("pipeline", files, **{**common, **options}) for options in (first, second)]
    with pytest.raises(errors.ArgumentMismatchError, match=what):
        DALIGenericIterator(pipes, ["x"], reader_name="r")


@pytest.mark.combinations
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("taken", [0, 1, 4, 5, 6, 11])
@pytest.mark.parametrize("policy", list(LastBatchPolicy))
@pytest.mark.parametrize("padded", [False, True])
def test_checkpoints(files: list[str], policy: LastBatchPolicy, padded: bool, taken: int, shuffled: bool) -> None:
    def iterator(checkpoints: list[Any]) -> Any:
        pipes = [
            reading(
                "pipeline",
                files[:16],
                shard_id=shard,
                num_shards=3,
                pad_last_batch=padded,
                random_shuffle=shuffled,
                pipe_enable_checkpointing=True,
                pipe_checkpoint=checkpoint,
            )
            for shard, checkpoint in enumerate(checkpoints)
        ]
        return DALIGenericIterator(pipes, ["x"], reader_name="r", last_batch_policy=policy, auto_reset=True)

    whole = iterator([None] * 3)
    for _ in range(taken):
        next(whole, None)
    again = iterator(whole.checkpoints())
    left, rest = epochs(whole, 3), epochs(again, 3)
    assert [epoch for epoch in rest if epoch][:2] == [epoch for epoch in left if epoch][:2]


def test_epochs_in_a_loop(files: list[str]) -> None:
    pipe = reading("pipeline", files[:5], pad_last_batch=True)
    iterator = DALIGenericIterator(pipe, ["x"], reader_name="r", last_batch_policy=LastBatchPolicy.PARTIAL)
    for _ in range(2):
        assert [numbers(batch) for batch in iterator] == [[[1, 2]], [[3, 4]], [[5]]]


@pytest.mark.parametrize("pads", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_reader_decides_whether_the_last_batch_is_padded(pads: bool, padded: bool, files: list[str]) -> None:
    with Pipeline(batch_size=3, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.readers.file(files=files[:5], pad_last_batch=pads, name="r")[1])
    iterator = DALIGenericIterator(
        pipe, ["x"], reader_name="r", last_batch_padded=padded, last_batch_policy=LastBatchPolicy.PARTIAL
    )
    epochs = [[batch[0]["x"].flatten().tolist() for batch in iterator] for _ in range(2)]
    assert epochs == [[[0, 1, 2], [3, 4]], [[0, 1, 2], [3, 4]] if pads else [[1, 2, 3], [4, 0]]]
    pipe.close()
