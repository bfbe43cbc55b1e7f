"""Launcher of byte_map.cu: lookup tables for the 256 values of a byte, given or computed from histograms."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import Launch, blocks_for
from pipeline._kernels.rows import zeros
from pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

__all__ = ["CountedMap", "Rule", "map_bytes", "map_counted_bytes", "plan_map_bytes"]

#: struct Image of byte_map.cu.
_IMAGE = np.dtype(
    [("src", "i8"), ("dst", "i8"), ("count", "u8"), ("channels", "u8"), ("counts", "i8"), ("tables", "i8"),
     ("factor", "f4"), ("rule", "i4")],
    align=True,
)  # fmt: skip
_COPIES = 4
_DEFINES = (("COPIES", str(_COPIES)),)
_PER_THREAD = 16
_COUNTED_PER_THREAD = 64


class Rule(IntEnum):
    """Rules that compute tables from histograms; each matches the function of the same name in `pipeline._imaging`."""

    EQUALIZATION = 0
    AUTO_CONTRAST = 1
    CONTRAST = 2


def map_bytes(context: KernelContext, stream: Any, src: Samples, dst: Samples, tables: npt.NDArray[np.uint8]) -> None:
    """Replace each value of a batch by its entry in the sample's table, in one launch.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: contiguous uint8 samples.
        dst: contiguous uint8 samples of the same shapes.
        tables: (N, 256), one table per sample.

    Raises:
        PipelineError: the samples don't match.
        CudaError: the launch failed.
    """
    launch = plan_map_bytes(src, dst, tables)
    if launch is not None:
        context.run(launch, stream)


def plan_map_bytes(src: Samples, dst: Samples, tables: npt.NDArray[np.uint8]) -> Launch | None:
    """Return the launch of `map_bytes`, or None if the output is empty. The arguments are the same."""
    images = _images(src, dst)
    images["channels"] = 1
    most = int(images["count"].max())
    if not most:
        return None
    flat = np.ascontiguousarray(tables, np.uint8).reshape(-1)
    grid = (blocks_for(most, _PER_THREAD), len(src))
    return Launch("byte_map.cu", "map_bytes", _DEFINES, (images, flat), grid)


def map_counted_bytes(
    context: KernelContext,
    stream: Any,
    src: Samples,
    dst: Samples,
    rules: npt.ArrayLike,
    factors: npt.ArrayLike = 1.0,
) -> None:
    """Replace each value by its entry in a table computed from the image, in four launches.

    Args:
        context: context of the samples' device.
        stream: `cupy.cuda.Stream` to enqueue on.
        src: contiguous uint8 images of (height, width, channels).
        dst: contiguous uint8 images of the same shapes.
        rules: `Rule` that computes the tables: one for all images, or one per image.
        factors: contrast factors: one for all images, or one per image.

    Raises:
        PipelineError: the samples don't match.
        CudaError: a launch failed.
    """
    plan = CountedMap(src, dst, rules, factors)
    scratch = context.scratch(plan.scratch_bytes, stream) if plan.scratch_bytes else 0
    for launch in plan.launches(scratch):
        context.run(launch, stream)


class CountedMap:
    """Plan of the launches of `map_counted_bytes`, with the same arguments; without `dst`, only the tables."""

    def __init__(self, src: Samples, dst: Samples | None, rules: npt.ArrayLike, factors: npt.ArrayLike = 1.0) -> None:
        self._maps = dst is not None
        self._images = _images(src, src if dst is None else dst)
        if src.ndim != 3:
            raise PipelineError(f"images need the dimensions (height, width, channels), not {src.ndim} dimensions")
        self._images["channels"] = np.maximum(1, src.shapes[:, -1])
        self._images["factor"] = np.asarray(factors, np.float32)
        self._images["rule"] = np.asarray(rules)
        channels = src.shapes[self._images["rule"] == int(Rule.CONTRAST), -1]
        if ((channels != 1) & (channels != 3)).any():
            raise PipelineError("images must have 1 or 3 channels to have a brightness")
        words = self._images["channels"].astype(np.int64) * 256
        self._begins, self._words = np.cumsum(words) - words, int(words.sum())
        empty = not int(self._images["count"].max())
        #: Bytes of device memory for counts and tables.
        self.scratch_bytes = 0 if empty else self._words * (4 * _COPIES + 1)

    def tables(self, scratch: int) -> npt.NDArray[np.int64]:
        """Return the addresses of the tables of each image, (N,): (channels, 256) bytes."""
        addresses: npt.NDArray[np.int64] = scratch + self._words * 4 * _COPIES + self._begins
        return addresses

    def launches(self, scratch: int) -> list[Launch]:
        """Return the launches in order; `scratch` is the address of device memory of `scratch_bytes`."""
        if not self.scratch_bytes:
            return []
        images = self._images.copy()
        images["counts"] = scratch + self._begins * 4 * _COPIES
        images["tables"] = self.tables(scratch)
        channels, most = int(images["channels"].max()), int(images["count"].max())
        blocks = {
            "clear_counts": blocks_for(channels * 256 * _COPIES),
            "count_values": blocks_for(most, _COUNTED_PER_THREAD),
            "make_tables": blocks_for(channels),
        }
        rows = len(images)
        launches = [Launch("byte_map.cu", name, _DEFINES, (images,), (count, rows)) for name, count in blocks.items()]
        if self._maps:
            grid = (blocks_for(most, _PER_THREAD), rows)
            launches.append(Launch("byte_map.cu", "map_bytes", _DEFINES, (images, np.zeros(1, np.uint8)), grid))
        return launches


def _images(src: Samples, dst: Samples) -> npt.NDArray[Any]:
    if src.dtype != np.uint8 or dst.dtype != np.uint8:
        raise PipelineError(f"tables are for bytes, but the samples are {src.dtype} and {dst.dtype}")
    if len(src) != len(dst) or (src.shapes != dst.shapes).any():
        raise PipelineError("the samples of input and output differ in number or shape")
    if not (src.is_contiguous() and dst.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    table = zeros(len(src), _IMAGE)
    table["src"], table["dst"] = src.pointers, dst.pointers
    table["count"] = np.prod(src.shapes, axis=1, dtype=np.int64)
    return table
