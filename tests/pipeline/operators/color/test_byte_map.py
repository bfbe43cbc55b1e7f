"""Equalization compared with NVIDIA DALI, and the maps of automatic augmentation with their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._graph import apply_operator
from dali_proxy.pipeline._imaging.byte_map import histograms, look_up
from tests.pipeline.operators.both import Array, compare, refused_by_both, run_ours, sample_images

EXTENTS = {"F": 3, "C": 3}


def batch(layout: str) -> list[Array]:
    shapes = [[EXTENTS.get(letter, 10 + 7 * number + 3 * (letter == "W")) for letter in layout] for number in range(3)]
    images = sample_images(*map(tuple, shapes), high=180)
    images[1][:] //= 40
    images[2][:] = 77
    return images


@pytest.mark.parity
@pytest.mark.parametrize("layout", ["HW", "HWC", "CHW", "FHW", "FHWC", "FCHW"])
def test_equalize(layout: str) -> None:
    def graph(fn: Any, types: Any, x: Any) -> Any:
        return fn.equalize(x), fn.experimental.equalize(fn.flip(x) if "C" in layout else x)

    compare(graph, batch(layout), layouts=[layout])


@pytest.mark.parity
@pytest.mark.parametrize(("dtype", "layout", "match"), [("float32", "HWC", "UINT8"), ("uint8", "DHW", "DHW")])
def test_equalize_refuses_wrong_samples(dtype: str, layout: str, match: str) -> None:
    feed = [np.zeros((4, 4, 3), dtype)]
    refused_by_both(lambda fn, types, x: fn.equalize(x), feed, layouts=[layout], match=match)


@pytest.mark.parametrize(
    ("operation", "parameters", "expected"),
    [
        ("invert", [0, 0, 0], lambda v, p: 255 - v),
        ("posterize", [224, 128, 255], lambda v, p: v & p),
        ("solarize", [100, 0, 256], lambda v, p: np.where(v < p, v, 255 - v)),
        ("solarize_add", [110, 0, 60], lambda v, p: np.where(v < 128, np.minimum(v + p, 255), v)),
    ],
)
def test_maps_of_a_parameter(operation: str, parameters: list[int], expected: Any) -> None:
    feed = sample_images((9, 8, 3), (4, 300, 3), (1, 1, 3))
    arrays = [np.array(parameter, np.int32) for parameter in parameters]

    def graph(fn: Any, types: Any, x: Any, parameter: Any) -> Any:
        return apply_operator("byte_map", (x[:, ::-1],), {"operation": operation, "parameter": parameter})

    (output,) = run_ours(graph, feed, arrays, layouts=["HWC"])
    for image, parameter, result in zip(feed, parameters, output.samples, strict=True):
        assert np.array_equal(result, expected(image[:, ::-1].astype(np.int64), parameter).astype(np.uint8))


def test_counts_of_tall_images_add_up() -> None:
    image = np.zeros((5, 1 << 22, 1), np.uint8)
    image[:3] = 9
    assert histograms(image)[0, [0, 9]].tolist() == [2 << 22, 3 << 22]


def test_tables_of_channels_on_any_memory() -> None:
    image = sample_images((7, 6, 3))[0]
    tables = sample_images((3, 256))[0]
    expected = np.stack([tables[channel][image[..., channel]] for channel in range(3)], axis=-1)
    for view, target in ((image, expected), (image.transpose(1, 0, 2), expected.transpose(1, 0, 2))):
        assert np.array_equal(look_up(view, tables, np.empty(view.shape, np.uint8)), target)
