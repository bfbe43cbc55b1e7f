"""The outputs that a batch has computed so far. Outputs of pixel operators are computed on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pipeline._kernels.expression import PixelExpression
from pipeline._operator_api.request import TensorList
from pipeline.tensors.gpu import TensorListGPU

if TYPE_CHECKING:
    from pipeline._graph.graph import Edge

__all__ = ["Outputs"]


class Outputs(dict["Edge", TensorList]):
    """Outputs by edge. An edge in a branch has the samples of that branch only.

    ``outputs[edge]`` computes an output that `defer` added; iteration covers computed outputs only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._deferred: dict[Edge, tuple[PixelExpression, Callable[[PixelExpression], TensorListGPU]]] = {}
        #: Expressions of outputs in memory, so that each is described once.
        self._described: dict[Edge, PixelExpression | None] = {}

    def defer(self, edge: Edge, pixels: PixelExpression, compute: Callable[[PixelExpression], TensorListGPU]) -> None:
        """Add an output as an expression.

        Args:
            edge: the output.
            pixels: its pixels.
            compute: function that computes them; called at most once.
        """
        self._deferred[edge] = pixels, compute

    def pixels(self, edge: Edge, *, computed: bool = False, elements: bool = False) -> PixelExpression | None:
        """Return an output as an expression; None if it isn't a batch of images on the GPU.

        Args:
            edge: the output.
            computed: whether to compute an expression first that reads several pixels for each output pixel.
            elements: whether samples with up to three dimensions of any meaning are accepted, too.
        """
        deferred = self._deferred.get(edge)
        if deferred is not None:
            pixels = deferred[0]
            if (elements or pixels.is_image) and not (computed and pixels.reads > 1):
                return pixels
        if edge not in self._described:
            value = self[edge]
            is_on_gpu = isinstance(value, TensorListGPU) and len(value) > 0
            self._described[edge] = (
                PixelExpression.from_samples(value.table(), value.layout(), value) if is_on_gpu else None
            )
        described = self._described[edge]
        if described is None and elements:
            value = self[edge]
            if isinstance(value, TensorListGPU):
                return PixelExpression.from_elements(value.table(), value.layout(), value)
        return described

    def compute(self, edges: Iterable[Edge]) -> None:
        """Compute those of the outputs that are expressions."""
        for edge in edges:
            if edge in self._deferred:
                self[edge]

    def clear(self) -> None:
        super().clear()
        self._deferred.clear()
        self._described.clear()

    def __contains__(self, edge: object) -> bool:
        return super().__contains__(edge) or edge in self._deferred

    def __missing__(self, edge: Edge) -> TensorList:
        pixels, compute = self._deferred.pop(edge)
        value = self[edge] = compute(pixels)
        return value
