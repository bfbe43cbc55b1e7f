"""Outputs of a batch that become tensors when the caller takes them, on its current CUDA stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

OutputFunction = Callable[[], "torch.Tensor | list[torch.Tensor]"]
"""Returns a tensor if the output is dense, else the list of its samples."""


class DeferredOutputs(Protocol):
    """Outputs of a batch that has arrived, or that the GPU is computing."""

    def tensors(self) -> tuple[Any, ...]:
        """Return the outputs: one tensor each, or a list of tensors where shapes differ.

        On a GPU, the stream that is current now waits for the data; the host doesn't.
        """


class OutputFunctions:
    """Deferred outputs, each with its own function.

    Args:
        functions: one function for each output.
    """

    def __init__(self, functions: Sequence[OutputFunction]) -> None:
        self._functions = functions

    def tensors(self) -> tuple[Any, ...]:
        """See `DeferredOutputs`."""
        return tuple([function() for function in self._functions])


def copied_from_cpu(output: Any) -> Any:
    """Return an output, one tensor or a list; copy its tensors on the CPU."""
    if isinstance(output, list):
        return [copied_from_cpu(sample) for sample in output]
    return output if output.is_cuda else output.clone()


def on_gpu(output: Any, device_id: int) -> Any:
    """Return an output, one tensor or a list; copy those of its tensors that lie on another GPU."""
    if isinstance(output, list):
        return [on_gpu(sample, device_id) for sample in output]
    if not output.is_cuda or output.device.index == device_id:
        return output
    return output.to(f"cuda:{device_id}", non_blocking=True)
