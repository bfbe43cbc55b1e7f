"""readers.tfrecord compared with NVIDIA DALI, and its errors."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import PipelineError
from pipeline.tfrecord import FixedLenFeature, VarLenFeature, float32, int64, string
from tests.pipeline.readers.wire import example, write_tfrecord

EXAMPLES = [
    example(
        {
            "name": [b"abc" * number],
            "names": [b"ab", b"c"],
            "number": [number],
            "numbers": [1, -2, 3, 1 << 40],
            "reals": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "nothing": [],
        },
        packed=number % 2 == 0,
    )
    for number in range(7)
]
#: Takes the module `tfrecord` of either side; returns features.
Features = Callable[[Any], dict[str, Any]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tfrecord")
    write_tfrecord(folder / "a.tfrecord", EXAMPLES[:4])
    write_tfrecord(folder / "b.tfrecord", EXAMPLES[4:])
    return folder


def outputs(side: str, root: Path, features: Features, batches: int = 3, **arguments: Any) -> Any:
    """Return the epoch size, each output's samples, and where the first batch comes from."""
    dali = pipeline if side == "ours" else pytest.importorskip("nvidia.dali")
    if side == "ours":
        from pipeline import tfrecord
    else:
        from nvidia.dali import tfrecord
    paths = {
        name: [str(root / each) for each in arguments.pop(name, default)]
        for name, default in {"path": ["a.tfrecord", "b.tfrecord"], "index_path": ["a.idx", "b.idx"]}.items()
    }
    pipe = dali.Pipeline(batch_size=3, num_threads=1, device_id=None, seed=1)
    with pipe:
        made = dali.fn.readers.tfrecord(name="R", features=features(tfrecord), **paths, **arguments)
        pipe.set_outputs(*made.values())
    pipe.build()
    try:
        ran = [pipe.run() for _ in range(batches)]
        arrays = [[np.array(output.at(index)) for index in range(len(output))] for batch in ran for output in batch]
        sources = [ran[0][0][index].source_info() for index in range(3)]
        return pipe.reader_meta("R"), arrays, sources
    finally:
        if side == "ours":
            pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize(
    "features",
    [
        lambda of: {"name": of.FixedLenFeature([1], of.string, ""), "names": of.FixedLenFeature((), of.string, "")},
        lambda of: {"number": of.FixedLenFeature((), of.int64, -1)},
        lambda of: {
            "number": of.FixedLenFeature([1], of.int64, -1),
            "numbers": of.FixedLenFeature([4], of.int64, 7),
        },
        lambda of: {"numbers": of.VarLenFeature(of.int64, 0), "reals": of.VarLenFeature([3], of.float32, 0.0)},
        lambda of: {"reals": of.VarLenFeature([2, 3], of.float32, 0.0)},
        lambda of: {"nothing": of.VarLenFeature(of.int64, 0)},
    ],
)
def test_features_are_those_of_dali(root: Path, features: Features) -> None:
    ours, theirs = (outputs(side, root, features) for side in ("ours", "dali"))
    assert ours[0] == theirs[0]
    assert ours[2] == theirs[2]
    for our_samples, their_samples in zip(ours[1], theirs[1], strict=True):
        for our, their in zip(our_samples, their_samples, strict=True):
            assert our.dtype == their.dtype
            assert our.shape == their.shape
            assert np.array_equal(our, their)


def test_missing_values_are_zero(root: Path) -> None:
    """In DALI, they are undefined."""
    features: Features = lambda of: {  # noqa: E731
        "numbers": of.FixedLenFeature([2, 3], of.int64, 7),
        "absent": of.FixedLenFeature([3], of.float32, 1.0),
        "unnamed": of.FixedLenFeature([], of.string, "x"),
    }
    long, absent, text = (samples[0] for samples in outputs("ours", root, features, 1)[1])
    assert long.tolist() == [[1, -2, 3], [1 << 40, 0, 0]]
    assert (absent.shape, absent.item()) == ((), 0.0)
    assert text.shape == (0,)


@pytest.mark.parity
@pytest.mark.parametrize("stick", [False, True])
@pytest.mark.parametrize("pad", [False, True])
def test_shards_are_those_of_dali(root: Path, pad: bool, stick: bool) -> None:
    arguments = {"shard_id": 1, "num_shards": 2, "pad_last_batch": pad, "stick_to_shard": stick}
    ours, theirs = (
        outputs(side, root, lambda of: {"number": of.FixedLenFeature((), of.int64, -1)}, 6, **arguments)
        for side in ("ours", "dali")
    )
    assert ours == theirs


def numbers(root: Path, batches: int = 3, **arguments: Any) -> list[int]:
    features: Features = lambda of: {"number": of.FixedLenFeature((), of.int64, -1)}  # noqa: E731
    return [int(each) for batch in outputs("ours", root, features, batches, **arguments)[1] for each in batch]


