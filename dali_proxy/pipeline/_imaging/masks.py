"""Conversion of COCO's object masks, polygons and run lengths, to pixels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._size_limit import check_size

#: Magnification of outlines in COCO's rasterization.
_SCALE = 5.0
_FARTHEST = 1e9


def mask_of_polygon(points: Sequence[float], height: int, width: int) -> Array:
    """Return the mask of the pixels inside a polygon of alternating x and y, as the COCO API does (Lin et al.).

    Returns:
        bool, (height, width).

    Raises:
        ValueError: a vertex isn't a number, or is too far away.
        DecodeError: the outline is too long.

    Example:
        >>> mask_of_polygon([0, 0, 2, 0, 2, 2, 0, 2], 3, 3).astype(int)
        array([[1, 1, 0],
               [1, 1, 0],
               [0, 0, 0]])
    """
    vertices = np.asarray(points, np.float32).astype(np.float64).reshape(-1, 2)
    if not (np.abs(vertices) < _FARTHEST).all():
        raise ValueError(f"a vertex isn't a number, or is farther away than {_FARTHEST:g} pixels")
    corners = (_SCALE * vertices + 0.5).astype(np.int64)
    following = np.roll(corners, -1, axis=0)
    longest = np.abs(corners.astype(np.float64) - following).max(initial=0.0)
    check_size("the outline of an object", int(longest), len(corners), corners.itemsize)
    lines = zip(corners.tolist(), following.tolist(), strict=True)
    u, v = (
        np.concatenate(coordinates) for coordinates in zip(*(_line(start, end) for start, end in lines), strict=True)
    )
    moved = np.flatnonzero(u[1:] != u[:-1]) + 1
    x = (np.minimum(u[moved], u[moved - 1]) + 0.5) / _SCALE - 0.5
    y = np.ceil(np.clip((np.minimum(v[moved], v[moved - 1]) + 0.5) / _SCALE - 0.5, 0, height))
    inside = (np.floor(x) == x) & (x >= 0) & (x <= width - 1)
    crossings = (x[inside] * height + y[inside]).astype(np.int64)
    counts = np.bincount(crossings, minlength=height * width + 1)[: height * width]
    return (np.cumsum(counts) % 2 == 1).reshape(width, height).T


def _line(start: list[int], end: list[int]) -> tuple[Array, Array]:
    """Return the points of a magnified line, including both ends."""
    (xs, ys), (xe, ye) = start, end
    dx, dy = abs(xe - xs), abs(ye - ys)
    flipped = xs > xe if dx >= dy else ys > ye
    if flipped:
        xs, ys, xe, ye = xe, ye, xs, ys
    steps = np.arange(max(dx, dy) + 1)
    if flipped:
        steps = steps[::-1]
    if dx >= dy:
        slope = (ye - ys) / dx if dx else 0.0
        return steps + xs, (ys + slope * steps + 0.5).astype(np.int64)
    slope = (xe - xs) / dy
    return (xs + slope * steps + 0.5).astype(np.int64), steps + ys


def mask_of_runs(counts: Sequence[int], height: int, width: int) -> Array:
    """Return the mask from run lengths, which alternate between outside and inside, column by column.

    Returns:
        bool, (height, width).

    Raises:
        ValueError: the run lengths don't add up to the number of pixels.
    """
    if sum(counts) != height * width:
        raise ValueError(f"the runs have {sum(counts)} pixels, but the image has {height * width}")
    flat = np.repeat(np.arange(len(counts)) % 2 == 1, counts)
    return flat.reshape(width, height).T


def runs_of_text(text: str) -> list[int]:
    """Decode run lengths from COCO's compressed text, which stores differences in groups of five bits.

    Raises:
        ValueError: the text is truncated, or a difference has more than 64 bits.
    """
    runs: list[int] = []
    position = 0
    while position < len(text):
        value, shift = 0, 0
        while True:
            if position == len(text) or shift > 60:
                raise ValueError("the text of run lengths is damaged")
            group = ord(text[position]) - 48
            position += 1
            value |= (group & 31) << shift
            shift += 5
            if not group & 32:
                break
        if group & 16:
            value -= 1 << shift
        runs.append(value + (runs[-2] if len(runs) > 2 else 0))
    return runs
