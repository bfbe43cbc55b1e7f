"""`decoders.video`, compared with NVIDIA DALI where DALI decodes on the CPU, and operators on its output."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader
from pipeline import Pipeline, fn, pipeline_def
from pipeline.errors import OperatorError, PipelineError
from tests.clips import COUNT, Clips, number_of
from tests.pipeline.operators.both import compare, difference, refused_by_both, run_dali, run_ours, sample_images


def numbers(sequence: Any) -> list[int]:
    return [number_of(frame) for frame in sequence]


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"start_frame": 35, "sequence_length": 8},
        {"start_frame": 35, "sequence_length": 18, "pad_mode": "edge"},
        {"start_frame": 35, "sequence_length": 8, "pad_mode": "none"},
        {"start_frame": 35, "sequence_length": 98, "pad_mode": "reflect"},
        {"start_frame": 35, "sequence_length": 98, "pad_mode": "symmetric"},
        {"start_frame": 2, "end_frame": 44, "stride": 5},
        {"frames": [3, 1, 1, 39, 45]},
        {"frames": [3, 45], "pad_mode": "repeat"},
        {"start_frame": 38, "sequence_length": 4, "fill_value": [1, 2, 3]},
    ],
    ids=str,
)
def test_frames_are_those_of_dali(arguments: dict[str, Any], clips: Clips) -> None:
    # A difference of 1, or 2 for one in a thousand values: the chroma is rounded before the colour conversion.
    feed = [clips.bytes("vp9.webm"), clips.bytes("mjpeg.mkv")]
    compare(lambda fn, types, x: fn.decoders.video(x, **arguments), feed, tolerance=2)


@pytest.mark.parity
def test_arguments_per_sample(clips: Clips) -> None:
    feeds = [[clips.bytes("vp9.webm")] * 3, [np.int32(value) for value in (30, 2, 0)], [np.int32(5)] * 3]
    ours, theirs = (
        run(lambda fn, types, x, start, length: fn.decoders.video(x, start_frame=start, sequence_length=length), *feeds)
        for run in (run_ours, run_dali)
    )
    for our, their, start in zip(ours[0].samples, theirs[0].samples, (30, 2, 0), strict=True):
        assert numbers(our) == [*range(start, start + 5)]
        assert difference(our, their) <= 2


@pytest.mark.parity
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"frames": [3, 45], "pad_mode": "none"}, "the video has 40 frames, so frame 45 doesn't exist"),
        ({"end_frame": 3, "sequence_length": 3}, "'end_frame' and 'sequence_length' are mutually"),
        ({"frames": [1], "stride": 2}, "'frames' and 'stride' are mutually"),
        ({"start_frame": 50, "sequence_length": 2, "pad_mode": "edge"}, "start_frame 50 isn't in the video"),
        ({"start_frame": 5, "end_frame": 5}, "end_frame 5 must be more than start_frame 5"),
    ],
)
def test_calls_refused_as_in_dali(arguments: dict[str, Any], message: str, clips: Clips) -> None:
    refused_by_both(lambda fn, types, x: fn.decoders.video(x, **arguments), [clips.bytes("vp9.webm")], match=message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pad_mode": "zero"}, "'pad_mode' must be one of 'none', 'constant'"),
        ({"fill_value": [1, 2], "frames": [50]}, "fill_value has 2 values, but the frames have 3 channels"),
        ({"fill_value": [300]}, "'fill_value' must be values from 0 to 255"),
        ({"stride": 0}, "'stride' must be 1 or more"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, Any], message: str, clips: Clips) -> None:
    with pytest.raises(PipelineError, match=message):
        run_ours(lambda fn, types, x: fn.decoders.video(x, **arguments), [clips.bytes("vp9.webm")])


def test_codecs_that_dali_leaves_to_the_gpu(clips: Clips) -> None:
    for operator in (fn.decoders.video, fn.experimental.decoders.video):
        feed = [clips.bytes(name) for name in ("h264.mp4", "hevc.mkv", "av1.mp4", "mpeg4.avi")]
        (output,) = run_ours(lambda fn, types, x, operator=operator: operator(x, frames=[39, 0, 17]), feed)
        assert output.layout == "FHWC"
        assert [numbers(sample) for sample in output.samples] == [[39, 0, 17]] * 4


def test_sample_that_is_not_a_video_is_named(clips: Clips) -> None:
    feed = [clips.bytes("h264.mp4"), np.arange(3000).astype(np.uint8), clips.bytes("h264.mp4")[:5000]]
    with pytest.raises(OperatorError, match=r"sample 1: 3000 encoded bytes can't be decoded: .*and 1 more") as caught:
        run_ours(lambda fn, types, x: fn.decoders.video(x), feed)
    assert [failure.sample for failure in caught.value.failures] == [1, 2]


class Starts(Dataset[Any]):
    """Ranges of clips: the worker reads the file, and the server decodes the range."""

    def __init__(self, paths: list[str], transform: Any) -> None:
        self.paths, self.transform = paths, transform

    def __len__(self) -> int:
        return 3 * len(self.paths)

    def __getitem__(self, index: int) -> Any:
        clip, part = divmod(index, 3)
        return self.transform(video=np.fromfile(self.paths[clip], np.uint8), start=np.int32(10 * part)), index


@pipeline_def(batch_size=3, num_threads=2, device_id=None)
def parts() -> Any:
    video = fn.external_source(name="video", no_copy=True)
    start = fn.external_source(name="start", no_copy=True)
    return fn.decoders.video(video, start_frame=start, sequence_length=3, stride=2)


def test_worker_reads_the_file_and_the_server_decodes_it(clips: Clips) -> None:
    paths = [str(clips.path(name)) for name in ("h264.mp4", "vp9.webm")]
    with DALIServer(parts()) as server:
        for frames, indices in DataLoader(server, Starts(paths, server.proxy), batch_size=3, num_workers=1):
            assert frames.shape == (3, 3, 48, 64, 3)
            for sequence, index in zip(frames.numpy(), indices.tolist(), strict=True):
                assert numbers(sequence) == [10 * (index % 3) + frame for frame in (0, 2, 4)]


SEQUENCE_OPERATORS = {
    "crop": lambda fn, types, x: fn.crop(x, crop=(20, 30), crop_pos_x=0.3, crop_pos_y=0.9, dtype=types.FLOAT),
    "resize": lambda fn, types, x: fn.resize(x, resize_x=30),
    "flip": lambda fn, types, x: fn.flip(x, vertical=1),
    "transpose": lambda fn, types, x: fn.transpose(x, perm=[3, 0, 1, 2]),
    "crop_mirror_normalize": lambda fn, types, x: fn.crop_mirror_normalize(
        x, crop=(20, 30), mirror=1, mean=[9.0, 8.0, 7.0], std=[60.0, 50.0, 40.0], output_layout="FCHW"
    ),
    "cfhw": lambda fn, types, x: fn.crop_mirror_normalize(x, mean=[128.0], output_layout="CFHW"),
}


@pytest.mark.parity
@pytest.mark.parametrize("operator", SEQUENCE_OPERATORS)
def test_operators_take_sequences(operator: str) -> None:
    sequences = sample_images((4, 24, 32, 3), (2, 40, 36, 3))
    tolerance = {"resize": 1.0, "crop_mirror_normalize": 1e-5}.get(operator, 0)
    compare(SEQUENCE_OPERATORS[operator], sequences, layouts=["FHWC"], tolerance=tolerance)


@pytest.mark.parametrize("operator", SEQUENCE_OPERATORS)
def test_frames_are_treated_like_images(operator: str, clips: Clips) -> None:
    """Operators in one chain with the decoder use its description of shapes."""
    graph = SEQUENCE_OPERATORS[operator]
    (made,) = run_ours(
        lambda fn, types, x: graph(fn, types, fn.decoders.video(x, frames=[5, 6])), [clips.bytes("h264.mp4")]
    )
    (again,) = run_ours(
        lambda fn, types, x: graph(fn, types, x),
        run_ours(lambda fn, types, x: fn.decoders.video(x, frames=[5, 6]), [clips.bytes("h264.mp4")])[0].samples,
        layouts=["FHWC"],
    )
    assert made.layout == again.layout
    np.testing.assert_array_equal(made.samples[0], again.samples[0])


def test_frames_are_all_decoded_by_default(clips: Clips) -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.decoders.video(fn.external_source(name="x")))
    pipe.feed_input("x", [clips.bytes("h264_varying.mp4")[None]])
    assert numbers(pipe.run()[0].at(0)) == [*range(COUNT)]
    pipe.close()
