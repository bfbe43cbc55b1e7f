"""`experimental.remap`: exact at integer positions, and close to OpenCV, which DALI's GPU version follows."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Array, run_ours

GENERATOR = np.random.default_rng(0)
IMAGE = GENERATOR.integers(0, 255, (17, 23, 3)).astype(np.float32)
X = GENERATOR.uniform(-2, 25, (9, 11)).astype(np.float32)
Y = GENERATOR.uniform(-2, 19, (9, 11)).astype(np.float32)


def run(image: Array, x: Array, y: Array, layout: str = "HWC", interp: str = "LINEAR", **arguments: Any) -> Array:
    def graph(fn: Any, types: Any, *inputs: Any) -> Any:
        return fn.experimental.remap(*inputs, interp=getattr(types, f"INTERP_{interp}"), **arguments)

    return run_ours(graph, [image], [x], [y], layouts=[layout])[0].samples[0]


@pytest.mark.parametrize(("interp", "flag"), [("LINEAR", cv2.INTER_LINEAR), ("CUBIC", cv2.INTER_CUBIC)])
def test_remap_is_close_to_opencv(interp: str, flag: int) -> None:
    expected = cv2.remap(IMAGE, X, Y, flag, borderMode=cv2.BORDER_CONSTANT)
    allowed = 255 / 16  # OpenCV rounds positions to 1 / 32 of a pixel
    assert np.abs(run(IMAGE, X, Y, interp=interp, pixel_origin="center") - expected).max() < allowed
    assert np.abs(run(IMAGE, X + 0.5, Y + 0.5, interp=interp) - expected).max() < allowed


def test_remap_moves_pixels() -> None:
    y, x = np.mgrid[:17, :23].astype(np.float32)
    for interp in ("NN", "LINEAR", "CUBIC", "LANCZOS3"):
        moved = run(IMAGE, x + 3, y - 2, interp=interp, pixel_origin="center")
        assert np.allclose(moved[2:, :20], IMAGE[:15, 3:], atol=1e-3)
        assert not moved[:1].any() or interp in ("CUBIC", "LANCZOS3")


def test_remap_of_sequences() -> None:
    frames = np.stack([IMAGE, 2 * IMAGE])
    moved = run(frames, X, Y, "FHWC")
    assert np.allclose(moved[1], 2 * moved[0], atol=1e-3)
    assert np.array_equal(run(frames, np.stack([X, X]), np.stack([Y, Y]), "FHWC"), moved)


def test_remap_refuses_maps_that_do_not_fit() -> None:
    with pytest.raises(PipelineError, match="different shapes"):
        run(IMAGE, X, Y[:5])
    with pytest.raises(PipelineError, match="must be float32"):
        run(IMAGE, X.astype(np.float64), Y)
