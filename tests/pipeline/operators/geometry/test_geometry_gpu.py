"""Pad, paste, erase and warps on the GPU compared with their CPU implementations, for ragged batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import difference, run_ours, sample_images

pytestmark = pytest.mark.gpu

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64")
EXTENTS = ({"H": 17, "W": 23}, {"H": 31, "W": 12}, {"H": 20, "W": 20})


def feed_of(layout: str, dtype: str) -> list[Any]:
    shapes = [tuple({"C": 3, "D": 5, "F": 2, **extents}[letter] for letter in layout) for extents in EXTENTS]
    return sample_images(*shapes, dtype=dtype, high=100)


def same(graph: Callable[..., Any], feed: list[Any], *values: Any, layout: str | None, tolerance: float = 0.0) -> None:
    """Assert that a graph has equal results on both devices; it takes fn, types, the data and arguments."""
    layouts = [layout]
    here = run_ours(graph, feed, *values, layouts=layouts)
    there = run_ours(
        lambda fn, types, x, *more: graph(fn, types, x.gpu(), *more).cpu(), feed, *values, layouts=layouts, device_id=0
    )
    assert here[0].layout == there[0].layout
    for ours, theirs in zip(here[0].samples, there[0].samples, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        assert difference(ours, theirs) <= tolerance


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
def test_pad(dtype: str) -> None:
    feed = feed_of("HWC", "uint8" if dtype == "bool" else dtype)
    feed = [sample.astype(dtype) for sample in feed]
    same(lambda fn, _, x: fn.pad(x, fill_value=7.75), feed, layout="HWC")
    same(lambda fn, _, x: fn.pad(x, axes=[1, 0], shape=[1, 40], align=[16, 1]), feed, layout="HWC")


@pytest.mark.parametrize("layout", ["HWC", "CHW", "FHWC", "FDHWC"])
def test_pad_per_sample(layout: str) -> None:
    axes = [np.array([1], np.int32), np.array([0, 1], np.int32), np.array([1], np.int32)]
    fill = [np.float32(value) for value in (1, 2.5, 3)]
    feed = feed_of(layout, "float32")
    same(lambda fn, _, x, a, f: fn.pad(x, axes=a, align=8, fill_value=f), feed, axes, fill, layout=layout)


@pytest.mark.parametrize("policy", ["edge", "reflect_1001", "reflect_101", "wrap"])
def test_windows_beyond_the_data_repeat_it(policy: str) -> None:
    feed = feed_of("HWC", "uint8")
    same(lambda fn, _, x: fn.crop(x, crop=(25, 20), out_of_bounds_policy=policy), feed, layout="HWC")
    same(
        lambda fn, types, x: fn.slice(
            x, start=[-9, 3], shape=[60, 5], axes=[0, 1], out_of_bounds_policy=policy, dtype=types.FLOAT
        ),
        feed,
        layout="HWC",
    )


@pytest.mark.parametrize("colour", [[7], [1, 2, 3]])
def test_paste(colour: list[int]) -> None:
    ratio, x, y = ([np.float32(value) for value in row] for row in ((1, 1.7, 3.1), (0, 1, 0.3), (0.5, 0.1, 1)))
    same(
        lambda fn, _, data, r, px, py: fn.paste(data, ratio=r, paste_x=px, paste_y=py, fill_value=colour),
        feed_of("HWC", "uint8"),
        ratio,
        x,
        y,
        layout="HWC",
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_erase(dtype: str) -> None:
    box: dict[str, Any] = {"anchor": [1.6, 2.5, 9, 4], "shape": [5, 6, 30, 3]}
    feed = feed_of("HWC", dtype)
    same(lambda fn, _, x: fn.erase(x, **box, fill_value=3.75), feed, layout="HWC")
    same(lambda fn, _, x: fn.erase(x, **box, fill_value=[1.5, 2.5, 3.75]), feed, layout="HWC")


@pytest.mark.parametrize("layout", ["HWC", "CHW", "FHWC", "FDHWC"])
def test_erase_per_sample(layout: str) -> None:
    generator = np.random.default_rng(5)
    anchor = [generator.random(2 * n).astype(np.float32) for n in (1, 3, 2)]
    shape = [generator.random(2 * n).astype(np.float32) for n in (1, 3, 2)]
    fill = [generator.uniform(0, 100, n).astype(np.float32) for n in (3, 1, 3)]
    same(
        lambda fn, _, x, a, s, f: fn.erase(x, anchor=a, shape=s, fill_value=f, normalized=True, axis_names="WH"),
        feed_of(layout, "uint8"),
        anchor,
        shape,
        fill,
        layout=layout,
    )


AXIS = {"axis": [1, 2, 3]}
#: The CPU adds in a different order, so rounded values may differ by 1.
WARPED = {"f": 2e-2, "u": 1.0, "i": 1.0}


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "float16", "float32"])
@pytest.mark.parametrize("layout", ["HWC", "FHWC", "DHWC", "FDHWC"])
def test_rotate(dtype: str, layout: str) -> None:
    axis = AXIS if "D" in layout else {}
    tolerance = 0.1 if dtype == "float16" else WARPED[np.dtype(dtype).kind]
    angles = [np.float32(value) for value in (31.5, -200, 77)]
    for arguments in ({}, {"fill_value": 9.5}, {"keep_size": True}, {"size": [5] * (2 + len(axis))}):
        same(
            lambda fn, _, x, a, more=arguments: fn.rotate(x, angle=a, **axis, **more),
            feed_of(layout, dtype),
            angles,
            layout=layout,
            tolerance=tolerance,
        )


@pytest.mark.parametrize("target", ["UINT8", "FLOAT", "FLOAT16", "INT16"])
def test_warp_affine(target: str) -> None:
    generator = np.random.default_rng(1)
    matrices = [(np.eye(2, 3) + generator.normal(size=(2, 3)) / 3).astype(np.float32) for _ in EXTENTS]
    tolerance = {"FLOAT": 2e-2, "FLOAT16": 0.1}.get(target, 1.0)
    for inverse in (True, False):
        same(
            lambda fn, types, x, m, i=inverse: fn.warp_affine(
                x, m, inverse_map=i, size=[20, 30], dtype=getattr(types, target)
            ),
            feed_of("HWC", "uint8"),
            matrices,
            layout="HWC",
            tolerance=tolerance,
        )
    same(
        lambda fn, types, x, m: fn.warp_affine(x, matrix=m, interp_type=types.INTERP_NN, fill_value=3),
        feed_of("HWC", "uint8"),
        matrices,
        layout="HWC",
    )


def test_matrices_on_the_gpu() -> None:
    matrices = [np.float32([[1, 0.1, number], [0, 1, 2]]) for number in range(3)]

    def graph(fn: Any, _: Any, x: Any, m: Any) -> Any:
        return fn.warp_affine(x, m.gpu() if x.device == "gpu" else m)

    same(graph, feed_of("HWC", "uint8"), matrices, layout="HWC", tolerance=1.0)
