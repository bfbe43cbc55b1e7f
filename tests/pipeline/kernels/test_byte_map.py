"""Tables for bytes against those of the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging.byte_map import (
    auto_contrast_tables,
    contrast_tables,
    equalization_tables,
    histograms,
    look_up,
)
from dali_proxy.pipeline._kernels.byte_map import CountedMap, Rule
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline.errors import PipelineError

SHAPES = ((17, 9, 3), (40, 41, 3), (1, 1, 3), (0, 4, 3), (6, 5, 3))


def feed(channels: int = 3) -> list[Any]:
    rng = np.random.default_rng(5)
    made = [rng.integers(10, 200, (*shape[:2], channels)).astype(np.uint8) for shape in SHAPES]
    made[1] = made[1] // 30 * 20
    made[4][..., 0] = 77
    return made


def test_given_tables(runner: Any) -> None:
    tables = np.random.default_rng(6).integers(0, 256, (len(SHAPES), 256)).astype(np.uint8)
    images = feed()
    made = [np.zeros_like(image) for image in images]
    runner.evaluate(images, made, lambda pixels: pixels.lookup(tables))
    for image, result, table in zip(images, made, tables, strict=True):
        assert np.array_equal(result, table[image])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("rule", Rule)
def test_counted_tables(runner: Any, rule: Rule, channels: int) -> None:
    images, factors = feed(channels), np.array([0.3, 1.7, 0.5, 1.0, 2.0])
    made = [np.zeros_like(image) for image in images]
    runner.map_counted_bytes(images, made, rules=rule, factors=factors)
    for image, result, factor in zip(images, made, factors, strict=True):
        if not image.size:
            continue
        counts = histograms(image)
        tables = {
            Rule.EQUALIZATION: lambda c, f: equalization_tables(c),
            Rule.AUTO_CONTRAST: lambda c, f: auto_contrast_tables(c),
            Rule.CONTRAST: contrast_tables,
        }[rule](counts, factor)
        expected = look_up(image, tables, np.empty_like(image)).astype(int)
        # A fused multiply-add may round a tie to the other side.
        assert np.abs(result.astype(int) - expected).max() <= (1 if rule is Rule.CONTRAST else 0)


def test_images_must_fit() -> None:
    with pytest.raises(PipelineError, match="images of bytes"):
        CountedMap(Samples.from_arrays([np.zeros((3, 4, 2))]), Rule.EQUALIZATION)
    with pytest.raises(PipelineError, match="not 1 dimensions"):
        CountedMap(Samples.from_arrays([np.zeros(3, np.uint8)]), Rule.EQUALIZATION)
    with pytest.raises(PipelineError, match="1 or 3 channels"):
        CountedMap(Samples.from_arrays([np.zeros((3, 4, 2), np.uint8)]), Rule.CONTRAST)
