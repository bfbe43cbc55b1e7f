"""Launcher of nv12.cu: converts frames of GPU video decoders to pixels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch, blocks_for, ctype
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import PipelineError


def plan_nv12_to_pixels(
    luma: Samples, chroma: Samples, dst: Samples, matrix: npt.ArrayLike, left: bool = False
) -> Launch:
    """Return the launch that converts NV12 or P016 frames to pixels.

    Args:
        luma: (height, width) planes, uint8, or uint16 with the value in the upper 8 bits; rows may have a pitch.
        chroma: (rows, columns, 2) planes of the same dtype; half the height and width of luma, rounded up.
        dst: contiguous uint8 images of (height, width, channels).
        matrix: (channels, 4), or (N, channels, 4) with one matrix per frame, for (Y, Cb, Cr, 1). Results are rounded
            and clamped.
        left: whether chroma is sited in the left of its two columns instead of between them.

    Raises:
        PipelineError: the shapes don't match.
    """
    values = np.asarray(matrix, np.float32)
    channels = values.shape[-2]
    if luma.dtype not in (np.uint8, np.uint16) or chroma.dtype != luma.dtype:
        raise PipelineError(f"luma is {luma.dtype} and chroma is {chroma.dtype}: both must be uint8 or uint16")
    halves = -(-luma.shapes // 2)
    if (dst.shapes[:, :2] != luma.shapes).any() or (chroma.shapes[:, :2] < halves).any():
        raise PipelineError("luma, chroma and pixels differ in size")
    if (dst.shapes[:, 2] != channels).any() or not dst.is_contiguous():
        raise PipelineError(f"the pixels need {channels} channels, and must be contiguous")
    frame = np.dtype(
        [
            *[("luma", ADDRESS), ("chroma", ADDRESS), ("dst", ADDRESS), ("luma_pitch", "i8"), ("chroma_pitch", "i8")],
            *[
                ("height", "i8"),
                ("width", "i8"),
                ("left", "i8"),
                ("matrix", "f4", (channels, 3)),
                ("offset", "f4", (channels,)),
            ],
        ],
        align=True,
    )
    table = np.zeros(len(luma), frame)
    table["luma"], table["chroma"], table["dst"] = luma.pointers, chroma.pointers, dst.pointers
    table["luma_pitch"], table["chroma_pitch"] = luma.strides[:, 0], chroma.strides[:, 0]
    table["height"], table["width"] = luma.shapes[:, 0], luma.shapes[:, 1]
    table["left"] = left
    table["matrix"], table["offset"] = values[..., :3], values[..., 3]
    most = int(np.prod(luma.shapes, axis=1).max())
    defines = (("IN", ctype(luma.dtype)), ("CHANNELS", str(channels)))
    return Launch("nv12.cu", "nv12_to_pixels", defines, (table,), (blocks_for(most), len(luma)))
