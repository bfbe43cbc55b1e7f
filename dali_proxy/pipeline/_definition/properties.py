"""The properties of a pipeline that return its arguments."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dali_proxy.pipeline._definition.policies import OperatorConcurrency, StreamPolicy

if TYPE_CHECKING:
    from dali_proxy.pipeline._definition.internals import PipelineInternals


def _argument(name: str) -> Any:
    """Return a property that reads an argument of the pipeline."""
    return property(attrgetter(f"_internals.arguments.{name}"))


class PipelineProperties:
    """The arguments of a pipeline, as properties."""

    _internals: PipelineInternals

    batch_size: int = _argument("batch_size")
    """Largest batch."""
    max_batch_size: int = _argument("batch_size")
    """Largest batch."""
    num_threads: int = _argument("num_threads")
    """Threads of the CPU stage."""
    exec_pipelined: bool = _argument("exec_pipelined")
    """Whether batches overlap."""
    exec_async: bool = _argument("exec_async")
    """Whether batches run in the background."""
    prefetch_queue_depth: int | dict[str, int] = _argument("prefetch_queue_depth")
    """The argument of that name."""
    set_affinity: bool = _argument("set_affinity")
    """Whether the threads of the CPU stage are bound to cores."""
    max_streams: int = _argument("max_streams")
    """Largest number of CUDA streams; -1 for one per batch in the GPU stage."""
    default_cuda_stream_priority: int = _argument("default_cuda_stream_priority")
    """Priority of the CUDA streams."""
    enable_memory_stats: bool = _argument("enable_memory_stats")
    """Whether the sizes of outputs are recorded."""
    py_num_workers: int = _argument("py_num_workers")
    """Worker processes for parallel external sources."""
    py_start_method: str = _argument("py_start_method")
    """Start method of these processes: "fork" or "spawn"."""
    stream_policy: StreamPolicy | None = _argument("stream_policy")
    """The argument of that name; all operators of a batch share a CUDA stream."""
    concurrency: OperatorConcurrency | None = _argument("concurrency")
    """The argument of that name; operators of different stages always run at the same time."""

    @property
    def device_id(self) -> int | None:
        """The GPU. If the pipeline was created without one, this is None until it is built and uses one."""
        return self._internals.device_id

    @property
    def exec_dynamic(self) -> bool | None:
        """The argument of that name; by default True, or None if batches don't overlap or queues are separate."""
        arguments = self._internals.arguments
        usual = arguments.exec_pipelined and arguments.exec_async and not self.exec_separated
        return True if arguments.exec_dynamic is None and usual else arguments.exec_dynamic

    @property
    def seed(self) -> int | None:
        """Seed of the random numbers, or None if it isn't fixed."""
        return self._internals.arguments.seed if self._internals.arguments.seed >= 0 else None

    @property
    def exec_separated(self) -> bool:
        """Whether the CPU stage and the GPU stage have separate queues."""
        return isinstance(self._internals.arguments.prefetch_queue_depth, dict)

    @property
    def cpu_queue_size(self) -> int:
        """Batches in the CPU stage at once."""
        return self._internals.arguments.queue_depths[0]

    @property
    def gpu_queue_size(self) -> int:
        """Batches in the GPU stage at once."""
        return self._internals.arguments.queue_depths[1]
