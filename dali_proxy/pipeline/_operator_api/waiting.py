"""Order between outputs on the GPU and a consumer's CUDA stream."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._cuda.streams import HANDLES, existing_stream
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import ArgumentTypeError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


def check_stream(cuda_stream: Any) -> None:
    """Check that a value can be a CUDA stream.

    Raises:
        ArgumentTypeError: it can't.
    """
    known = cuda_stream is None or isinstance(cuda_stream, int)
    if not known and not any(hasattr(cuda_stream, name) for name in (*HANDLES, "__cuda_stream__")):
        raise ArgumentTypeError(
            f"Cannot interpret the object {cuda_stream} as a CUDA stream. Inputs are passed by name: run(name=batch)"
        )


def waited_by(cuda_stream: Any, outputs: tuple[TensorList, ...]) -> tuple[TensorList, ...]:
    """Make a stream of CuPy or torch, or a handle, wait for outputs, and return them; None is no stream."""
    if cuda_stream is not None:
        for output in outputs:
            if isinstance(output, TensorListGPU) and output.ready is not None:
                existing_stream(cuda_stream).wait_event(output.ready)
    return outputs
