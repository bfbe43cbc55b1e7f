"""Warps images by perspective transforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging import convert
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.image_axes import IMAGE_LAYOUTS
from pipeline._operator_api.layouts import choose_layout
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import check_samples
from pipeline._operator_api.output_specs import Extents, describe, known_extents
from pipeline._operators.geometry.windows import round_half_away
from pipeline.errors import ArgumentValueError, PipelineError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, FLOAT64, INT16, INTERP_CUBIC, INTERP_LINEAR, INTERP_NN, UINT8, UINT16

__all__ = ["WARP_PERSPECTIVE"]

_DTYPES = (UINT8, UINT16, INT16, FLOAT, FLOAT64)
_MOST_CHANNELS = 4
_BORDERS = {
    "constant": cv2.BORDER_CONSTANT,
    "replicate": cv2.BORDER_REPLICATE,
    "reflect": cv2.BORDER_REFLECT,
    "reflect_101": cv2.BORDER_REFLECT_101,
    "wrap": cv2.BORDER_WRAP,
}
_FILTERS = {INTERP_NN: cv2.INTER_NEAREST, INTERP_LINEAR: cv2.INTER_LINEAR, INTERP_CUBIC: cv2.INTER_CUBIC}

WARP_PERSPECTIVE = register(
    OperatorSchema(
        name="experimental.warp_perspective",
        doc="""Warps images or sequences by perspective transforms, as OpenCV's `warpPerspective` does.