def test_without_index_the_files_are_scanned(root: Path) -> None:
    assert numbers(root, index_path=()) == numbers(root)


def test_records_are_drawn_from_a_buffer_in_order(root: Path) -> None:
    drawn = numbers(root, 7, random_shuffle=True, initial_fill=2, pad_last_batch=True, stick_to_shard=True)
    for epoch in (drawn[:7], drawn[9:16]):
        assert sorted(epoch) == list(range(7))
        assert all(number < position + 2 for position, number in enumerate(epoch))


def test_files_are_shuffled_after_each_epoch(root: Path) -> None:
    """Records of a file stay in order."""
    drawn = numbers(root, 21, shuffle_after_epoch=True)
    epochs = {tuple(drawn[start : start + 7]) for start in range(0, 63, 7)}
    assert epochs == {(0, 1, 2, 3, 4, 5, 6), (4, 5, 6, 0, 1, 2, 3)}
    assert drawn != numbers(root, 21, shuffle_after_epoch=True, shuffle_after_epoch_seed=3)


def test_shuffled_files_are_combined_with_a_buffer(root: Path) -> None:
    drawn = numbers(root, 7, shuffle_after_epoch=True, random_shuffle=True)
    assert all(sorted(drawn[start : start + 7]) == list(range(7)) for start in (0, 7, 14))
    assert drawn[:7] not in ([0, 1, 2, 3, 4, 5, 6], [4, 5, 6, 0, 1, 2, 3])


@pytest.mark.parametrize(
    ("feature", "match"),
    [
        (
            FixedLenFeature([3], int64, 0),
            r"a.tfrecord at index 0.*shape is too small: \[3\]. Expected at least 4",
        ),
        (VarLenFeature([3], int64, 0), r"4 values of 'numbers' don't fit the partial shape \(3,\)"),
        (FixedLenFeature([4], float32, 0.0), "'numbers' contains values of int64, not of float32"),
        (
            VarLenFeature(string, ""),
            r"readers.tfrecord: argument 'features' has 'numbers' with any number of strings",
        ),
        (FixedLenFeature([-1], int64, 0), r"argument 'features' has 'numbers' with the negative shape \(-1,\)"),
        (10, 'for the "numbers", but got .*int'),
    ],
)
def test_feature_that_does_not_fit_is_an_error(root: Path, feature: Any, match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        outputs("ours", root, lambda _: {"numbers": feature})


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"path": ["none"], "index_path": ()}, "can't read the file '.*none': No such file"),
        ({"index_path": ["a.idx"]}, "'index_path' has 1 files, but 'path' has 2"),
        ({"index_path": ["none", "b.idx"]}, "can't read the index '.*none': No such file"),
        ({"index_path": ["text.idx", "b.idx"]}, "isn't an index of records"),
        ({"index_path": ["empty.idx", "b.idx"]}, "the index '.*' is empty"),
        ({"index_path": ["far.idx", "b.idx"]}, "lists 9 bytes at 99999, but its file has"),
        ({"index_path": ["short.idx", "b.idx"]}, "a.tfrecord at index 0 can't be read: it has .* bytes of data, but"),
        ({"path": ["short.tfrecord"], "index_path": ()}, "can't be read: it ends within the record at 0"),
        ({"path": ["noise.tfrecord"], "index_path": ()}, "noise.tfrecord at index 0 can't be read: a field"),
        ({"path": ["zero.tfrecord"], "index_path": ()}, "no records in"),
        (
            {"shuffle_after_epoch": True, "stick_to_shard": True},
            "shuffle_after_epoch and stick_to_shard cannot be both true",
        ),
    ],
)
def test_damaged_file_is_an_error(root: Path, arguments: dict[str, Any], match: str) -> None:
    (root / "text.idx").write_text("zero one\n")
    (root / "empty.idx").write_text("\n")
    (root / "far.idx").write_text("99999 9\n")
    (root / "short.idx").write_text("0 30\n")
    (root / "short.tfrecord").write_bytes((root / "a.tfrecord").read_bytes()[:50])
    (root / "noise.tfrecord").write_bytes(struct.pack("<QI", 40, 0) + b"\x0a\xff\x01" + b"\xfa" * 37 + bytes(4))
    (root / "zero.tfrecord").write_bytes(b"")
    with pytest.raises(PipelineError, match=match):
        numbers(root, **arguments)


def test_serialized_pipeline_keeps_the_features(root: Path) -> None:
    with pipeline.Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        features = {"numbers": VarLenFeature([2], int64, 0)}
        pipe.set_outputs(pipeline.fn.readers.tfrecord(path=str(root / "a.tfrecord"), features=features)["numbers"])
    with pipeline.Pipeline.deserialize(pipe.serialize()) as copy:
        assert np.array(copy.run()[0].at(0)).tolist() == [[1, -2], [3, 1 << 40]]
