"""Axes that users choose by index or by letters of the layout."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline._declaration.schema import Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline.errors import ArgumentIndexError, ArgumentValueError

AXES = Argument("axes", Kind.INTS, "Indices of the axes; negative ones count from the end. All axes by default.")
AXIS_NAMES = Argument("axis_names", Kind.STRING, "Layout letters of the axes, instead of `axes`.")


def chosen_axes(node: GraphNode, layout: str, ndim: int) -> tuple[int, ...]:
    """Return the axes that the arguments `axes` or `axis_names` choose; all axes if neither is set.

    Raises:
        ArgumentValueError: an axis doesn't exist or is repeated, or both arguments are set.
    """
    names, axes = node.argument("axis_names"), node.argument("axes")
    if names is not None and axes is not None:
        raise ArgumentValueError("Arguments `axes` and `axis_names` are mutually exclusive")
    if names is not None:
        axes = axes_by_name(names, layout)
    return tuple(range(ndim)) if axes is None else check_axes(axes, ndim)


def axes_by_name(names: str, layout: str) -> tuple[int, ...]:
    """Return the positions of letters in a layout.

    Raises:
        ArgumentValueError: the layout doesn't have a letter.
    """
    for letter in names:
        if letter not in layout:
            raise ArgumentValueError(f"Axis {letter!r} is not present in the input layout {layout!r}")
    return tuple(layout.index(letter) for letter in names)


def check_axes(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Return axes with non-negative indices.

    Raises:
        ArgumentIndexError: an axis doesn't exist.
        ArgumentValueError: an axis is repeated.

    Example:
        >>> check_axes([-1, 0], 3)
        (2, 0)
    """
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ArgumentIndexError(
                f"Axis {axis} out of range. Expected range is [{-ndim}, {ndim - 1}] for a {ndim}D input"
            )
    positive = tuple(axis % ndim for axis in axes)
    if len(set(positive)) < len(positive):
        raise ArgumentValueError(f"the axes {list(axes)} must differ")
    return positive
