"""Readers resume exactly at a checkpoint, in this process and in another one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn
from tests.pipeline.readers.data import flat, reading, take, write_files

READERS: dict[str, dict[str, Any]] = {
    "in order": {},
    "moving shards": {"num_shards": 3, "shard_id": 1},
    "padded": {"num_shards": 3, "shard_id": 2, "pad_last_batch": True},
    "sticking": {"num_shards": 3, "shard_id": 2, "stick_to_shard": True},
    "shuffled": {"random_shuffle": True, "initial_fill": 4},
    "shuffled shards": {"random_shuffle": True, "initial_fill": 3, "num_shards": 2, "pad_last_batch": True},
    "shuffled epochs": {"shuffle_after_epoch": True, "num_shards": 2, "shard_id": 1},
    "far ahead": {"prefetch_queue_depth": 5, "random_shuffle": True, "seed": 9},
    "lazy": {"lazy_init": True, "random_shuffle": True},
}

ELSEWHERE = """
import json, sys
from pipeline import Pipeline
pipe = Pipeline.deserialize(filename=sys.argv[1], checkpoint=open(sys.argv[2], "rb").read())
print(json.dumps([pipe.run()[1].as_array().ravel().tolist() for _ in range(int(sys.argv[3]))]))
pipe.close()
"""


@pytest.mark.parametrize("arguments", READERS.values(), ids=list(READERS))
@pytest.mark.parametrize("depth", [1, 3])
def test_run_resumes_from_any_batch(arguments: dict[str, Any], depth: int, tmp_path: Path) -> None:
    files = write_files(tmp_path, 10)
    how = {"pipe_enable_checkpointing": True, "pipe_prefetch_queue_depth": depth, **arguments}
    whole = reading(files, 3, **how)
    checkpoints = []
    expected = []
    for _ in range(9):
        checkpoints.append(whole.checkpoint())
        expected += take(whole, 1)
    whole.close()
    for number in (0, 1, 2, 4, 7):
        later = reading(files, 3, pipe_checkpoint=checkpoints[number], **how)
        assert later.checkpoint() == checkpoints[number] or arguments.get("lazy_init")
        assert take(later, 9 - number) == expected[number:], number
        later.close()


@pytest.mark.parametrize("name", ["shuffled", "padded"])
def test_serialized_pipeline_resumes_in_another_process(name: str, tmp_path: Path) -> None:
    files = write_files(tmp_path, 10)
    pipe = reading(files, 4, pipe_enable_checkpointing=True, **READERS[name])
    take(pipe, 4)
    pipe.serialize(filename=tmp_path / "pipeline")
    pipe.checkpoint(tmp_path / "checkpoint")
    paths = [str(tmp_path / "pipeline"), str(tmp_path / "checkpoint")]
    run = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *paths, "5"], capture_output=True, text=True, timeout=150, check=True
    )
    assert json.loads(run.stdout) == take(pipe, 5)
    pipe.close()


def test_checkpoint_of_another_data_set_is_refused(tmp_path: Path) -> None:
    files = write_files(tmp_path, 10)
    pipe = reading(files, 3, pipe_enable_checkpointing=True)
    take(pipe, 1)
    made = pipe.checkpoint()
    pipe.close()
    for other, message in (
        (reading(files[:9], 3, pipe_checkpoint=made), "a dataset of 10 entries, but this dataset has 9"),
        (reading(files, 3, name="x", pipe_checkpoint=made), "this one has no reader 'r'"),
    ):
        with pytest.raises(errors.SerializationError, match=message):
            other.build()
        other.close()


def test_readers_stay_in_step_with_each_other_and_with_sources(tmp_path: Path) -> None:
    """Batch n has the n-th samples of both readers and of the source, even after a failed batch."""
    files = write_files(tmp_path, 12)

    def source(iteration: int) -> Any:
        if iteration in (1, 4):
            raise KeyError(iteration)
        return np.full((2, 1), iteration)

    with Pipeline(batch_size=2, num_threads=2, device_id=None, enable_checkpointing=True) as pipe:
        first, second = (fn.readers.file(files=files, prefetch_queue_depth=depth)[1] for depth in (1, 3))
        pipe.set_outputs(first, second, fn.external_source(source))
    for iteration in range(6):
        if iteration in (1, 4):
            with pytest.raises(KeyError):
                pipe.run()
            continue
        made = [output.as_array().ravel().tolist() for output in pipe.run()]
        assert made == [[2 * iteration, 2 * iteration + 1]] * 2 + [[iteration] * 2]
    pipe.close()


def test_smaller_batches_lose_nothing(tmp_path: Path) -> None:
    """The fed input determines the batch size; samples that were prefetched for a larger batch aren't lost."""
    files = write_files(tmp_path, 10)
    with Pipeline(batch_size=4, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.readers.file(files=files)[1], fn.external_source(name="x"))
    made = [pipe.run(x=np.zeros((size, 1)))[0].as_array().ravel().tolist() for size in (4, 1, 3, 3, 2)]
    assert [len(numbers) for numbers in made] == [4, 1, 3, 3, 2]
    assert flat(made) == [*range(10), 0, 1, 2]
    pipe.close()


def test_number_of_shards_may_change_only_between_epochs(tmp_path: Path) -> None:
    files = write_files(tmp_path, 8)
    pipe = reading(files, 2, pipe_enable_checkpointing=True, num_shards=2, pad_last_batch=True)
    take(pipe, 1)
    within = pipe.checkpoint()
    take(pipe, 1)
    between = pipe.checkpoint()
    pipe.close()
    more = {"pipe_enable_checkpointing": True, "num_shards": 4, "pad_last_batch": True}
    with pytest.raises(errors.SerializationError, match="belongs to 2 shards, but this reader has num_shards=4"):
        reading(files, 2, pipe_checkpoint=within, **more).build()
    resumed = reading(files, 2, pipe_checkpoint=between, **more)
    assert flat(take(resumed, 1)) == [2, 3]  # its second epoch reads the second shard
    resumed.close()
