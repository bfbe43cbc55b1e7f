"""`readers.sequence`, compared with NVIDIA DALI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, types

STREAMS = [("b", 7, "png", (8, 6)), ("a", 3, "jpg", (16, 24)), ("C", 4, "bmp", (4, 4)), (".h", 5, "png", (4, 4))]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create streams of coloured noise, and files and a folder that aren't streams."""
    random = np.random.default_rng(3)
    for stream, count, kind, size in STREAMS:
        (tmp_path / stream).mkdir()
        for number in range(count):
            image = random.integers(0, 256, (*size, 3), dtype=np.uint8)
            cv2.imwrite(str(tmp_path / stream / f"{number:03}.{kind}"), image)
    (tmp_path / "a" / "notes.txt").write_text("no frame")
    (tmp_path / "b" / ".hidden.png").write_bytes(b"no frame")
    (tmp_path / "top.png").write_bytes(b"no frame")
    return tmp_path


def ours(root: Path, batch_size: int = 2, **arguments: Any) -> Any:
    with Pipeline(batch_size=batch_size, num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.readers.sequence(file_root=str(root), name="r", **arguments))
    return pipe


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:WARNING. `nvidia.dali.fn.readers.sequence` is now deprecated")
@pytest.mark.parametrize(
    "arguments",
    [
        {"sequence_length": 3},
        {"sequence_length": 1, "image_type": "GRAY"},
        {"sequence_length": 2, "step": 2, "stride": 2, "image_type": "BGR"},
        {"sequence_length": 3, "step": 3, "image_type": "ANY_DATA"},
        {"sequence_length": 4, "num_shards": 2, "shard_id": 1, "pad_last_batch": True},
    ],
    ids=str,
)
def test_sequences_equal_dali(arguments: dict[str, Any], root: Path) -> None:
    from nvidia.dali import Pipeline as DaliPipeline
    from nvidia.dali import fn as dali_fn
    from nvidia.dali import types as dali_types

    def with_type(module: Any) -> dict[str, Any]:
        kind = arguments.get("image_type")
        return arguments if kind is None else {**arguments, "image_type": getattr(module, kind)}

    pipe = ours(root, **with_type(types))
    oracle = DaliPipeline(batch_size=2, num_threads=1, device_id=None)
    with oracle:
        oracle.set_outputs(dali_fn.readers.sequence(file_root=str(root), name="r", **with_type(dali_types)))
    oracle.build()
    assert pipe.reader_meta() == oracle.reader_meta()
    for _ in range(pipe.epoch_size("r") // 2 + 2):
        (mine,), (theirs,) = pipe.run(), oracle.run()
        assert mine.layout() == theirs.layout() == "FHWC"
        for sample in range(2):
            np.testing.assert_allclose(mine.at(sample).astype(int), np.asarray(theirs[sample]).astype(int), atol=1)
    pipe.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequence_length": 8}, "no sequences of 8 frames, 1 apart, in the 3 folders below file_root"),
        ({"sequence_length": 0}, "'sequence_length' must be 1 or more, not 0"),
        ({"sequence_length": 2, "step": 0}, "'step' must be 1 or more"),
        ({"sequence_length": 2, "stride": -1}, "'stride' must be 1 or more"),
        ({"sequence_length": 2, "image_type": types.YCbCr}, "must be RGB, BGR, GRAY or ANY_DATA, not YCbCr"),
    ],
)
def test_errors_when_built(arguments: dict[str, Any], message: str, root: Path) -> None:
    pipe = ours(root, **arguments)
    with pytest.raises(errors.PipelineError, match=message):
        pipe.build()
    pipe.close()


def test_frames_that_do_not_fit_are_named(root: Path) -> None:
    cv2.imwrite(str(root / "C" / "001.bmp"), np.zeros((2, 4, 3), np.uint8))
    (root / "a" / "001.jpg").write_bytes(b"broken")
    pipe = ours(root, 1, sequence_length=3, step=3)
    with pytest.raises(
        errors.OperatorError, match=r"C/001\.bmp' has \(2, 4, 3\), but the previous ones have \(4, 4, 3\)"
    ):
        pipe.run()
    with pytest.raises(errors.OperatorError, match=r"sample 0: the frame '.*a/001\.jpg'"):
        pipe.run()
    assert pipe.run()[0].shape() == [(3, 8, 6, 3)]
    pipe.close()


def test_sequences_that_fail_are_named_among_others(root: Path) -> None:
    cv2.imwrite(str(root / "C" / "001.bmp"), np.zeros((2, 4, 3), np.uint8))
    (root / "b" / "004.png").write_bytes(b"broken")
    pipe = ours(root, 4, sequence_length=3, step=3)  # those of C, a and b, and a second one of b
    with pytest.raises(errors.OperatorError) as caught:
        pipe.run()
    assert [failure.sample for failure in caught.value.failures] == [0, 3]
    pipe.close()
