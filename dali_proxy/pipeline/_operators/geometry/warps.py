"""Shared code of `warp_affine` and `rotate`: layouts, arguments, and implementations for CPU and GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._arrays import Float64s, Int64s
from dali_proxy.pipeline._declaration import Argument, Kind, OperatorSchema, implements_with
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.filter2d import Border
from dali_proxy.pipeline._imaging.sampling import prepare_fill
from dali_proxy.pipeline._imaging.warp import warp_affine as warp_image
from dali_proxy.pipeline._kernels.expression import EXACT_IN_FLOAT, PixelExpression
from dali_proxy.pipeline._kernels.point_maps import affine
from dali_proxy.pipeline._kernels.warp import plan_warp_affine
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, fail, samples_of, shape_table
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import dtype_arguments, output_dtype
from dali_proxy.pipeline._operator_api.output_specs import Extents, describe, layout_and_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.geometry.resize_launches import frames
from dali_proxy.pipeline._operators.geometry.windows import round_half_away
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.types import DALIInterpType

WARP_LAYOUTS = ("HWC", "FHWC", "DHWC", "FDHWC")
WARP_ARGUMENTS = (
    Argument(
        "size", Kind.FLOATS, "Extents of the output, which are rounded; height before width.", (), per_sample=True
    ),
    Argument("fill_value", Kind.FLOAT, "Value outside of the input; by default border pixels are repeated."),
    Argument(
        "interp_type", Kind.INTERP, "INTERP_LINEAR, or INTERP_NN for the nearest pixel.", DALIInterpType.INTERP_LINEAR
    ),
    *dtype_arguments("Dtype of the output; by default the input's.")[:2],
)


class Warps(ABC):
    """The warps of a batch, whose layout is one of `WARP_LAYOUTS`.

    Raises:
        ArgumentValueError: The filter or a size isn't supported.
    """

    def __init__(self, batch: Batch, node: GraphNode, layout: str) -> None:
        arguments = batch.arguments(node)
        self.layout = layout
        self.batch_size = batch.size
        self.sequence = layout[0] == "F"
        #: Number of spatial axes.
        self.ndim = len(layout) - 1 - self.sequence
        self.fill: float | None = arguments.constant("fill_value")
        interp = arguments.constant("interp_type")
        if interp not in (DALIInterpType.INTERP_LINEAR, DALIInterpType.INTERP_NN):
            raise ArgumentValueError(f"argument 'interp_type' must be INTERP_LINEAR or INTERP_NN, not {interp!r}")
        self.nearest = interp == DALIInterpType.INTERP_NN
        if arguments.per_sample("size"):
            self._sizes = [self._size(row.tolist()) for row in arguments.rows("size")]
        else:
            self._sizes = [self._size(arguments.constant("size"))] * batch.size

    def _size(self, row: Sequence[float]) -> tuple[int, ...]:
        if len(row) not in (0, self.ndim):
            raise ArgumentValueError(
                "argument 'size' must specify the same number of dimensions as the input (excluding channels): "
                f"{self.ndim}, but it has {len(row)} values"
            )
        if not all(extent > 0 for extent in row):
            raise ArgumentValueError(f"argument 'size' must be positive, not {list(row)}")
        return tuple(max(1, round_half_away(extent)) for extent in row)

    def size(self, sample: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of a sample's output."""
        return self._sizes[sample] or self.default_size(sample, spatial)

    def extents(self, known: Extents | None) -> Extents | None:
        """Return the known extents of the output, given the known extents of the samples."""
        if known is None:
            return None
        spatial: Sequence[int | None] = [None] * self.ndim
        if len(set(self._sizes)) == 1:
            spatial = self._sizes[0] or (known[self.sequence : -1] if self.keeps_size else spatial)
        return (*known[: self.sequence], *spatial, known[-1])

    @property
    @abstractmethod
    def keeps_size(self) -> bool:
        """Whether outputs without an explicit size are as large as their inputs."""

    @abstractmethod
    def default_size(self, sample: int, spatial: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of a sample's output if there is no explicit size."""

    @abstractmethod
    def matrices(self, sample: int, spatial: Sequence[int], size: Sequence[int], matrix: Array | None) -> Array:
        """Return a sample's matrix from the output to the source, or one matrix for each frame.

        `spatial` and `size` are the extents of the sample and its output, `matrix` is its value of the second input.
        """

    def for_images(self, shapes: Int64s, matrices: Array | None) -> tuple[Int64s, Float64s] | None:
        """Return `for_frames` for all samples, (N, n) and (N, n, n + 1), if they are images or volumes.

        Args:
            shapes: shapes of the samples, (N, n + 1).
            matrices: the second input, if there is one and it is dense.

        Returns:
            The extents and matrices; None if `for_frames` must compute, or refuse, them for each sample.
        """
        spatial = shapes[:, :-1]
        if self.sequence:
            return None
        sizes = np.array(self._sizes) if all(self._sizes) else self.default_sizes(spatial)
        found = None if sizes is None else self.all_matrices(spatial, sizes, matrices)
        return None if sizes is None or found is None else (sizes, found)

    def default_sizes(self, spatial: Int64s) -> Int64s | None:
        """Return `default_size` for all samples, (N, n); None if each needs a call."""
        return spatial if self.keeps_size else None

    @abstractmethod
    def all_matrices(self, spatial: Int64s, sizes: Int64s, matrices: Array | None) -> Array | None:
        """Return `matrices` for all samples, (N, n, n + 1); None if each needs a call."""

    def for_frames(self, sample: int, shape: Sequence[int], matrix: Array | None) -> tuple[tuple[int, ...], Array]:
        """Return the extents of a sample's output, and one matrix for each frame, (F, n, n + 1)."""
        spatial = shape[self.sequence : -1]
        size = self.size(sample, spatial)
        matrices = self.matrices(sample, spatial, size, matrix)
        count = shape[0] if self.sequence else 1
        if matrices.ndim == 3 and len(matrices) != count:
            raise ArgumentValueError(f"the second input has {len(matrices)} matrices for {count} frames")
        if matrices.ndim == 2 and count == 1:
            return size, matrices[None]  # np.broadcast_to would take longer than everything else
        return size, np.broadcast_to(matrices, (count, *matrices.shape[-2:]))


class WarpCpu(SampleOperator[Warps]):
    """Warps the frames of a sample one after the other."""

    #: Class of the warps.
    warps: ClassVar[type[Warps]]

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[Warps, Sequence[OutputSpec]]:
        layout, known = layout_and_extents(batch, self.node, inputs, WARP_LAYOUTS)
        warps = self.warps(batch, self.node, layout)
        return warps, [describe(layout, warps.extents(known), output_dtype(self.node) or inputs[0].dtype)]

    def run(self, state: Warps, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        data = inputs[0]
        size, matrices = state.for_frames(sample, data.shape, inputs[1] if len(inputs) > 1 else None)
        if out is None:
            shape = (*data.shape[: state.sequence], *size, data.shape[-1])
            out = np.empty(shape, output_dtype(self.node) or data.dtype)
        pairs = zip(data, out, strict=True) if state.sequence else [(data, out)]
        for (image, target), matrix in zip(pairs, matrices, strict=True):
            warp_image(image, matrix, size, nearest=state.nearest, fill=state.fill, dtype=target.dtype, out=target)
        return out


class WarpGpu(PixelOperator):
    """One launch per batch."""

    traits = replace(PixelOperator.traits, gathers=True)

    #: Class of the warps.
    warps: ClassVar[type[Warps]]

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout = choose_layout(pixels.layout, pixels.ndim, WARP_LAYOUTS)
        further = [batch.values[edge] for edge in self.node.inputs[1:]]
        on_host = all(isinstance(each, TensorListCPU) for each in further)
        if layout != "HWC" or pixels.dtype not in EXACT_IN_FLOAT or not pixels.extents.all() or not on_host:
            return None
        warps = self.warps(batch, self.node, layout)
        results, matrices = self._resolve(warps, pixels.shapes, further[0].samples if further else None)
        dtype = output_dtype(self.node) or pixels.dtype
        fill = prepare_fill(warps.fill, pixels.dtype, dtype, warps.nearest)
        return pixels.named(layout).warp(
            affine(matrices),
            results[:, :2],
            dtype,
            taps=1 if warps.nearest else 2,
            border=Border.CLAMP if fill is None else Border.CONSTANT,
            fill=fill or 0.0,
        )

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Warp volumes, frames with a matrix each, and dtypes that float32 can't represent."""
        data = inputs[0]
        layout = choose_layout(data.layout(), data.ndim, WARP_LAYOUTS)
        warps = self.warps(batch, self.node, layout)
        on_host = self.on_host(inputs[1], batch) if len(inputs) > 1 else None
        results, table = self._resolve(warps, shape_table(data), on_host)
        source = samples_of(data)
        output, target = allocate(results, output_dtype(self.node) or source.dtype, layout)
        fill = prepare_fill(warps.fill, source.dtype, target.dtype, warps.nearest)
        images, _ = frames(source, int(warps.sequence))
        targets, _ = frames(target, int(warps.sequence))
        self.launch(plan_warp_affine(images, targets, table, nearest=warps.nearest, fill=fill), batch)
        return [output]

    @staticmethod
    def _resolve(warps: Warps, shapes: Int64s, inputs: Sequence[Array] | None) -> tuple[Int64s, Float64s]:
        """Return the shapes of the outputs, (N, ndim), and the matrices of all frames.

        Raises:
            OperatorError: samples failed; the error lists them.
        """
        results = shapes.copy()
        dense = inputs if isinstance(inputs, np.ndarray) else None
        together = warps.for_images(shapes, dense) if inputs is None or dense is not None else None
        if together is not None:
            results[:, :-1] = together[0]
            return results, together[1]
        matrices: list[Array] = []
        failures: list[tuple[int, PipelineError]] = []
        for sample, shape in enumerate(shapes.tolist()):
            try:
                results[sample, warps.sequence : -1], of_frames = warps.for_frames(
                    sample, shape, None if inputs is None else inputs[sample]
                )
                matrices.append(of_frames)
            except PipelineError as error:
                failures.append((sample, error))
        fail(failures)
        return results, np.concatenate(matrices).astype(np.float64)


def warps_samples(schema: OperatorSchema) -> Callable[[type[Warps]], type[Warps]]:
    """Return a class decorator that implements an operator, on all its devices, by the warps of the class."""
    return implements_with(schema, "warps", cpu=WarpCpu, gpu=WarpGpu)
