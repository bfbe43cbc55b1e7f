"""`fn.filter` compared with NVIDIA DALI: both use OpenCV, so all results are exact except sums of float32."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import Array, compare, refused_by_both, sample_images

pytestmark = pytest.mark.parity

BORDERS = ("reflect_101", "reflect_1001", "wrap", "clamp", "constant")
EXTENTS = {"F": 2, "C": 3}


def windows(*shapes: tuple[int, ...], seed: int = 1) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.normal(0, 0.3, shape).astype(np.float32) for shape in shapes]


def batch(layout: str, dtype: str = "uint8", first: int = 12) -> list[Array]:
    shapes = [
        [EXTENTS.get(letter, first + 7 * number + 3 * (letter == "W")) for letter in layout] for number in range(3)
    ]
    return sample_images(*map(tuple, shapes), dtype=dtype)


@pytest.mark.parametrize(("border", "mode"), list(itertools.product(BORDERS, ("same", "valid"))))
def test_borders(border: str, mode: str) -> None:
    fills = [np.array(number, np.uint8) for number in (7, 0, 200)]

    def graph(fn: Any, types: Any, x: Any, window: Any, fill: Any) -> Any:
        more = (fill,) if border == "constant" else ()
        output = fn.filter(x, window, *more, border=border, mode=mode, anchor=[1, 0] if mode == "same" else None)
        return output, fill

    for shapes in (((3, 3), (2, 5), (4, 1)), ((5, 5), (5, 5), (9, 7))):
        compare(graph, batch("HWC"), windows(*shapes), fills, layouts=["HWC"])
    if mode == "same":  # images smaller than the window
        compare(graph, batch("HWC", first=2), windows((5, 9), (9, 5), (7, 7)), fills, layouts=["HWC"])


@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW", "FHW", "FHWC", "FCHW"])
def test_layouts(layout: str) -> None:
    compare(lambda fn, types, x, w: fn.filter(x, w), batch(layout), windows((3, 5), (3, 3), (1, 2)), layouts=[layout])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "float32"])
def test_dtypes(dtype: str) -> None:
    def graph(fn: Any, types: Any, x: Any, w: Any) -> Any:
        return fn.filter(x, w), fn.experimental.filter(x, w, dtype=types.FLOAT, anchor=2)

    tolerance = {"uint8": 2e-4, "float32": 2e-4}.get(dtype, 0.05)  # sums of float32 around 1e3, 1e5
    compare(graph, batch("HWC", dtype), windows((3, 3), (4, 5), (7, 3)), layouts=["HWC"], tolerance=tolerance)


def test_bad_calls_are_refused() -> None:
    image, window = batch("HWC")[:1], windows((3, 3))
    calls: list[tuple[Any, str]] = [
        (lambda fn, types, x, w: fn.filter(x, w, anchor=3), "outside of the window"),
        (lambda fn, types, x, w: fn.filter(x, w, dtype=types.INT16), "must be FLOAT or"),
        (lambda fn, types, x, w: fn.filter(x, fn.cast(w, dtype=types.FLOAT64)), "must be float32"),
        (lambda fn, types, x, w: fn.filter(fn.cast(x, dtype=types.INT32), w), "INT32"),
        (lambda fn, types, x, w: fn.filter(x[:2], w, mode="valid"), "doesn't fit"),
        (lambda fn, types, x, w: fn.filter(x, w, border="mirror"), "border"),
    ]
    for graph, match in calls:
        refused_by_both(graph, image, window, layouts=["HWC"], match=match)
