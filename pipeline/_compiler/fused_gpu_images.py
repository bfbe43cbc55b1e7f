"""Run a decoder, a resize and `crop_mirror_normalize` as one: one decoder call and one launch per batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from pipeline._codecs import DecodedBatch
from pipeline._concurrency.cost import charged
from pipeline._graph.graph import Edge, GraphNode
from pipeline._kernels import Samples
from pipeline._kernels.fused import plan_crop_resize_normalize
from pipeline._kernels.launch import Launch
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.error_context import error_context
from pipeline._operator_api.gpu_operator import allocate, samples_of
from pipeline._operator_api.request import TensorList
from pipeline._operators.decoding.image import MixedImageDecoder
from pipeline._operators.geometry.crop_mirror_normalize import CropMirrorNormalizeGpu
from pipeline._operators.geometry.resize import ResizeGpu
from pipeline.types import UINT8

__all__ = ["Allocate", "FusedImages"]

Owner = TypeVar("Owner")

#: Allocates samples of given shapes (N, ndim), dtype and layout. Returns the owner of the memory, and its table.
Allocate = Callable[[npt.NDArray[np.int64], np.dtype[Any], str], tuple[Owner, Samples]]


class FusedImages:
    """Runs a chain that `fusion.py` found as one. The pixels equal those of the separate operators.

    Any thread may run it: while one thread decodes a batch, another thread can prepare the next batch.

    Args:
        nodes: the chain.
        operators: implementations of its operators.
    """

    #: Whether it adds the cost of each operator to the batch's `costs`. It adds the time of the host.
    measures_each: ClassVar[bool] = True

    def __init__(self, nodes: Sequence[GraphNode], operators: Sequence[Any]) -> None:
        self._nodes = tuple(nodes)
        *decoders, self._resizer, self._normalizer = operators
        self._decoder = decoders[0] if decoders else None

    @staticmethod
    def fits(operators: Sequence[Any]) -> bool:
        """Return whether these implementations can be fused. Those for frames of sequences can't."""
        kinds = (MixedImageDecoder, ResizeGpu, CropMirrorNormalizeGpu)[-len(operators) :]
        return all(isinstance(operator, kind) for operator, kind in zip(operators, kinds, strict=True))

    def run(self, batch: Batch) -> bool:
        """Compute the chain's result and store it in the batch.

        Returns:
            False if the images aren't supported; then nothing was done.

        Raises:
            OperatorError: samples failed; it names the operator and these samples.
        """
        first = self._nodes[0]
        inputs: list[Any] = [batch.values[edge] for edge in first.inputs]
        if self._decoder is None:
            if not self.takes(inputs[0]):
                return False
            self._finish(batch, samples_of(inputs[0]))
            return True
        batch.keep_alive.append(inputs)
        with error_context(first, batch), charged(batch.costs, first.index):
            decoded: DecodedBatch = self._decoder.decode(batch, inputs)
        try:
            self._finish(batch, decoded.samples)
        finally:
            decoded.release()
        return True

    @staticmethod
    def takes(data: TensorList) -> bool:
        """Return whether the kernel supports a batch, on any device: images with 1 channel each, or with 3 each."""
        if data.layout() not in ("", "HWC") or data.ndim != 3 or data.dtype != UINT8:
            return False
        channels = data.table().shapes[:, 2]
        return bool(channels[0] in (1, 3) and (channels == channels[0]).all())

    def plan(self, batch: Batch, source: Samples, allocate_result: Allocate[Owner]) -> tuple[Launch, Owner]:
        """Return the launch for a batch, and the owner of the result's memory. This needs no GPU.

        Args:
            batch: the batch, whose values include the arguments.
            source: the images.
            allocate_result: function that allocates the result, given its shapes (N, 3), dtype and layout.

        Raises:
            OperatorError: samples failed; it names the operator and these samples.
        """
        resize, normalize = self._nodes[-2:]
        with error_context(resize, batch), charged(batch.costs, resize.index):
            solved, filters = self._resizer.resolve(batch, "HW", source.shapes[:, :2])
            rounded = self._resizer.dtype_of(source.dtype) == np.uint8
        with error_context(normalize, batch), charged(batch.costs, normalize.index):
            resized = np.concatenate([solved.size, source.shapes[:, 2:]], axis=1)
            crop = self._normalizer.resolve(batch, "HWC", resized)
            settings = crop.settings
            owner, target = allocate_result(
                np.ascontiguousarray(crop.extents[:, list(settings.perm)]), settings.dtype, settings.output_layout
            )
            launch = plan_crop_resize_normalize(
                source,
                target,
                layout=settings.output_layout,
                roi=np.concatenate([solved.low, solved.high], axis=1),
                size=solved.size,
                crop=crop.starts[:, :2],
                mirror=crop.mirror,
                scale=crop.scale,
                bias=crop.bias,
                min_filter=filters.lower,
                mag_filter=filters.upper,
                antialias=filters.antialias,
                rounded=rounded,
            )
        return launch, owner

    def _finish(self, batch: Batch, source: Samples) -> None:
        normalize = self._nodes[-1]
        launch, owner = self.plan(batch, source, allocate)
        with error_context(normalize, batch), charged(batch.costs, normalize.index):
            self._normalizer.kernels.run(launch, batch.stream)
            batch.keep(Edge(normalize.index), owner)
