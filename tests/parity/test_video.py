"""`readers.video` on the GPU beside NVIDIA DALI's, which supports no CPU: the same sequences in the same order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from tests.clips import KINDS, encode, needs_nvdec, number_of

pytestmark = [pytest.mark.gpu, pytest.mark.parity, needs_nvdec]

SIZE = (144, 192)


@pytest.fixture(scope="module", params=["h264.mp4", "hevc.mkv"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return three videos of one codec that DALI accepts, whose frames show different numbers."""
    folder = tmp_path_factory.mktemp("videos")
    counts = {"a.mp4": 40, "b.mp4": 23, "c.mp4": 17}
    for begin, (name, count) in zip((0, 64, 128), counts.items(), strict=True):
        encode(folder / name, KINDS[request.param], count, SIZE, begin=begin)
    return [str(folder / name) for name in counts]


def epoch(module: Any, fn: Any, **arguments: Any) -> list[list[Any]]:
    """Return the outputs of all samples of an epoch, as arrays."""
    pipe = module.Pipeline(batch_size=2, num_threads=2, device_id=0)
    with pipe:
        made = fn.readers.video(device="gpu", name="r", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list | tuple) else [made]))
    pipe.build()
    count = pipe.reader_meta("r")["epoch_size"]
    samples: list[list[Any]] = []
    while len(samples) < count:
        batch = [output.as_cpu() for output in pipe.run()]
        samples += [[np.array(output.at(sample)) for output in batch] for sample in range(2)]
    if hasattr(pipe, "close"):
        pipe.close()
    return samples[:count]


def both(**arguments: Any) -> tuple[list[list[Any]], list[list[Any]]]:
    dali = pytest.importorskip("nvidia.dali")
    return epoch(pipeline, pipeline.fn, **arguments), epoch(dali, dali.fn, **arguments)


def compare(ours: list[list[Any]], theirs: list[list[Any]]) -> None:
    assert len(ours) == len(theirs)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        assert one[0].shape == other[0].shape
        assert [number_of(frame) for frame in one[0]] == [number_of(frame) for frame in other[0]], f"sequence {number}"
        assert np.abs(one[0].astype(int) - other[0]).mean() < 4
        for mine, yours in zip(one[1:], other[1:], strict=True):
            assert mine.dtype == yours.dtype
            np.testing.assert_allclose(mine, yours, atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"sequence_length": 5},
        {"sequence_length": 4, "step": 2, "stride": 3},
        {"sequence_length": 6, "stride": 2, "labels": [], "enable_frame_num": True, "enable_timestamps": True},
        {"sequence_length": 3, "step": 7, "labels": [3, 1, 2], "enable_frame_num": "sequence"},
        {"sequence_length": 7, "pad_sequences": True, "labels": []},
        {"sequence_length": 4, "shard_id": 1, "num_shards": 3},
        {"sequence_length": 4, "shard_id": 2, "num_shards": 3, "pad_last_batch": True},
    ],
    ids=str,
)
def test_sequences_in_order(arguments: dict[str, Any], files: list[str]) -> None:
    compare(*both(filenames=files, **arguments))


def test_shuffled_sequences_are_the_same_set(files: list[str]) -> None:
    """Their order depends on the random number generator."""
    arguments = {"filenames": files, "sequence_length": 4, "labels": [], "random_shuffle": True}
    found = [
        sorted((int(label[0]), *(number_of(frame) for frame in frames)) for frames, label in made)
        for made in both(**arguments)
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("5 3 12", {"file_list_frame_num": True}),
        ("5 -9 -2", {"file_list_frame_num": True}),
        ("5 0.19 0.59", {}),  # 0.2 is frame 5; DALI begins with frame 6, because it rounds up to the next float32
        ("5 0.21 0.61", {}),
        ("5 0.21 0.61", {"file_list_include_preceding_frame": True}),
    ],
)
def test_lists_of_parts(line: str, options: dict[str, bool], files: list[str], tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"{files[0]} {line}\n{files[2]} 1\n")
    compare(*both(file_list=str(tmp_path / "list.txt"), sequence_length=3, **options))


@pytest.mark.parametrize(
    "colors", [{"image_type": "YCbCr"}, {"dtype": "FLOAT"}, {"dtype": "FLOAT", "normalized": True}]
)
def test_pixels_of_other_kinds(colors: dict[str, Any], files: list[str]) -> None:
    dali = pytest.importorskip("nvidia.dali")
    made = []
    for module in (pipeline, dali):
        types = module.types
        named = {name: getattr(types, value) if isinstance(value, str) else value for name, value in colors.items()}
        made.append(epoch(module, module.fn, filenames=files[:1], sequence_length=8, **named))
    scale = 255 if "normalized" in colors else 1
    for (one,), (other,) in zip(*made, strict=True):
        assert one.dtype == other.dtype
        assert np.abs(one.astype(float) - other).mean() * scale < 4
