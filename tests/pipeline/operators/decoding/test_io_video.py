"""`io.video`: exact frames of files, URLs and contents, out of a pool that all samples share."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._remote import data_file
from dali_proxy.pipeline._remote.reading import read_url
from dali_proxy.pipeline._video import clip
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.targets import target_for
from dali_proxy.pipeline._video.video_pool import total_counters
from pipeline import Pipeline, fn, types
from pipeline.errors import ArgumentValueError, OperatorError
from tests.clips import COUNT, KINDS, VARYING, Clips, Kind, encode, number_of

pytest.importorskip("av")


def pipe_of(name: str = "frames", size: int = 8, **arguments: Any) -> Pipeline:
    with Pipeline(batch_size=size, num_threads=2, device_id=None) as pipe:
        values: dict[str, Any] = {name: fn.external_source(name=name)}
        pipe.set_outputs(fn.io.video(fn.external_source(name="source"), **values, **arguments))
    return pipe


def encoded(path: Path | str) -> Any:
    return np.frombuffer(os.fsencode(path), np.uint8)


def numbers(sample: Any) -> list[int]:
    return [number_of(frame) for frame in sample]


def read(pipe: Pipeline, sources: Sequence[Any], **values: Any) -> list[list[int]]:
    (frames,) = pipe.run(source=[each if isinstance(each, np.ndarray) else encoded(each) for each in sources], **values)
    return [numbers(sample) for sample in frames.samples]


@pytest.mark.parametrize("name", KINDS)
def test_frames_are_those_of_the_decoder(name: str, clips: Clips) -> None:
    random = np.random.default_rng(3)
    clip = Clip(str(clips.path(name)))
    expected = read_frames(clip, range(COUNT), target_for(clip, types.RGB, None), Decoders(1))
    with pipe_of() as pipe:
        for _ in range(3):
            wanted = [random.integers(0, COUNT, count) for count in (1, 2, 2, 3, 1, 5, 2, 1)]
            (frames,) = pipe.run(source=[encoded(clips.path(name))] * 8, frames=wanted)
            for sample, each in zip(frames.samples, wanted, strict=True):
                np.testing.assert_array_equal(sample, expected[each])


def test_frame_that_does_not_exist_is_no_fault_of_the_file(clips: Clips) -> None:
    path = re.escape(f"the file '{clips.path('h264.mp4')}'")
    with (
        pipe_of("times", size=1, tolerance=1e-4) as pipe,
        pytest.raises(OperatorError, match=rf"{path}: the video has no frame at 99\.0.* s: choose a pad_mode"),
    ):
        read(pipe, [clips.path("h264.mp4")], times=[np.array([99.0])])


def test_times_are_those_of_the_presentation(clips: Clips) -> None:
    seconds = np.array(VARYING) / 1000
    with pipe_of("times", tolerance=1e-4) as pipe:
        paths = [clips.path("h264_varying.mp4"), clips.path("vp9_varying.webm"), clips.path("h264_varying.mkv")]
        wanted = [np.array([7, 3, 20]), np.array([39, 0, 1]), np.array([12, 13, 14])]
        assert read(pipe, paths, times=[seconds[each] for each in wanted]) == [each.tolist() for each in wanted]
        with pytest.raises(OperatorError, match=r"for sample 1: the file .* no frame is within 0\.0001 s"):
            read(pipe, paths[:2], times=[seconds[[1]], seconds[[1]] + 0.005])


def test_frames_outside_of_an_edit_list_are_no_frames(tmp_path: Path) -> None:
    path = tmp_path / "edited.mp4"
    encode(path, KINDS["h264.mp4"], first=-6)
    with pipe_of() as pipe:
        assert read(pipe, [path, path], frames=[np.array([0]), np.array([20])]) == [[6], [26]]
        with pytest.raises(OperatorError, match="the video has 34 frames, so frame 34 doesn't exist"):
            read(pipe, [path], frames=[np.array([34])])


def test_contents_of_files_and_paths_have_the_same_frames(clips: Clips) -> None:
    path = clips.path("h264_open_gop.mp4")
    with pipe_of() as pipe:
        (frames,) = pipe.run(source=[encoded(path), np.fromfile(path, np.uint8)], frames=[np.array([19, 2])] * 2)
    assert numbers(frames.at(0)) == [19, 2]
    np.testing.assert_array_equal(*frames.samples)


def test_url(clips: Clips) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/videos/a.mp4", clips.path("h264.mp4").read_bytes())
    with pipe_of() as pipe:
        assert read(pipe, ["memory://videos/a.mp4"], frames=[np.array([30, 4])]) == [[30, 4]]
        with pytest.raises(OperatorError, match=re.escape("memory://videos/b.mp4")):
            read(pipe, ["memory://videos/b.mp4"], frames=[np.array([1])])


def test_url_is_read_by_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In blocks: those of the header, and those of the groups of pictures that are needed."""
    fsspec = pytest.importorskip("fsspec")
    path = tmp_path / "large.mp4"
    encode(path, Kind("libx264", "keyint=12:min-keyint=12:scenecut=0:crf=1"), size=(480, 640))
    fsspec.filesystem("memory").pipe("/videos/large.mp4", path.read_bytes())
    block, read = 1 << 12, []

    def counted(url: str, begin: int, end: int) -> bytes:
        read.append(end - begin)
        return read_url(url, begin, end)

    monkeypatch.setattr(data_file, "_BLOCK", block)
    monkeypatch.setattr(data_file, "read_url", counted)
    monkeypatch.setattr(clip, "_remote_blocks", cache(data_file.Blocks))
    size = path.stat().st_size
    with pipe_of() as pipe:
        url = "memory://videos/large.mp4"
        assert read_frames_of(pipe, url, [25, 24]) == [25, 24]
        assert sum(read) < size / 2
        order = np.random.default_rng(4).permutation(COUNT).tolist()
        assert [read_frames_of(pipe, url, [each]) for each in order] == [[each] for each in order]
        assert sum(read) <= size


