"""Launcher of resample.cu: resizes ragged HWC batches with antialiasing, in two launches per batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Int64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.axes import AXIS, axis_tables, touched, whole_image
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.types import DALIInterpType

_GROUP = 8  # elements of a thread of resample_axis; resample.cu has the same number
_STRIDES = [("outer_stride", "i8"), ("axis_stride", "i8"), ("inner_stride", "i8")]
#: struct Pass of resample.cu.
_PASS = np.dtype(
    [
        *[("src", ADDRESS), ("dst", ADDRESS), *_STRIDES],
        *[("outer", "u4"), ("out", "u4"), ("inner", "u4"), ("held", "i4"), ("axis", AXIS)],
    ],
    align=True,
)
#: struct Gather of resample.cu.
_GATHER = np.dtype(
    [
        *[("src", ADDRESS), ("dst", ADDRESS), ("row_stride", "i8"), ("pixel_stride", "i8"), ("channel_stride", "i8")],
        *[("height", "u4"), ("width", "u4"), ("channels", "u4"), ("unused", "u4"), ("y", AXIS), ("x", AXIS)],
    ],
    align=True,
)


class ResamplePlan:
    """Plan of the launches that resize a batch of images.

    As in DALI, the center of pixel k lies at k + 0.5, and edge pixels repeat outside the image. Filters may read beyond
    the region; along axes that shrink, they are widened by the scale. Sums are float32.

    Args:
        src: HWC images with any strides and number of channels.
        dst: contiguous HWC images of any dtype: the new sizes, with the source's channels.
        roi: (N, 4) floats, (y0, x0, y1, x1) in source pixels; y1 < y0 or x1 < x0 flips. Whole images by default.
        min_filter: `DALIInterpType` for axes that shrink; one for all, or (N,).
        mag_filter: `DALIInterpType` for axes that grow; one for all, or (N,).
        antialias: whether to widen filters along axes that shrink.

    Attributes:
        scratch_bytes: bytes of device memory for intermediate results.

    Raises:
        PipelineError: the shapes don't match, or a filter is unknown.
    """

    def __init__(
        self,
        src: Samples,
        dst: Samples,
        *,
        roi: npt.ArrayLike | None = None,
        min_filter: npt.ArrayLike = DALIInterpType.INTERP_LINEAR,
        mag_filter: npt.ArrayLike = DALIInterpType.INTERP_LINEAR,
        antialias: bool = True,
    ) -> None:
        if src.ndim != 3 or dst.ndim != 3 or len(src) != len(dst) or (src.shapes[:, 2] != dst.shapes[:, 2]).any():
            raise PipelineError("resampling needs HWC images, and as many HWC outputs with the same channels")
        if not dst.is_contiguous():
            raise PipelineError("the samples of the output are not contiguous")
        regions = whole_image(src.shapes) if roi is None else np.asarray(roi, np.float64).reshape(len(src), 4)
        self._src, self._dst = src, dst
        self._y, self._x = axis_tables(
            regions[:, :2], regions[:, 2:], src.shapes[:, :2], dst.shapes[:, :2], min_filter, mag_filter, antialias
        )
        self._nearest = not (self._y["filter"].any() or self._x["filter"].any())
        self._low, high = touched(self._y, dst.shapes[:, 0])
        self._rows = high - self._low
        shapes = np.stack([self._rows, dst.shapes[:, 1], dst.shapes[:, 2]], axis=1)
        self._between, nbytes = Samples.packed(0, shapes, np.float32)
        self.scratch_bytes = 0 if self._nearest else nbytes
        largest = max(int(np.prod(every, axis=1).max()) for every in (shapes, dst.shapes))
        if largest >= 1 << 31:
            raise PipelineError(f"an image of {largest} elements is too large to resample")

    def launches(self, scratch: int) -> tuple[Launch, ...]:
        """Return the launches in order; `scratch` is the address of `scratch_bytes` of device memory."""
        if self._nearest:
            return (self._gather(),)
        return self._along_x(scratch), self._along_y(scratch)

    def _gather(self) -> Launch:
        src, dst = self._src, self._dst
        table = zeros(len(src), _GATHER)
        table["src"], table["dst"] = src.pointers, dst.pointers
        table["row_stride"], table["pixel_stride"], table["channel_stride"] = src.strides.T
        table["height"], table["width"], table["channels"] = dst.shapes.T
        table["y"], table["x"] = self._y, self._x
        return _launch("resample_nearest", src.dtype, dst.dtype, table, np.prod(dst.shapes, axis=1))

    def _along_x(self, scratch: int) -> Launch:
        src, between = self._src, self._between
        table = zeros(len(src), _PASS)
        table["src"] = src.pointers + self._low * src.strides[:, 0]
        table["dst"] = scratch + between.pointers
        table["outer_stride"], table["axis_stride"], table["inner_stride"] = src.strides.T
        table["outer"], table["out"], table["inner"] = between.shapes.T
        table["axis"] = self._x
        return _launch("resample_axis", src.dtype, between.dtype, table, np.prod(between.shapes, axis=1))

    def _along_y(self, scratch: int) -> Launch:
        between, dst = self._between, self._dst
        table = zeros(len(dst), _PASS)
        table["src"], table["dst"] = scratch + between.pointers, dst.pointers
        table["axis_stride"], table["inner_stride"] = between.strides[:, 0], between.strides[:, 2]
        table["outer"], table["out"] = 1, dst.shapes[:, 0]
        table["inner"] = dst.shapes[:, 1] * dst.shapes[:, 2]
        table["held"] = self._low
        table["axis"] = self._y
        return _launch("resample_axis", between.dtype, dst.dtype, table, np.prod(dst.shapes, axis=1))


def _launch(kernel: str, src: np.dtype[Any], dst: np.dtype[Any], table: Array, items: Int64s) -> Launch:
    defines = (("IN", ctype(src)), ("OUT", ctype(dst)))
    per_thread = _GROUP if kernel == "resample_axis" else 1
    return Launch("resample.cu", kernel, defines, (table,), (blocks_for(int(items.max()), per_thread), len(table)))
