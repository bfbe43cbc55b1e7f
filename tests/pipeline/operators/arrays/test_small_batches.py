"""Operators that process small samples of one shape in one call compute the same bits as sample by sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import OperatorError
from pipeline.tensors import TensorListCPU
from tests.pipeline.operators.both import Array, run_ours

RANDOM = np.random.default_rng(5)
SIZE = 7


def floats(*shape: int) -> list[Array]:
    return list(RANDOM.normal(size=(SIZE, *shape)).astype(np.float32))


def integers(low: int, high: int, *shape: int) -> list[Array]:
    return list(RANDOM.integers(low, high, (SIZE, *shape)).astype(np.int32))


FLAGS, BOXES, NUMBERS = integers(0, 2), floats(5, 4), floats(9, 3)
CALLS: dict[str, tuple[Any, list[list[Array]]]] = {
    "bb_flip": (lambda fn, types, x, flag: fn.bb_flip(x, horizontal=flag, vertical=1), [BOXES, FLAGS]),
    "bb_flip of one box": (lambda fn, types, x, flag: fn.bb_flip(x, horizontal=flag, ltrb=True), [floats(4), FLAGS]),
    "coord_flip": (lambda fn, types, x, flag: fn.coord_flip(x, flip_y=flag, center_y=0.3), [floats(6, 2), FLAGS]),
    "coord_transform": (
        lambda fn, types, x, m, t: fn.coord_transform(x, M=m, T=t),
        [NUMBERS, floats(2, 3), floats(2)],
    ),
    "coord_transform, MT": (lambda fn, types, x, m: fn.coord_transform(x, MT=m), [floats(2, 5, 2), floats(3, 3)]),
    "coord_transform, scalars": (
        lambda fn, types, x, m, t: fn.coord_transform(x, M=m, T=t),
        [NUMBERS, floats(), floats()],
    ),
    "coord_transform, bytes": (
        lambda fn, types, x, m: fn.coord_transform(fn.cast(x, dtype=types.UINT8), M=m, dtype=types.UINT8),
        [integers(0, 255, 8, 3), floats(3, 3)],
    ),
    "full": (lambda fn, types, x: fn.full(x, shape=(4, 3)), [floats(3)]),
    "full of more dimensions": (lambda fn, types, x: fn.full(x, shape=(3,)), [floats(1, 1, 3)]),
    "full_like": (lambda fn, types, x, y: fn.full_like(x, y), [integers(0, 9, 4, 2, 3), floats(2, 1)]),
    "one_hot": (lambda fn, types, x: fn.one_hot(x, num_classes=6), [integers(-2, 8)]),
    "one_hot, axis": (
        lambda fn, types, x: fn.one_hot(x, num_classes=6, axis=1, on_value=3, off_value=-1, dtype=types.INT32),
        [integers(-2, 8, 4, 5)],
    ),
    "one_hot of floats": (lambda fn, types, x: fn.one_hot(x, num_classes=2), [floats(11)]),
    "one_hot without classes": (lambda fn, types, x: fn.one_hot(x, num_classes=0), [integers(0, 2, 3)]),
    "lookup_table": (
        lambda fn, types, x: fn.lookup_table(x, keys=[1, 3], values=[0.5, 7], default_value=-1),
        [integers(-3, 8, 6)],
    ),
    "lookup_table and cast": (
        lambda fn, types, x: fn.cast(fn.lookup_table(x, keys=[1], values=[700], default_value=-2.5), dtype=types.UINT8),
        [integers(0, 3, 6)],
    ),
    "cast_like": (lambda fn, types, x, y: fn.cast_like(x, y), [floats(6), integers(0, 3)]),
    "arithmetic": (lambda fn, types, x, y: (x * 2 + y) / 3 - 1, [floats(4, 3), integers(0, 9, 3)]),
    "comparison": (lambda fn, types, x, y: (x > y) & (x < 1), [floats(4, 3), floats()]),
    "rotation": (lambda fn, types, x, y: fn.transforms.rotation(angle=x, center=y), [floats(), floats(2)]),
    "combine": (lambda fn, types, x, y: fn.transforms.combine(x, y), [floats(2, 3), floats(2, 3)]),
    "random_crop_generator": (
        lambda fn, types, x: tuple(fn.random_crop_generator(x, seed=3)),
        [integers(90, 200, 3)],
    ),
    "normal": (lambda fn, types, x: fn.random.normal(mean=x, shape=[3, 2], seed=3), [floats()]),
    "uniform like": (lambda fn, types, x: fn.random.uniform(x, seed=3), [floats(3, 2)]),
}


@pytest.mark.parametrize("name", CALLS)
def test_one_call_computes_the_same_as_a_call_per_sample(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, feeds = CALLS[name]
    found = run_ours(graph, *feeds)
    monkeypatch.setattr(TensorListCPU, "small_array", lambda batch: None)
    for output, expected in zip(found, run_ours(graph, *feeds), strict=True):
        assert output.layout == expected.layout
        for sample, wanted in zip(output.samples, expected.samples, strict=True):
            assert sample.dtype == wanted.dtype
            np.testing.assert_array_equal(sample, wanted, strict=True)


def test_small_array_is_a_copy_of_small_samples_of_one_shape_only() -> None:
    dense = np.zeros((3, 2))
    assert TensorListCPU(dense).small_array() is dense
    stacked = TensorListCPU([np.float32(1), np.float32(2)]).small_array()
    assert stacked is not None
    assert stacked.tolist() == [1, 2]
    assert TensorListCPU([np.zeros((2, 3)), np.zeros((2, 4))]).small_array() is None
    assert TensorListCPU([np.zeros((0, 3)), np.zeros((2, 3))]).small_array() is None
    assert TensorListCPU([np.zeros(1 << 20, np.uint8)] * 2).small_array() is None
    assert TensorListCPU([]).small_array() is None


def test_shapes_that_cannot_be_broadcast_name_the_first_sample() -> None:
    samples = [np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((4, 3))]
    others = [np.zeros((1, 3)), np.zeros((2, 1)), np.zeros((2, 1))]
    with pytest.raises(OperatorError, match=r"\(4, 3\) and \(2, 1\) of sample 2 can't be broadcast"):
        run_ours(lambda fn, types, x, y: x + y, samples, others)
