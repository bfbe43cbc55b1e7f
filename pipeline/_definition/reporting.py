"""What a pipeline was made with, as its properties."""

from __future__ import annotations

from pipeline._definition.arguments import PipelineArguments
from pipeline._operator_api.request import ExecutorConfig

__all__ = ["ReportsArguments"]


class ReportsArguments:
    """The part of a pipeline that tells what it was made with."""

    _arguments: PipelineArguments

    def executor_config(self) -> ExecutorConfig:
        """Return how the executor of the pipeline runs: for whoever plans what it would do.

        Raises:
            MissingSizeError: when the pipeline was made without what running needs.
        """
        return self._arguments.executor_config()

    @property
    def batch_size(self) -> int:
        """Largest batch."""
        return self._arguments.batch_size

    @property
    def max_batch_size(self) -> int:
        """Largest batch."""
        return self._arguments.batch_size

    @property
    def num_threads(self) -> int:
        """Threads of the CPU stage."""
        return self._arguments.num_threads

    @property
    def device_id(self) -> int | None:
        """The GPU, or None for a pipeline that uses none."""
        return self._arguments.device_id

    @property
    def seed(self) -> int | None:
        """Seed of the random numbers, or None when it isn't fixed."""
        return self._arguments.seed if self._arguments.seed >= 0 else None

    @property
    def exec_pipelined(self) -> bool:
        """Whether batches overlap."""
        return self._arguments.exec_pipelined

    @property
    def exec_async(self) -> bool:
        """Whether batches run while the caller goes on."""
        return self._arguments.exec_async

    @property
    def exec_separated(self) -> bool:
        """Whether the CPU stage and the GPU stage have queues of their own."""
        return isinstance(self._arguments.prefetch_queue_depth, dict)

    @property
    def exec_dynamic(self) -> bool:
        """Whether GPU results may go back to the CPU; they always may."""
        return self._arguments.exec_dynamic

    @property
    def prefetch_queue_depth(self) -> int | dict[str, int]:
        """As it was given."""
        return self._arguments.prefetch_queue_depth

    @property
    def cpu_queue_size(self) -> int:
        """Batches in the CPU stage at once."""
        return self._arguments.queue_depths[0]

    @property
    def gpu_queue_size(self) -> int:
        """Batches in the GPU stage at once."""
        return self._arguments.queue_depths[1]

    @property
    def set_affinity(self) -> bool:
        """Whether the threads of the CPU stage are bound to cores."""
        return self._arguments.set_affinity

    @property
    def max_streams(self) -> int:
        """Most CUDA streams; -1 for one a batch in the GPU stage."""
        return self._arguments.max_streams

    @property
    def default_cuda_stream_priority(self) -> int:
        """Priority of the CUDA streams."""
        return self._arguments.default_cuda_stream_priority

    @property
    def enable_memory_stats(self) -> bool:
        """Whether sizes of outputs are gathered."""
        return self._arguments.enable_memory_stats

    @property
    def py_num_workers(self) -> int:
        """Worker processes for parallel external sources."""
        return self._arguments.py_num_workers

    @property
    def py_start_method(self) -> str:
        """How those processes are started: "fork" or "spawn"."""
        return self._arguments.py_start_method
