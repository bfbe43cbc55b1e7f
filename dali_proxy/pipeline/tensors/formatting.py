"""Text that shows tensors and batches, in the form of NVIDIA DALI."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["format_batch", "format_tensor"]

#: Number of elements above which only the edges of the data are shown.
_MOST_ELEMENTS = 1000
#: Numbers of samples and of extents above which only the first and last shapes are shown.
_MOST_SHAPES = 16
_MOST_EXTENTS = 100
#: Largest number of characters of shapes in one line.
_LINE = 75
#: Number of items at each edge.
_EDGE = 2
_INDENT = "    "


def format_tensor(obj: Any, show_data: bool = True) -> str:
    """Return a tensor as text: its data, dtype, layout, device and shape.

    Args:
        obj: a `TensorCPU` or `TensorGPU`.
        show_data: whether the text contains the data; data on a GPU is copied for it.

    Example:
        >>> from dali_proxy.pipeline.tensors import TensorCPU
        >>> print(format_tensor(TensorCPU(np.arange(3, dtype=np.uint8), "W")))
        TensorCPU(
            [0 1 2],
            dtype=DALIDataType.UINT8,
            layout="W",
            device="cpu",
            shape=(3,))
    """
    data = _text(np.asarray(obj.as_cpu()), _INDENT) if show_data else None
    return _joined(obj, data, [f"shape={tuple(obj.shape())}"])


def format_batch(obj: Any, show_data: bool = True, indent: str = "") -> str:
    """Return a batch as text: its data, dtype, layout, device, number of samples and shapes.

    Args:
        obj: a `TensorListCPU` or `TensorListGPU`.
        show_data: whether the text contains the data; data on a GPU is copied for it.
        indent: start of all lines but the first.
    """
    data = _samples_text(obj.as_cpu(), indent + _INDENT) if show_data else None
    lines = [f"num_samples={len(obj)}", f"shape={_shapes_text(obj.shape(), indent)}"]
    return _joined(obj, data, lines, indent)


def _joined(obj: Any, data: str | None, lines: Iterable[str], indent: str = "") -> str:
    name, layout = type(obj).__name__, obj.layout()
    described = [
        *([] if data is None else [data]),
        f"dtype={obj.dtype}",
        *([f'layout="{layout}"'] if layout else []),
        f'device="{"gpu" if name.endswith("GPU") else "cpu"}"',
        *lines,
    ]
    return f"{name}(\n{indent}{_INDENT}" + f",\n{indent}{_INDENT}".join(described) + ")"


def _text(sample: Any, indent: str) -> str:
    return np.array2string(sample, threshold=_MOST_ELEMENTS, edgeitems=_EDGE, prefix=indent)


def _samples_text(batch: Any, indent: str) -> str:
    count = len(batch)
    summarize = sum(sample.size for sample in batch.samples) > _MOST_ELEMENTS
    texts = _edges([_text(np.asarray(batch.samples[index]), indent) for index in _shown(count, summarize)], count)
    ndim = batch.ndim
    separator = "," + "\n" * ndim + indent if ndim else ", "
    return f"[{separator.join(texts)}]"


def _shapes_text(shapes: Sequence[tuple[int, ...]], indent: str) -> str:
    count = len(shapes)
    summarize = count > _MOST_SHAPES or sum(map(len, shapes)) > _MOST_EXTENTS
    texts = _edges([str(shapes[index]) for index in _shown(count, summarize)], count)
    separator = ", "
    if len(separator.join(texts)) > _LINE:
        separator = f", \n{indent}{_INDENT}       "
    return f"[{separator.join(texts)}]"


def _shown(count: int, summarize: bool) -> Sequence[int]:
    """Return the indices of the shown items."""
    if not summarize or count <= 2 * _EDGE + 1:
        return range(count)
    return [*range(_EDGE), *range(count - _EDGE, count)]


def _edges(texts: list[str], count: int) -> list[str]:
    """Mark where items are left out."""
    return texts if len(texts) == count else [*texts[:_EDGE], "...", *texts[_EDGE:]]
