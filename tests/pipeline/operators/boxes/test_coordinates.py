"""Linear maps of coordinates against NVIDIA DALI: float32 sums of a few products, within 1e-6 of numbers around 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import Array, compare, refused_by_both, run_ours


def floats(*shapes: tuple[int, ...], seed: int = 0) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.random(shape).astype(np.float32) for shape in shapes]


FLAGS = [np.array(number, np.int32) for number in (0, 1, -1)]
BOXES = floats((3, 4), (1, 4), (0, 4))
POINTS = floats((5, 2), (1, 2), (0, 2))
CALLS: dict[str, tuple[Any, list[Array]]] = {
    "boxes": (lambda fn, types, x, flag: fn.bb_flip(x), BOXES),
    "boxes, ltrb": (lambda fn, types, x, flag: fn.bb_flip(x, ltrb=True, vertical=1), BOXES),
    "boxes, flags": (lambda fn, types, x, flag: fn.bb_flip(x, horizontal=flag, vertical=flag), BOXES),
    "boxes, ltrb, flags": (lambda fn, types, x, flag: fn.bb_flip(x, ltrb=True, horizontal=0, vertical=flag), BOXES),
    "a box a sample": (lambda fn, types, x, flag: fn.bb_flip(x), floats((4,), (4,), (4,))),
    "points": (lambda fn, types, x, flag: fn.coord_flip(x), POINTS),
    "points, yx": (lambda fn, types, x, flag: fn.coord_flip(x, layout="yx", flip_y=flag, center_y=2.0), POINTS),
    "points in space": (
        lambda fn, types, x, flag: fn.coord_flip(x, flip_z=flag, center_z=-1.5),
        floats((4, 3), (1, 3), (2, 3)),
    ),
    "identity": (lambda fn, types, x, flag: fn.coord_transform(x), POINTS),
    "scalars": (lambda fn, types, x, flag: fn.coord_transform(x, M=2.0, T=1.0), POINTS),
    "matrix": (lambda fn, types, x, flag: fn.coord_transform(x, M=[1, 2, 3, 4, 5, 6], T=[10, 20, 30]), POINTS),
    "to a line": (lambda fn, types, x, flag: fn.coord_transform(x, M=[1, 2]), POINTS),
    "both": (lambda fn, types, x, flag: fn.coord_transform(x, MT=[1, 2, 3, 4, 5, 6]), POINTS),
    "both, a scalar": (lambda fn, types, x, flag: fn.coord_transform(x, MT=2.0), POINTS),
    "matrices": (lambda fn, types, x, flag: fn.coord_transform(x, M=fn.transforms.rotation(angle=30.0)[:, :2]), POINTS),
    "more dimensions": (
        lambda fn, types, x, flag: fn.coord_transform(x, T=[1, 2, 3]),
        floats((2, 4, 3), (1, 5, 3), (2, 2, 3)),
    ),
    "integers": (
        lambda fn, types, x, flag: fn.coord_transform(fn.cast(x * 99, dtype=types.INT16), M=1.5, dtype=types.INT16),
        POINTS,
    ),
    "integers to real": (
        lambda fn, types, x, flag: fn.coord_transform(fn.cast(x * 99, dtype=types.UINT8), M=1.5),
        POINTS,
    ),
}


@pytest.mark.parity
@pytest.mark.parametrize("call", CALLS)
def test_coordinates_are_those_of_dali(call: str) -> None:
    graph, feed = CALLS[call]
    compare(lambda *args: (graph(*args), args[-1]), feed, FLAGS, tolerance=0 if call == "integers" else 2e-5)


@pytest.mark.parametrize("counts", [(2, 2), (3, 1)])
def test_flipping_boxes_in_pixels_is_warned_of(counts: tuple[int, int], recwarn: pytest.WarningsRecorder) -> None:
    boxes = floats(*((count, 4) for count in counts))
    run_ours(lambda fn, types, x: fn.bb_flip(x), [2 * each - 1 for each in boxes])
    assert not recwarn
    with pytest.warns(UserWarning, match="from 0 to 1. Divide boxes in pixels"):
        run_ours(lambda fn, types, x: fn.bb_flip(x), [50 * each for each in boxes])


@pytest.mark.parity
@pytest.mark.parametrize(
    ("graph", "match"),
    [
        (lambda fn, types, x: fn.bb_flip(fn.cast(x, dtype=types.FLOAT64)), "must be one of FLOAT"),
        (lambda fn, types, x: fn.coord_flip(x), "at most 3 coordinates"),
        (lambda fn, types, x: fn.coord_flip(x[:, :2], layout="xx"), "at most once"),
        (lambda fn, types, x: fn.coord_transform(x, M=[1, 2, 3]), "isn't a matrix of 4 columns"),
        (lambda fn, types, x: fn.coord_transform(x, T=[1, 2, 3]), "needs 4 values"),
        (lambda fn, types, x: fn.coord_transform(x, MT=2.0, T=1.0), "can't be given together"),
        (lambda fn, types, x: fn.coord_transform(x, dtype=types.INT32), "must be FLOAT or"),
        (lambda fn, types, x: fn.coord_transform(x[0]), "points in rows"),
        (lambda fn, types, x: fn.coord_transform(fn.cast(x, dtype=types.INT64)), "INT64"),
    ],
)
def test_bad_calls_are_refused(graph: Any, match: str) -> None:
    refused_by_both(graph, BOXES[:2], match=match)


@pytest.mark.gpu
@pytest.mark.parametrize("call", CALLS)
def test_gpu_equals_the_cpu(call: str) -> None:
    graph, feed = CALLS[call]
    (here, _), (there, _) = (
        run_ours(lambda fn, types, x, flag: (graph(fn, types, move(x), flag), flag), feed, FLAGS, device_id=0)  # noqa: B023
        for move in (lambda x: x, lambda x: x.gpu())
    )
    for ours, other in zip(here.samples, there.samples, strict=True):
        assert ours.shape == other.shape
        assert ours.dtype == other.dtype
        assert np.allclose(ours.astype(float), other.astype(float), atol=1 if call == "integers" else 2e-5)
