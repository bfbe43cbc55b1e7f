"""Resampling, alone and in an expression, against a NumPy reference, and the reference against DALI."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dali_proxy.pipeline._imaging import resize
from dali_proxy.pipeline._kernels import evaluate
from dali_proxy.pipeline._kernels.axes import axis_tables, keeps_rows
from dali_proxy.pipeline._kernels.resample import ResamplePlan
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError
from pipeline.types import DALIInterpType
from tests.pipeline.kernels import reference

FILTERS = list(DALIInterpType)


def sample_images(
    seed: int, count: int = 4, dtype: npt.DTypeLike = np.uint8, channels: int = 3
) -> list[npt.NDArray[Any]]:
    # Odd sizes, which the tests resize to even ones: no tap lies on the edge of a filter, where DALI's choice is noise.
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 25, (count, 2)) * 2 + 1
    return [rng.integers(0, 256, (*size, channels)).astype(dtype) for size in sizes]


def regions(seed: int, src: list[npt.NDArray[Any]]) -> npt.NDArray[np.float64]:
    """Return random regions, several of them reversed or beyond the image's edges."""
    rng = np.random.default_rng(seed)
    sizes = np.array([image.shape[:2] for image in src])
    return np.concatenate([rng.uniform(-0.2, 1.0, (len(src), 2)), rng.uniform(0, 1.2, (len(src), 2))], 1) * np.tile(
        sizes, 2
    )


@pytest.mark.combinations
@pytest.mark.parametrize("filter", FILTERS, ids=str)
@pytest.mark.parametrize("antialias", [True, False])
def test_resize_of_float_images(runner: Any, filter: DALIInterpType, antialias: bool) -> None:
    src = sample_images(1, dtype=np.float32)
    sizes = [(16, 24), (60, 10), (4, 80), (2, 2)]
    dst = [np.zeros((*size, 3), np.float32) for size in sizes]
    runner.resample(src, dst, min_filter=filter, mag_filter=filter, antialias=antialias)
    for image, out, size in zip(src, dst, sizes, strict=True):
        expected = reference.resize(image, size, None, filter, antialias)
        np.testing.assert_allclose(out, expected, atol=2e-3, rtol=1e-5)


@pytest.mark.parametrize("filter", FILTERS[:4], ids=str)
def test_resize_of_regions_to_bytes(runner: Any, filter: DALIInterpType) -> None:
    src = sample_images(2, channels=1)
    roi = regions(2, src)
    dst = [np.zeros((20, 31, 1), np.uint8) for _ in src]
    runner.resample(src, dst, roi=roi, min_filter=filter, mag_filter=filter)
    for image, out, region in zip(src, dst, roi, strict=True):
        expected = np.clip(reference.resize(image, (20, 31), region, filter), 0, 255)
        worst = np.abs(out - expected).max()
        assert worst <= 0.501, f"region {region} of {image.shape}: off by {worst}"


def test_filters_are_chosen_by_sample_and_axis(runner: Any) -> None:
    src = sample_images(3)
    low = [DALIInterpType.INTERP_NN, DALIInterpType.INTERP_LINEAR, *[DALIInterpType.INTERP_CUBIC] * 2]
    dst = [np.zeros((image.shape[0] * 2, 2, 3), np.float32) for image in src]
    runner.resample(src, dst, min_filter=low, mag_filter=DALIInterpType.INTERP_NN)
    for image, out, filter in zip(src, dst, low, strict=True):
        rows = reference.weights(0, image.shape[0], image.shape[0], out.shape[0], DALIInterpType.INTERP_NN, True)
        columns = reference.weights(0, image.shape[1], image.shape[1], 2, filter, True)
        np.testing.assert_allclose(out, np.einsum("ay,yxc,bx->abc", rows, image, columns), atol=2e-3)


def test_nearest_pixels_equal_those_of_the_cpu_in_ties(runner: Any) -> None:
    rng = np.random.default_rng(8)
    src = [np.arange(extents.prod(), dtype=np.float32).reshape(*extents, 1) for extents in rng.integers(1, 40, (60, 2))]
    dst = [np.zeros((*size, 1), np.float32) for size in rng.integers(1, 40, (60, 2)).tolist()]
    for regions_ in (None, np.array([[0, 1, *image.shape[:2]] for image in src], np.float64)):
        runner.resample(src, dst, roi=regions_, min_filter=0, mag_filter=0)
        for number, (image, out) in enumerate(zip(src, dst, strict=True)):
            region = None if regions_ is None else regions_[number]
            expected = resize(image, out.shape[:2], interp="nearest", region=region)
            np.testing.assert_array_equal(out, expected)