The output at (x, y) is the input at (u / w, v / w), where (u, v, w) is the product of the matrix and (x, y, 1).""",
        inputs=(
            Input("data", f"Images or sequences, of one of the layouts {', '.join(IMAGE_LAYOUTS)}."),
            Input("mtx", "Alternative to `matrix`: float32 of shape (3, 3).", True, any_device=True),
        ),
        arguments=(
            Argument("matrix", Kind.FLOATS, "The transform, row by row: 9 values.", (), per_sample=True),
            Argument(
                "inverse_map",
                Kind.BOOL,
                "The transform maps the output to the input; False: the input to the output.",
                True,
            ),
            Argument(
                "size",
                Kind.FLOATS,
                "Height and width of the output, which are rounded; by default the input's.",
                (),
                per_sample=True,
            ),
            Argument(
                "pixel_origin",
                Kind.STRING,
                'Position (0, 0): the outer "corner" or the "center" of the first pixel.',
                "corner",
                choices=("corner", "center"),
            ),
            Argument("interp_type", Kind.INTERP, "INTERP_NN, INTERP_LINEAR or INTERP_CUBIC.", INTERP_LINEAR),
            Argument(
                "border_mode",
                Kind.STRING,
                'Values outside of the input: "constant" is `fill_value`, "replicate" the border pixel, "reflect" '
                'mirrors the image including the border pixel, "reflect_101" without it, and "wrap" continues at the '
                "other side.",
                "constant",
                choices=tuple(_BORDERS),
            ),
            Argument(
                "fill_value", Kind.FLOATS, "Values of a constant border: one, or one per channel; 0 by default.", ()
            ),
        ),
    )
)


def _rounded(rows: Sequence[Array]) -> list[tuple[int, ...]]:
    for row in rows:
        if len(row) > 2 or not (row > 0).all():
            raise ArgumentValueError(f"argument 'size' must be two positive numbers, not {row.tolist()}")
    return [tuple(round_half_away(extent) or 1 for extent in np.resize(row, 2 * bool(len(row)))) for row in rows]


@dataclass(frozen=True)
class _Warps:
    """The warps of a batch.

    Attributes:
        layout: layout of the samples.
        matrices: matrices as argument: 9 values for each sample, or none.
        sizes: height and width of each output; an empty tuple for the input's.
    """

    layout: str
    matrices: Sequence[Array]
    sizes: list[tuple[int, ...]]

    @classmethod
    def from_arguments(cls, arguments: Arguments, layout: str) -> _Warps:
        matrices, sizes = arguments.rows("matrix", np.float32), arguments.rows("size", np.float32)
        assert matrices is not None
        assert sizes is not None
        return cls(layout, matrices, _rounded(sizes))

    @property
    def first(self) -> int:
        """The axis of the height."""
        return self.layout.index("H")

    def extents(self, known: Extents | None) -> Extents | None:
        """Return the known extents of the output, given the known extents of the samples."""
        if known is None:
            return None
        size: Sequence[int | None] = [None, None]
        if len(set(self.sizes)) == 1:
            size = self.sizes[0] or known[self.first : self.first + 2]
        return (*known[: self.first], *size, *known[self.first + 2 :])

    def matrix(self, sample: int, given: Array | None, node: GraphNode) -> Array:
        """Return the matrix from the output to the input, for OpenCV, whose positions are relative to the centre."""
        if given is not None:
            if given.shape != (3, 3) or given.dtype != np.float32:
                raise ArgumentValueError(
                    f"the second input must be float32 of shape (3, 3), not {given.dtype} of shape {given.shape}"
                )
            if len(self.matrices[sample]):
                raise ArgumentValueError("argument 'matrix' can't be used together with the second input")
            matrix = given.astype(np.float64)
        else:
            row = self.matrices[sample]
            if len(row) != 9:
                raise ArgumentValueError(f"argument 'matrix' needs 9 values, but has {len(row)}")
            matrix = row.astype(np.float64).reshape(3, 3)
        if not node.argument("inverse_map"):
            matrix = np.asarray(cv2.invert(matrix)[1], np.float64)  # zeros for a singular matrix, as in warpPerspective
        if node.argument("pixel_origin") == "corner":
            shift = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
            back = np.array([[1, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])
            matrix = back @ matrix @ shift
        return matrix


@implements(WARP_PERSPECTIVE, "cpu")
class WarpPerspectiveCpu(SampleOperator[_Warps]):
    """Runs OpenCV for each image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Warps, Sequence[OutputSpec]]:
        known = known_extents(batch, self.node, inputs)
        layout = choose_layout(inputs[0].layout, None if known is None else len(known), IMAGE_LAYOUTS)
        if self.node.argument("interp_type") not in _FILTERS:
            raise ArgumentValueError(
                "argument 'interp_type' must be INTERP_NN, INTERP_LINEAR or INTERP_CUBIC, not "
                f"{self.node.argument('interp_type')!r}"
            )
        warps = _Warps.from_arguments(batch.arguments(self.node), layout)
        return warps, [describe(layout, warps.extents(known), inputs[0].dtype)]

    def run(self, state: _Warps, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data, given = inputs[0], inputs[1] if len(inputs) > 1 else None
        check_samples(data.dtype, _DTYPES)
        first = state.first
        size = state.sizes[sample] or data.shape[first : first + 2]
        frames = len(data) if state.layout[0] == "F" else 1
        matrices = [given] * frames if given is None or given.ndim == 2 else list(given)
        if len(matrices) != frames:
            raise ArgumentValueError(f"the second input has {len(matrices)} matrices for {frames} frames")
        if out is None:
            out = np.empty((*data.shape[:first], *size, *data.shape[first + 2 :]), data.dtype)
        if not out.size:
            return out
        if not data.size:
            raise PipelineError(f"can't warp an empty image of shape {data.shape}")
        channels = data.shape[state.layout.index("C")] if "C" in state.layout else 1
        fill = self._fill(channels, data.dtype)
        for index in np.ndindex(*data.shape[:first]):
            matrix = state.matrix(sample, matrices[index[0] if state.layout[0] == "F" else 0], self.node)
            plane = fill[index[-1] : index[-1] + 1] if "C" in state.layout[:first] else fill
            self._warp(data[index], matrix, size, plane, out[index])
        return out

    def _fill(self, channels: int, dtype: np.dtype[Any]) -> list[float]:
        """Return the fill value of each channel."""
        values = np.array(self.node.argument("fill_value") or (0,), np.float32)
        if len(values) not in (1, channels):
            raise ArgumentValueError(f"argument 'fill_value' needs 1 or {channels} values, but has {len(values)}")
        fill: list[float] = np.resize(convert(values, dtype), channels).tolist()
        return fill

    def _warp(self, image: Array, matrix: Array, size: Sequence[int], fill: list[float], out: Array) -> None:
        image, target = image.reshape(*image.shape[:2], -1), out.reshape(*out.shape[:2], -1)
        for first in range(0, image.shape[2], _MOST_CHANNELS):
            part = slice(first, first + _MOST_CHANNELS)
            written = target[..., part]
            if written.shape[2] == 1:
                written = written[..., 0]
            warped = cv2.warpPerspective(
                np.ascontiguousarray(image[..., part]),
                matrix,
                (int(size[1]), int(size[0])),
                written if written.flags.c_contiguous else None,
                flags=_FILTERS[self.node.argument("interp_type")] | cv2.WARP_INVERSE_MAP,
                borderMode=_BORDERS[self.node.argument("border_mode")],
                borderValue=fill[part],
            )
            if warped is not written:
                written[...] = warped