def read_frames_of(pipe: Pipeline, source: str, frames: list[int]) -> list[int]:
    return read(pipe, [source], frames=[np.array(frames)])[0]


def test_padding_and_colors(clips: Clips) -> None:
    path = clips.path("vp9.webm")
    with pipe_of(pad_mode="constant", fill_value=[1, 2, 3]) as pipe:
        (frames,) = pipe.run(source=[encoded(path)], frames=[np.array([39, 40])])
        shown, filled = frames.as_array()[0]
        assert number_of(shown) == 39
        assert (filled == [1, 2, 3]).all()
    with pipe_of(image_type=types.GRAY) as pipe:
        (frames,) = pipe.run(source=[encoded(path)] * 2, frames=[np.array([5])] * 2)
        assert frames.as_array().shape == (2, 1, 48, 64, 1)


def test_files_of_different_sizes_in_one_batch(clips: Clips) -> None:
    with pipe_of() as pipe:
        paths = [clips.path("vp9.webm"), clips.path("odd.webm")]
        (frames,) = pipe.run(source=[encoded(path) for path in paths], frames=[np.array([1, 2])] * 2)
    assert frames.shape() == [(2, 48, 64, 3), (2, 47, 63, 3)]
    assert [numbers(sample) for sample in frames.samples] == [[1, 2], [1, 2]]


def test_frames_are_decoded_once(clips: Clips) -> None:
    paths = [clips.path(name) for name in ("h264.mp4", "h264_open_gop.mp4", "hevc.mkv")]
    order = np.random.default_rng(5).permutation(COUNT)
    with pipe_of() as pipe:
        before = total_counters()
        for begin in range(0, COUNT, 8):
            for path in paths:
                wanted = order[begin : begin + 8]
                assert read(pipe, [path] * 8, frames=[wanted[[each]] for each in range(8)]) == wanted[:, None].tolist()
        counters = {name: value - before[name] for name, value in total_counters().items()}
    assert counters["video_used"] == 3 * COUNT
    assert 3 * COUNT <= counters["video_decoded"] <= 3 * COUNT + 10


def test_frame_that_one_sample_needs_is_decoded_alone(clips: Clips) -> None:
    with pipe_of() as pipe:
        before = total_counters()["video_decoded"]
        assert read(pipe, [clips.path("mjpeg.mkv")], frames=[np.array([21])]) == [[21]]
        assert total_counters()["video_decoded"] - before <= 2


