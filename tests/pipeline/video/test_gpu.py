"""NVDEC decodes the same frames as the CPU, and they stay on the GPU. Clips have the minimum size of its codecs."""

from __future__ import annotations

import ctypes
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._video import nvdec
from dali_proxy.pipeline._video.bursts import BurstDecoder
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.decoder import Decoder
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.gpu_pixels import planes_of
from dali_proxy.pipeline._video.nvdec import Encoding, refusal
from dali_proxy.pipeline._video.targets import target_for
from pipeline import Pipeline, fn, types
from pipeline.types import DALIImageType
from tests.clips import COUNT, KINDS, Kind, decode_from_start, encode, needs_nvdec, number_of

pytestmark = [pytest.mark.gpu, needs_nvdec]

#: Kinds whose standards are exact: NVDEC's frames equal FFmpeg's, bit by bit.
EXACT = (
    *("h264.mp4", "h264_open_gop.mp4", "h264_varying.mkv", "h264_refresh.mkv", "h264.avi", "h264.ts"),
    *("hevc_open_gop.mp4", "hevc.mkv", "hevc_10_bits.mkv", "vp9.webm", "vp9.mp4"),
)
#: Kinds whose standards allow variations of the inverse transform.
OTHERS = ("mpeg4.mp4", "mpeg4.avi", "mjpeg.avi")
NAMES = ("h264.mp4", "hevc_open_gop.mp4", "hevc_10_bits.mkv", "vp9.webm", "mpeg4.avi", "mjpeg.avi")
SIZE = (144, 192)
RANDOM = np.random.default_rng(6).permutation(COUNT).tolist()
TEN_BITS = Kind("libx265", "keyint=12:min-keyint=12:scenecut=0:bframes=3", pixels="yuv420p10le")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return clips that the codecs of NVDEC accept: AV1 and VP9 need 128 by 128 pixels, HEVC 144 by 144."""
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


def download(samples: Samples) -> Any:
    """Return the only sample as an array, with all bytes of its rows read in one copy."""
    import cupy

    shape, strides = samples.shapes[0].tolist(), samples.strides[0].tolist()
    memory = (ctypes.c_byte * (shape[0] * strides[0]))()
    cupy.cuda.runtime.memcpy(ctypes.addressof(memory), int(samples.pointers[0]), len(memory), 2)
    return np.ndarray(shape, samples.dtype, memory, strides=strides)


def read_on(path: Path, device_id: int | None, frames: list[int], output: DALIImageType = DALIImageType.RGB) -> Any:
    """Return frames from `read_frames` on a device, copied to the CPU."""
    clip = Clip(str(path), device_id)
    with KernelContext(0) as kernels:
        made = read_frames(clip, frames, target_for(clip, output, kernels), Decoders(0))
        return made if device_id is None else made.get()


def read_by_pool(path: Path, frames: list[Any]) -> Any:
    """Return the frames of samples from `fn.io.video`, copied to the CPU."""
    with Pipeline(batch_size=len(frames), num_threads=2, device_id=0) as pipe:
        source, numbers = fn.external_source(name="source"), fn.external_source(name="frames")
        pipe.set_outputs(fn.io.video(source, frames=numbers, device="mixed"))
    sources = [np.frombuffer(str(path).encode(), np.uint8)] * len(frames)
    (output,) = pipe.run(source=sources, frames=[np.array(each) for each in frames])
    made = np.stack([np.array(sample) for sample in output.as_cpu().samples])
    pipe.close()
    return made


def close(ours: Any, theirs: Any) -> None:
    difference = np.abs(ours.astype(int) - theirs)
    assert difference.max() <= 6
    assert difference.mean() < 0.7


@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
def test_frames_are_exact(name: str, large: dict[str, Path]) -> None:
    """Luma and chroma equal NVDEC's output, whichever frame was decoded before."""
    expected = [frame.reformat(format="nv12") for frame in decode_from_start(large[name])]
    if name == "hevc_10_bits.mkv":
        expected = [frame.reformat(format="p010le") for frame in decode_from_start(large[name])]
    clip = Clip(str(large[name]), device_id=0)
    decoder = Decoder(clip)
    for wanted in [*RANDOM, 0, 0, *range(COUNT), COUNT - 1]:
        ((number, frame),) = decoder.decode([wanted])
        assert number == wanted
        assert frame.format.name == "cuda"
        for samples, plane in zip(planes_of([frame]), expected[wanted].planes, strict=True):
            ours = download(samples)
            rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size).view(ours.dtype)
            theirs = rows[: ours.shape[0], : ours[0].size].reshape(ours.shape)
            difference = np.abs(ours.astype(int) - theirs)
            assert difference.max() <= (0 if name in EXACT else 3), f"frame {wanted}"
    decoder.close()


