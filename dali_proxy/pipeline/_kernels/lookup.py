"""Launcher of lookup.cu: replaces integers by their entries in a table, in one launch per batch."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError


def plan_look_up(src: Samples, dst: Samples, table: Array) -> Launch | None:
    """Return the launch that replaces every element by its entry in the table.

    Args:
        src: contiguous samples of integers.
        dst: contiguous samples of the same shapes and the table's dtype.
        table: values for 0, 1, ...; the last entry is the value for all other integers.

    Returns:
        The launch; None if there are no elements.

    Raises:
        PipelineError: the samples don't match.
    """
    if len(src) != len(dst) or (src.shapes != dst.shapes).any() or dst.dtype != table.dtype:
        raise PipelineError("the samples of input and output differ in shape, or the table in dtype")
    if not (src.is_contiguous() and dst.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    rows = np.zeros(len(src), np.dtype([("src", ADDRESS), ("dst", ADDRESS), ("count", "u8")]))
    rows["src"], rows["dst"] = src.pointers, dst.pointers
    rows["count"] = np.prod(src.shapes, axis=1, dtype=np.int64)
    most = int(rows["count"].max())
    if most == 0:
        return None
    defines = (("IN", ctype(src.dtype)), ("OUT", ctype(dst.dtype)))
    grid = (blocks_for(most), len(src))
    return Launch("lookup.cu", "lookup", defines, (rows, table), grid, (np.int32(len(table) - 1),))
