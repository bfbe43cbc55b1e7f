"""Launcher of one_hot.cu: encodes ragged batches as one-hot vectors, in one launch per batch."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError


def plan_one_hot(src: Samples, dst: Samples, axis: int, on: float = 1.0, off: float = 0.0) -> Launch | None:
    """Return the launch that encodes numbers as one-hot vectors along a new axis.

    Args:
        src: contiguous samples; floats are truncated. Half precision isn't supported.
        dst: contiguous samples: the shapes of the source with the number of classes inserted at `axis`.
        axis: index of the new axis; not negative.
        on: value at the class index.
        off: value elsewhere.

    Returns:
        The launch; None if there are no elements.

    Raises:
        PipelineError: the samples don't match.
    """
    if len(src) != len(dst) or (np.delete(dst.shapes, axis, axis=1) != src.shapes).any():
        raise PipelineError("the shapes of the output aren't those of the input with one axis more")
    if not (src.is_contiguous() and dst.is_contiguous()):
        raise PipelineError("the samples are not contiguous")
    columns = [("src", ADDRESS), ("dst", ADDRESS), ("count", "u8"), ("inner", "u8"), ("classes", "u8")]
    table = np.zeros(len(src), np.dtype([*columns, ("on", "f8"), ("off", "f8")]))
    table["src"], table["dst"], table["on"], table["off"] = src.pointers, dst.pointers, on, off
    table["count"] = np.prod(dst.shapes, axis=1, dtype=np.int64)
    table["inner"] = np.maximum(1, np.prod(dst.shapes[:, axis + 1 :], axis=1, dtype=np.int64))
    table["classes"] = np.maximum(1, dst.shapes[:, axis])
    most = int(table["count"].max())
    if most == 0:
        return None
    defines = (("IN", ctype(src.dtype)), ("OUT", ctype(dst.dtype)))
    return Launch("one_hot.cu", "one_hot", defines, (table,), (blocks_for(most), len(src)))
