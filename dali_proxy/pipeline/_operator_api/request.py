"""Inputs and results of an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from dali_proxy.pipeline._arrays import Bytes, Int64s
from dali_proxy.pipeline._rng import BatchKey, RandomState
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

TensorList = TensorListCPU | TensorListGPU

#: Called with (number of the output, bytes). Returns a uint8 array of that size in host memory and its owner, or None
#: if the executor shall allocate the memory.
OutputAllocator = Callable[[int, int], "tuple[Bytes, Any] | None"]


class DeviceMemory(Protocol):
    """Where batches allocate memory of the GPU."""

    def on(self, stream: Any) -> AbstractContextManager[None]:
        """Return a context in which CuPy allocates this memory on this thread, for a stream of the current device."""

    def output_memory(self, nbytes: int) -> Any:
        """Return memory for a dense output that nothing else reads; None for that of `on`.

        Args:
            nbytes: least size of the memory.

        Returns:
            A `cupy.cuda.MemoryPointer`, to be written on the current stream.
        """


@dataclass(frozen=True)
class ExecutorConfig:
    """The configuration of an executor.

    Attributes:
        max_batch_size: upper limit of the batch size.
        num_threads: number of threads of the CPU stage.
        device_id: GPU, or None.
        seed: seed of the random numbers.
        cpu_depth: number of concurrent batches in the CPU stage.
        gpu_depth: number of concurrent batches in the mixed and GPU stages.
        gpu_streams: number of CUDA streams that these batches share.
        stream_priority: priority of the CUDA streams.
        set_affinity: whether threads are bound to cores, near the GPU if there is one.
        bytes_per_sample: estimated size of a sample of an output, to allocate memory before the first batch, or 0.
        memory_statistics: whether to record the sizes of outputs.
        fuse: whether GPU operators may be fused; the pixels are the same.
        seeded: whether functions of the user get seeded generators in this process, too.
    """

    max_batch_size: int
    num_threads: int
    device_id: int | None
    seed: int
    cpu_depth: int = 2
    gpu_depth: int = 2
    gpu_streams: int = 2
    stream_priority: int = 0
    set_affinity: bool = False
    bytes_per_sample: int = 0
    memory_statistics: bool = False
    fuse: bool = True
    seeded: bool = True


class Announcement(Protocol):
    """What an operator knows of a batch that waits."""

    def close(self) -> None:
        """Tell the operator that the batch has run, or won't. Any thread may call this, several times."""


class BatchRequest(msgspec.Struct, frozen=True, eq=False):
    """A batch to run.

    Attributes:
        batch_size: number of samples.
        inputs: batch for each input of the graph, by name. All have `batch_size` samples.
        key: identity of the batch, for random numbers.
        on_inputs_read: function that is called once the memory of the inputs is no longer read, even after an error.
        random_states: random states of nodes that don't use the seed of the graph and the key, by their index.
        branch: if these are the samples of a branch: the size of the whole batch, and their positions in it. Their
            random numbers are then the same as without the branch.
        ahead: what operators were told of the batch before it began, by their index; see `LooksAhead`.
        title: function that returns the name of a sample, given its position, for warnings.
        drawn: gets what operators draw, by their index: see `Batch.note_draws`; None if nobody asks.
    """

    batch_size: int
    inputs: Mapping[str, TensorList] = {}
    key: BatchKey = BatchKey()
    on_inputs_read: Callable[[], None] | None = None
    random_states: Mapping[int, RandomState] = {}
    branch: tuple[int, Int64s] | None = None
    ahead: Mapping[int, Announcement] = {}
    title: Callable[[int], str] = "sample {}".format
    drawn: dict[int, tuple[Any, ...]] | None = None


class BatchResult(msgspec.Struct, frozen=True, eq=False):
    """The result of a batch: outputs or an error.

    Attributes:
        outputs: batch for each output of the graph; empty after an error.
        error: error, or None.
        seconds: time from the start of the first operator to the end of the last; GPU work may still run.
    """

    outputs: tuple[TensorList, ...] = ()
    error: PipelineError | None = None
    seconds: float = 0.0


def as_batch_error(error: BaseException, when: str) -> PipelineError:
    """Return an exception as an error of a result: itself, or an internal error with the exception as its cause.

    `when` is what happened meanwhile, such as "a batch ran".
    """
    if isinstance(error, PipelineError):
        return error
    failure = PipelineError(f"internal error while {when}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
