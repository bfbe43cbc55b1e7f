"""Launcher of encode_boxes.cu: assigns boxes to anchors, in two launches per batch."""

from __future__ import annotations

import numpy as np

from dali_proxy.pipeline._arrays import Array, Float32s
from dali_proxy.pipeline._cuda.launch import ADDRESS, THREADS, Launch, ctype
from dali_proxy.pipeline._kernels.rows import zeros
from dali_proxy.pipeline._kernels.samples import Samples

#: struct Scaling of encode_boxes.cu.
SCALING = np.dtype([("criteria", "f4"), ("scale", "f4"), ("means", "f4", (4,)), ("stds", "f4", (4,))])
#: struct Sample of encode_boxes.cu.
_SAMPLE = np.dtype(
    [*((name, ADDRESS) for name in ("boxes", "labels", "encoded", "found", "closest")), ("count", "i4")], align=True
)
_MOST_BLOCKS = 1 << 12


class BoxEncoding:
    """Plan of the launches.

    Args:
        boxes: contiguous float32 boxes, of 4 values each.
        labels: contiguous labels of any integer dtype, one for each box.
        encoded: contiguous float32 boxes, one for each anchor.
        found: contiguous int32 labels, one for each anchor.
        anchors: left, top, right, bottom, float32 (M, 4).
        scaling: one row of `SCALING`.
        offset: whether to return the differences between boxes and anchors.
    """

    def __init__(
        self,
        boxes: Samples,
        labels: Samples,
        encoded: Samples,
        found: Samples,
        *,
        anchors: Float32s,
        scaling: Array,
        offset: bool,
    ) -> None:
        table = zeros(len(boxes), _SAMPLE)
        columns = {"boxes": boxes, "labels": labels, "encoded": encoded, "found": found}
        for name, samples in columns.items():
            table[name] = samples.pointers
        table["count"] = np.prod(boxes.shapes, axis=1) // 4
        self._table, self._anchors, self._scaling = table, anchors, scaling
        self._defines = (("LABEL", ctype(labels.dtype)), ("OFFSET", str(int(offset))))
        #: Bytes of device memory for the anchor of each box.
        self.scratch_bytes = 4 * int(table["count"].sum())

    def launches(self, scratch: int) -> list[Launch]:
        """Return the launches in order; `scratch` is the address of device memory of `scratch_bytes`."""
        table, anchors, file = self._table, self._anchors, "encode_boxes.cu"
        table["closest"] = scratch + 4 * (np.cumsum(table["count"]) - table["count"])
        count = (np.int32(len(anchors)),)
        boxes, blocks = int(table["count"].max()), min(-(-len(anchors) // THREADS), _MOST_BLOCKS)
        found = Launch(
            file, "find_anchors", self._defines, (table, anchors), (min(boxes, _MOST_BLOCKS), len(table)), count
        )
        tables = (table, anchors, self._scaling)
        encoded = Launch(file, "encode_boxes", self._defines, tables, (blocks, len(table)), count)
        return [found, encoded] if boxes else [encoded]
