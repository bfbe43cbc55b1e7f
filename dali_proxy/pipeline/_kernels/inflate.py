"""Launcher of inflate.cu: decompresses blocks of LZ4, in one launch per batch."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._cuda.launch import ADDRESS, THREADS, Launch

#: struct Block of inflate.cu.
BLOCK = np.dtype([("src", ADDRESS), ("dst", ADDRESS), ("size", "i8"), ("room", "i8"), ("failed", ADDRESS)])


def plan_inflate(blocks: Array) -> Launch:
    """Return the launch; `blocks` are rows of `BLOCK`. What a block lacks is filled with zeros."""
    grid = (-(-32 * len(blocks) // THREADS), 1)
    return Launch("inflate.cu", "inflate", (), (blocks,), grid, (np.int32(len(blocks)),))
