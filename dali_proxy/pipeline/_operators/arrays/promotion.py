"""Result dtypes of arithmetic, by the documented rules of DALI.

float X with float Y       the wider float
float X with an integer    float X
signed X with signed Y     the wider one; the same for unsigned
signed X with unsigned Y   signed, twice as wide as Y if Y isn't narrower than X, 64 bits at most
bool with anything         the other one
"""

from __future__ import annotations

from typing import Any

import numpy as np

_Dtype = np.dtype[Any]


def promote(left: _Dtype, right: _Dtype) -> _Dtype:
    """Return the dtype of ``left + right``.

    Example:
        >>> promote(np.dtype("uint8"), np.dtype("int32")), promote(np.dtype("uint32"), np.dtype("int8"))
        (dtype('int32'), dtype('int64'))
    """
    if left == right:
        return left
    kinds = left.kind + right.kind
    if "b" in kinds:
        return right if left.kind == "b" else left
    if left.kind == right.kind:
        return left if left.itemsize > right.itemsize else right
    if "f" in kinds:
        return left if left.kind == "f" else right
    signed, unsigned = (left, right) if left.kind == "i" else (right, left)
    if unsigned.itemsize < signed.itemsize:
        return signed
    return np.dtype(f"i{min(8, 2 * unsigned.itemsize)}")
