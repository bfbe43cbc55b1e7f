"""Expressions whose blocks keep pixels in shared memory have the bits of those that compute everything from memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dali_proxy.pipeline._kernels import evaluate
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.samples import Samples
from tests.pipeline.kernels.runners import Express, expressed

FLOAT = np.dtype(np.float32)


def windows(radii: npt.ArrayLike) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """Return different weights for each sample, and their radii, as `PixelExpression.convolve` takes them."""
    radii = np.asarray(radii)
    return np.random.default_rng(3).random((len(radii), 2 * int(radii.max()) + 1)).astype(np.float32), radii


def blurred(pixels: PixelExpression, radii: npt.ArrayLike = (4, 16, 1, 0), dtype: Any = FLOAT) -> PixelExpression:
    weights, radii = windows(radii)
    return pixels.convolve("H", weights, radii, np.dtype(dtype)).cached().convolve("W", weights, radii, np.dtype(dtype))


def mirrored(pixels: PixelExpression) -> PixelExpression:
    """Return flipped pixels, with a margin outside of the image."""
    count, margin = len(pixels), np.array([0, 5, 3])
    step = np.where(np.arange(count)[:, None] % 2, -1, 1) * np.array([1, 1, -1])
    first = np.where(step > 0, -margin, pixels.extents - 1 + margin)
    return pixels.window(first, step, pixels.extents + 2 * margin, fill=7.0)


def every_second(pixels: PixelExpression) -> PixelExpression:
    first, step = np.zeros((len(pixels), 3), np.int64), np.array([1, 2, 1])
    return pixels.window(first, step + first, -(-pixels.extents // step))


def all_axes(pixels: PixelExpression) -> PixelExpression:
    weights, radii = windows((2, 3, 1, 0))
    return blurred(pixels.convolve("D", weights, radii, FLOAT).cached(), (3, 2, 1, 4))


CASES: dict[str, Express] = {
    "blur": blurred,
    "doubles": lambda pixels: blurred(pixels.cast(np.dtype(np.float64)), dtype=np.float64),
    "mirrored window": lambda pixels: mirrored(blurred(pixels, (3, 9, 2, 5), np.uint8)).normalize(0.5, 1.0, FLOAT),
    "every second row": lambda pixels: every_second(blurred(pixels)),
    "difference": lambda pixels: blurred(pixels).combine("Subtract", blurred(pixels, (2, 5, 1, 3)), FLOAT),
    "behind a neighborhood": lambda pixels: blurred(pixels, (2, 5, 1, 0)).median(np.full((len(pixels), 2), 3)),
}


def images(*shape: int) -> list[npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(1)
    return [
        rng.integers(0, 256, (*shape, *extents, 3)).astype(np.uint8) for extents in ((70, 50), (9, 90), (1, 1), (33, 7))
    ]


def computed(runner: Any, src: Sequence[npt.NDArray[Any]], express: Express) -> list[npt.NDArray[Any]]:
    """Return the pixels of an expression of images."""
    result = expressed(express, Samples.from_arrays(src))
    dst = [np.zeros(shape, result.dtype) for shape in result.shapes.tolist()]
    runner.evaluate(src, dst, express)
    return dst


@pytest.mark.parametrize(("express", "shape"), [*((each, ()) for each in CASES.values()), (all_axes, (5,))])
def test_bits_are_those_without_shared_memory(
    runner: Any, monkeypatch: pytest.MonkeyPatch, express: Express, shape: tuple[int, ...]
) -> None:
    src = images(*shape)
    with monkeypatch.context() as patch:
        patch.setattr(PixelExpression, "cached", lambda pixels: pixels)
        plain = computed(runner, src, express)
    for shared in (32 << 10, 6 << 10, 64):  # whole tiles fit, or a few rows of them, or nothing
        monkeypatch.setattr(evaluate, "SHARED_BYTES", shared)
        for sample, (one, other) in enumerate(zip(computed(runner, src, express), plain, strict=True)):
            np.testing.assert_array_equal(one, other, err_msg=f"sample {sample}, {shared} bytes")


def test_thin_samples_of_one_batch_have_few_blocks() -> None:
    shapes = np.array([[1, 4_000_000, 1], [4_000_000, 1, 1]])
    samples = Samples.contiguous(np.zeros(2, np.int64), shapes, np.dtype(np.uint8))
    pixels = PixelExpression.from_samples(samples, "HWC")
    assert pixels is not None
    assert pixels.launch(samples).grid == (125_000, 2)  # not those of an image of 4,000,000 x 4,000,000
