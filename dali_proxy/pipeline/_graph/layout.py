"""Layered layout of a directed acyclic graph: positions of boxes, and routes of arrows around them.

The steps are those of Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures"
(1981): choose layers, order each layer so that few arrows cross, then choose coordinates.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

BOX_HEIGHT = 42.0
_ROW = 78.0  # distance of two layers
_GAP = 20.0  # between two boxes
_MARGIN = 12.0
_BEND = 14.0  # width of the lane of an arrow that passes a layer
_SWEEPS = 12

Point = tuple[float, float]
Route = tuple[int, ...]  # the indices of an arrow's source, of its bends, and of its target
Neighbors = list[list[tuple[int, float]]]  # for each box and bend, its neighbors in a layer, with weights


@dataclass(frozen=True)
class Layout:
    """Positions of boxes and arrows.

    Attributes:
        boxes: center and top of each box.
        routes: for each arrow, points from the bottom of its source to the top of its target.
        width: width of the drawing.
        height: height of the drawing.
    """

    boxes: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def arrange(widths: Sequence[float], arrows: Sequence[tuple[int, int]], weights: Sequence[float]) -> Layout:
    """Arrange boxes in layers from top to bottom, so that all arrows point downwards.

    Args:
        widths: width of each box.
        arrows: source and target of each arrow, as indices of boxes; sources have smaller indices than their targets.
        weights: how much each arrow should be straight.
    """
    if not widths:
        return Layout((), (), 2 * _MARGIN, 2 * _MARGIN)
    layers = _layers(len(widths), arrows)
    sizes, depths, routes = list(widths), list(layers), []
    for source, target in arrows:
        bends = range(len(sizes), len(sizes) + layers[target] - layers[source] - 1)
        sizes += [_BEND] * len(bends)
        depths += range(layers[source] + 1, layers[target])
        routes.append((source, *bends, target))
    above: Neighbors = [[] for _ in sizes]
    below: Neighbors = [[] for _ in sizes]
    for route, weight in zip(routes, weights, strict=True):
        for upper, lower in pairwise(route):
            above[lower].append((upper, weight))
            below[upper].append((lower, weight))
    rows = _order(
        [[i for i, depth in enumerate(depths) if depth == row] for row in range(max(depths) + 1)], above, below
    )
    centers = _centers(rows, sizes, above, below)
    left = min(center - size / 2 for center, size in zip(centers, sizes, strict=True)) - _MARGIN
    centers = [center - left for center in centers]
    tops = [_MARGIN + _ROW * depth for depth in depths]
    return Layout(
        tuple(zip(centers[: len(widths)], tops, strict=False)),
        tuple(tuple(_points(route, centers, tops)) for route in routes),
        max(center + size / 2 for center, size in zip(centers, sizes, strict=True)) + _MARGIN,
        max(tops) + BOX_HEIGHT + _MARGIN,
    )


def _layers(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: below all of its sources, and as low as its targets allow."""
    layers = [0] * count
    targets: list[list[int]] = [[] for _ in range(count)]
    for source, target in sorted(arrows, key=lambda arrow: arrow[1]):
        layers[target] = max(layers[target], layers[source] + 1)
        targets[source].append(target)
    for source in reversed(range(count)):
        if targets[source]:
            layers[source] = min(layers[target] for target in targets[source]) - 1
    return layers


def _order(rows: list[list[int]], above: Neighbors, below: Neighbors) -> list[list[int]]:
    """Order the boxes of each row by the mean position of their neighbors, and keep the order with fewest crossings."""
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        rows = [list(row) for row in rows]
        order = range(1, len(rows)) if sweep % 2 == 0 else range(len(rows) - 2, -1, -1)
        neighbors, step = (above, -1) if sweep % 2 == 0 else (below, 1)
        for row in order:
            positions = {box: float(position) for position, box in enumerate(rows[row + step])}
            own = {box: float(position) for position, box in enumerate(rows[row])}
            rows[row].sort(key=lambda box: _mean(neighbors[box], positions, own[box]))
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: list[list[int]], below: Neighbors) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        positions = {box: position for position, box in enumerate(lower)}
        passed: list[int] = []  # ends of the arrows further to the left, sorted
        for box in upper:
            ends = sorted(positions[each] for each, _ in below[box])
            count += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return count


def _centers(rows: list[list[int]], sizes: list[float], above: Neighbors, below: Neighbors) -> list[float]:
    """Return the center of each box: near the mean of its neighbors, without overlaps."""
    centers = dict.fromkeys(range(len(sizes)), 0.0)
    weights = [1e-6 + sum(weight for _, weight in (*above[box], *below[box])) for box in range(len(sizes))]
    for row in rows:
        _place(row, sizes, weights, centers, {})
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            _place(row, sizes, weights, centers, {box: _mean(near[box], centers, centers[box]) for box in row})
    return list(centers.values())


def _place(
    row: list[int], sizes: list[float], weights: list[float], centers: dict[int, float], wanted: dict[int, float]
) -> None:
    """Set the centers of a row as near to the wanted ones as the order and the sizes allow, in least squares.

    This is isotonic regression: boxes that touch form a block, whose position is the mean of its boxes.
    """
    widths = [(sizes[left] + sizes[right]) / 2 + _GAP for left, right in pairwise(row)]
    offsets = [*accumulate(widths, initial=0.0)]
    blocks: list[tuple[float, float, int]] = []  # weighted sum of the wanted positions, weight, number of boxes
    for box, offset in zip(row, offsets, strict=True):
        weight = weights[box]
        total, count = weight * (wanted.get(box, 0.0) - offset), 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / weight:
            more = blocks.pop()
            total, weight, count = total + more[0], weight + more[1], count + more[2]
        blocks.append((total, weight, count))
    positions = [total / weight for total, weight, count in blocks for _ in range(count)]
    centers.update((box, at + offset) for box, at, offset in zip(row, positions, offsets, strict=True))


def _points(route: Route, centers: list[float], tops: list[float]) -> Iterable[Point]:
    source, *bends, target = route
    yield centers[source], tops[source] + BOX_HEIGHT
    for bend in bends:
        yield centers[bend], tops[bend]
        yield centers[bend], tops[bend] + BOX_HEIGHT
    yield centers[target], tops[target]


def _mean(neighbors: list[tuple[int, float]], positions: Mapping[int, float], default: float) -> float:
    total = sum(weight for _, weight in neighbors)
    return sum(weight * positions[each] for each, weight in neighbors) / total if total else default
