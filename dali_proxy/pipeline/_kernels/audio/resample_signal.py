"""Launcher of resample_signal.cu: resamples signals, in one launch per batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Float32s, Float64s
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.samples import Samples

#: Outputs of a thread, for each of which its block would load the table.
_OUTPUTS = 4
#: Most entries of a filter that fit into shared memory: of the weights, and of the slopes.
_MOST_SHARED = 5120
Filter = tuple[Float32s, Float32s]

#: struct Signal of resample_signal.cu.
_SIGNAL = np.dtype(
    [*[("src", ADDRESS), ("dst", ADDRESS)], *((name, "i8") for name in ("length", "outputs", "channels", "filter")),
     *((name, "f8") for name in ("scale", "gain", "offset")), *((name, "i4") for name in ("phases", "taps", "copies"))],
    align=True,
)  # fmt: skip


def plan_resample_signal(
    src: Samples, dst: Samples, scales: Float64s, *, gain: float, offset: float, filters: Sequence[Filter]
) -> Launch | None:
    """Return the launch, or None if the output is empty.

    Args:
        src: contiguous signals, (length,) or (length, channels).
        dst: contiguous signals of the new lengths; integers are rounded and clamped.
        scales: outputs per input, (N,).
        gain: factor from the range of `src` to that of `dst`.
        offset: added after that.
        filters: filter of each signal: weights of the inputs around an output, (phases, taps), and their differences to
            those of the next phase. Signals of the same object share memory.
    """
    table = np.zeros(len(src), _SIGNAL)
    table["src"], table["dst"], table["channels"] = src.pointers, dst.pointers, 1
    table["length"], table["outputs"], table["scale"] = src.shapes[:, 0], dst.shapes[:, 0], scales
    if src.ndim > 1:
        table["channels"] = src.shapes[:, 1]
    table["gain"], table["offset"] = gain, offset
    table["copies"] = (scales == 1) & (src.shapes[:, 0] == dst.shapes[:, 0])
    distinct = list({id(each): each for each in filters}.values())
    starts = np.cumsum([0, *(weights.size for weights, _ in distinct)])
    positions = {id(each): int(start) for each, start in zip(distinct, starts, strict=False)}
    table["filter"] = [positions[id(each)] for each in filters]
    table["phases"], table["taps"] = np.transpose([weights.shape for weights, _ in filters])
    most = int((table["outputs"] * table["channels"]).max())
    if not most:
        return None
    # Rows in shared memory have another element, so that neighbouring threads read from different banks.
    entries = max(phases * (taps + 1) for phases, taps in (weights.shape for weights, _ in distinct))
    defines = (
        ("IN", ctype(src.dtype)),
        ("OUT", ctype(dst.dtype)),
        ("SHARED", str(entries if entries <= _MOST_SHARED else 0)),
        ("SCALED", str(int(gain != 1 or offset != 0))),
    )
    weights, slopes = (np.concatenate([each.ravel() for each in parts]) for parts in zip(*distinct, strict=True))
    tables = (table, weights, slopes)
    return Launch(
        "audio/resample_signal.cu", "resample_signal", defines, tables, (blocks_for(most, _OUTPUTS), len(src))
    )
