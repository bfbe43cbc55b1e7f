"""Transforms: float32 matrices, computed in float64 and rounded once, so that DALI's differ by a few roundings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.operators.both import compare, refused_by_both, run_ours

TOLERANCE = 2e-4  # of values up to a few hundred: DALI rounds every product and sum to float32


def matrices(ndim: int = 2, count: int = 2, frames: int | None = None) -> list[np.ndarray[Any, Any]]:
    generator = np.random.default_rng(ndim)
    leading = () if frames is None else (frames,)
    return [generator.uniform(-3, 3, (*leading, ndim, ndim + 1)).astype(np.float32) for _ in range(count)]


CASES: list[tuple[str, dict[str, Any], int]] = [
    ("translation", {"offset": [1.5, 2]}, 2),
    ("translation", {"offset": 3}, 1),
    ("translation", {"offset": [1, 2, 3, 4, 5, 6]}, 6),
    ("rotation", {"angle": 30}, 2),
    ("rotation", {"angle": -200, "center": [10, 20]}, 2),
    ("rotation", {"angle": 30, "center": 10}, 2),
    ("rotation", {"angle": 30, "axis": [1, 2, 3], "center": [3, 2, 1]}, 3),
    ("rotation", {"angle": 30, "axis": 1}, 3),
    ("scale", {"scale": [2, 0.5], "center": [3, 4]}, 2),
    ("scale", {"scale": [2, 0, -1]}, 3),
    ("scale", {"scale": 2}, 1),
    ("shear", {"shear": [2, -0.5]}, 2),
    ("shear", {"shear": [1, 2, 3, 4, 5, 6], "center": [10, 20, 30]}, 3),
    ("shear", {"angles": [20, -60], "center": 7}, 2),
    ("crop", {"from_start": [1, 2], "from_end": [5, 8], "to_end": [10, 20]}, 2),
    ("crop", {"from_start": [5, 2], "from_end": [1, 8]}, 2),
    ("crop", {"from_start": [5, 2], "from_end": [1, 8], "to_start": 3, "absolute": True}, 2),
    ("crop", {"from_start": [1, 2], "from_end": [1, 8]}, 2),
    ("crop", {}, 1),
]


@pytest.mark.parity
@pytest.mark.parametrize(("name", "arguments", "ndim"), CASES)
def test_transforms_with_and_without_input(name: str, arguments: dict[str, Any], ndim: int) -> None:
    def graph(fn: Any, _: Any, *inputs: Any, **more: Any) -> Any:
        return getattr(fn.transforms, name)(*inputs, **arguments, **more)

    compare(graph, tolerance=TOLERANCE)
    if np.isfinite(run_ours(graph)[0].samples[0]).all():
        for reverse in (False, True):
            compare(lambda fn, _, x, r=reverse: graph(fn, _, x, reverse_order=r), matrices(ndim), tolerance=TOLERANCE)


@pytest.mark.parity
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1000), ndim=st.sampled_from([2, 3]))
def test_arguments_per_sample(seed: int, ndim: int) -> None:
    generator = np.random.default_rng(seed)

    def values(count: int, low: float = -20, high: float = 20) -> list[np.ndarray[Any, Any]]:
        return [generator.uniform(low, high, count).astype(np.float32) for _ in range(3)]

    def graph(fn: Any, _: Any, vector: Any, center: Any, shear: Any, angle: Any, start: Any, end: Any) -> Any:
        t = fn.transforms
        return (
            t.translation(offset=vector),
            t.scale(scale=vector, center=center),
            t.shear(angles=shear, center=center),
            t.shear(shear=shear),
            t.rotation(angle=angle, center=center, **({"axis": vector} if ndim == 3 else {})),
            t.crop(from_start=start, from_end=end, to_start=center, to_end=vector),
        )

    angles = [row[0] for row in values(1, -400, 400)]
    shears = [row.reshape((3, 2) if ndim == 3 else 2) for row in values(ndim * (ndim - 1), -80, 80)]
    feeds = [values(ndim), values(ndim), shears, angles, values(ndim, 0, 1), values(ndim, 2, 9)]
    compare(graph, *feeds, tolerance=1e-3)


@pytest.mark.parity
def test_single_factor_takes_the_dimensions_of_the_input_or_those_that_are_given() -> None:
    compare(lambda fn, _, x: fn.transforms.scale(x, scale=2, ndim=3), matrices(2), tolerance=TOLERANCE)
    compare(lambda fn, _: fn.transforms.scale(scale=2, ndim=3, center=4))


@pytest.mark.parity
@pytest.mark.parametrize("reverse", [False, True])
def test_combine(reverse: bool) -> None:
    compare(
        lambda fn, _, x, y: fn.transforms.combine(x, y, np.float32([[2, 0, 1], [0, 3, 2]]), reverse_order=reverse),
        matrices(2),
        matrices(2)[::-1],
        tolerance=TOLERANCE,
    )


@pytest.mark.parity
def test_sequences_of_transforms() -> None:
    def graph(fn: Any, _: Any, sequence: Any, single: Any) -> Any:
        t = fn.transforms
        return t.translation(sequence, offset=[1, 2]), t.combine(sequence, single), t.combine(single, sequence, single)

    compare(graph, matrices(2, frames=4), matrices(2), layouts=["F**"], tolerance=TOLERANCE)
    ragged = [matrices(2, 1, frames)[0] for frames in (2, 5)]
    compare(graph, ragged, matrices(2), layouts=["F**"], tolerance=TOLERANCE)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("name", "arguments", "match"),
    [
        ("translation", {"offset": [1, 2, 3]}, "a 2D transform but other arguments suggest a 3D"),
        ("translation", {}, 'specify values for arguments: "offset"'),
        ("rotation", {"angle": 1, "center": [1, 2, 3]}, "list of 2 elements"),
        ("rotation", {"angle": 1, "axis": [1, 2]}, "list of 3 elements"),
        ("scale", {"scale": [1, 2, 3, 4, 5, 6, 7]}, "1 to 6 dimensions"),
        ("shear", {"shear": 2}, "Shear matrix must have D"),
        ("shear", {}, "One and only one of the following arguments"),
        ("shear", {"shear": [1, 2], "angles": [1, 2]}, "One and only one of the following arguments"),
        ("shear", {"angles": [91, 2]}, "between -90 and 90"),
        ("crop", {"from_start": [1, 2], "from_end": [1, 2, 3]}, "list of 3 elements"),
    ],
)
def test_bad_calls_are_refused(name: str, arguments: dict[str, Any], match: str) -> None:
    refused_by_both(lambda fn, _, x: getattr(fn.transforms, name)(x, **arguments), matrices(2), match=match)


@pytest.mark.parity
def test_arrays_that_are_not_transforms_are_refused() -> None:
    for wrong in (np.eye(3, dtype=np.float32), np.zeros((2, 3)), np.zeros((4, 2, 3), np.float32)):
        refused_by_both(lambda fn, _, x: fn.transforms.translation(x, offset=[1, 2]), [wrong], match="float32 of shape")
    refused_by_both(lambda fn, _, x, y: fn.transforms.combine(x, y), matrices(2), matrices(3), match="different")


def test_axis_without_length_is_refused() -> None:
    with pytest.raises(ValueError, match="length zero"):
        run_ours(lambda fn, _: fn.transforms.rotation(angle=3, axis=[0, 0, 0]))
