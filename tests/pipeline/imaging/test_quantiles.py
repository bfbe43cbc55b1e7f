"""Standard normal numbers from uniform ones: accuracy, tails, and the bits of NumPy and C."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import quantiles as module
from dali_proxy.pipeline._imaging.quantiles import normal_quantiles

UNIT = 2.0**-53


def uniform_numbers() -> Any:
    """Return random multiples of 2**-53, and those at the ends of each formula."""
    drawn = np.random.Generator(np.random.Philox(3)).random(3000)
    ends = [np.floor(end / UNIT) * UNIT + np.arange(-9, 10) * UNIT for end in (0.075, 0.5, 0.925, np.exp(-25.0))]
    smallest = np.arange(40) * UNIT
    return np.concatenate([drawn, drawn[:500] * 2.0**-20 // UNIT * UNIT, *ends, smallest, 1 - UNIT - smallest])


@pytest.mark.skipif(module.compiled is None, reason="needs the C module")
def test_bits_of_c_are_those_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = uniform_numbers()
    compiled = normal_quantiles(numbers.copy())
    monkeypatch.setattr(module, "compiled", None)
    np.testing.assert_array_equal(compiled.view(np.int64), normal_quantiles(numbers.copy()).view(np.int64))


def test_quantiles_are_those_of_the_normal_distribution() -> None:
    numbers = uniform_numbers()
    lower = numbers[numbers < 0.25]  # the center of the interval is a float64, too
    expected = [NormalDist().inv_cdf(number + UNIT / 2) for number in lower.tolist()]
    np.testing.assert_allclose(normal_quantiles(lower.copy()), expected, rtol=1e-15)
    near = normal_quantiles(np.array([[0.5, 0.75], [0.875, 0.925]]))
    np.testing.assert_allclose(near, [[0.0, 0.6744897501960817], [1.1503493803760083, 1.4395314709384563]], atol=4e-16)


def test_quantiles_are_symmetric_and_finite() -> None:
    numbers = uniform_numbers()
    quantiles = normal_quantiles(numbers.copy())
    np.testing.assert_array_equal(normal_quantiles(1 - UNIT - numbers), -quantiles)
    assert quantiles.min() == -quantiles.max() == pytest.approx(-8.292361075813595, abs=0)
    assert np.all(quantiles != 0)
    assert np.all(np.diff(normal_quantiles(np.sort(numbers))) >= 0)