def test_strided_sources_are_read_in_place(runner: Any) -> None:
    whole = sample_images(4, count=1)[0]
    src = [whole[1::2, 2:-1]]
    dst = [np.zeros((7, 9, 3), np.float32)]
    runner.resample(src, dst)
    np.testing.assert_allclose(dst[0], reference.resize(src[0], (7, 9)), atol=2e-3)


@pytest.mark.parametrize(
    ("layout", "dtype", "rounded"),
    [
        ("CHW", "float32", True),
        ("CHW", "float16", True),
        ("CHW", "uint8", False),
        ("HWC", "float32", False),
        ("HWC", "float16", True),
    ],
)
def test_expression_equals_its_operators(runner: Any, layout: str, dtype: str, rounded: bool) -> None:
    src = sample_images(5, count=6)
    roi, rng = regions(5, src), np.random.default_rng(5)
    mirror, flip = rng.integers(0, 2, 6).astype(bool), rng.integers(0, 2, 6).astype(bool)
    size, crop, shape = rng.integers(40, 60, (6, 2)), rng.integers(0, 8, (6, 2)), (26, 30)
    scale, bias = np.array([1 / 58, 1 / 57, 1 / 56]), np.array([-2.1, -2.0, -1.8])
    between = [np.zeros((*extent, 3), np.uint8 if rounded else np.float32) for extent in size]
    runner.resample(src, between, roi=roi)
    axes = (2, 0, 1) if layout == "CHW" else (0, 1, 2)
    cut, parts = ([np.zeros((*shape, 3), kind) for _ in src] for kind in (between[0].dtype, dtype))
    fused = [np.zeros(part.transpose(axes).shape, dtype) for part in parts]
    start, step = np.zeros((6, 3), int), np.ones((6, 3), int)
    for axis, reverse in enumerate((flip, mirror)):
        start[:, axis] = crop[:, axis] + np.where(reverse, shape[axis] - 1, 0)
        step[:, axis] = np.where(reverse, -1, 1)
    runner.strided_copy(between, cut, start=start, step=step)
    runner.evaluate(cut, parts, lambda pixels: pixels.normalize(scale, bias, np.dtype(dtype)))
    runner.expression(
        src, fused, layout=layout, roi=roi, size=size, crop=crop, mirror=mirror, flip=flip, scale=scale, bias=bias,
        rounded=rounded,
    )  # fmt: skip
    for i in range(6):
        np.testing.assert_array_equal(fused[i], parts[i].transpose(axes), err_msg=f"sample {i}")


def test_expression_against_the_reference(runner: Any) -> None:
    src = sample_images(6)
    windows = [image[1:, 2:] for image in src]
    dst = [np.zeros((3, 24, 33), np.float32) for _ in src]
    runner.expression(windows, dst, mirror=[0, 1, 0, 1], scale=1 / 255, rounded=False)
    for i, (window, out) in enumerate(zip(windows, dst, strict=True)):
        expected = reference.resize(window, (24, 33)).transpose(2, 0, 1) / 255
        np.testing.assert_allclose(out, expected[..., ::-1] if i % 2 else expected, atol=1e-5)


@pytest.mark.parametrize("shared", [32 << 10, 8 << 10, 64])  # whole tiles fit, or a few rows of them, or nothing
@pytest.mark.parametrize("antialias", [True, False])
def test_rows_in_shared_memory_change_no_bits(
    runner: Any, monkeypatch: pytest.MonkeyPatch, shared: int, antialias: bool
) -> None:
    monkeypatch.setattr(evaluate, "SHARED_BYTES", shared)
    rng = np.random.default_rng(7)
    count = 2 * len(FILTERS)
    src = [rng.integers(0, 256, (*rng.integers(30, 130, 2), 3)).astype(np.uint8) for _ in range(count)]
    options = {"roi": regions(7, src), "antialias": antialias, "min_filter": FILTERS * 2, "mag_filter": FILTERS * 2}
    alone, fused = ([np.zeros((41, 35, 3), np.float32) for _ in src] for _ in range(2))
    runner.resample(src, alone, **options)
    runner.expression(src, fused, layout="HWC", rounded=False, mirror=[True, False] * len(FILTERS), **options)
    for sample, (one, other) in enumerate(zip(alone, fused, strict=True)):
        expected = one if sample % 2 else one[:, ::-1]
        np.testing.assert_array_equal(other, expected, err_msg=f"sample {sample}")


