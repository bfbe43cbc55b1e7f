"""`readers.video` and `readers.video_resize`: the frames of sequences, and that none is lost or returned twice."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, types
from tests.clips import COUNT, VARYING, Clips, decode_from_start, number_of, remux

MIXED = ("h264.mp4", "vp9.webm", "h264_varying.mkv")


def reading(*, batch_size: int = 2, operator: str = "video", **arguments: Any) -> Pipeline:
    pipe = Pipeline(batch_size=batch_size, num_threads=2, device_id=None, seed=3)
    with pipe:
        made = getattr(fn.readers, operator)(name="r", **arguments)
        pipe.set_outputs(*(made if isinstance(made, tuple | list) else (made,)))
    return pipe


def numbers(sequence: Any) -> list[int]:
    return [number_of(frame) for frame in sequence]


def paths(clips: Clips, *names: str) -> list[str]:
    return [str(clips.path(name)) for name in names]


def sequences(count: int, length: int, step: int, stride: int, pad: bool = False) -> list[list[int]]:
    """Return the expected sequences of a video; -1 stands for a black frame."""
    made, first = [], 0
    while first + (length - 1) * stride < count:
        made.append([first + stride * number for number in range(length)])
        first += step if step > 0 else length * stride
    if pad and first < count:
        frames = [first + stride * number for number in range(length)]
        made.append([frame if frame < count else -1 for frame in frames])
    return made


@pytest.mark.parametrize(
    ("length", "step", "stride"), [*itertools.product((1, 5, 16), (-1, 7), (1, 3)), (5, 1, 1), (40, 9, 1)]
)
def test_sequences_come_once(length: int, step: int, stride: int, clips: Clips) -> None:
    """Test each pair of padding, shuffling and numbers of shards; frames, numbers, labels and times agree."""
    files = paths(clips, *MIXED[::2])
    for pad, shuffle, shards in ((False, False, 1), (False, True, 3), (True, False, 3), (True, True, 1)):
        expected = Counter(
            (label, tuple(frames)) for label in (0, 1) for frames in sequences(COUNT, length, step, stride, pad)
        )
        if sum(expected.values()) < shards:
            continue  # an error of all readers
        given: Counter[tuple[int, tuple[int, ...]]] = Counter()
        for shard in range(shards):
            pipe = reading(
                batch_size=4,
                filenames=files,
                labels=[],
                sequence_length=length,
                step=step,
                stride=stride,
                pad_sequences=pad,
                random_shuffle=shuffle,
                initial_fill=3,
                num_shards=shards,
                shard_id=shard,
                enable_frame_num="sequence",
            )
            meta = pipe.reader_meta("r")
            assert meta["epoch_size"] == sum(expected.values())
            bounds = [sum(expected.values()) * part // shards for part in (shard, shard + 1)]
            left = bounds[1] - bounds[0]
            while left > 0:
                frames, labels, which = pipe.run()
                for sample in range(min(left, 4)):
                    key = (int(labels.at(sample)[0]), tuple(which.at(sample).tolist()))
                    given[key] += 1
                    shown = numbers(frames.at(sample))
                    assert shown == [max(0, frame) for frame in key[1]]  # black is number 0
                left -= 4
            pipe.close()
        assert given == expected


def test_frames_equal_those_of_ffmpeg(clips: Clips) -> None:
    pipe = reading(
        batch_size=3, filenames=paths(clips, *MIXED), sequence_length=7, step=7, stride=2, random_shuffle=True
    )
    everything = {str(path): decode_from_start(path) for path in map(clips.path, MIXED)}
    seen = set()
    for _ in range(pipe.epoch_size("r") // 3):
        (frames,) = pipe.run()
        for sample in frames:
            path, _, first = sample.source_info().rpartition(", frame ")
            seen.add((path, first))
            for place, frame in enumerate(np.asarray(sample)):
                expected = everything[path][int(first) + 2 * place].to_ndarray(format="rgb24").astype(int)
                assert np.abs(frame - expected).mean() < 3  # the chroma is interpolated differently
                assert number_of(frame) == int(first) + 2 * place
    assert len(seen) == pipe.epoch_size("r") == 12
    pipe.close()


def test_frame_numbers_and_times_are_given(clips: Clips) -> None:
    files = paths(clips, "h264_varying.mp4", "h264.mp4")
    pipe = reading(
        filenames=files,
        labels=[7, -3],
        sequence_length=16,
        step=30,
        pad_sequences=True,
        enable_frame_num=True,
        enable_timestamps=True,
    )
    frames, labels, first, times = pipe.run()
    assert frames.layout() == "FHWC"
    assert (labels.as_array().tolist(), first.as_array().tolist()) == ([[7], [7]], [[0], [30]])
    np.testing.assert_allclose(times.at(0), np.array(VARYING[:16]) / 1000, atol=1e-3)
    assert times.at(1)[9] == pytest.approx(VARYING[39] / 1000, abs=1e-3)
    assert times.at(1)[10:].tolist() == [-1.0] * 6
    assert not frames.at(1)[10:].any()
    assert [array.dtype for array in (labels.at(0), first.at(0), times.at(0))] == [np.int32, np.int32, np.float64]
    assert pipe.run()[3].at(0)[3] == pytest.approx(0.12)
    pipe.close()


OUTPUTS = [
    ({"filenames": ["a"]}, 1),
    ({"filenames": ["a"], "labels": [1]}, 2),
    ({"filenames": ["a"], "labels": []}, 2),
    ({"file_root": "/tmp"}, 2),
    ({"file_list": "/x"}, 2),
    ({"filenames": ["a"], "labels": [1], "enable_frame_num": True, "enable_timestamps": True}, 4),
    ({"filenames": ["a"], "enable_frame_num": "scalar"}, 2),
    ({"file_root": "/tmp", "enable_frame_num": True, "enable_timestamps": True}, 2),
    ({"file_list": "/x", "enable_frame_num": "sequence", "enable_timestamps": True}, 4),
    ({"file_list": "/x", "enable_frame_num": False}, 2),
]


@pytest.mark.parity
@pytest.mark.parametrize(("arguments", "count"), OUTPUTS)
@pytest.mark.parametrize("operator", ["video", "video_resize"])
def test_outputs_are_those_of_dali(operator: str, arguments: dict[str, Any], count: int) -> None:
    dali = pytest.importorskip("nvidia.dali")
    more = {"size": [4, 4]} if operator == "video_resize" else {}
    for module, pipe in (
        (dali.fn, dali.Pipeline(1, 1, 0)),
        (fn, Pipeline(batch_size=1, num_threads=1, device_id=None)),
    ):
        with pipe:
            made = getattr(module.readers, operator)(device="gpu", sequence_length=2, **arguments, **more)
        assert (len(made) if isinstance(made, tuple | list) else 1) == count


def test_floats_and_colors(clips: Clips) -> None:
    def first(**arguments: Any) -> Any:
        pipe = reading(batch_size=1, filenames=paths(clips, "h264.mp4"), sequence_length=3, **arguments)
        made = pipe.run()[0].at(0)
        pipe.close()
        return made

    plain = first()
    assert plain.dtype == np.uint8
    np.testing.assert_array_equal(first(dtype=types.FLOAT), plain.astype(np.float32))
    np.testing.assert_allclose(first(dtype=types.FLOAT, normalized=True), plain / 255, atol=1e-6)
    np.testing.assert_array_equal(first(image_type=types.BGR), plain[..., ::-1])
    assert first(image_type=types.GRAY).shape == (3, 48, 64, 1)
    assert first(image_type=types.YCbCr).min() >= 10


def test_folders(clips: Clips, tmp_path: Path) -> None:
    for folder, name in (("b", "h264.mp4"), ("a", "vp9.webm"), ("a", "mpeg4.avi")):
        (tmp_path / folder).mkdir(exist_ok=True)
        shutil.copy(clips.path(name), tmp_path / folder)
    (tmp_path / "a" / "notes.txt").write_text("no video")
    shutil.copy(clips.path("h264.mkv"), tmp_path)
    pipe = reading(batch_size=3, file_root=str(tmp_path), sequence_length=40)
    frames, labels = pipe.run()
    assert [Path(sample.source_info()).name for sample in frames] == [
        "mpeg4.avi, frame 0",
        "vp9.webm, frame 0",
        "h264.mp4, frame 0",
    ]
    assert labels.as_array().ravel().tolist() == [0, 0, 1]
    pipe.close()
    pipe = reading(batch_size=2, file_root=str(tmp_path / "a"), sequence_length=40)
    assert pipe.run()[1].as_array().ravel().tolist() == [0, 0]
    pipe.close()


@pytest.mark.parametrize(
    ("line", "options", "expected"),
    [
        ("5", {}, range(40)),
        ("5 0.2", {}, range(5, 40)),
        ("5 0.2 0.6", {}, range(5, 15)),
        ("5 0.21 0.61", {}, range(6, 15)),
        ("5 0.21 0.61", {"file_list_include_preceding_frame": True}, range(5, 16)),
        ("5 0 1.56", {}, range(39)),
        ("5 0 9.5", {}, range(40)),
        ("5 3 12", {"file_list_frame_num": True}, range(3, 12)),
        ("5 2.5 12.5", {"file_list_frame_num": True}, range(3, 12)),
        ("5 -6 -1", {"file_list_frame_num": True}, range(34, 39)),
        ("5 -6", {"file_list_frame_num": True}, range(34, 40)),
    ],
)
def test_lists_of_parts(line: str, options: dict[str, bool], expected: range, clips: Clips, tmp_path: Path) -> None:
    shutil.copy(clips.path("h264.mp4"), tmp_path / "a clip 2.mp4")
    (tmp_path / "list.txt").write_text(f"a clip 2.mp4 {line}\n\n")
    pipe = reading(batch_size=len(expected), file_list=str(tmp_path / "list.txt"), sequence_length=1, **options)
    frames, labels = pipe.run()
    assert pipe.epoch_size("r") == len(expected)
    assert [number_of(sample[0]) for sample in map(np.asarray, frames)] == [*expected]
    assert set(labels.as_array().ravel().tolist()) == {5}
    pipe.close()


def test_reader_resizes_frames(clips: Clips) -> None:
    files = paths(clips, "h264.mp4")
    pipe = reading(operator="video_resize", filenames=files, labels=[3], sequence_length=4, resize_shorter=24)
    plain = reading(filenames=files, sequence_length=4)
    (frames, labels), (full,) = pipe.run(), plain.run()
    assert frames.layout() == "FHWC"
    assert frames.shape() == [(4, 24, 32, 3)] * 2
    assert labels.as_array().tolist() == [[3], [3]]
    expected = full.at(0).reshape(4, 24, 2, 32, 2, 3).mean(axis=(2, 4))
    assert np.abs(frames.at(0) - expected).mean() < 4
    assert pipe.reader_meta("r")["epoch_size"] == 10
    for each in (pipe, plain):
        each.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, '.*[sS]pecify values for arguments: "sequence_length"'),
        ({"sequence_length": 2, "resize_x": "wide"}, "argument 'resize_x' must be float, not str"),
        ({"sequence_length": 2, "width": 3}, 'Argument "width" is not defined .*arguments are: .*filenames.*resize_x'),
    ],
)
def test_wrong_call_names_the_operator_that_was_called(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.GraphError, match=f"^fn.readers.video_resize: {message}") as caught:
        reading(operator="video_resize", filenames=["a.mp4"], **{"sequence_length": None, **arguments})
    assert "test_video.py" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequence_length": 41}, "no sequences of 41 frames, 1 apart, in the 1 videos, the longest of which has 40"),
        ({"sequence_length": 0}, "'sequence_length' must be 1 or more"),
        ({"stride": 0}, "'stride' must be 1 or more"),
        ({"dtype": types.INT32}, "'dtype' must be UINT8 or FLOAT, not INT32"),
        ({"normalized": True}, "'normalized' needs dtype=FLOAT"),
        ({"image_type": types.ANY_DATA}, "not ANY_DATA"),
        ({"labels": [1, 2]}, "2 labels for 1 files"),
        ({"file_root": "/tmp"}, "'filenames' and 'file_root' are mutually"),
        ({"filenames": None}, "'filenames', 'file_root' and 'file_list' is required; none is given"),
        ({"filenames": None, "file_root": "/none"}, "can't list the folder '/none'"),
        ({"filenames": None, "file_list": "/none"}, "can't read file_list '/none'"),
        ({"filenames": ["/none.mp4"]}, "can't read the file '/none.mp4'"),
        ({"filenames": ["/tmp"]}, "the file '/tmp' can't be decoded: it is a folder"),
    ],
)
def test_errors_when_built(arguments: dict[str, Any], message: str, clips: Clips) -> None:
    given = {"filenames": paths(clips, "h264.mp4"), "sequence_length": 2, **arguments}
    pipe = reading(**{name: value for name, value in given.items() if value is not None})
    with pytest.raises(errors.PipelineError, match=message):
        pipe.build()
    pipe.close()


def test_wrong_lists(clips: Clips, tmp_path: Path) -> None:
    for text, message in (
        ("clip.mp4\n", "line 1: expected a path, a label, and at most a start and an end, not 'clip.mp4'"),
        ("a.mp4 1\n\nb.mp4 x 1.5 2\n", "line 3"),
        ("a.mp4 1 2 inf\n", "line 1"),
        ("\n", "names no files"),
    ):
        (tmp_path / "list.txt").write_text(text)
        pipe = reading(file_list=str(tmp_path / "list.txt"), sequence_length=2)
        with pytest.raises(errors.PipelineError, match=message):
            pipe.build()
        pipe.close()


def test_video_that_is_cut_off(clips: Clips, tmp_path: Path) -> None:
    """An MP4's header gives its number of frames; other videos are read through when the reader is built."""
    for name, built in (("h264_faststart.mp4", True), ("h264.mkv", False)):
        data = clips.path(name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        pipe = reading(filenames=[str(tmp_path / name), *paths(clips, "vp9.webm")], sequence_length=20, batch_size=2)
        message = f"the file '{tmp_path / name}' can't be decoded: it is truncated"
        if built:
            assert pipe.epoch_size("r") == 4
            with pytest.raises(errors.OperatorError, match=message):
                pipe.run()
            assert [numbers(sample) for sample in map(np.asarray, pipe.run()[0])] == [[*range(20)], [*range(20, 40)]]
        else:
            with pytest.raises(errors.BuildError, match=message):
                pipe.build()
        pipe.close()


def test_damaged_video_is_the_error_of_its_batch(clips: Clips, tmp_path: Path) -> None:
    import av

    data = bytearray(clips.path("h264.mp4").read_bytes())
    with av.open(str(clips.path("h264.mp4"))) as file:
        packet = [packet for packet in file.demux(video=0) if packet.size][14]
    data[packet.pos + 8 : packet.pos + packet.size] = bytes(packet.size - 8)
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    pipe = reading(filenames=[str(path)], sequence_length=12, batch_size=1)
    assert numbers(pipe.run()[0].at(0)) == [*range(12)]
    with pytest.raises(
        errors.OperatorError, match=rf"\({path}, frame 12\)|the file '{path}' can't be decoded: frame 1"
    ):
        pipe.run()
    assert numbers(pipe.run()[0].at(0)) == [*range(24, 36)]
    pipe.close()


def test_checkpoint_resumes_the_reader(clips: Clips) -> None:
    def pipe_from(checkpoint: bytes | None = None) -> Pipeline:
        pipe = Pipeline(
            batch_size=3, num_threads=2, device_id=None, seed=3, enable_checkpointing=True, checkpoint=checkpoint
        )
        with pipe:
            pipe.set_outputs(
                fn.readers.video(name="r", filenames=paths(clips, *MIXED), sequence_length=5, random_shuffle=True)
            )
        return pipe

    pipe = pipe_from()
    for _ in range(10):
        pipe.run()
    again = pipe_from(pipe.checkpoint())
    for _ in range(3):
        for ours, theirs in zip(pipe.run()[0], again.run()[0], strict=True):
            np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    pipe.close()
    again.close()


@pytest.mark.parity
def test_noted_rotation_is_not_applied(clips: Clips, tmp_path: Path) -> None:
    """DALI doesn't apply it either: frames are as they were encoded, whatever orientation a phone recorded."""
    dali = pytest.importorskip("nvidia.dali")
    path = tmp_path / "rotated.mp4"
    remux(clips.path("vp9.mp4"), path, turned=90)
    assert decode_from_start(path)[0].rotation == 90
    pipe = reading(filenames=[str(path)], sequence_length=5, batch_size=1)
    oracle = dali.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with oracle:
        oracle.set_outputs(dali.fn.experimental.readers.video(filenames=[str(path)], sequence_length=5))
    oracle.build()
    made, expected = pipe.run()[0].at(0), np.array(oracle.run()[0].at(0))
    assert made.shape == expected.shape == (5, 48, 64, 3)
    assert np.abs(made.astype(int) - expected).max() <= 2
    pipe.close()
