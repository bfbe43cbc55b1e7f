"""The types of NumPy's arrays, by the dtype of their elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]
