"""NVDEC: the same frames as on the CPU, which stay on the GPU. Clips are as large as its codecs need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn, types
from tests.clips import COUNT, KINDS, encode, needs_nvdec, number_of

pytestmark = [pytest.mark.gpu, needs_nvdec]

NAMES = ("h264.mp4", "h264_open_gop.mp4", "hevc_open_gop.mp4", "hevc.mkv", "vp9.webm", "av1.mp4", "mpeg4.avi")
SIZE = (144, 192)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Clips that the codecs of NVDEC take: AV1 and VP9 need 128 by 128 pixels, HEVC 144 by 144."""
    folder = tmp_path_factory.mktemp("large")
    for name in NAMES:
        encode(folder / name, KINDS[name], size=SIZE)
    return {name: folder / name for name in NAMES}


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


@pytest.mark.parametrize("name", NAMES)
def test_any_frame_is_that_of_the_cpu(name: str, large: dict[str, Path]) -> None:
    wanted = np.random.default_rng(6).permutation(COUNT).tolist()
    decoded = []
    for device, device_id in (("cpu", None), ("mixed", 0)):
        with Pipeline(batch_size=2, num_threads=2, device_id=device_id) as pipe:
            encoded = fn.external_source(name="x")
            pipe.set_outputs(fn.decoders.video(encoded, device=device, frames=[*wanted, 0, 0]))
        ((batch,),) = outputs(pipe, x=[np.fromfile(large[name], np.uint8)] * 2)
        decoded.append([batch.at(sample) for sample in range(2)])
        pipe.close()
    for ours, theirs in zip(*decoded, strict=True):
        assert [number_of(frame) for frame in theirs] == [*wanted, 0, 0]
        close(ours, theirs)


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
