"""Launcher of resample_signal.cu: resamples signals, in one launch per batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pipeline._cuda.launch import Launch, blocks_for, ctype
from pipeline._kernels.samples import Samples

__all__ = ["plan_resample_signal"]

#: Outputs of a thread, for each of which its block would load the table.
_OUTPUTS = 4
#: struct Signal of resample_signal.cu.
_SIGNAL = np.dtype(
    [*((name, "i8") for name in ("src", "dst", "length", "outputs", "channels")),
     *((name, "f8") for name in ("scale", "gain", "offset")), ("copies", "i4")],
    align=True,
)  # fmt: skip


def plan_resample_signal(
    src: Samples,
    dst: Samples,
    scales: npt.NDArray[np.float64],
    *,
    gain: float,
    offset: float,
    weights: npt.NDArray[np.float32],
    slopes: npt.NDArray[np.float32],
) -> Launch | None:
    """Return the launch, or None if the output is empty.

    Args:
        src: contiguous signals, (length,) or (length, channels).
        dst: contiguous signals of the new lengths; integers are rounded and clamped.
        scales: outputs per input, (N,).
        gain: factor from the range of `src` to that of `dst`.
        offset: added after that.
        weights: weights of the inputs around an output, (phases, taps).
        slopes: differences of the weights to those of the next phase.
    """
    table = np.zeros(len(src), _SIGNAL)
    table["src"], table["dst"], table["channels"] = src.pointers, dst.pointers, 1
    table["length"], table["outputs"], table["scale"] = src.shapes[:, 0], dst.shapes[:, 0], scales
    if src.ndim > 1:
        table["channels"] = src.shapes[:, 1]
    table["gain"], table["offset"] = gain, offset
    table["copies"] = (scales == 1) & (src.shapes[:, 0] == dst.shapes[:, 0])
    most = int((table["outputs"] * table["channels"]).max())
    if not most:
        return None
    defines = (
        ("IN", ctype(src.dtype)),
        ("OUT", ctype(dst.dtype)),
        ("PHASES", str(len(weights))),
        ("TAPS", str(weights.shape[1])),
        ("SCALED", str(int(gain != 1 or offset != 0))),
    )
    tables = (table, weights, slopes)
    return Launch(
        "audio/resample_signal.cu", "resample_signal", defines, tables, (blocks_for(most, _OUTPUTS), len(src))
    )
