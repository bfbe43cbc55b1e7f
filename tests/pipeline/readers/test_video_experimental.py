"""`experimental.readers.video`, compared with NVIDIA DALI, which reads VP9 and MJPEG on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn
from tests.clips import Clips, number_of


def epoch(module: Any, pipe: Any, **arguments: Any) -> list[Any]:
    """Return the samples of an epoch: the frames, their numbers, and any other outputs."""
    with pipe:
        made = module.experimental.readers.video(name="r", **arguments)
        pipe.set_outputs(*(made if isinstance(made, list | tuple) else (made,)))
    pipe.build()
    samples = []
    for _ in range(pipe.reader_meta("r")["epoch_size"]):
        frames, *others = pipe.run()
        pixels = np.array(frames.at(0))
        samples.append((pixels, [number_of(frame) for frame in pixels], [np.array(each.at(0)) for each in others]))
    return samples


def ours(**arguments: Any) -> list[Any]:
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    try:
        return epoch(fn, pipe, **arguments)
    finally:
        pipe.close()


def compare(**arguments: Any) -> None:
    dali = pytest.importorskip("nvidia.dali")
    mine = ours(**arguments)
    theirs = epoch(dali.fn, dali.Pipeline(1, 1, None, prefetch_queue_depth=1), **arguments)
    assert [numbers for _, numbers, _ in mine] == [numbers for _, numbers, _ in theirs]
    for (pixels, _, others), (expected, _, more) in zip(mine, theirs, strict=True):
        assert np.abs(pixels.astype(int) - expected).max() <= 2
        for each, other in zip(others, more, strict=True):
            assert each.dtype == other.dtype
            np.testing.assert_allclose(each, other, atol=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize("mode", ["none", "constant", "edge", "reflect_1001", "reflect_101"])
def test_sequences_are_those_of_dali(mode: str, clips: Clips) -> None:
    for frames in ({}, {"stride": 3}, {"stride": 3, "step": 10}, {"step": 16}, {"step": 0, "stride": 2}):
        compare(
            filenames=[str(clips.path("vp9.webm"))],
            sequence_length=7,
            pad_mode=mode,
            fill_value=[200, 100, 0],
            enable_frame_num="sequence",
            enable_timestamps=True,
            **frames,
        )


@pytest.mark.parity
@pytest.mark.parametrize(
    "line", ["0.2 0.6", "0.21 0.61", "0.19 0.59", "frames 3 12", "frames -6 -1", "frames 2.5 12.5", "frames 10 24"]
)
def test_parts_are_those_of_dali(line: str, clips: Clips, tmp_path: Path) -> None:
    form, _, part = line.rpartition("frames ")
    listed = tmp_path / "list.txt"
    listed.write_text(f"{clips.path('vp9.webm')} 3 {part}\n")
    for rounding in ("start_down_end_up", "start_up_end_down", "all_up", "all_down"):
        compare(
            file_list=str(listed),
            sequence_length=4,
            pad_mode="reflect_101" if rounding == "all_up" else "edge",
            file_list_format="frames" if form or part != line else "timestamps",
            file_list_rounding=rounding,
            enable_frame_num=True,
        )


@pytest.mark.parity
@pytest.mark.parametrize("length", [1, 5, 50])
def test_samples_of_complete_videos_are_those_of_dali(length: int, clips: Clips, tmp_path: Path) -> None:
    files = [str(clips.path(name)) for name in ("vp9.webm", "mjpeg.mkv")]
    compare(filenames=files, labels=[4, 2], sequence_length=length, uniform_sample=True, enable_timestamps=True)
    (tmp_path / "list.txt").write_text(f"{files[0]} 3 0.2 0.61\n")
    compare(
        file_list=str(tmp_path / "list.txt"), sequence_length=length, uniform_sample=True, enable_frame_num="sequence"
    )


@pytest.mark.parity
def test_folders_give_numbers_and_times_as_well(clips: Clips, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "clip.webm").write_bytes(clips.path("vp9.webm").read_bytes())
    compare(file_root=str(tmp_path), sequence_length=20, enable_timestamps=True, enable_frame_num=True)


def test_videos_that_dali_leaves_out(clips: Clips, tmp_path: Path) -> None:
    """Files that DALI decodes only on GPUs, and segments up to the end of a video."""
    for part, expected in (("1.2", [*range(30, 40)]), ("1.21 9", [*range(30, 40)]), ("-1 0.1", [0, 1, 2])):
        (tmp_path / "list.txt").write_text(f"{clips.path('h264_open_gop.mp4')} 3 {part}\n")
        made = ours(file_list=str(tmp_path / "list.txt"), sequence_length=1)
        assert [number for _, numbers, _ in made for number in numbers] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequence_length": 41}, "no sequences of 41 frames"),
        ({"pad_mode": "zero"}, "'pad_mode' must be one of"),
        ({"fill_value": [300]}, "'fill_value' must be values from 0 to 255"),
        ({"file_list_rounding": "up"}, "'file_list_rounding' must be one of"),
        ({"file_list_format": "seconds"}, "'file_list_format' must be one of"),
        ({"pad_sequences": True}, "pad_sequences"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], message: str, clips: Clips) -> None:
    given = {"filenames": [str(clips.path("vp9.webm"))], "sequence_length": 2, **arguments}
    with pytest.raises((errors.PipelineError, TypeError), match=message):
        ours(**given)
