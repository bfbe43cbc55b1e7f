"""NumPy references of the kernels, written from DALI's observable behaviour, not from the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.types import DALIInterpType

_RADIUS = {
    DALIInterpType.INTERP_LINEAR: 1.0,
    DALIInterpType.INTERP_TRIANGULAR: 1.0,
    DALIInterpType.INTERP_CUBIC: 2.0,
    DALIInterpType.INTERP_LANCZOS3: 3.0,
    DALIInterpType.INTERP_GAUSSIAN: 1.0,
}


def cast(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Cast as DALI does: nearest with halves away from zero, then clamp; NaN to 0; bool is "rounded is nonzero"."""
    kind = np.dtype(dtype)
    with np.errstate(all="ignore"):
        if kind == values.dtype or kind.kind == "f":
            return values.astype(kind)
        real = values.dtype.kind == "f"
        if real:
            wide = values.astype(np.float64)
            values = np.copysign(np.floor(np.abs(wide) + 0.5), wide)
            near = np.abs(wide) == np.nextafter(0.5, 0)
            values[near] = 0
        if kind.kind == "b":
            return values != 0
        limits = np.iinfo(kind)
        result = np.empty(values.shape, kind)
        flat = result.reshape(-1)
        for index, value in enumerate(values.reshape(-1).tolist()):
            if value != value:
                flat[index] = 0
            else:
                flat[index] = limits.max if value >= limits.max else limits.min if value <= limits.min else int(value)
        return result


def weights(
    begin: float, end: float, extent: int, out: int, filter: DALIInterpType, antialias: bool
) -> npt.NDArray[np.float64]:
    """Return the (out, extent) matrix of one axis of a resize."""
    matrix = np.zeros((out, extent))
    scale = (end - begin) / out
    width = max(1.0, abs(scale)) if antialias else 1.0
    for i in range(out):
        center = begin + (i + 0.5) * scale
        if filter == DALIInterpType.INTERP_NN:
            matrix[i, min(max(int(np.floor(center)), 0), extent - 1)] = 1
            continue
        radius = _RADIUS[filter] * width
        taps = np.arange(int(np.floor(center - radius)) - 1, int(np.ceil(center + radius)) + 2)
        values = _kernel((taps + 0.5 - center) / width, filter)
        np.add.at(matrix[i], np.clip(taps, 0, extent - 1), values / values.sum())
    return matrix


def _kernel(x: npt.NDArray[np.float64], filter: DALIInterpType) -> npt.NDArray[np.float64]:
    """Evaluate DALI's filters: tables of 32 steps per pixel; the Gaussian's left edge counts, its right one doesn't."""
    steps = np.arange(97) / 32
    if filter == DALIInterpType.INTERP_CUBIC:
        near, far = 1.5 * steps**3 - 2.5 * steps**2 + 1, -0.5 * steps**3 + 2.5 * steps**2 - 4 * steps + 2
        return np.interp(np.abs(x), steps, np.where(steps < 1, near, np.where(steps < 2, far, 0)))
    if filter == DALIInterpType.INTERP_LANCZOS3:
        return np.interp(np.abs(x), steps, np.sinc(steps) * np.sinc(steps / 3) * (steps < 3))
    if filter == DALIInterpType.INTERP_GAUSSIAN:
        return np.interp(np.abs(x), steps, np.exp(-4 * steps**2)) * ((x > -1.00001) & (x < 0.99999))
    return np.maximum(0, 1 - np.abs(x))


def resize(
    image: npt.NDArray[Any],
    size: tuple[int, int],
    roi: npt.ArrayLike | None = None,
    filter: DALIInterpType = DALIInterpType.INTERP_LINEAR,
    antialias: bool = True,
) -> npt.NDArray[np.float64]:
    """Resize an HWC image, in float64."""
    height, width = image.shape[:2]
    y0, x0, y1, x1 = (0, 0, height, width) if roi is None else np.asarray(roi, np.float64)
    rows = weights(y0, y1, height, size[0], filter, antialias)
    columns = weights(x0, x1, width, size[1], filter, antialias)
    return np.asarray(np.einsum("ay,yxc,bx->abc", rows, image.astype(np.float64), columns, optimize=True))
