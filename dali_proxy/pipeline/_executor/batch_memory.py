"""The memory of batches: of outputs on both devices, and of fed data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.gather import gathered
from dali_proxy.pipeline._compiler.plan import Plan
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._executor.device import Device
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._operator_api.request import DeviceMemory, ExecutorConfig, OutputAllocator
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU


class BatchMemory:
    """Allocates memory for the batches of an executor.

    Args:
        graph: the graph.
        plan: its plan.
        device: its GPU, or None.

    Attributes:
        allocator: allocator of dense outputs on the CPU; None for own buffers.
        on_gpu: where batches allocate memory of the GPU; None for CuPy's pools.
    """

    def __init__(self, graph: Graph, plan: Plan, device: Device | None) -> None:
        self.allocator: OutputAllocator | None = None
        self.on_gpu: DeviceMemory | None = None
        self._graph, self._device = graph, device
        #: Outputs that nothing else reads.
        self._final = {edge for edge in graph.outputs if plan.readers[edge] == 1}
        self._numbers: dict[Edge, int] = {}
        for number, edge in enumerate(graph.outputs):
            self._numbers.setdefault(edge, number)
        self._buffers = BufferPool()
        self._pinned_buffers = BufferPool(pin_for=None if device is None else device.device_id)
        #: Fed inputs that are copied to the GPU.
        self._uploaded = {node.name for node in graph.inputs if node.device == "gpu"} | {
            graph.nodes[edge.node].name for node in graph.find(Role.COPY_TO_GPU) for edge in node.inputs
        }

    def reserve(self, config: ExecutorConfig) -> None:
        """Allocate memory for the outputs of all concurrent batches, if the user has estimated their size."""
        nbytes = config.bytes_per_sample * config.max_batch_size
        if nbytes:
            outputs = set(self._graph.outputs)
            on_gpu = sum(self._graph.device_of(edge) == "gpu" for edge in outputs)
            self._buffers.reserve(nbytes, (config.cpu_depth + 1) * (len(outputs) - on_gpu))
            if self._device is not None:
                self._device.reserve(nbytes, (config.gpu_depth + 1) * on_gpu)

    def allocate(self, edge: Edge, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, Any]:
        """Return memory on the CPU for a dense output, and its owner or None."""
        nbytes = math.prod(shape) * dtype.itemsize
        number = self._numbers.get(edge)
        if number is not None and self.allocator is not None:
            allocated = self.allocator(number, nbytes)
            if allocated is not None:
                memory, owner = allocated
                return memory.view(dtype).reshape(shape), owner
        return self._buffers.array(shape, dtype), None

    def output_on_gpu(self, edge: Edge, nbytes: int) -> Any:
        """Return memory on the GPU for a dense output; None for that of CuPy's allocator."""
        return self.on_gpu.output_memory(nbytes) if self.on_gpu is not None and edge in self._final else None

    def copy_input(self, batch: TensorListCPU, node: GraphNode, pool: ThreadPool) -> TensorListCPU:
        """Copy fed data; to pinned memory if the GPU reads the data.

        Args:
            batch: the data.
            node: the input.
            pool: threads that copy.
        """
        return gathered(batch, self._pinned_buffers if node.name in self._uploaded else self._buffers, pool)
