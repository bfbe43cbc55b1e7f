"""Run a resize and `crop_mirror_normalize` on the CPU as one, in a few calls of a compiled loop per batch."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Bools, Float32s, Float64s, Int64s
from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.steps.chain import ChainStep
from dali_proxy.pipeline._compiler.steps.step import FusedStep, Step
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._imaging.resample import MOST_PIXELS
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.geometry.crop_mirror_normalize import CropMirrorNormalizeCpu
from dali_proxy.pipeline._operators.geometry.resize import ResizeCpu
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

# Images per call: enough to keep Python's overhead small, yet few enough that no thread waits long for the last call.
_IMAGES = 4
# The compiled loop sums up to 16 pixels: a triangle with 7.5 pixels on each side, and one pixel for rounding.
_MOST_SHRINKING = 7.5


class ImageBatch:
    """Images in memory, and their arguments of `resize` and `crop_mirror_normalize`.

    Args:
        pointers: (N,) int64, addresses of uint8 HWC images. The caller keeps the images alive.
        shapes: (N, 3) int64.
        strides: (N, 3) int64, in bytes.
        regions: (N, 4) float64, regions (y0, x0, y1, x1) as in `resize`.
        size: (height, width) of all results.
        antialias: as in `resize`; the filter is linear.
        mirror: (N,) bool.
        scale: (N or 1, C) float32, as in `crop_mirror_normalize`.
        bias: see `scale`.
    """

    def __init__(
        self,
        pointers: Int64s,
        shapes: Int64s,
        strides: Int64s,
        regions: Float64s,
        *,
        size: tuple[int, int],
        antialias: bool,
        mirror: Bools,
        scale: Float32s,
        bias: Float32s,
    ) -> None:
        self.shape = (len(pointers), int(shapes[0, 2]), *size)
        self._strides = strides
        self._shapes = shapes
        self._images = np.column_stack([pointers, shapes[:, :2], strides[:, 0]])
        self._regions = np.ascontiguousarray(regions)
        self._antialias = antialias
        self._mirror = np.ascontiguousarray(mirror)
        self._values = np.ascontiguousarray(scale), np.ascontiguousarray(bias)

    def fits(self) -> bool:
        """Return whether the compiled loop exists and supports the images (packed pixels, moderate scales)."""
        channels, (height, width) = self.shape[1], self.shape[2:]
        extents = np.abs(self._regions[:, 2:] - self._regions[:, :2]) * self._antialias
        return bool(
            compiled is not None
            and 1 < channels <= 4
            and self._shapes.all()
            and (self._shapes[:, 2] == channels).all()
            and (self._strides[:, 1:] == (channels, 1)).all()
            and min(height, width) > 0
            and (np.abs(self._regions) < MOST_PIXELS).all()
            and (extents <= np.array([height, width]) * _MOST_SHRINKING).all()
        )

    def make(self, out: Float32s, begin: int, end: int) -> None:
        """Compute results `begin` to `end` into `out`, C-contiguous (N, C, height, width), without the GIL."""
        assert compiled is not None
        compiled.crop_resize_normalize(
            self._images, self._regions, self._mirror, *self._values, self._antialias, out, begin, end
        )


class FusedImages(FusedStep):
    """Runs a chain of both operators as one. The pixels equal those of the separate operators."""

    title = "resize and crop_mirror_normalize"

    def __init__(self, chain: ChainStep) -> None:
        super().__init__([chain])
        self._resizer: Any
        self._normalizer: Any
        self._resizer, self._normalizer = chain.operators
        (self._result,) = chain.results

    def run_as_one(self, batch: Batch) -> bool:
        data = batch.values[self._resizer.node.inputs[0]]
        if not isinstance(data, TensorListCPU) or data.layout() not in ("", "HWC"):
            return False
        table = data.table()
        shapes = table.shapes
        if table.dtype != np.uint8 or shapes.shape[1] != 3 or not shapes.all() or np.ptp(shapes[:, 2]):
            return False
        try:
            resized = self._resizer.resolve(batch, shapes[:, :2])
            if resized is None:
                return False
            size: tuple[int, int] = tuple(resized.size[0].tolist())
            normalization = self._normalizer.resolve(batch, (*size, int(shapes[0, 2])))
        except PipelineError:
            return False
        if normalization is None:
            return False
        images = ImageBatch(
            table.pointers,
            shapes,
            table.strides,
            np.concatenate([resized.low, resized.high], axis=1),
            size=size,
            antialias=self._resizer.node.argument("antialias"),
            mirror=normalization.mirror,
            scale=normalization.scale,
            bias=normalization.bias,
        )
        if not images.fits():
            return False
        array, owner = batch.allocate(self._result, images.shape, np.dtype(np.float32))

        make = partial(images.make, array)
        batch.pool.run_ranges(make if batch.trace is None else batch.traced_ranges(make), batch.size, _IMAGES)
        result = TensorListCPU.from_dense(array, "CHW")
        result.owner = owner
        batch.keep(self._result, result)
        return True


def fuse_images(steps: list[Step], scope: Scope) -> list[Step]:
    """Fuse chains that consist of exactly these two operators."""
    fused: list[FusedImages] = []
    for step in steps:
        if isinstance(step, ChainStep) and any(isinstance(each, ResizeCpu) for each in step.operators):
            if _fits(step):
                fused.append(FusedImages(step))
            else:
                scope.note(FusedImages, "the chain consists of other operators, is in a branch, or returns the resize")
    return replaced(steps, scope, fused)


def _fits(chain: ChainStep) -> bool:
    if len(chain.operators) != 2 or any(node.branch for node in chain.nodes):
        return False
    resizer, normalizer = chain.operators
    return (
        isinstance(resizer, ResizeCpu)
        and isinstance(normalizer, CropMirrorNormalizeCpu)
        and chain.nodes[1].inputs == (Edge(chain.nodes[0].index, 0),)
        and chain.results == (Edge(chain.nodes[1].index, 0),)
    )
