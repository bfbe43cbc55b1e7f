"""readers.mxnet compared with NVIDIA DALI, and its errors."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import PipelineError
from tests.pipeline.readers.wire import MAGIC, image_record, write_recordio

WHOLE = image_record(7.0, b"abcd" + struct.pack("<I", MAGIC) + b"efgh" + struct.pack("<I", MAGIC))
RECORDS = [
    *(image_record(number + 0.5, b"image%d" % number * (number + 1)) for number in range(4)),
    image_record([1.0, 2.0, 3.0], b"many"),
    (WHOLE[:28], WHOLE[32:36], b""),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordio")
    write_recordio(folder / "a.rec", RECORDS)
    lines = (folder / "a.idx").read_text().splitlines()
    (folder / "half.idx").write_text("\n".join(lines[::-2]) + "\n")
    return folder


def outputs(side: str, root: Path, batches: int = 3, **arguments: Any) -> Any:
    """Return the reader's description, each output's samples, and where the first batch comes from."""
    dali = pipeline if side == "ours" else pytest.importorskip("nvidia.dali")
    paths = {name: [str(root / each) for each in arguments.pop(name)] for name in ("path", "index_path")}
    pipe = dali.Pipeline(batch_size=3, num_threads=1, device_id=None, seed=1)
    with pipe:
        pipe.set_outputs(*dali.fn.readers.mxnet(name="R", **paths, **arguments))
    pipe.build()
    try:
        ran = [pipe.run() for _ in range(batches)]
        arrays = [[np.array(output.at(index)) for index in range(len(output))] for batch in ran for output in batch]
        return pipe.reader_meta("R"), arrays, [ran[0][0][index].source_info() for index in range(3)]
    finally:
        if side == "ours":
            pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {"index_path": ["a.idx"]},
        {"index_path": ["half.idx"]},
        {"index_path": ["a.idx"], "num_shards": 2, "shard_id": 1, "pad_last_batch": True},
    ],
)
def test_records_are_those_of_dali(root: Path, arguments: dict[str, Any]) -> None:
    ours, theirs = (outputs(side, root, path=["a.rec"], **arguments) for side in ("ours", "dali"))
    assert ours[0] == theirs[0]
    assert ours[2] == theirs[2]
    for our_samples, their_samples in zip(ours[1], theirs[1], strict=True):
        for our, their in zip(our_samples, their_samples, strict=True):
            assert our.dtype == their.dtype
            assert np.array_equal(our, their)


def test_without_index_the_file_is_scanned(root: Path) -> None:
    scanned = outputs("ours", root, path=["a.rec"], index_path=[])
    indexed = outputs("ours", root, path=["a.rec"], index_path=["a.idx"])
    assert scanned[0] == indexed[0]
    assert scanned[2] == indexed[2]
    assert bytes(scanned[1][2][2]) == WHOLE[24:]


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("a.rec", b"\0", "can't be read: wrong magic number, so it isn't in the format RecordIO"),
        ("a.rec", struct.pack("<II", MAGIC, 9999), "index 0 can't be read: it needs 9999 bytes, but only"),
        ("a.rec", struct.pack("<III", MAGIC, 31, 99), "index 0 can't be read: it has 7 bytes for 99 labels"),
        ("a.rec", struct.pack("<II", MAGIC, 4), "index 0 can't be read: its data has 4 bytes, but its header 24"),
        ("a.rec", struct.pack("<II", MAGIC, 1 << 29 | 4), "index 0 can't be read: "),
        ("a.idx", b"0 0 0", "isn't an index of records"),
        ("a.idx", b"0\t-5\n1\t", r"lists \d+ bytes at -5, but its file has"),
    ],
)
def test_damaged_file_is_an_error(root: Path, tmp_path: Path, file: str, content: bytes, match: str) -> None:
    for name in ("a.rec", "a.idx"):
        data = (root / name).read_bytes()
        (tmp_path / name).write_bytes(content + data[len(content) :] if name == file else data)
    with pytest.raises(PipelineError, match=match):
        outputs("ours", tmp_path, path=["a.rec"], index_path=["a.idx"])
