"""Launcher of join.cu: concatenates samples along an axis, in one launch per batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dali_proxy.pipeline._cuda.launch import ADDRESS, MAX_SAMPLES, Launch, blocks_for
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError


def plan_join(sources: Sequence[Samples], dst: Samples, axis: int) -> Iterator[Launch]:
    """Yield the launches that concatenate batches sample by sample, one for up to 65,535 source samples.

    Args:
        sources: contiguous batches of the same size and dtype; shapes differ along the axis only.
        dst: contiguous samples; the extent along the axis is the sum of the sources' extents.
        axis: axis to concatenate along; not negative.

    Raises:
        PipelineError: the samples don't match.
    """
    extents = np.sum([source.shapes[:, axis] for source in sources], axis=0)
    alike = all(len(source) == len(dst) and source.dtype == dst.dtype for source in sources)
    if not alike or (extents != dst.shapes[:, axis]).any():
        raise PipelineError("the samples don't add up to those of the output, or differ in dtype")
    if not all(samples.is_contiguous() for samples in (*sources, dst)):
        raise PipelineError("the samples are not contiguous")
    itemsize = dst.dtype.itemsize
    inner = np.prod(dst.shapes[:, axis + 1 :], axis=1, dtype=np.int64)
    columns = [("src", ADDRESS), ("dst", ADDRESS), ("count", "u8"), ("run", "u8"), ("pitch", "u8")]
    table = np.zeros((len(sources), len(dst)), np.dtype(columns))
    table["pitch"] = inner * dst.shapes[:, axis]
    before = np.zeros(len(dst), np.int64)
    for row, source in zip(table, sources, strict=True):
        row["src"], row["dst"] = source.pointers, dst.pointers + before * inner * itemsize
        row["count"] = np.prod(source.shapes, axis=1, dtype=np.int64)
        row["run"] = np.maximum(1, inner * source.shapes[:, axis])
        before += source.shapes[:, axis]
    rows = table[table["count"] > 0]
    for begin in range(0, len(rows), MAX_SAMPLES):
        some = rows[begin : begin + MAX_SAMPLES]
        grid = (blocks_for(int(some["count"].max())), len(some))
        yield Launch("join.cu", "join", (("VALUE", f"uint{8 * itemsize}"),), (some,), grid)
