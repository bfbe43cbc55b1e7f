"""Data that users feed from the memory of a GPU, and its synchronization with the user's stream.

The copy runs on an internal stream. It waits for an event on the user's stream, and that stream waits for its end, as
if the copy ran there. This needs only the handle of the user's stream.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

from dali_proxy.pipeline._cuda.streams import new_stream
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import ArgumentTypeError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

INTERNAL = -1


def take_over(
    batch: TensorList,
    node: GraphNode,
    copy: Callable[[TensorListCPU, GraphNode], TensorListCPU],
    data: Any = None,
    cuda_stream: Any = None,
    use_copy_kernel: bool = False,
) -> TensorList:
    """Return a batch for an `external_source` that the pipeline may keep until its run ends.

    It is a copy, unless the operator has ``no_copy=True``. A batch on the GPU has an event after which it may be read.

    Args:
        batch: the data.
        node: the operator.
        copy: function that copies a batch on the CPU for the operator.
        data: original data of the user; without `cuda_stream`, the current stream of its library applies.
        cuda_stream: stream on which the data is written, as a handle or an object with one; 0 for the default stream,
            -1 for complete data. With -1, the copy is complete when this returns.
        use_copy_kernel: whether to copy with a kernel instead of ``cudaMemcpyAsync``.
    """
    no_copy = bool(node.argument("no_copy"))
    if not isinstance(batch, TensorListGPU):
        return batch if no_copy else copy(batch, node)
    import cupy

    handle = stream_handle(node.argument("cuda_stream") if cuda_stream is None else cuda_stream, data)
    runtime = cupy.cuda.runtime
    with cupy.cuda.Device(batch.device_id()):
        written = cupy.cuda.Event(block=True, disable_timing=True)
        internal = _internal_stream(batch.device_id())
        if handle != INTERNAL:
            runtime.eventRecord(written.ptr, handle)
            internal.wait_event(written)
        if batch.ready is not None:
            internal.wait_event(batch.ready)
        with internal:
            result = batch if no_copy else _copy(batch, use_copy_kernel or bool(node.argument("use_copy_kernel")))
        ready = cupy.cuda.Event(block=True, disable_timing=True)
        ready.record(internal)
        if handle == INTERNAL or node.device == "cpu":
            ready.synchronize()
        elif not no_copy:
            runtime.streamWaitEvent(handle, ready.ptr, 0)  # the user's next work on the stream waits for the copy
        if no_copy:
            if batch.dense is None:
                batch.table()  # once, however often the batch is repeated
            result = batch.with_layout(batch.layout())
        else:
            result.stream = internal  # its memory returns to the pool of this stream
            for stream in (batch.stream, *batch.lenders):  # their pools may now get back the memory of `batch`
                if stream is not None:
                    stream.wait_event(ready)
        result.ready = ready
    return result.as_cpu() if node.device == "cpu" else result


def stream_handle(cuda_stream: Any, data: Any = None) -> int:
    """Return the handle of the given CUDA stream or, without one, of the current stream of the data's library.

    Args:
        cuda_stream: a number, a stream of torch or CuPy, an object with ``__cuda_stream__``, or None.
        data: data on the GPU, or a list of such data.

    Raises:
        ArgumentTypeError: `cuda_stream` has another type.
    """
    if cuda_stream is not None:
        if hasattr(cuda_stream, "__cuda_stream__"):
            return int(cuda_stream.__cuda_stream__()[1])
        handle = getattr(cuda_stream, "cuda_stream", getattr(cuda_stream, "ptr", cuda_stream))
        handle = getattr(handle, "value", handle)  # unwrap a ctypes.c_void_p
        if isinstance(handle, bool) or not isinstance(handle, int):
            raise ArgumentTypeError(f"cuda_stream must be a CUDA stream or its handle, not {cuda_stream!r}")
        return handle
    first = data[0] if isinstance(data, list | tuple) and data else data
    if type(first).__module__.partition(".")[0] == "torch":
        import torch

        return int(torch.cuda.current_stream(first.device).cuda_stream)
    import cupy

    return int(cupy.cuda.get_current_stream().ptr)


@cache
def _internal_stream(device_id: int) -> Any:
    import cupy

    with cupy.cuda.Device(device_id):
        return new_stream()


@lru_cache(maxsize=1)
def _copy_kernel() -> Any:
    import cupy

    return cupy.ElementwiseKernel("T x", "T y", "y = x", "dali_proxy_copy")


def _copy(batch: TensorListGPU, use_kernel: bool) -> TensorListGPU:
    def copy(array: Any) -> Any:
        return _copy_kernel()(array) if use_kernel else _copy_array(array)

    if batch.dense is not None:
        return TensorListGPU(copy(batch.dense), batch.layout())
    return TensorListGPU([copy(sample) for sample in batch.samples], batch.layout())


def _copy_array(array: Any) -> Any:
    """Copy an array by the copy engine; by a kernel of CuPy if it isn't contiguous."""
    if not array.flags.c_contiguous:
        return array.copy()
    import cupy

    result, runtime = cupy.empty_like(array), cupy.cuda.runtime
    stream = cupy.cuda.get_current_stream().ptr
    runtime.memcpyAsync(result.data.ptr, array.data.ptr, array.nbytes, runtime.memcpyDeviceToDevice, stream)
    return result
