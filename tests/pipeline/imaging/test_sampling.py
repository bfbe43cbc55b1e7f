"""Linear interpolation at any positions: the compiled loop has the bits of NumPy's version."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dali_proxy.pipeline._imaging import sampling

compiled = pytest.mark.skipif(sampling.compiled is None, reason="needs the C module")


def positions_around(shape: tuple[int, ...], size: tuple[int, ...]) -> list[npt.NDArray[np.float64]]:
    rng = np.random.default_rng(0)
    positions = [rng.uniform(-3, extent + 3, size) for extent in shape]
    positions[-1].flat[:4] = [np.nan, np.inf, -np.inf, 1e300]
    return positions


@compiled
@pytest.mark.parametrize("fill", [None, 0.0, 50.0])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int16, np.float64, np.bool_])
@pytest.mark.parametrize(("shape", "size"), [((5, 6, 7, 1), (4, 5, 6)), ((5, 6, 7, 2), (4, 5, 6)), ((9, 8, 3), (7, 6))])
def test_compiled_loop_has_the_bits_of_numpy(
    shape: tuple[int, ...], size: tuple[int, ...], dtype: Any, fill: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = (np.random.default_rng(1).normal(size=shape) * 100).astype(dtype)
    positions = positions_around(shape[:-1], size)
    with np.errstate(all="ignore"):
        made = sampling.linear_at(image, positions, fill)
        monkeypatch.setattr(sampling, "compiled", None)
        expected = sampling.linear_at(image, positions, fill)
    np.testing.assert_array_equal(made.view(np.uint32), expected.view(np.uint32))


@compiled
def test_arrays_that_do_not_fit_are_refused() -> None:
    assert sampling.compiled is not None
    image, target = np.zeros((2, 2, 1), np.float32), np.zeros(4, np.float32)
    good = np.zeros((2, 4))
    for positions, fill, to in [
        (np.zeros((3, 4)), b"", target),
        (np.zeros((2, 5)), b"", target),
        (good.astype(np.float32), b"", target),
        (good, b"12", target),
        (good, b"", np.zeros(4)),
    ]:
        with pytest.raises(ValueError, match="don't fit each other"):
            sampling.compiled.sample_linear(image, positions, fill, to)
