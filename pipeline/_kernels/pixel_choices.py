"""Expressions of the same pixels, one of which is chosen for each sample, such as mirrored images and others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline._kernels.expression import PixelExpression
from pipeline._kernels.rows import as_bytes, as_rows

__all__ = ["PixelChoices"]


class PixelChoices:
    """Expressions that differ only in their rows.

    Args:
        options: the expressions, of one kind and with the same extents.
    """

    def __init__(self, options: Sequence[PixelExpression]) -> None:
        self._first = options[0]
        assert all(option.kind == self._first.kind for option in options)
        self._rows = np.stack([as_bytes(option.rows) for option in options])
        self._samples = np.arange(len(self._first))

    def choose(self, numbers: npt.NDArray[np.integer]) -> PixelExpression:
        """Return for each sample the pixels of one of the expressions, given their numbers, (N,)."""
        return self._first.replaced(rows=as_rows(self._rows[numbers, self._samples], self._first.rows.dtype))