@pytest.mark.parametrize(
    ("filter", "antialias", "height", "kept"),
    [
        (DALIInterpType.INTERP_LINEAR, True, 300, True),
        (DALIInterpType.INTERP_LINEAR, True, 1000, False),  # the rows don't fit
        (DALIInterpType.INTERP_LINEAR, False, 150, True),
        (DALIInterpType.INTERP_LINEAR, False, 300, False),  # no row is used twice
        (DALIInterpType.INTERP_NN, True, 50, False),
    ],
)
def test_rows_are_kept_if_they_fit_and_are_used_twice(
    filter: DALIInterpType, antialias: bool, height: int, kept: bool
) -> None:
    begin, end, out = np.zeros((1, 2)), np.full((1, 2), float(height)), np.full((1, 2), 100)
    y, x = axis_tables(begin, end, end.astype(int), out, filter, filter, antialias)
    assert keeps_rows(y, x, 3).tolist() == [kept]


def test_gray_images_as_an_expression(runner: Any) -> None:
    src = sample_images(7, channels=1)
    dst = [np.zeros((10, 12, 1), np.float16) for _ in src]
    runner.expression(src, dst, layout="HWC", scale=2, bias=1)
    for image, out in zip(src, dst, strict=True):
        resized = reference.resize(image, (10, 12))
        assert np.abs(out - (resized * 2 + 1)).max() <= 1.3


@pytest.mark.parity
@pytest.mark.parametrize("filter", FILTERS, ids=str)
@pytest.mark.parametrize("antialias", [True, False])
def test_reference_is_dali(filter: DALIInterpType, antialias: bool) -> None:
    dali = pytest.importorskip("nvidia.dali")
    image = sample_images(8, count=1, dtype=np.float32)[0]
    height, width = image.shape[:2]
    roi = np.array([0.1 * height, 0.9 * width, 0.8 * height, 0.2 * width])
    pipe = dali.Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        data = dali.fn.external_source(lambda: [image], layout="HWC")
        options = {"interp_type": dali.types.DALIInterpType(int(filter)), "antialias": antialias}
        whole = [dali.fn.resize(data, size=size, **options) for size in ((18, 60), (100, 8))]
        part = dali.fn.resize(data, size=(12, 40), roi_start=roi[:2].tolist(), roi_end=roi[2:].tolist(), **options)
        pipe.set_outputs(*whole, part)
    pipe.build()
    outputs = [np.asarray(output.at(0)) for output in pipe.run()]
    for output, size, region in zip(outputs, ((18, 60), (100, 8), (12, 40)), (None, None, roi), strict=True):
        expected = reference.resize(image, size, region, filter, antialias)
        # At the edges of its Gaussian, which doesn't end at 0, DALI includes or omits a tap depending on rounding.
        np.testing.assert_allclose(output, expected, atol=2.0 if filter == DALIInterpType.INTERP_GAUSSIAN else 0.02)


def test_arguments_that_do_not_fit_are_errors() -> None:
    src = Samples.from_arrays(sample_images(9))
    with pytest.raises(PipelineError, match="channels"):
        ResamplePlan(src, Samples.from_arrays([np.zeros((2, 2, 4), np.uint8)] * 4))
    with pytest.raises(PipelineError, match="interpolation"):
        ResamplePlan(src, Samples.from_arrays([np.zeros((2, 2, 3), np.uint8)] * 4), min_filter=9, mag_filter=9)
    with pytest.raises(PipelineError, match="can't resize"):
        ResamplePlan(src, Samples.from_arrays([np.zeros((2, 0, 3), np.uint8)] * 4))
