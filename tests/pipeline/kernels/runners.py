"""Two ways to run the launchers: on the GPU, and on the CPU with kernels that a host compiler built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import Launch
from pipeline._kernels import (
    Samples,
    Spread,
    distort_as_jpeg,
    join_samples,
    look_up,
    nv12_to_pixels,
    one_hot,
    reduce_axes,
    resample,
    standardize,
    strided_copy,
)
from pipeline._kernels.axes import axis_tables, whole_image
from pipeline._kernels.byte_map import CountedMap
from pipeline._kernels.expression import PixelExpression
from pipeline._kernels.filter import filter_images, plan_filter_images
from pipeline._kernels.join import plan_join
from pipeline._kernels.jpeg import JpegPlan
from pipeline._kernels.lookup import plan_look_up
from pipeline._kernels.nv12 import plan_nv12_to_pixels
from pipeline._kernels.one_hot import plan_one_hot
from pipeline._kernels.reduce import ReductionPlan
from pipeline._kernels.resample import ResamplePlan
from pipeline._kernels.standardize import plan_standardize
from pipeline._kernels.strided_copy import plan_strided_copy
from pipeline._kernels.warp import plan_warp_affine, warp_affine
from pipeline.types import DALIInterpType
from tests.pipeline.kernels import emulator

Arrays = Sequence[npt.NDArray[Any]]


def cropped_resized_normalized(
    src: Samples,
    dst: Samples,
    *,
    layout: str = "CHW",
    roi: Any = None,
    size: Any = None,
    crop: Any = 0,
    mirror: Any = False,
    flip: Any = False,
    scale: Any = 1.0,
    bias: Any = 0.0,
    min_filter: Any = DALIInterpType.INTERP_LINEAR,
    mag_filter: Any = DALIInterpType.INTERP_LINEAR,
    antialias: bool = True,
    rounded: bool = True,
) -> Launch:
    """Return the launch of a resize, a crop, a flip and a normalisation of HWC images as one expression."""
    pixels = PixelExpression.from_samples(src, "HWC")
    assert pixels is not None
    count = len(src)
    axes = [layout.index(letter) for letter in "HW"]
    out = dst.shapes[:, axes]
    resized = out if size is None else np.broadcast_to(np.asarray(size, np.int64), (count, 2))
    regions = whole_image(src.shapes) if roi is None else np.asarray(roi, np.float64).reshape(count, 4)
    y, x = axis_tables(regions[:, :2], regions[:, 2:], src.shapes[:, :2], resized, min_filter, mag_filter, antialias)
    pixels = pixels.resize(y, x, resized, np.dtype(np.uint8 if rounded else np.float32))
    first, step = np.zeros((count, 3), np.int64), np.ones((count, 3), np.int64)
    first[:, 1:] = np.broadcast_to(np.asarray(crop, np.int64), (count, 2))
    for column, reverse in ((1, flip), (2, mirror)):
        backwards = np.broadcast_to(np.asarray(reverse, np.bool_), (count,))
        first[:, column] += np.where(backwards, out[:, column - 1] - 1, 0)
        step[:, column] = np.where(backwards, -1, 1)
    window = np.concatenate([np.ones((count, 1), np.int64), out], axis=1)
    return pixels.window(first, step, window).normalize(scale, bias, dst.dtype).transposed(layout).launch(dst)


#: Adds nodes to the expression of images.
Express = Callable[[PixelExpression], PixelExpression]


def expressed(express: Express, images: Samples) -> PixelExpression:
    """Return the result of `express` for images of (height, width, channels), volumes, or other elements."""
    pixels = PixelExpression.from_samples(images, "DHWC"[4 - images.ndim :]) or PixelExpression.from_elements(
        images, ""
    )
    assert pixels is not None
    return express(pixels)


class HostRunner:
    """Launchers over NumPy arrays; the .cu files run as C++."""

    def strided_copy(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        launch = plan_strided_copy(Samples.from_arrays(src), Samples.from_arrays(dst), **options)
        if launch is not None:
            emulator.run(launch)

    def resample(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        plan = ResamplePlan(Samples.from_arrays(src), Samples.from_arrays(dst), **options)
        scratch = np.empty(plan.scratch_bytes, np.uint8)
        for launch in plan.launches(scratch.ctypes.data):
            emulator.run(launch)

    def warp_affine(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        launch = plan_warp_affine(Samples.from_arrays(src), Samples.from_arrays(dst), **options)
        if launch is not None:
            emulator.run(launch)

    def expression(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        emulator.run(cropped_resized_normalized(Samples.from_arrays(src), Samples.from_arrays(dst), **options))

    def evaluate(self, src: Arrays, dst: Arrays, express: Express) -> None:
        emulator.run(expressed(express, Samples.from_arrays(src)).launch(Samples.from_arrays(dst)))

    def map_counted_bytes(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        plan = CountedMap(Samples.from_arrays(src), **options)
        scratch = np.empty(max(1, plan.scratch_bytes), np.uint8)
        for launch in plan.launches(scratch.ctypes.data):
            emulator.run(launch)
        tables = plan.tables(scratch.ctypes.data)
        self.evaluate(src, dst, lambda pixels: pixels.lookup_stored(tables, scratch))

    def filter_images(self, src: Arrays, dst: Arrays, windows: Arrays, **options: Any) -> None:
        own = Samples.from_arrays(windows)
        launch = plan_filter_images(Samples.from_arrays(src), Samples.from_arrays(dst), windows=own, **options)
        if launch is not None:
            emulator.run(launch)

    def look_up(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        launch = plan_look_up(Samples.from_arrays(src), Samples.from_arrays(dst), **options)
        if launch is not None:
            emulator.run(launch)

    def reduce_axes(self, src: Arrays, dst: Arrays, reduction: Any, means: Arrays = (), **options: Any) -> None:
        mean = Samples.from_arrays(means) if means else None
        plan = ReductionPlan(Samples.from_arrays(src), Samples.from_arrays(dst), reduction, mean=mean, **options)
        scratch = np.empty(max(1, plan.scratch_bytes), np.uint8)
        for launch in plan.launches(scratch.ctypes.data):
            emulator.run(launch)

    def join_samples(self, sources: Sequence[Arrays], dst: Arrays, axis: int) -> None:
        for launch in plan_join([Samples.from_arrays(source) for source in sources], Samples.from_arrays(dst), axis):
            emulator.run(launch)

    def nv12_to_pixels(self, luma: Arrays, chroma: Arrays, dst: Arrays, *values: Any) -> None:
        emulator.run(
            plan_nv12_to_pixels(
                Samples.from_arrays(luma), Samples.from_arrays(chroma), Samples.from_arrays(dst), *values
            )
        )

    def one_hot(self, src: Arrays, dst: Arrays, *values: Any) -> None:
        launch = plan_one_hot(Samples.from_arrays(src), Samples.from_arrays(dst), *values)
        if launch is not None:
            emulator.run(launch)

    def standardize(self, src: Arrays, dst: Arrays, means: Arrays, spread: dict[str, Any], **options: Any) -> None:
        spread = {
            name: Samples.from_arrays(given) if isinstance(given, list) else given for name, given in spread.items()
        }
        launch = plan_standardize(
            Samples.from_arrays(src),
            Samples.from_arrays(dst),
            mean=Samples.from_arrays(means),
            spread=Spread(**spread),
            **options,
        )
        if launch is not None:
            emulator.run(launch)

    def distort_as_jpeg(self, src: Arrays, dst: Arrays, quality: Any) -> None:
        plan = JpegPlan(Samples.from_arrays(src), Samples.from_arrays(dst), quality)
        scratch = np.empty(max(1, plan.scratch_bytes), np.uint8)
        for launch in plan.launches(scratch.ctypes.data):
            emulator.run(launch)


class GpuRunner:
    """Launchers over copies of the arrays on device 0, with the same strides."""

    def __init__(self) -> None:
        import cupy

        self.context = KernelContext(0)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def strided_copy(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self._on_device(strided_copy, src, dst, options)

    def resample(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self._on_device(resample, src, dst, options)

    def warp_affine(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self._on_device(warp_affine, src, dst, options)

    def expression(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        def launcher(context: Any, stream: Any, source: Any, target: Any, **given: Any) -> None:
            context.run(cropped_resized_normalized(source, target, **given), stream)

        self._on_device(launcher, src, dst, options)

    def evaluate(self, src: Arrays, dst: Arrays, express: Express) -> None:
        def launcher(context: Any, stream: Any, source: Any, target: Any) -> None:
            context.run(expressed(express, source).launch(target), stream)

        self._on_device(launcher, src, dst, {})

    def map_counted_bytes(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        def launcher(context: Any, stream: Any, source: Any, target: Any, **given: Any) -> None:
            import cupy

            plan = CountedMap(source, **given)
            memory = cupy.cuda.alloc(max(1, plan.scratch_bytes))
            pixels = expressed(lambda each: each.lookup_stored(plan.tables(memory.ptr), memory), source)
            for launch in (*plan.launches(memory.ptr), pixels.launch(target)):
                context.run(launch, stream)

        self._on_device(launcher, src, dst, options)

    def filter_images(self, src: Arrays, dst: Arrays, windows: Arrays, **options: Any) -> None:
        held = [_to_device(window) for window in windows]
        self._on_device(filter_images, src, dst, {"windows": Samples.from_arrays(held), **options})

    def look_up(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self._on_device(look_up, src, dst, options)

    def reduce_axes(self, src: Arrays, dst: Arrays, reduction: Any, means: Arrays = (), **options: Any) -> None:
        held = [_to_device(mean) for mean in means]

        def launcher(context: Any, stream: Any, source: Any, target: Any, **given: Any) -> None:
            mean = Samples.from_arrays(held) if held else None
            reduce_axes(context, stream, source, target, reduction, mean=mean, **given)

        self._on_device(launcher, src, dst, options)

    def join_samples(self, sources: Sequence[Arrays], dst: Arrays, axis: int) -> None:
        held = [[_to_device(array) for array in source] for source in sources]

        def launcher(context: Any, stream: Any, source: Any, target: Any) -> None:
            join_samples(context, stream, [Samples.from_arrays(arrays) for arrays in held], target, axis)

        self._on_device(launcher, sources[0], dst, {})

    def nv12_to_pixels(self, luma: Arrays, chroma: Arrays, dst: Arrays, *values: Any) -> None:
        held = [_to_device(array) for array in chroma]

        def launcher(context: Any, stream: Any, source: Any, target: Any) -> None:
            nv12_to_pixels(context, stream, source, Samples.from_arrays(held), target, *values)

        self._on_device(launcher, luma, dst, {})

    def one_hot(self, src: Arrays, dst: Arrays, *values: Any) -> None:
        def launcher(context: Any, stream: Any, source: Any, target: Any) -> None:
            one_hot(context, stream, source, target, *values)

        self._on_device(launcher, src, dst, {})

    def standardize(self, src: Arrays, dst: Arrays, means: Arrays, spread: dict[str, Any], **options: Any) -> None:
        held = {
            name: [_to_device(array) for array in given] if isinstance(given, list) else given
            for name, given in {**spread, "mean": list(means)}.items()
        }

        def launcher(context: Any, stream: Any, source: Any, target: Any, **given: Any) -> None:
            described = {
                name: Samples.from_arrays(each) if isinstance(each, list) else each for name, each in held.items()
            }
            mean = described.pop("mean")
            standardize(context, stream, source, target, mean=mean, spread=Spread(**described), **given)

        self._on_device(launcher, src, dst, options)

    def distort_as_jpeg(self, src: Arrays, dst: Arrays, quality: Any) -> None:
        self._on_device(distort_as_jpeg, src, dst, {"quality": quality})

    def _on_device(self, launcher: Any, src: Arrays, dst: Arrays, options: dict[str, Any]) -> None:
        import cupy

        sources = [_to_device(array) for array in src]
        targets = [cupy.empty(array.shape, array.dtype) for array in dst]
        cupy.cuda.Device(0).synchronize()
        launcher(self.context, self.stream, Samples.from_arrays(sources), Samples.from_arrays(targets), **options)
        self.stream.synchronize()
        for host, device in zip(dst, targets, strict=True):
            host[...] = device.get()


def _to_device(array: npt.NDArray[Any]) -> Any:
    import cupy

    if array.flags.c_contiguous or array.base is None:
        return cupy.asarray(array)
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    whole = cupy.asarray(base)
    offset = array.ctypes.data - base.ctypes.data
    return cupy.ndarray(array.shape, array.dtype, whole.data + offset, array.strides)


def require_gpu() -> None:
    """Skip the test if there is no CUDA device."""
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("needs a CUDA device")