def test_pool_keeps_its_limit(clips: Clips) -> None:
    size = 48 * 64 * 3
    order = np.random.default_rng(7).permutation(COUNT)
    with pipe_of(pool_bytes=10 * size) as pipe:
        for name in ("h264.mp4", "av1.mp4"):
            for begin in range(0, COUNT, 8):
                wanted = order[begin : begin + 8, None]
                assert read(pipe, [clips.path(name)] * 8, frames=[*wanted]) == wanted.tolist()
                assert 0 < total_counters()["video_bytes"] <= 10 * size
    with pipe_of(pool_bytes=0) as pipe:
        assert read(pipe, [clips.path("h264.mp4")], frames=[np.array([9, 4])]) == [[9, 4]]
    assert total_counters()["video_bytes"] == 0


def test_damaged_file_fails_only_where_it_is_damaged(clips: Clips, tmp_path: Path) -> None:
    import av

    path, good = tmp_path / "damaged.mp4", clips.path("h264.mp4")
    content = bytearray(good.read_bytes())
    with av.open(str(good)) as file:
        packets = [packet for packet in file.demux(video=0) if packet.size]
    key = [packet for packet in packets if packet.is_keyframe][1]
    content[key.pos + 8 : key.pos + key.size] = bytes(key.size - 8)
    path.write_bytes(content)
    with pipe_of() as pipe:
        assert read(pipe, [path, good], frames=[np.array([3]), np.array([15])]) == [[3], [15]]
        with pytest.raises(
            OperatorError, match=r"for sample 1: the file '.*damaged.mp4' can't be decoded: frame 1\d of"
        ):
            read(pipe, [good, path], frames=[np.array([15]), np.array([15])])
        assert read(pipe, [path, good], frames=[np.array([30]), np.array([15])]) == [[30], [15]]


def test_truncated_file_fails_its_samples(clips: Clips, tmp_path: Path) -> None:
    path, good = tmp_path / "cut.mp4", clips.path("h264_faststart.mp4")
    path.write_bytes(good.read_bytes()[:-2000])
    with pipe_of() as pipe:
        with pytest.raises(
            OperatorError, match=r"for sample 1: the file '.*cut.mp4' can't be decoded: it is truncated"
        ) as caught:
            read(pipe, [good, path, tmp_path / "none.mp4"], frames=[np.array([1])] * 3)
        assert [failure.sample for failure in caught.value.failures] == [1, 2]
        assert read(pipe, [good], frames=[np.array([39])]) == [[39]]


def test_replaced_file_is_read_again(clips: Clips, tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    shutil.copy(clips.path("h264.mp4"), path)
    with pipe_of() as pipe:
        assert read(pipe, [path] * 2, frames=[np.array([9]), np.array([39])]) == [[9], [39]]
        encode(tmp_path / "b.mp4", KINDS["h264.mp4"], count=20, begin=100)
        (tmp_path / "b.mp4").replace(path)
        assert read(pipe, [path], frames=[np.array([9])]) == [[109]]
        with pytest.raises(OperatorError, match="the video has 20 frames"):
            read(pipe, [path], frames=[np.array([39])])


def test_file_that_changes_while_it_is_read_is_an_error(
    clips: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.mp4"
    shutil.copy(clips.path("h264.mp4"), path)
    plain = Decoder.decode

    def replaced(decoder: Decoder, wanted: Any) -> Any:
        shutil.copy(clips.path("mpeg4.mp4"), path)
        return plain(decoder, wanted)

    with pipe_of() as pipe:
        monkeypatch.setattr(Decoder, "decode", replaced)
        with pytest.raises(OperatorError, match=r"sample 0: .*a\.mp4': the file was changed while .* \(for frame 9\)"):
            read(pipe, [path], frames=[np.array([9])])
        monkeypatch.undo()
        assert read(pipe, [path], frames=[np.array([9])]) == [[9]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pass either 'frames' or 'times'"),
        ({"frames": [1], "times": [0.5]}, "pass either 'frames' or 'times', not both"),
        ({"frames": [1], "tolerance": 0.1}, "argument 'tolerance' needs 'times'"),
        ({"frames": [1], "fill_value": [1, 2]}, "fill_value has 2 values, but the frames have 3 channels"),
        ({"frames": [1], "fill_value": [300]}, "must be values from 0 to 255"),
        ({"frames": [1], "pool_bytes": -1}, "argument 'pool_bytes' must not be negative"),
        ({"frames": [1], "image_type": types.ANY_DATA}, "argument 'image_type' must be RGB"),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_when_the_pipeline_is_built(arguments: dict[str, Any], message: str) -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.io.video(fn.external_source(name="source"), **arguments))
    with pytest.raises(ArgumentValueError, match=message):
        pipe.build()
