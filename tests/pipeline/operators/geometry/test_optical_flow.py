"""`optical_flow` finds motion that is known."""

from __future__ import annotations

import contextlib
from typing import Any

import cv2
import numpy as np
import pytest

from pipeline import Pipeline, fn
from pipeline.errors import PipelineError
from pipeline.types import GRAY
from tests import host_cupy
from tests.pipeline.kernels import emulator
from tests.pipeline.operators.both import Array, Output, run_ours

MOTION = (3, -2)  # pixels per frame: right and up


def moving(height: int = 64, width: int = 80, frames: int = 3) -> Array:
    """Return a sequence of windows of one soft texture, FHWC."""
    noise = np.random.default_rng(0).uniform(0, 255, (30, 34, 3)).astype(np.float32)
    texture = cv2.resize(noise, (160, 140), interpolation=cv2.INTER_CUBIC).clip(0, 255).astype(np.uint8)
    starts = [(30 - MOTION[1] * number, 30 - MOTION[0] * number) for number in range(frames)]
    return np.stack([texture[y : y + height, x : x + width] for y, x in starts])


def flow(sequence: Array, *hints: Array, **arguments: Any) -> Output:
    feeds = [[each] for each in (sequence, *hints)]
    (output,) = run_ours(
        lambda fn, types, *inputs: fn.optical_flow(*inputs, **arguments),
        *feeds,
        layouts=["FHWC"] * len(feeds),
    )
    return output


@pytest.mark.parametrize("arguments", [{}, {"preset": 0.5}, {"preset": 1.0}, {"enable_temporal_hints": True}])
def test_optical_flow_finds_known_motion(arguments: dict[str, Any]) -> None:
    output = flow(moving(), **arguments)
    (vectors,) = output.samples
    assert output.layout == "FHWC"
    assert vectors.shape == (2, 16, 20, 2)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.median(vectors, axis=(1, 2)), [MOTION] * 2, atol=0.2)


@pytest.mark.parametrize("grid", [1, 2, 4])
def test_output_grid_rounds_sizes_up(grid: int) -> None:
    (vectors,) = flow(moving(61, 75, frames=2), output_grid=grid).samples
    assert vectors.shape == (1, -(-61 // grid), -(-75 // grid), 2)
    np.testing.assert_allclose(np.median(vectors, axis=(0, 1, 2)), MOTION, atol=0.2)


def test_external_hints_are_where_the_search_starts() -> None:
    """The fast preset alone doesn't find the motion of a fine texture by half of the image."""
    noise = np.random.default_rng(1).integers(0, 256, (80, 160, 1)).astype(np.uint8)
    texture = cv2.GaussianBlur(noise, (5, 5), 1.2)[..., None]
    sequence = np.stack([texture[:, 40:120], texture[:, 0:80]])
    hints = np.full((1, 10, 10, 2), (40, 0), np.float32)
    alone, hinted = (
        np.median(output.samples[0], axis=(0, 1, 2))
        for output in (
            flow(sequence, preset=1.0, image_type=GRAY),
            flow(sequence, hints, preset=1.0, image_type=GRAY, enable_external_hints=True, hint_grid=8),
        )
    )
    assert abs(alone[0] - 40) > 10
    np.testing.assert_allclose(hinted, (40, 0), atol=1)


@pytest.mark.parametrize(
    ("sequence", "arguments", "match"),
    [
        (moving()[:1], {}, "2 or more frames"),
        (moving().astype(np.float32), {}, "uint8 in FHWC"),
        (moving(4, 4), {}, r"frames of \(4, 4\)"),
        (moving(), {"preset": 0.3}, "'preset' must be one of 0.0, 0.5, 1.0"),
        (moving(), {"output_grid": 8}, "'output_grid' must be one of 1, 2, 4"),
        (moving(), {"enable_external_hints": True}, "second input"),
    ],
)
def test_sequences_and_arguments_are_checked(sequence: Array, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        flow(sequence, **arguments)


def test_hints_of_another_shape_are_refused() -> None:
    hints = np.zeros((1, 16, 20, 2), np.float32)
    with pytest.raises(PipelineError, match=r"hints have shape \(1, 16, 20, 2\), but the frames need \(2, 16, 20, 2\)"):
        flow(moving(), hints, enable_external_hints=True)


@pytest.mark.parametrize("device", ["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def test_frames_on_a_gpu_have_the_same_vectors(device: str) -> None:
    if device == "host" and emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed() if device == "host" else contextlib.nullcontext():
        with Pipeline(batch_size=2, num_threads=1, device_id=0) as pipe:
            frames = fn.external_source(name="frames", layout="FHWC")
            pipe.set_outputs(fn.optical_flow(frames, device="gpu"), fn.optical_flow(frames))
        moved, expected = pipe.run(frames=[moving(), moving(frames=4)])
        assert pipe.output_devices == ("gpu", "cpu")
        for ours, other in zip(moved.as_cpu().samples, expected.samples, strict=True):
            np.testing.assert_array_equal(ours, other)
        pipe.close()
