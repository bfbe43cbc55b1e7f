"""readers.caffe and readers.caffe2 compared with NVIDIA DALI, and their errors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import PipelineError
from tests.pipeline.readers.wire import datum, tensor, tensors

lmdb = pytest.importorskip("lmdb")

PIXELS = bytes(range(12))
IMAGE = tensor(b"image")
DATABASES = {
    "caffe": [datum(b"image%d" % number, number * 3 - 2) for number in range(5)],
    "caffe raw": [datum(PIXELS, 7, (3, 2, 2)), datum(PIXELS[::-1], None, (3, 2, 2))],
    "caffe bad": [datum(PIXELS, 7, (3, 2, 9))],
    "single": [tensors(tensor(b"image%d" % number), tensor([number - 1])) for number in range(4)],
    "raw": [tensors(tensor(bytearray(PIXELS), (2, 2, 3)), tensor([0.5]))],
    "raw grey": [tensors(tensor(bytearray(PIXELS), (3, 4)), tensor([1]))],
    "raw bad": [tensors(tensor(bytearray(PIXELS), (3, 5)), tensor([1]))],
    "dense": [tensors(IMAGE, tensor([0.5, 2.0, 3.0]))],
    "sparse": [tensors(IMAGE, tensor([1, 4]))],
    "weighted": [tensors(IMAGE, tensor([1, 4]), tensor([0.25, 0.75]))],
    "image": [tensors(IMAGE)],
    "more": [tensors(IMAGE, tensor([1]), tensor([1.0, 2.0]), tensor([1, 2, 3, 4], (2, 2)), tensor([5, 6, 7, 8]))],
    "noise": [b"\x0a\xff\x01"],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lmdb")
    for name, values in DATABASES.items():
        with lmdb.open(str(folder / name), map_size=1 << 20) as database, database.begin(write=True) as transaction:
            for number, value in enumerate(values):
                transaction.put(b"%08d" % number, value)
    return folder


def outputs(side: str, operator: str, paths: Sequence[str], batches: int = 2, **arguments: Any) -> Any:
    """Return the epoch size, each output's samples, and where the first batch comes from."""
    dali = pipeline if side == "ours" else pytest.importorskip("nvidia.dali")
    pipe = dali.Pipeline(batch_size=2, num_threads=2, device_id=None, seed=1)
    with pipe:
        made = getattr(dali.fn.readers, operator)(path=[str(path) for path in paths], name="R", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list | tuple) else (made,)))
    pipe.build()
    try:
        ran = [pipe.run() for _ in range(batches)]
        arrays = [[np.array(output.at(index)) for index in range(2)] for batch in ran for output in batch]
        return pipe.epoch_size("R"), arrays, [ran[0][0][index].source_info() for index in range(2)]
    finally:
        if side == "ours":
            pipe.close()


def assert_same(ours: Any, theirs: Any) -> None:
    assert ours[0] == theirs[0]
    assert ours[2] == theirs[2] or not any(theirs[2])  # DALI's labels don't say where they come from
    for our_samples, their_samples in zip(ours[1], theirs[1], strict=True):
        for our, their in zip(our_samples, their_samples, strict=True):
            assert our.dtype == their.dtype
            assert our.shape == their.shape
            assert np.array_equal(our, their)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("operator", "names", "arguments"),
    [
        ("caffe", ["caffe"], {}),
        ("caffe", ["caffe", "caffe"], {"num_shards": 3, "shard_id": 1, "pad_last_batch": True, "stick_to_shard": True}),
        ("caffe", ["caffe"], {"image_available": False}),
        ("caffe", ["caffe"], {"label_available": False}),
        ("caffe", ["caffe raw"], {}),
        ("caffe2", ["single"], {}),
        ("caffe2", ["raw"], {}),
        ("caffe2", ["raw grey"], {}),
        ("caffe2", ["dense"], {"label_type": 2}),
        ("caffe2", ["image"], {"label_type": 4}),
        ("caffe2", ["more"], {"additional_inputs": 2, "bbox": True}),
    ],
)
def test_entries_are_those_of_dali(root: Path, operator: str, names: list[str], arguments: dict[str, Any]) -> None:
    paths = [str(root / name) for name in names]
    assert_same(*(outputs(side, operator, paths, 3, **arguments) for side in ("ours", "dali")))


def test_sparse_labels_are_a_vector_and_indices(root: Path) -> None:
    _, (_, labels, indices), _ = outputs("ours", "caffe2", [root / "sparse"], 1, label_type=1, num_labels=6)
    assert labels[0].tolist() == [0, 1, 0, 0, 1, 0]
    assert indices[0].tolist() == [1, 4]


def test_weighted_labels_are_a_vector_and_weights(root: Path) -> None:
    _, (_, labels, weights), _ = outputs("ours", "caffe2", [root / "weighted"], 1, label_type=3, num_labels=5)
    assert labels[0].tolist() == [0, 0.25, 0, 0, 0.75]
    assert weights[0].tolist() == [0.25, 0.75]


def test_pipelines_share_a_database(root: Path) -> None:
    """LMDB refuses to open a database twice."""
    with pipeline.Pipeline(batch_size=2, num_threads=1, device_id=None) as first:
        first.set_outputs(*pipeline.fn.readers.caffe(path=str(root / "caffe")))
    first.build()
    expected = outputs("ours", "caffe", [root / "caffe"])
    assert bytes(np.array(first.run()[0].at(0))) == bytes(expected[1][0][0])
    first.close()


@pytest.mark.parametrize(
    ("operator", "name", "arguments", "match"),
    [
        ("caffe", "none", {}, "can't read the LMDB database '.*none': .*No such file"),
        ("caffe", "caffe bad", {}, r"bad at key 00000000 can't be read: it has 12 bytes of pixels, .* \(2, 9, 3\)"),
        ("caffe", "noise", {}, "noise at key 00000000 can't be read: an integer exceeds|noise at key .*: a field of"),
        ("caffe2", "noise", {}, "noise at key 00000000 can't be read"),
        ("caffe2", "single", {"label_type": 5}, "'label_type' must be from 0 to 4, not 5"),
        ("caffe2", "image", {}, "has fewer arrays than the arguments request"),
        ("caffe2", "raw bad", {}, r"Image data size mismatch: 12 bytes \(expected: 15\)"),
        ("caffe2", "dense", {}, "its label has 3 values instead of 1"),
        ("caffe2", "sparse", {"label_type": 1, "num_labels": 4}, r"Label index out of bounds: 4 \(num_labels=4\)"),
        ("caffe2", "sparse", {"label_type": 1, "bbox": True, "num_labels": 9}, "fewer arrays than"),
        ("caffe2", "more", {"bbox": True}, "a box has 2 values instead of 4"),
    ],
)
def test_damaged_entry_is_an_error(root: Path, operator: str, name: str, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        outputs("ours", operator, [root / name], **arguments)


def test_missing_package_is_an_error_that_names_the_extra(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(PipelineError, match=r"reading LMDB databases needs the package 'lmdb'.*'dali-proxy\[lmdb\]'"):
        outputs("ours", "caffe", [root / "caffe"])
