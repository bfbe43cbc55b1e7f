"""Runs a decoder, a resize and `crop_mirror_normalize` as one: a call of the decoder and one launch a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline.codecs import DecodedBatch
from pipeline.executor.batch import Batch
from pipeline.executor.chain import Blame
from pipeline.graph.graph import Edge, GraphNode
from pipeline.kernels import Samples, crop_resize_normalize
from pipeline.operators.crop_mirror_normalize import CropMirrorNormalizeGpu
from pipeline.operators.decoders import MixedImageDecoder
from pipeline.operators.gpu_operator import allocate, samples_of
from pipeline.operators.resize import ResizeGpu
from pipeline.types import UINT8

__all__ = ["FusedPictures"]


class FusedPictures:
    """Runs a chain that `fusion.py` found. The pixels are those of its operators one after the other.

    Any thread may run it: a batch that is decoded occupies its thread for as long, and another thread can prepare the
    next batch.

    Args:
        nodes: the chain.
        operators: their implementations.
    """

    def __init__(self, nodes: Sequence[GraphNode], operators: Sequence[Any]) -> None:
        self._nodes = tuple(nodes)
        *decoders, self._resizer, self._normalizer = operators
        self._decoder = decoders[0] if decoders else None

    @staticmethod
    def fits(operators: Sequence[Any]) -> bool:
        """Tell whether these are implementations that can be run as one; those for frames of sequences are not."""
        kinds = (MixedImageDecoder, ResizeGpu, CropMirrorNormalizeGpu)[-len(operators) :]
        return all(isinstance(operator, kind) for operator, kind in zip(operators, kinds, strict=True))

    def run(self, batch: Batch) -> bool:
        """Make the chain's result and put it into the batch's values.

        Returns:
            False when the pictures aren't such as this can do, and nothing was done.

        Raises:
            OperatorError: naming the operator and the samples that failed.
        """
        first = self._nodes[0]
        inputs = [batch.values[edge] for edge in first.inputs]
        if self._decoder is None:
            data: Any = inputs[0]
            if data.layout() not in ("", "HWC") or data.ndim != 3 or data.dtype != UINT8:
                return False
            source = samples_of(data)
            if not np.isin(source.shapes[:, 2], (1, 3)).all() or np.ptp(source.shapes[:, 2]):
                return False
            self._finish(batch, source)
            return True
        batch.keep_alive.append(inputs)
        with Blame(first, batch):
            decoded: DecodedBatch = self._decoder.decode(batch, inputs)
        try:
            self._finish(batch, decoded.samples)
        finally:
            decoded.release()
        return True

    def _finish(self, batch: Batch, source: Samples) -> None:
        resize, normalize = self._nodes[-2:]
        with Blame(resize, batch):
            solved, filters = self._resizer.plan(batch, "HW", source.shapes[:, :2])
            rounded = self._resizer.dtype_of(source.dtype) == np.uint8
        with Blame(normalize, batch):
            resized = np.concatenate([solved.size, source.shapes[:, 2:]], axis=1)
            placed = self._normalizer.place(batch, "HWC", resized)
            plan = placed.plan
            made, target = allocate(
                np.ascontiguousarray(placed.extents[:, list(plan.perm)]), plan.dtype, plan.output_layout
            )
            crop_resize_normalize(
                self._normalizer.kernels,
                batch.stream,
                source,
                target,
                layout=plan.output_layout,
                roi=np.concatenate([solved.low, solved.high], axis=1),
                size=solved.size,
                crop=placed.starts[:, :2],
                mirror=placed.mirror,
                scale=placed.scale,
                bias=placed.bias,
                min_filter=filters.lower,
                mag_filter=filters.upper,
                antialias=filters.antialias,
                rounded=rounded,
            )
            batch.keep(Edge(normalize.index), made)
