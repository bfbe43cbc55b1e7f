"""NVDEC: the same frames as on the CPU, which stay on the GPU. Clips are as large as its codecs need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn, types
from pipeline.errors import DeviceError, PipelineError
from pipeline.kernels import KernelContext
from pipeline.types import DALIImageType
from pipeline.video.clip import Clip
from pipeline.video.decoder import Decoder
from pipeline.video.frames import Decoders, read_frames
from pipeline.video.gpu_pixels import planes_of
from pipeline.video.nvdec import Encoding, check_nvdec
from pipeline.video.targets import target_for
from tests.clips import COUNT, KINDS, Kind, decode_from_start, encode, needs_nvdec, number_of

pytestmark = [pytest.mark.gpu, needs_nvdec]

#: Kinds whose standards leave decoders no choice: NVDEC's frames are FFmpeg's, bit by bit.
EXACT = (
    *("h264.mp4", "h264_open_gop.mp4", "h264_varying.mkv", "h264_refresh.mkv", "h264.avi", "h264.ts"),
    *("hevc_open_gop.mp4", "hevc.mkv", "hevc_10_bits.mkv", "vp9.webm", "vp9.mp4"),
)
#: Kinds that leave the inverse transform some freedom.
OTHERS = ("mpeg4.mp4", "mpeg4.avi", "mjpeg.avi")
NAMES = ("h264.mp4", "hevc_open_gop.mp4", "hevc_10_bits.mkv", "vp9.webm", "mpeg4.avi", "mjpeg.avi")
SIZE = (144, 192)
RANDOM = np.random.default_rng(6).permutation(COUNT).tolist()
TEN_BITS = Kind("libx265", "keyint=12:min-keyint=12:scenecut=0:bframes=3", pixels="yuv420p10le")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Clips that the codecs of NVDEC take: AV1 and VP9 need 128 by 128 pixels, HEVC 144 by 144."""
    folder = tmp_path_factory.mktemp("large")
    for name in (*EXACT, *OTHERS, "av1.mp4"):
        encode(folder / name, KINDS.get(name, TEN_BITS), size=SIZE)
    return {name: folder / name for name in (*EXACT, *OTHERS, "av1.mp4")}


def outputs(pipe: Pipeline, runs: int = 1, **feed: Any) -> list[list[Any]]:
    """Run a pipeline, and return its outputs on the CPU."""
    made = []
    for _ in range(runs):
        made.append([output.as_cpu() for output in pipe.run(**feed)])
        feed = {}
    return made


def close(ours: Any, theirs: Any) -> None:
    difference = np.abs(ours.astype(int) - theirs)
    assert difference.max() <= 6
    assert difference.mean() < 0.7


@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
def test_any_frame_is_exactly_that_frame(name: str, large: dict[str, Path]) -> None:
    """Luma and chroma as NVDEC gives them, whichever frame was decoded before."""
    import cupy

    expected = [frame.reformat(format="nv12") for frame in decode_from_start(large[name])]
    if name == "hevc_10_bits.mkv":
        expected = [frame.reformat(format="p010le") for frame in decode_from_start(large[name])]
    clip = Clip(str(large[name]), device_id=0)
    decoder = Decoder(clip)
    for wanted in [*RANDOM, 0, 0, *range(COUNT), COUNT - 1]:
        ((number, frame),) = decoder.decode([wanted])
        assert number == wanted
        assert frame.format.name == "cuda"
        _, _, (planes,) = planes_of([frame], cupy.from_dlpack)
        for ours, plane in zip(planes, expected[wanted].planes, strict=True):
            rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size).view(ours.dtype)
            theirs = rows[: ours.shape[0], : ours[0].size].reshape(ours.shape)
            difference = np.abs(cupy.asnumpy(ours).astype(int) - theirs)
            assert difference.max() <= (0 if name in EXACT else 3), f"frame {wanted}"
    decoder.close()


