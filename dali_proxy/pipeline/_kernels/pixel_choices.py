"""Expressions of the same pixels, one of which is chosen for each sample, such as mirrored images and others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.rows import as_bytes, as_rows


class PixelChoices:
    """Expressions, made of `source`, of one kind and with the same extents, which differ only in their rows."""

    def __init__(self, options: Sequence[PixelExpression], source: PixelExpression) -> None:
        self._first = options[0]
        assert all(option.kind == self._first.kind for option in options)
        parts = list(zip(*[option.parts for option in options], strict=True))
        #: Number of parts that are the source's.
        self._below = len(source.parts)
        if any(own is not below for (_, own), (_, below) in zip(self._first.parts, source.parts, strict=False)):
            self._below = 0  # a window of memory changes its addresses
        #: Of the others: offset, dtype, and the rows of each option, or those of all.
        self._parts = [
            (begin, own.dtype, np.stack([as_bytes(rows) for _, rows in of_options]), own)
            for ((begin, own), *_), of_options in zip(parts[self._below :], parts[self._below :], strict=True)
        ]
        self._samples = np.arange(len(self._first))

    def choose(self, numbers: npt.NDArray[np.integer], pixels: PixelExpression) -> PixelExpression:
        """Return for each sample the pixels of the expression with its number, (N,); the source may have other rows."""
        parts = [
            (begin, own if (rows[0] == rows).all() else as_rows(rows[numbers, self._samples], kind))
            for begin, kind, rows, own in self._parts
        ]
        return self._first.with_parts((*pixels.parts[: self._below], *parts), pixels.owners)
