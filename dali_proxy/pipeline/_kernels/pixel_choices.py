"""Expressions of the same pixels, one of which is chosen for each sample, such as mirrored images and others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.rows import as_bytes, as_rows, opaque


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
        #: Of the others: offset, and the rows of all options, or those of each, one option after another.
        self._parts: list[tuple[int, Array, Array | None]] = []
        for (begin, own), *others in parts[self._below :]:
            same = all((as_bytes(own) == as_bytes(rows)).all() for _, rows in others)
            rows = None if same else np.concatenate([opaque(own), *[opaque(rows) for _, rows in others]])
            self._parts.append((begin, own, rows))
        self._samples = np.arange(len(self._first))

    def choose(self, numbers: npt.NDArray[np.integer], pixels: PixelExpression) -> PixelExpression:
        """Return for each sample the pixels of the expression with its number, (N,); the source may have other rows."""
        places = np.multiply(numbers, len(self._samples), dtype=np.int64) + self._samples
        parts = [(begin, own if rows is None else as_rows(rows[places], own.dtype)) for begin, own, rows in self._parts]
        return self._first.with_parts((*pixels.parts[: self._below], *parts), pixels.owners)
