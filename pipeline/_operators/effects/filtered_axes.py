"""The dimensions that filters process, and the dtypes of their results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._graph.graph import GraphNode
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, to_numpy_type

__all__ = ["FilteredAxes", "filtered_dtype"]

_MAX_AXES = 3


@dataclass(frozen=True)
class FilteredAxes:
    """Dimensions to filter.

    Attributes:
        outer: number of dimensions before them: frames, and channels if they come first.
        count: number of dimensions to filter. Only channels may follow.
    """

    outer: int
    count: int

    @classmethod
    def from_layout(cls, layout: str, ndim: int) -> FilteredAxes:
        """Return the dimensions to filter: all except frames and channels.

        Raises:
            ArgumentValueError: The layout has the wrong number of such dimensions, or channels between them.
        """
        if not layout:
            if not 0 < ndim <= _MAX_AXES:
                raise ArgumentValueError(
                    f"samples of {ndim} dimensions need a layout; without it, only 1 to 3 dimensions can be filtered"
                )
            return cls(0, ndim)
        axes = [index for index, letter in enumerate(layout) if letter not in "FC"]
        if not 0 < len(axes) <= _MAX_AXES:
            raise ArgumentValueError(
                f"the layout {layout!r} has {len(axes)} dimensions to filter, but only 1 to 3 are supported"
            )
        first, last = axes[0], axes[-1]
        behind = layout[last + 1 :]
        if last - first + 1 != len(axes) or behind not in ("", "C"):
            raise ArgumentValueError(f"the layout {layout!r} must have frames first, and channels first or last")
        return cls(first, len(axes))

    def images(self, data: Array, out: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the images or volumes of a sample and of its output, each with an axis of channels at the end."""
        end = self.outer + self.count
        shape = (*data.shape[self.outer : end], *(data.shape[end:] or (1,)))
        for index in np.ndindex(*data.shape[: self.outer]):
            yield data[index].reshape(shape), out[index].reshape(shape)


def filtered_dtype(node: GraphNode, source: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the output: the input's, or FLOAT if the argument `dtype` says so.

    Raises:
        ArgumentValueError: The argument is another dtype, or the samples are BOOL.
    """
    dtype = node.argument("dtype")
    if source == np.bool_:
        raise ArgumentValueError("samples of BOOL can't be filtered; use fn.cast")
    if dtype is None or dtype == FLOAT:
        return source if dtype is None else np.dtype(np.float32)
    if to_numpy_type(dtype) != source:
        raise ArgumentValueError(f"argument 'dtype' must be FLOAT or the input's dtype, {source}, not {dtype!r}")
    return source