@pytest.mark.parametrize("name", NAMES)
def test_any_frame_is_that_of_the_cpu(name: str, large: dict[str, Path]) -> None:
    decoded = [decode_by_operator(large[name], device) for device in (None, 0)]
    for ours, theirs in zip(*decoded, strict=True):
        assert [number_of(frame) for frame in theirs] == [*RANDOM, 0, 0]
        close(ours, theirs)


def test_a_codec_that_the_gpu_may_lack(large: dict[str, Path]) -> None:
    try:
        check_nvdec(0, Encoding("av1", None, SIZE[1], SIZE[0]))
    except DeviceError:
        with pytest.raises(PipelineError, match="can't be decoded: NVDEC of GPU 0 doesn't decode av1 of 8 bits"):
            decode_by_operator(large["av1.mp4"], 0)
    else:
        for ours, theirs in zip(*(decode_by_operator(large["av1.mp4"], device) for device in (None, 0)), strict=True):
            close(ours, theirs)


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        (Kind("libvpx-vp9"), (48, 64), "vp9 of 64x48 pixels, only 128x128 to"),
        (Kind("libx264", pixels="yuv444p"), SIZE, "yuv444p, only 4:2:0"),
        (Kind("ffv1"), SIZE, "ffv1 of 8 bits"),
        (Kind("mpeg4"), (145, 194), "194x145 pixels rightly, only even sizes"),
    ],
)
def test_what_the_gpu_does_not_decode(kind: Kind, size: tuple[int, int], message: str, tmp_path: Path) -> None:
    path = tmp_path / "clip.mkv"
    encode(path, kind, 3, size)
    clip = Clip(str(path), device_id=0)
    with (
        KernelContext(0) as kernels,
        pytest.raises(DeviceError, match=f"clip.mkv' can't be decoded: NVDEC of GPU 0 doesn't decode {message}"),
    ):
        read_frames(clip, [0], target_for(clip, DALIImageType.RGB, kernels), Decoders(0))


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        ("libvpx-vp9", (146, 194)),
        ("mpeg4", (146, 194)),
        ("libx264", (150, 202)),
        ("libx265", (150, 202)),
    ],
)
def test_sizes_that_are_no_multiples(codec: str, size: tuple[int, int], tmp_path: Path) -> None:
    """Decoders round sizes up, to blocks."""
    path = tmp_path / "clip.mkv"
    encode(path, Kind(codec), 3, size)
    made = []
    with KernelContext(0) as kernels:
        for device_id in (None, 0):
            clip = Clip(str(path), device_id)
            frames = read_frames(clip, [2, 0, 1, 0, -1], target_for(clip, DALIImageType.RGB, kernels), Decoders(0))
            made.append(frames if device_id is None else frames.get())
    assert made[1].shape == (5, *size, 3)
    close(*made)


def test_more_frames_than_a_launch_takes(large: dict[str, Path]) -> None:
    """Some twice, so that they are read while others wait."""
    frames = [*range(COUNT), *range(0, COUNT, 3)]
    clip = Clip(str(large["h264.mp4"]), 0)
    with KernelContext(0) as kernels:
        made = read_frames(clip, frames, target_for(clip, DALIImageType.RGB, kernels), Decoders(0)).get()
    assert [number_of(frame) for frame in made] == frames


def decode_by_operator(path: Path, device_id: int | None) -> list[Any]:
    with Pipeline(batch_size=2, num_threads=2, device_id=device_id) as pipe:
        encoded = fn.external_source(name="x")
        device = "cpu" if device_id is None else "mixed"
        pipe.set_outputs(fn.decoders.video(encoded, device=device, frames=[*RANDOM, 0, 0]))
    try:
        ((batch,),) = outputs(pipe, x=[np.fromfile(path, np.uint8)] * 2)
        return [batch.at(sample) for sample in range(2)]
    finally:
        pipe.close()


