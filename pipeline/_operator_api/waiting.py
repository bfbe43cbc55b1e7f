"""Order between outputs on the GPU and a consumer's CUDA stream."""

from __future__ import annotations

from typing import Any

from pipeline._kernels.streams import existing_stream
from pipeline._operator_api.request import TensorList
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["waited_by"]


def waited_by(cuda_stream: Any, outputs: tuple[TensorList, ...]) -> tuple[TensorList, ...]:
    """Make a CUDA stream wait for outputs, and return them.

    Args:
        cuda_stream: a stream of CuPy or torch, or a handle; None for no stream.
        outputs: outputs of a batch.
    """
    if cuda_stream is not None:
        for output in outputs:
            if isinstance(output, TensorListGPU) and output.ready is not None:
                existing_stream(cuda_stream).wait_event(output.ready)
    return outputs
