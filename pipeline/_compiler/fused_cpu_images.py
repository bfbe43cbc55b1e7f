"""Run a resize and `crop_mirror_normalize` on the CPU as one, in a few calls of a compiled loop per batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from pipeline._compiler.plan import SampleStep
from pipeline._graph.graph import Edge
from pipeline._imaging.batch import ImageBatch
from pipeline._operator_api.batch import Batch
from pipeline._operators.geometry.crop_mirror_normalize import CropMirrorNormalizeCpu
from pipeline._operators.geometry.resize import ResizeCpu
from pipeline.errors import PipelineError
from pipeline.tensors.cpu import TensorListCPU
from pipeline.types import UINT8

__all__ = ["FusedSamples"]

# Images per call: enough to keep Python's overhead small, yet few enough that no thread waits long for the last call.
_IMAGES = 4


class FusedSamples:
    """Runs a chain of both operators as one. The pixels equal those of the separate operators.

    Args:
        step: the chain.
        operators: implementations of its operators.
    """

    #: Whether it adds the cost of each operator to the batch's `costs`. It can't: one loop does the work of both.
    measures_each: ClassVar[bool] = False

    def __init__(self, step: SampleStep, operators: Sequence[Any]) -> None:
        self._resizer, self._normalizer = operators
        (self._result,) = step.results

    @staticmethod
    def fits(step: SampleStep, operators: Sequence[Any]) -> bool:
        """Return whether a chain consists of exactly these two operators and their implementations can be fused."""
        if len(operators) != 2 or any(node.branch for node in step.nodes):
            return False
        resizer, normalizer = operators
        return (
            isinstance(resizer, ResizeCpu)
            and isinstance(normalizer, CropMirrorNormalizeCpu)
            and step.nodes[1].inputs == (Edge(step.nodes[0].index, 0),)
            and step.results == (Edge(step.nodes[1].index, 0),)
        )

    def run(self, batch: Batch) -> bool:
        """Compute the chain's result and store it in the batch.

        Returns:
            False if the images or the arguments aren't supported; then nothing was done. The caller runs the
            operators separately, which also report errors.
        """
        data = batch.values[self._resizer.node.inputs[0]]
        if (
            not isinstance(data, TensorListCPU)
            or data.layout() not in ("", "HWC")
            or data.ndim != 3
            or data.dtype != UINT8
        ):
            return False
        table = data.table()
        if not table.shapes.all() or np.ptp(table.shapes[:, 2]):
            return False
        try:
            resized = self._resizer.resolve(batch, table.shapes[:, :2])
            normalization = self._normalizer.resolve(batch, int(table.shapes[0, 2]))
        except PipelineError:
            return False
        if resized is None or normalization is None:
            return False
        images = ImageBatch(
            table.pointers,
            table.shapes,
            table.strides,
            np.concatenate([resized.low, resized.high], axis=1),
            size=tuple(resized.size[0].tolist()),
            antialias=self._resizer.node.argument("antialias"),
            mirror=normalization.mirror,
            scale=normalization.scale,
            bias=normalization.bias,
        )
        if not images.fits():
            return False
        array, owner = batch.allocate(self._result, images.shape, np.dtype(np.float32))

        def make(begin: int, end: int) -> None:
            with batch.traced(begin, end - 1):
                images.make(array, begin, end)

        batch.pool.run_ranges(make, batch.size, _IMAGES)
        result = TensorListCPU(array, "CHW")
        result.owner = owner
        batch.keep(self._result, result)
        return True