@pytest.mark.parametrize("name", [*NAMES, "av1.mp4"])
@pytest.mark.filterwarnings("ignore:.*decoded on the CPU")
def test_frames_of_the_pool_equal_the_cpu(name: str, large: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dali_proxy")
    made = []
    path = np.frombuffer(str(large[name]).encode(), np.uint8)
    content = np.fromfile(large[name], np.uint8)
    for device in ("cpu", "mixed"):
        with Pipeline(batch_size=4, num_threads=2, device_id=0) as pipe:
            source, frames = fn.external_source(name="source"), fn.external_source(name="frames")
            pipe.set_outputs(
                fn.io.video(source, frames=frames, device=device, pad_mode="constant", fill_value=[1, 2, 3])
            )
        wanted = [np.array(RANDOM[first : first + 4]) for first in range(0, 12, 4)] + [np.array([5, COUNT, 5])]
        for _ in range(3):
            (output,) = pipe.run(source=[path, path, content, path], frames=wanted)
            made.append([np.array(sample) for sample in output.as_cpu().samples])
        pipe.close()
    for ours in made[1:]:
        for each, other, numbers in zip(ours, made[0], wanted, strict=True):
            close(each, other)
            shown = [number_of(frame) for frame, number in zip(each, numbers, strict=True) if number < COUNT]
            assert shown == [number for number in numbers if number < COUNT]
    assert "isn't decoded together" not in caplog.text


@pytest.mark.parametrize("name", ["h264.mp4", "h264_open_gop.mp4", "hevc_open_gop.mp4", "ten_bits.mp4", "av1.mp4"])
@pytest.mark.filterwarnings("ignore:.*decoded on the CPU")
def test_groups_that_are_decoded_together_have_the_bits_of_ffmpeg(
    name: str, large: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG, "dali_proxy")
    if name == "ten_bits.mp4":
        encode(tmp_path / name, TEN_BITS, size=SIZE)
    path = large.get(name, tmp_path / name)
    made = []
    for together in (True, False):
        if not together:
            monkeypatch.setattr(BurstDecoder, "supports", lambda *arguments: False)
        made.append(read_by_pool(path, [*np.reshape(RANDOM, (4, -1))]))
    np.testing.assert_array_equal(made[0], made[1])
    assert "isn't decoded together" not in caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_frames_equal_the_cpu(name: str, large: dict[str, Path]) -> None:
    decoded = [decode_by_operator(large[name], device) for device in (None, 0)]
    for ours, theirs in zip(*decoded, strict=True):
        assert [number_of(frame) for frame in theirs] == [*RANDOM, 0, 0]
        close(ours, theirs)


def test_codec_that_the_gpu_may_lack(large: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy.pipeline._video.clip._warned_reasons", set())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        made = [decode_by_operator(large["av1.mp4"], device) for device in (None, 0)]
    for ours, theirs in zip(*made, strict=True):
        close(ours, theirs)
    lacks = refusal(0, Encoding("av1", None, SIZE[1], SIZE[0])) is not None
    assert any("NVDEC of GPU 0 doesn't decode av1 of 8 bits" in str(each.message) for each in told) == lacks


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        (Kind("libvpx-vp9"), (48, 64), "vp9 of 64x48 pixels, only 128x128 to"),
        (Kind("libx264", pixels="yuv444p"), SIZE, "yuv444p, only 4:2:0"),
        (Kind("ffv1"), SIZE, "ffv1 of 8 bits"),
        (Kind("libx264", pixels="yuv422p10le"), SIZE, "yuv422p10le, only 4:2:0"),
        (Kind("libx264", pixels="yuv420p10le"), SIZE, "h264 of 10 bits"),
        (Kind("libx265", pixels="yuv444p"), SIZE, "yuv444p, only 4:2:0"),
        (Kind("mpeg4"), (145, 194), "194x145 pixels correctly, only even sizes"),
        (Kind("libvpx-vp9"), (145, 193), "193x145 pixels correctly, only even sizes"),
        (Kind("libvpx-vp9"), (144, 193), "193x144 pixels correctly, only even sizes"),
        (Kind("mjpeg", pixels="yuvj420p"), (145, 193), "193x145 pixels correctly, only even sizes"),
    ],
)
def test_videos_that_the_gpu_refuses_are_decoded_on_the_cpu(
    kind: Kind, size: tuple[int, int], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dali_proxy.pipeline._video.clip._warned_reasons", set())
    path = tmp_path / "clip.mkv"
    encode(path, kind, 5, size)
    frames = [4, 0, 2, 0, -1]
    with pytest.warns(
        RuntimeWarning, match=f"clip.mkv' and .* decoded on the CPU.*NVDEC of GPU 0 doesn't decode {message}"
    ):
        made = read_on(path, 0, frames)
    assert made.shape == (5, *size, 3)
    np.testing.assert_array_equal(made, read_on(path, None, frames))


def test_videos_of_both_kinds_in_a_batch(large: dict[str, Path], tmp_path: Path) -> None:
    """Videos of even and of odd sizes: the GPU decodes the former, the CPU the latter."""
    encode(tmp_path / "odd.webm", KINDS["odd.webm"], size=(145, 193))
    made = []
    for device, device_id in (("cpu", None), ("gpu", 0)):
        with Pipeline(batch_size=4, num_threads=3, device_id=device_id, seed=3) as pipe:
            frames, labels = fn.readers.video(
                device=device,
                filenames=[str(tmp_path / "odd.webm"), str(large["h264.mp4"])],
                labels=[],
                sequence_length=5,
                random_shuffle=True,
                dtype=types.FLOAT,
            )
            pipe.set_outputs(frames, labels)
        made.append(outputs(pipe, runs=4))
        pipe.close()
    for theirs, ours in zip(*made, strict=True):
        for sample in range(4):
            label = ours[1].at(sample).tolist()
            assert label == theirs[1].at(sample).tolist()
            assert ours[0].at(sample).shape == (5, *((145, 193) if label == [0] else SIZE), 3)
            close(ours[0].at(sample), theirs[0].at(sample))


@pytest.mark.parametrize("pixels", ["yuv420p", "yuv420p10le"])
@pytest.mark.parametrize("colors", [(1, 1), (1, 2), (5, 1), (5, 2), (6, 1), (7, 1), (9, 1), (9, 2), (2, 0)], ids=str)
def test_matrices_and_ranges(
    colors: tuple[int, int], pixels: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """BT.709, BT.601, SMPTE 240M and BT.2020, limited and full, and a video without this information."""
    caplog.set_level(logging.DEBUG, "dali_proxy")
    codec = "libx264" if pixels == "yuv420p" else "libx265"
    encode(tmp_path / "clip.mp4", Kind(codec, pixels=pixels), 3, SIZE, color=colors)
    made = [read_on(tmp_path / "clip.mp4", device_id, [2, 0]) for device_id in (None, 0)]
    close(*made)
    assert [number_of(frame) for frame in made[1]] == [2, 0]
    np.testing.assert_array_equal(read_by_pool(tmp_path / "clip.mp4", [[2, 0]])[0], made[1])
    assert "isn't decoded together" not in caplog.text


def test_videos_share_decoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions of NVDEC take long to create, so videos with the same encoding share them."""
    made: list[int] = []
    of_clip = nvdec.acceleration
    monkeypatch.setattr(
        "dali_proxy.pipeline._video.clip.acceleration", lambda device_id: made.append(1) or of_clip(device_id)
    )
    names = [str(tmp_path / f"{number}.mp4") for number in range(12)]
    for number, name in enumerate(names):
        encode(Path(name), KINDS["h264.mp4"], 24, SIZE, begin=number)
    with Pipeline(batch_size=4, num_threads=2, device_id=0, seed=3) as pipe:
        frames, labels, numbers = fn.readers.video(
            device="gpu",
            filenames=names,
            labels=[],
            sequence_length=4,
            random_shuffle=True,
            enable_frame_num="sequence",
        )
        pipe.set_outputs(frames, labels, numbers)
    for batch in outputs(pipe, runs=18):
        for sample in range(4):
            (label,) = batch[1].at(sample).tolist()
            shown = [number_of(frame) for frame in batch[0].at(sample)]
            assert shown == [label + number for number in batch[2].at(sample).tolist()]
    pipe.close()
    assert len(made) <= 4


def test_encoded_bytes_share_decoders(large: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    of_clip = nvdec.acceleration
    monkeypatch.setattr(
        "dali_proxy.pipeline._video.clip.acceleration", lambda device_id: made.append(1) or of_clip(device_id)
    )
    with Pipeline(batch_size=3, num_threads=2, device_id=0) as pipe:
        pipe.set_outputs(fn.decoders.video(fn.external_source(name="x"), device="mixed", frames=[30, 2, 3]))
    for _ in range(4):
        (batch,) = (output.as_cpu() for output in pipe.run(x=[np.fromfile(large["h264.mp4"], np.uint8)] * 3))
        for sample in range(3):
            assert [number_of(frame) for frame in batch.at(sample)] == [30, 2, 3]
    pipe.close()
    assert len(made) <= 3


@pytest.mark.parametrize(
    ("codec", "size"),
    [
        ("libvpx-vp9", (146, 194)),
        ("mpeg4", (146, 194)),
        ("libx264", (150, 202)),
        ("libx265", (150, 202)),
    ],
)
def test_sizes_that_are_not_multiples(codec: str, size: tuple[int, int], tmp_path: Path) -> None:
    """Decoders round sizes up to blocks."""
    path = tmp_path / "clip.mkv"
    encode(path, Kind(codec), 3, size)
    made = [read_on(path, device_id, [2, 0, 1, 0, -1]) for device_id in (None, 0)]
    assert made[1].shape == (5, *size, 3)
    close(*made)


def test_sequence_of_more_frames_than_a_launch_takes(large: dict[str, Path]) -> None:
    """Several frames are requested twice, so that they are read while others wait."""
    frames = [*range(COUNT), *range(0, COUNT, 3)]
    made = read_on(large["h264.mp4"], 0, frames)
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


def test_reader_leaves_frames_on_the_gpu(large: dict[str, Path]) -> None:
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


def test_long_video_in_parts(large: dict[str, Path]) -> None:
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
def test_experimental_reader(arguments: dict[str, Any], large: dict[str, Path]) -> None:
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
