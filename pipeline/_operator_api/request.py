"""What goes into an executor and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline._rng import BatchKey
from pipeline.errors import PipelineError
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["BatchRequest", "BatchResult", "ExecutorConfig", "OutputAllocator", "TensorList", "as_batch_error"]

TensorList = TensorListCPU | TensorListGPU

#: Called with (number of the output, bytes); returns an object whose `array` is that many bytes as a uint8 array
#: on the CPU, or None for memory of the executor's own.
OutputAllocator = Callable[[int, int], Any]


@dataclass(frozen=True)
class ExecutorConfig:
    """How an executor runs.

    Attributes:
        max_batch_size: no batch is larger.
        num_threads: threads of the CPU stage.
        device_id: the GPU, or None for none.
        seed: of the random numbers.
        cpu_depth: batches in the CPU stage at once.
        gpu_depth: batches in the mixed and GPU stages at once.
        gpu_streams: CUDA streams that they share.
        stream_priority: priority of the CUDA streams.
        set_affinity: whether the threads are bound to cores, those near the GPU where there is one.
        bytes_per_sample: size of an output's sample, to have memory ready before the first batch; 0 for no guess.
        memory_statistics: whether to keep note of the sizes of outputs.
        fuse: whether operators on the GPU may be run as one; their pixels are the same.
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


@dataclass(frozen=True)
class BatchRequest:
    """A batch to run.

    Attributes:
        inputs: a batch for each input of the graph, by its name. All have `batch_size` samples.
        batch_size: number of samples.
        key: which batch it is, for random numbers.
        on_inputs_read: called once when the inputs' memory is read no more (also after an error).
    """

    batch_size: int
    inputs: Mapping[str, TensorList] = field(default_factory=dict)
    key: BatchKey = BatchKey()
    on_inputs_read: Callable[[], None] | None = None


@dataclass(frozen=True)
class BatchResult:
    """What became of a batch: outputs or an error.

    Attributes:
        outputs: a batch for each output of the graph; empty after an error.
        error: what went wrong, or None.
        seconds: time from the start of its first operator to its end; GPU work may still run.
    """

    outputs: tuple[TensorList, ...] = ()
    error: PipelineError | None = None
    seconds: float = 0.0


def as_batch_error(error: BaseException, when: str) -> PipelineError:
    """Return what a result says of an exception: itself, or an internal error that keeps it as its cause.

    Args:
        error: what was raised.
        when: what happened meanwhile, such as "a batch ran".
    """
    if isinstance(error, PipelineError):
        return error
    failure = PipelineError(f"internal error while {when}: {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
