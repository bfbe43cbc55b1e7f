"""Loops over pixels, compiled from `_native.c`."""

from typing import Any

import numpy.typing as npt

_Array = npt.NDArray[Any]

def resample(
    source: _Array,
    target: _Array,
    row_first: _Array,
    row_weights: _Array,
    column_first: _Array,
    column_weights: _Array,
    /,
) -> None: ...
def normalize(source: _Array, target: _Array, mirror: bool, gains: bytes, offsets: bytes, /) -> None: ...
