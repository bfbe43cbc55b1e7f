"""GPU versions of operators on arrays, compared with the CPU versions on ragged batches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.operators.both import difference, run_ours, sample_images

pytestmark = pytest.mark.gpu

SHAPES = ((17, 23, 3), (31, 12, 3), (20, 20, 3))


def same(graph: Any, *feeds: Any, layouts: Any = ("HWC",), tolerance: float = 0.0) -> None:
    """Assert that a graph computes the same on both devices, with all inputs on the same device."""

    def on_gpu(fn: Any, types: Any, *data: Any) -> Any:
        made = graph(fn, types, *[value.gpu() for value in data])
        return tuple(value.cpu() for value in made) if isinstance(made, tuple) else made.cpu()

    here = run_ours(graph, *feeds, layouts=layouts)
    there = run_ours(on_gpu, *feeds, layouts=layouts, device_id=0)
    for ours, theirs in zip(here, there, strict=True):
        assert ours.layout == theirs.layout
        for our, their in zip(ours.samples, theirs.samples, strict=True):
            assert our.shape == their.shape
            assert our.dtype == their.dtype
            assert difference(our, their) <= tolerance


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64", "int64"])
def test_reductions(dtype: str) -> None:
    def graph(fn: Any, _: Any, x: Any) -> Any:
        plain = [getattr(fn.reductions, name) for name in ("sum", "min", "max", "mean", "mean_square", "rms")]
        mean = fn.reductions.mean(x, axes=[0, 1])
        return (
            *[reduction(x) for reduction in plain],
            *[reduction(x, axis_names="HW", keep_dims=True) for reduction in plain],
            *[reduction(x, axes=-1) for reduction in plain],
            fn.reductions.variance(x, mean, axes=[0, 1]),
            fn.reductions.std_dev(x, fn.reductions.mean(x), ddof=1),
        )

    same(graph, sample_images(*SHAPES, dtype=dtype, high=100), tolerance=2e-3)


def test_reductions_of_integers() -> None:
    def graph(fn: Any, types: Any, x: Any) -> Any:
        return fn.reductions.sum(x, dtype=types.UINT8), fn.reductions.mean(x, dtype=types.UINT8, axes=[0])

    same(graph, sample_images(*SHAPES))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint64"])
def test_lookup_table(dtype: str) -> None:
    same(
        lambda fn, types, x: tuple(
            fn.lookup_table(x, keys=[0, 3, 90], values=[7, -1.5, 300], default_value=9, dtype=target)
            for target in (types.UINT8, types.FLOAT16, types.INT64)
        ),
        sample_images(*SHAPES, dtype=dtype, high=100),
    )
