"""What readers return: a tuple of outputs, the only one, or a dictionary of features, as in NVIDIA DALI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, dynamic, fn, ops
from pipeline.tfrecord import FixedLenFeature, VarLenFeature, float32, int64, string
from tests.clips import Clips
from tests.pipeline.readers.wire import example, write_tfrecord

FEATURES = {
    "name": FixedLenFeature((), string, ""),
    "number": FixedLenFeature([1], int64, -1),
    "reals": VarLenFeature(float32, 0.0),
}


@pytest.fixture
def arrays(tmp_path: Path) -> list[str]:
    files = [str(tmp_path / f"{number}.npy") for number in range(4)]
    for number, file in enumerate(files):
        np.save(file, np.full((2, number + 1), number, np.float32))
    return files


@pytest.fixture
def records(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "x.tfrecord"
    index = write_tfrecord(
        path,
        [example({"name": [b"abc"], "number": [number], "reals": [1.0] * number}) for number in range(1, 5)],
    )
    return {"path": str(path), "index_path": str(index), "features": FEATURES}


def test_call_of_a_reader_with_one_output_returns_the_output(arrays: list[str]) -> None:
    reader = dynamic.readers.Numpy(files=arrays)
    assert isinstance(reader(), dynamic.Tensor)
    batch = reader(batch_size=2)
    assert isinstance(batch, dynamic.Batch)
    assert batch.shape == [(2, 2), (2, 3)]
    reader.close()


def test_epoch_of_a_reader_with_one_output_returns_tuples(arrays: list[str]) -> None:
    reader = dynamic.readers.Numpy(files=arrays)
    assert [data.shape for (data,) in reader.next_epoch()] == [(2, 1), (2, 2), (2, 3), (2, 4)]
    assert [data.shape for (data,) in reader.next_epoch(batch_size=2)] == [[(2, 1), (2, 2)], [(2, 3), (2, 4)]]
    reader.close()


def test_reader_of_features_returns_them_by_name(records: dict[str, Any]) -> None:
    reader = dynamic.readers.TFRecord(**records)
    assert {name: each.shape for name, each in reader().items()} == {"name": (3,), "number": (1,), "reals": (1,)}
    reader.close()
    reader = dynamic.readers.TFRecord(**records)
    batches = list(reader.next_epoch(batch_size=2))
    assert [batch["reals"].shape for batch in batches] == [[(1,), (2,)], [(3,), (4,)]]
    assert [each["number"].item() for each in reader.next_epoch()] == [1, 2, 3, 4]
    reader.close()


def test_reader_of_one_feature_returns_it_by_name(records: dict[str, Any]) -> None:
    reader = dynamic.readers.TFRecord(**{**records, "features": {"number": FEATURES["number"]}})
    assert [each["number"].item() for each in reader.next_epoch()] == [1, 2, 3, 4]
    assert reader()["number"].item() == 1
    reader.close()


def test_reader_of_several_operators_runs_them_all(clips: Clips) -> None:
    reader = dynamic.readers.VideoResize(filenames=[str(clips.path("h264.mp4"))], sequence_length=4, resize_shorter=24)
    assert reader().shape == (4, 24, 32, 3)
    reader.close()


def test_reader_in_a_pipeline_block_is_not_part_of_the_pipeline(arrays: list[str]) -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        reader = dynamic.readers.Numpy(files=arrays, name="Reader")
        pipe.set_outputs(fn.readers.numpy(files=arrays[:1], name="Reader"))
    assert pipe.epoch_size("Reader") == 1
    pipe.close()
    reader.close()


@pytest.mark.parametrize(
    "describe",
    [
        lambda **arguments: fn.readers.tfrecord(**arguments),
        lambda **arguments: fn.tfrecord_reader(**arguments),
        lambda **arguments: ops.readers.TFRecord(**arguments)(),
        lambda **arguments: ops.TFRecordReader(**arguments)(),
        lambda path, index_path, features: ops.TFRecordReader(path, index_path, features)(),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is now deprecated:DeprecationWarning")
def test_all_names_of_the_reader_return_dictionaries(describe: Any, records: dict[str, Any]) -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=None) as pipe:
        outputs = describe(**records)
        pipe.set_outputs(*outputs.values())
    assert list(outputs) == ["name", "number", "reals"]
    assert pipe.run()[1].as_array().ravel().tolist() == [1, 2, 3, 4]
    pipe.close()


def test_old_names_of_readers_warn(records: dict[str, Any]) -> None:
    with pytest.warns(DeprecationWarning, match="ops.TFRecordReader` is now deprecated"):
        ops.TFRecordReader(**records)()
