"""Launcher of reduce.cu: computes sums, means, extremes and deviations along axes, in two launches per batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._imaging.reductions import Reduction
from dali_proxy.pipeline._kernels.merging import groups_of, merged_extents
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError

_TERMS = {"value": 0, "square": 1, "difference": 2}
_COMBINES = {"sum": 0, "min": 1, "max": 2}
_FINISHES = {"none": 0, "divide": 1, "root": 2}
#: Maximum number of elements that one thread combines alone, and maximum number of threads per output.
_ALONE, _MOST_PARTS = 64, 256


class ReductionPlan:
    """Plan of the launches that reduce a batch along axes.

    Args:
        src: samples with any strides.
        dst: contiguous samples with the remaining axes in order, with or without axes of extent 1.
        reduction: the computation.
        axes: axes to reduce; distinct and not negative.
        mean: means for reductions of differences: contiguous float32, one element per sample or per element of `dst`.
        ddof: delta degrees of freedom: divisors are the number of elements minus `ddof`.

    Raises:
        PipelineError: the shapes don't match.
    """

    def __init__(
        self,
        src: Samples,
        dst: Samples,
        reduction: Reduction,
        *,
        axes: Sequence[int],
        mean: Samples | None = None,
        ddof: int = 0,
    ) -> None:
        along, kept = list(axes), [axis for axis in range(src.ndim) if axis not in axes]
        outputs = np.prod(src.shapes[:, kept], axis=1, dtype=np.int64)
        if len(src) != len(dst) or (np.prod(dst.shapes, axis=1, dtype=np.int64) != outputs).any():
            raise PipelineError("the samples of the output don't have the number of elements of the remaining axes")
        if not dst.is_contiguous() or (mean is not None and not mean.is_contiguous()):
            raise PipelineError("the samples of the output, or the means, are not contiguous")
        if (mean is None) == (reduction.term == "difference"):
            raise PipelineError("only reductions of differences take means")
        self._src, self._dst, self._reduction = src, dst, reduction
        self._counts = np.prod(src.shapes[:, along], axis=1, dtype=np.int64)
        self._outputs = outputs
        self._sum = _sum_dtype(reduction, src.dtype, dst.dtype)
        self._parts = int(np.clip(-(-self._counts.max() // _ALONE), 1, _MOST_PARTS))
        self._outputs_first = int(bool(kept) and kept[-1] == src.ndim - 1)
        self._table = self._describe(kept, along, ddof)
        if mean is not None:
            self._table["mean"] = mean.pointers
            sizes = np.prod(mean.shapes, axis=1, dtype=np.int64)
            if mean.dtype != np.float32 or ((sizes != 1) & (sizes != outputs)).any():
                raise PipelineError("means must be float32, one per sample or one per output")
            self._table["mean_step"] = sizes != 1
        #: Bytes of device memory for the partial results of threads.
        self.scratch_bytes = int(outputs.sum()) * self._parts * self._sum.itemsize

    def launches(self, scratch: int) -> list[Launch]:
        """Return both launches, or none for empty outputs; `scratch` points to `scratch_bytes` of device memory."""
        most = int(self._outputs.max())
        if not most:
            return []
        sizes = self._outputs * self._parts * self._sum.itemsize
        self._table["parts"] = scratch + np.cumsum(sizes) - sizes
        dims = self._table.dtype["kept"].shape[0], self._table.dtype["reduced"].shape[0]
        defines = (
            ("IN", ctype(self._src.dtype)),
            ("SUM", ctype(self._sum)),
            ("OUT", ctype(self._dst.dtype)),
            ("KEPT", str(dims[0])),
            ("REDUCED", str(dims[1])),
            ("TERM", str(_TERMS[self._reduction.term])),
            ("COMBINE", str(_COMBINES[self._reduction.combine])),
            ("FINISH", str(_FINISHES[self._reduction.finish])),
        )
        parts = np.int32(self._parts)
        first = (blocks_for(most * self._parts), len(self._src))
        last = (blocks_for(most), len(self._src))
        return [
            Launch("reduce.cu", "reduce_parts", defines, (self._table,), first, (parts, np.int32(self._outputs_first))),
            Launch("reduce.cu", "reduce_finish", defines, (self._table,), last, (parts,)),
        ]

    def _describe(self, kept: list[int], along: list[int], ddof: int) -> Array:
        """Return the table of struct Sample of reduce.cu, without the pointers to means and partial results."""
        axes_of = {"kept": kept, "reduced": along}
        groups = {
            name: groups_of(self._src.shapes[:, axes], self._src.strides[:, axes]) for name, axes in axes_of.items()
        }
        table = np.zeros(len(self._src), _sample_dtype(*(max(1, len(groups[name])) for name in axes_of)))
        table["src"], table["dst"] = self._src.pointers, self._dst.pointers
        table["outputs"], table["count"] = self._outputs, self._counts
        table["divisor"] = self._counts - ddof
        if self._dst.dtype.kind != "f":
            table["divisor"] = np.maximum(1, table["divisor"])
        for name, axes in axes_of.items():
            table[name]["extent"] = 1
            if axes:
                table[name]["stride"] = self._src.strides[:, [axes[group[-1]] for group in groups[name]]]
                table[name]["extent"] = np.maximum(1, merged_extents(self._src.shapes[:, axes], groups[name]))
        return table


@cache
def _sample_dtype(kept: int, reduced: int) -> np.dtype[Any]:
    """Return the dtype of struct Sample of reduce.cu, for numbers of dimensions."""
    dimension = np.dtype([("stride", "i8"), ("extent", "u8")])
    columns: list[Any] = [(name, ADDRESS) for name in ("src", "mean", "parts", "dst")]
    columns += [(name, "u8") for name in ("outputs", "count", "mean_step")]
    dims = [("kept", dimension, (kept,)), ("reduced", dimension, (reduced,))]
    return np.dtype([*columns, ("divisor", "f8"), *dims], align=True)


def _sum_dtype(reduction: Reduction, source: np.dtype[Any], target: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of combined elements; never float16, which lacks arithmetic."""
    if reduction.combine != "sum":
        return np.dtype(np.float32 if source == np.float16 else source)
    if target.kind == "f":
        return np.dtype(np.float64)
    return np.dtype(np.int64 if target.kind == "i" else np.uint64)
