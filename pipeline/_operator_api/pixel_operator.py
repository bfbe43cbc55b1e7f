"""Base class of GPU operators that describe their output as an expression of the pixels of their input."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from pipeline._kernels import KernelContext
from pipeline._kernels.expression import PixelExpression
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["PixelOperator", "evaluate"]


class PixelOperator(GpuOperator):
    """A GPU operator with one output, whose pixels depend on a few pixels of its first input.

    A chain of such operators runs as one kernel without intermediate images: the executor calls `express` for each of
    them, and evaluates the resulting expression when an operator of another kind reads it, or at the end of the graph.
    """

    #: Whether an output pixel reads several input pixels. An input that does so, too, is computed and stored first.
    gathers: ClassVar[bool] = False

    @abstractmethod
    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        """Return the output as an expression. This needs no GPU.

        Args:
            batch: size, arguments and random numbers.
            pixels: the first input.

        Returns:
            The output; None if expressions don't support the arguments or the input. Then the executor calls `run`.

        Raises:
            PipelineError: the arguments or the input are invalid.
        """


def evaluate(pixels: PixelExpression, kernels: KernelContext, stream: Any) -> TensorListGPU:
    """Compute the pixels of a batch: allocate memory on the current stream, and launch one kernel."""
    output, target = allocate(pixels.shapes, pixels.dtype, pixels.layout)
    kernels.run(pixels.launch(target), stream)
    return output