def test_the_reader_leaves_frames_on_the_gpu(large: dict[str, Path]) -> None:
    made = []
    for device, device_id in (("cpu", None), ("gpu", 0)):
        with Pipeline(batch_size=3, num_threads=2, device_id=device_id, seed=5) as pipe:
            frames, labels, numbers = fn.readers.video(
                name="r",
                device=device,
                filenames=[str(large["h264.mp4"]), str(large["hevc.mkv"])],
                labels=[],
                sequence_length=7,
                stride=2,
                pad_sequences=True,
                random_shuffle=True,
                enable_frame_num="sequence",
            )
            cropped = fn.crop(frames, crop=(64, 64), dtype=types.FLOAT)
            pipe.set_outputs(frames, labels, numbers, fn.transpose(cropped, perm=[3, 0, 1, 2]))
        first = pipe.run()
        kind = "TensorListGPU" if device == "gpu" else "TensorListCPU"
        assert [type(output).__name__ for output in first] == [kind] * 4
        made.append([[output.as_cpu() for output in first], *outputs(pipe, runs=5)])
        pipe.close()
    for theirs, ours in zip(*made, strict=True):
        for sample in range(3):
            assert ours[1].at(sample).tolist() == theirs[1].at(sample).tolist()
            assert ours[2].at(sample).tolist() == theirs[2].at(sample).tolist()
            close(ours[0].at(sample), theirs[0].at(sample))
            close(ours[3].at(sample), theirs[3].at(sample))


def test_floats_and_colors(large: dict[str, Path]) -> None:
    for arguments in (
        {"dtype": types.FLOAT, "normalized": True},
        {"image_type": types.YCbCr},
        {"image_type": types.GRAY},
    ):
        made = []
        for device, device_id in (("cpu", None), ("gpu", 0)):
            with Pipeline(batch_size=1, num_threads=1, device_id=device_id) as pipe:
                pipe.set_outputs(
                    fn.readers.video(device=device, filenames=[str(large["vp9.webm"])], sequence_length=4, **arguments)
                )
            made.append(outputs(pipe)[0][0].at(0))
            pipe.close()
        assert made[0].dtype == made[1].dtype
        scale = 255 if "normalized" in arguments else 1
        close(made[1] * scale, made[0] * scale)


def test_a_long_video_in_parts(large: dict[str, Path]) -> None:
    with Pipeline(batch_size=3, num_threads=2, device_id=0) as pipe:
        pipe.set_outputs(fn.inputs.video(name="video", device="mixed", sequence_length=6, last_sequence_policy="pad"))
    shown: list[int] = []
    for (batch,) in outputs(pipe, runs=3, video=[np.fromfile(large["h264.mp4"], np.uint8)]):
        shown += [number_of(frame) for sample in range(len(batch)) for frame in batch.at(sample)]
    assert shown == [*range(COUNT), 0, 0]
    pipe.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"pad_mode": "constant", "fill_value": [200, 100, 0], "stride": 2},
        {"pad_mode": "reflect_101"},
        {"uniform_sample": True},
    ],
    ids=str,
)
def test_the_experimental_reader(arguments: dict[str, Any], large: dict[str, Path]) -> None:
    made = []
    for device, device_id in (("cpu", None), ("gpu", 0)):
        with Pipeline(batch_size=2, num_threads=2, device_id=device_id) as pipe:
            frames, numbers = fn.experimental.readers.video(
                device=device,
                filenames=[str(large["h264.mp4"]), str(large["vp9.webm"])],
                sequence_length=9,
                enable_frame_num="sequence",
                **arguments,
            )
            pipe.set_outputs(frames, numbers)
        made.append(outputs(pipe, runs=4))
        pipe.close()
    for theirs, ours in zip(*made, strict=True):
        for sample in range(2):
            assert ours[1].at(sample).tolist() == theirs[1].at(sample).tolist()
            close(ours[0].at(sample), theirs[0].at(sample))
