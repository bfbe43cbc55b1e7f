"""Choices between expressions of the same pixels."""

from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.pixel_choices import PixelChoices
from dali_proxy.pipeline._kernels.samples import Samples


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("count", [3, 300])
def test_choices_are_the_rows_of_the_chosen_expressions(count: int, in_memory: bool) -> None:
    table, _ = Samples.packed(1 << 20, np.full((count, 3), (4, 5, 3)), np.uint8)
    source = PixelExpression.from_samples(table, "HWC")
    assert source is not None
    images = source if in_memory else source.normalize(2.0, 1.0, np.dtype(np.float32))
    first = np.arange(3 * count).reshape(count, 3)
    step, extents = np.array([1, 1, -1]), images.extents
    options = [images.window(first * sign, step if in_memory else step[None], extents, None) for sign in (1, -1, 2)]
    numbers = np.random.default_rng(0).integers(0, len(options), count).astype(np.uint8)
    chosen = PixelChoices(options, images).choose(numbers, images)
    for sample, number in enumerate(numbers.tolist()):
        assert chosen.rows[sample].tobytes() == options[number].rows[sample].tobytes()
