"""Rotates images about their centre."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import affine
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.boxes.transforms import rotation_axis
from dali_proxy.pipeline._operators.geometry.warps import WARP_ARGUMENTS, WARP_LAYOUTS, Warps, warps_samples
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

ROTATE = declare_operator(
    name="rotate",
    doc="Rotates images, volumes or sequences about their centre. By default the output holds all pixels.",
    inputs=(Input("data", f"Images, of one of the layouts {', '.join(WARP_LAYOUTS)}; HWC without a layout."),),
    arguments=(
        Argument(
            "angle",
            Kind.FLOAT,
            "Angle in degrees, counter-clockwise. About the axis z, volumes turn from x to y: that is clockwise, "
            "because y points down.",
            REQUIRED,
            True,
        ),
        Argument(
            "axis",
            Kind.FLOATS,
            "Rotation axis of volumes: x, y and z (along width, height and depth), not all zero. A positive angle "
            "turns y to z about x, z to x about y, and x to y about z.",
            per_sample=True,
        ),
        Argument("keep_size", Kind.BOOL, "Keep the size of the input.", False),
        *WARP_ARGUMENTS,
    ),
    devices=("cpu", "gpu"),
)

# An extent that exceeds an integer by less than this, in pixels, is rounded down to it.
_SLACK = 1e-2


def rotated_size(rotations: Array, spatial: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of the smallest canvas that holds the whole result.

    Each extent has the parity of the source's extent along the axis that contributes most, so that rotations by
    multiples of 90 degrees map pixels to pixels. Several rotations share one canvas; the majority determines its
    parity.

    Args:
        rotations: matrices from the output to the source, (N, n, n), for x, y and z.
        spatial: extents of the source.
    """
    sizes, odd = _canvases(rotations, np.array([spatial]))
    size = sizes.max(axis=0)
    size += (size - (odd.mean(axis=0) > 0.5)) % 2
    return tuple(size.tolist())


def rotated_sizes(rotations: Array, spatial: Array) -> Array:
    """Return `rotated_size` of each rotation alone, (N, n), given the extents of each source, (N, n)."""
    sizes, odd = _canvases(rotations, spatial)
    return sizes + (sizes - odd) % 2


def _canvases(rotations: Array, spatial: Array) -> tuple[Array, Array]:
    """Return the extents, (N, n), that each rotation needs, and whether they are odd; `spatial` is (N or 1, n)."""
    reach = np.abs(rotations.swapaxes(1, 2))  # by axes of output and source
    extents = spatial[:, ::-1]
    sizes = np.ceil((reach @ extents[..., None])[..., 0] - _SLACK).astype(np.int64)
    odd = np.take_along_axis(np.broadcast_to(extents, sizes.shape), reach.argmax(axis=2), axis=1) % 2
    return sizes[:, ::-1], odd[:, ::-1]


@warps_samples(ROTATE)
class _Rotations(Warps):
    """Rotations by `angle`."""

    def __init__(self, batch: Batch, node: GraphNode, layout: str) -> None:
        arguments = batch.arguments(node)
        super().__init__(batch, node, layout)
        self._siblings = batch.siblings
        self._keep_size = arguments.constant("keep_size")
        angle = arguments.scalars("angle", np.float32)
        angle = angle.astype(np.float64)
        if self.ndim == 2:
            if arguments.given("axis"):  # DALI ignores it
                raise ArgumentValueError(
                    f"argument 'axis' is for volumes, but the samples are {layout}, "
                    f"{'frames' if self.sequence else 'images'} that turn in their plane: leave 'axis' out, or name "
                    "the layout of volumes: fn.reinterpret(data, layout='DHWC')"
                )
            matrices = affine.rotation(angle)  # y points down, so this is counter-clockwise from output to input
        else:
            axis = rotation_axis(arguments)
            if axis is None:
                raise ArgumentTypeError("argument 'axis' is required for volumes")
            matrices = affine.rotation(-angle, axis)
        self._linear = matrices[..., :-1]

    @property
    def keeps_size(self) -> bool:
        return bool(self._keep_size)

    def default_size(self, sample: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of the canvas, which the frames of a sequence share."""
        if self._keep_size:
            return tuple(spatial)
        siblings = self._siblings(sample)
        return rotated_size(self._linear[siblings.start : siblings.stop], spatial)

    def default_sizes(self, spatial: Int64s) -> Int64s | None:
        if self._keep_size:
            return spatial
        if not all(len(self._siblings(sample)) == 1 for sample in range(self.batch_size)):
            return None  # frames share a canvas
        return rotated_sizes(self._linear, spatial)

    def all_matrices(self, spatial: Int64s, sizes: Int64s, matrices: Array | None) -> Array | None:
        centers, targets = spatial[:, ::-1, None] / 2, sizes[:, ::-1, None] / 2
        rotation = np.empty((len(spatial), self.ndim, self.ndim + 1))
        rotation[..., :-1], rotation[..., -1:] = self._linear, centers - self._linear @ targets
        return rotation

    def matrices(self, sample: int, spatial: Sequence[int], size: Sequence[int], matrix: Array | None) -> Array:
        linear = self._linear[sample]
        offset = np.array(spatial[::-1]) / 2 - linear @ (np.array(size[::-1]) / 2)
        return np.concatenate([linear, offset[:, None]], axis=1)
