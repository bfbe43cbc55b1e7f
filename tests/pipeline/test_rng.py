"""Random numbers without a generator: they are those of NumPy's generator."""

from __future__ import annotations

import numpy as np
import pytest

from dali_proxy.pipeline._rng import BatchKey, RandomState
from pipeline import _rng

STATES = (RandomState(1, 0, BatchKey()), RandomState(-5, 1 << 40, BatchKey(epoch=3, iteration=1 << 33, view=1)))


@pytest.mark.parametrize("shape", [0, 1, 3, 4, (7, 3), (5000,)])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_numbers_are_those_of_the_generator(
    state: RandomState, shape: int | tuple[int, ...], is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_compiled:
        monkeypatch.setattr(_rng, "_compiled", None)
    elif _rng._compiled is None:
        pytest.skip("needs the C module")
    numbers = state.numbers
    words = numbers.generator().integers(0, 1 << 64, shape, np.uint64)
    np.testing.assert_array_equal(numbers.words(shape), words, strict=True)
    np.testing.assert_array_equal(numbers.uniform(shape), numbers.generator().random(shape), strict=True)
