"""Two ways to run the launchers: on the GPU, and on the CPU with kernels that a host compiler built."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.launch import Launch
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.axes import axis_tables, whole_image
from dali_proxy.pipeline._kernels.byte_map import CountedMap
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.filter import plan_filter_images
from dali_proxy.pipeline._kernels.join import plan_join
from dali_proxy.pipeline._kernels.jpeg import JpegPlan
from dali_proxy.pipeline._kernels.lookup import plan_look_up
from dali_proxy.pipeline._kernels.nv12 import plan_nv12_to_pixels
from dali_proxy.pipeline._kernels.one_hot import plan_one_hot
from dali_proxy.pipeline._kernels.reduce import ReductionPlan
from dali_proxy.pipeline._kernels.resample import ResamplePlan
from dali_proxy.pipeline._kernels.standardize import Spread, plan_standardize
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._kernels.warp import plan_warp_affine
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


#: Returns launches, given the samples of the results and of all inputs.
Plan = Callable[..., Any]


class Mapped:
    """The plan of `CountedMap`, followed by the launch that looks bytes up in its tables."""

    def __init__(self, src: Samples, dst: Samples, options: dict[str, Any]) -> None:
        self._src, self._dst, self._counted = src, dst, CountedMap(src, **options)
        self.scratch_bytes = max(1, self._counted.scratch_bytes)

    def launches(self, scratch: int) -> list[Launch]:
        mapped = expressed(lambda pixels: pixels.lookup_stored(self._counted.tables(scratch), None), self._src)
        return [*self._counted.launches(scratch), mapped.launch(self._dst)]


class Runner(ABC):
    """Launchers over arrays."""

    @abstractmethod
    def run(self, plan: Plan, dst: Arrays, *given: Arrays) -> None:
        """Issue the launches of a plan for results and inputs."""

    def strided_copy(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self.run(lambda target, source: plan_strided_copy(source, target, **options), dst, src)

    def resample(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self.run(lambda target, source: ResamplePlan(source, target, **options), dst, src)

    def warp_affine(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self.run(lambda target, source: plan_warp_affine(source, target, **options), dst, src)

    def expression(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self.run(lambda target, source: cropped_resized_normalized(source, target, **options), dst, src)

    def evaluate(self, src: Arrays, dst: Arrays, express: Express) -> None:
        self.run(lambda target, source: expressed(express, source).launch(target), dst, src)

    def map_counted_bytes(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self.run(lambda target, source: Mapped(source, target, options), dst, src)

    def filter_images(self, src: Arrays, dst: Arrays, windows: Arrays, **options: Any) -> None:
        def plan(target: Samples, source: Samples, own: Samples) -> Any:
            return plan_filter_images(source, target, windows=own, **options)

        self.run(plan, dst, src, windows)

    def look_up(self, src: Arrays, dst: Arrays, **options: Any) -> None:
        self.run(lambda target, source: plan_look_up(source, target, **options), dst, src)

    def reduce_axes(self, src: Arrays, dst: Arrays, reduction: Any, means: Arrays = (), **options: Any) -> None:
        def plan(target: Samples, source: Samples, *mean: Samples) -> Any:
            return ReductionPlan(source, target, reduction, mean=mean[0] if mean else None, **options)

        self.run(plan, dst, src, *([means] if means else []))

    def join_samples(self, sources: Sequence[Arrays], dst: Arrays, axis: int) -> None:
        self.run(lambda target, *given: plan_join(given, target, axis), dst, *sources)

    def nv12_to_pixels(self, luma: Arrays, chroma: Arrays, dst: Arrays, *values: Any) -> None:
        self.run(lambda target, *planes: plan_nv12_to_pixels(*planes, target, *values), dst, luma, chroma)

    def one_hot(self, src: Arrays, dst: Arrays, *values: Any) -> None:
        self.run(lambda target, source: plan_one_hot(source, target, *values), dst, src)

    def standardize(self, src: Arrays, dst: Arrays, means: Arrays, spread: dict[str, Any], **options: Any) -> None:
        names = [name for name, given in spread.items() if isinstance(given, list)]

        def plan(target: Samples, source: Samples, mean: Samples, *arrays: Samples) -> Any:
            own = Spread(**{**spread, **dict(zip(names, arrays, strict=True))})
            return plan_standardize(source, target, mean=mean, spread=own, **options)

        self.run(plan, dst, src, means, *[spread[name] for name in names])

    def distort_as_jpeg(self, src: Arrays, dst: Arrays, quality: Any) -> None:
        self.run(lambda target, source: JpegPlan(source, target, quality), dst, src)


class HostRunner(Runner):
    """NumPy arrays; the .cu files run as C++."""

    def run(self, plan: Plan, dst: Arrays, *given: Arrays) -> None:
        work = plan(*[Samples.from_arrays(arrays) for arrays in (dst, *given)])
        scratch = np.empty(max(1, getattr(work, "scratch_bytes", 0)), np.uint8)
        for launch in launches_of(work, scratch.ctypes.data):
            emulator.run(launch)


class GpuRunner(Runner):
    """Copies of the arrays on device 0, with the same strides."""

    def __init__(self) -> None:
        import cupy

        self.context = KernelContext(0)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def run(self, plan: Plan, dst: Arrays, *given: Arrays) -> None:
        import cupy

        sources = [[_to_device(array) for array in arrays] for arrays in given]
        targets = [cupy.empty(array.shape, array.dtype) for array in dst]
        cupy.cuda.Device(0).synchronize()
        work = plan(*[Samples.from_arrays(arrays) for arrays in (targets, *sources)])
        nbytes = getattr(work, "scratch_bytes", 0)
        for launch in launches_of(work, self.context.scratch(nbytes, self.stream) if nbytes else 0):
            self.context.run(launch, self.stream)
        self.stream.synchronize()
        for host, device in zip(dst, targets, strict=True):
            host[...] = device.get()


def launches_of(work: Any, scratch: int) -> Iterable[Launch]:
    """Return the launches of what a launcher returned: a launch or none, several, or a plan."""
    if work is None or isinstance(work, Launch):
        return [] if work is None else [work]
    return work.launches(scratch) if hasattr(work, "launches") else work


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
