"""Launcher of fused.cu: crops, resizes, crops, mirrors and normalises 8-bit images, in one launch per batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._kernels.axes import AXIS, axis_table, whole_image
from pipeline._kernels.channels import channel_table
from pipeline._kernels.context import KernelContext
from pipeline._kernels.launch import Launch, ctype
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError
from pipeline.types import DALIInterpType

__all__ = ["IMAGE", "crop_resize_normalize", "fused_defines", "plan_crop_resize_normalize", "relocate"]

TILE_HEIGHT, TILE_WIDTH = 8, 32

#: struct Image of fused.cu.
IMAGE = np.dtype(
    [
        *[("src", "i8"), ("dst", "i8"), ("row_stride", "i8"), ("pixel_stride", "i8"), ("channel_stride", "i8")],
        *[("height", "u4"), ("width", "u4"), ("y_first", "i4"), ("y_step", "i4"), ("x_first", "i4"), ("x_step", "i4")],
        *[("channels", "u4"), ("unused", "u4"), ("y", AXIS), ("x", AXIS)],
    ],
    align=True,
)


def crop_resize_normalize(
    context: KernelContext,
    stream: Any,
    src: Samples,
    dst: Samples,
    *,
    layout: str = "CHW",
    roi: npt.ArrayLike | None = None,
    size: npt.ArrayLike | None = None,
    crop: npt.ArrayLike = 0,
    mirror: npt.ArrayLike = False,
    flip: npt.ArrayLike = False,
    scale: npt.ArrayLike = 1.0,
    bias: npt.ArrayLike = 0.0,
    min_filter: npt.ArrayLike = DALIInterpType.INTERP_LINEAR,
    mag_filter: npt.ArrayLike = DALIInterpType.INTERP_LINEAR,
    antialias: bool = True,
    rounded: bool = True,
) -> None:
    """Combine `resample` and `strided_copy` in one launch, with the same results.

    For a crop before the resize, such as a decoder's, pass `src.window(...)`: filters stay inside the window. `roi` is
    the region to resize: filters read beyond it.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: uint8 HWC images with 1 or 3 channels and any strides.
        dst: contiguous samples in `layout`, of any dtype.
        layout: layout of the output, "CHW" or "HWC".
        roi: region to resize, as in `resample`.
        size: (N, 2), height and width of the resized images; the output's by default.
        crop: (N, 2), position (y, x) of the output in the resized image, in pixels.
        mirror: whether to reverse the columns of the output; one bool or (N,).
        flip: whether to reverse the rows of the output; one bool or (N,).
        scale: normalisation ``pixel * scale + bias``; scalar, (C,) or (N, C).
        bias: see `scale`.
        min_filter: as in `resample`.
        mag_filter: as in `resample`.
        antialias: as in `resample`.
        rounded: whether to round the resized pixels to uint8, as a uint8 resize does; False for a float resize.

    Raises:
        PipelineError: the shapes don't match; the message names the sample.
        CudaError: the launch failed.
    """
    launch = plan_crop_resize_normalize(
        src, dst, layout=layout, roi=roi, size=size, crop=crop, mirror=mirror, flip=flip, scale=scale, bias=bias,
        min_filter=min_filter, mag_filter=mag_filter, antialias=antialias, rounded=rounded,
    )  # fmt: skip
    context.run(launch, stream)


def plan_crop_resize_normalize(
    src: Samples,
    dst: Samples,
    *,
    layout: str = "CHW",
    roi: npt.ArrayLike | None = None,
    size: npt.ArrayLike | None = None,
    crop: npt.ArrayLike = 0,
    mirror: npt.ArrayLike = False,
    flip: npt.ArrayLike = False,
    scale: npt.ArrayLike = 1.0,
    bias: npt.ArrayLike = 0.0,
    min_filter: npt.ArrayLike = DALIInterpType.INTERP_LINEAR,
    mag_filter: npt.ArrayLike = DALIInterpType.INTERP_LINEAR,
    antialias: bool = True,
    rounded: bool = True,
) -> Launch:
    """Return the launch of `crop_resize_normalize`. The arguments are the same."""
    if layout not in ("CHW", "HWC"):
        raise PipelineError(f"the output's layout must be CHW or HWC, not {layout!r}")
    planar = layout == "CHW"
    if src.ndim != 3 or dst.ndim != 3 or len(src) != len(dst) or src.dtype != np.uint8:
        raise PipelineError("the fused kernel needs uint8 HWC images, and as many outputs")
    depths = np.unique(np.concatenate([src.shapes[:, 2], dst.shapes[:, 0 if planar else 2]]))
    if len(depths) != 1 or depths[0] not in (1, 3):
        raise PipelineError(
            f"the fused kernel needs images that all have 1 or all have 3 channels, not {depths.tolist()}"
        )
    if not dst.is_contiguous():
        raise PipelineError("the samples of the output are not contiguous")

    count, depth = len(src), int(depths[0])
    out = dst.shapes[:, 1:] if planar else dst.shapes[:, :2]
    resized = out if size is None else np.broadcast_to(np.asarray(size, np.int64), (count, 2))
    first = np.broadcast_to(np.asarray(crop, np.int64), (count, 2))
    outside = ((first < 0) | (first + out > resized)).any(axis=1)
    if outside.any():
        index = int(np.argmax(outside))
        raise PipelineError(
            f"sample {index}: the output of {out[index].tolist()} from {first[index].tolist()} exceeds the resized "
            f"image of {resized[index].tolist()}"
        )
    regions = whole_image(src.shapes) if roi is None else np.asarray(roi, np.float64).reshape(count, 4)
    rows, table = channel_table(count, depth, scale, bias), np.zeros(count, IMAGE)
    table["src"], table["dst"] = src.pointers, dst.pointers
    table["row_stride"], table["pixel_stride"], table["channel_stride"] = src.strides.T
    table["height"], table["width"] = out.T
    table["channels"] = rows[1]
    for axis, (name, reverse) in enumerate((("y", flip), ("x", mirror))):
        backwards = np.broadcast_to(np.asarray(reverse, np.bool_), (count,))
        table[f"{name}_first"] = np.where(backwards, first[:, axis] + out[:, axis] - 1, first[:, axis])
        table[f"{name}_step"] = np.where(backwards, -1, 1)
        table[name] = axis_table(
            regions[:, axis], regions[:, axis + 2], src.shapes[:, axis], resized[:, axis],
            min_filter, mag_filter, antialias, rows=axis == 0,
        )  # fmt: skip
    defines = fused_defines(dst.dtype, depth, planar, rounded)
    tiles = -(-out[:, 0] // TILE_HEIGHT) * -(-out[:, 1] // TILE_WIDTH)
    grid = (int(tiles.max()), count)
    return Launch("fused.cu", "crop_resize_normalize", defines, (table, rows[0]), grid)


def fused_defines(dtype: np.dtype[Any], channels: int, planar: bool, rounded: bool) -> tuple[tuple[str, str], ...]:
    """Return the macros of the kernel.

    Args:
        dtype: dtype of the output.
        channels: number of channels of the images, 1 or 3.
        planar: True for CHW outputs, False for HWC outputs.
        rounded: whether to round the resized pixels to uint8.

    Raises:
        PipelineError: the kernels don't support the dtype.
    """
    return (
        ("OUT", ctype(dtype)),
        ("CHANNELS", str(channels)),
        ("PLANAR", str(int(planar))),
        ("ROUNDED", str(int(rounded))),
    )


def relocate(images: npt.NDArray[Any], src: int, dst: int) -> None:
    """Add base addresses to the first table of a launch, which was planned with offsets from 0.

    Args:
        images: table of the launch: (N,) of `IMAGE`; modified in place.
        src: base address of the images.
        dst: base address of the output.
    """
    images["src"] += src
    images["dst"] += dst
