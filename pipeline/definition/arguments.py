"""The arguments of a pipeline, checked, and what they mean for its executor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.errors import ArgumentTypeError, ArgumentValueError, BuildError
from pipeline.executor import ExecutorConfig
from pipeline.rng import fresh_seed

__all__ = ["PipelineArguments"]


@dataclass(frozen=True)
class PipelineArguments:
    """What `Pipeline` was made with; its docstring says what each argument means.

    Raises:
        ArgumentTypeError, ArgumentValueError: for arguments that can't be used.
    """

    batch_size: int
    num_threads: int
    device_id: int | None
    seed: int
    exec_pipelined: bool
    prefetch_queue_depth: int | dict[str, int]
    exec_async: bool
    bytes_per_sample: int
    set_affinity: bool
    max_streams: int
    default_cuda_stream_priority: int
    enable_memory_stats: bool
    py_num_workers: int
    py_start_method: str
    exec_dynamic: bool
    enable_checkpointing: bool

    def __post_init__(self) -> None:
        for name in ("batch_size", "num_threads", "seed", "device_id", "py_num_workers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not (hasattr(value, "__index__") or (value is None and name == "device_id")):
                raise ArgumentTypeError(f"Pipeline: {name} must be int, not {type(value).__name__}")
        if self.py_start_method not in ("fork", "spawn"):
            raise ArgumentValueError(
                f'Pipeline: py_start_method must be "fork" or "spawn", not {self.py_start_method!r}'
            )
        if self.py_num_workers < 0:
            raise ArgumentValueError(f"Pipeline: py_num_workers must be 0 or more, not {self.py_num_workers}")
        for size in self.queue_depths:
            if isinstance(size, bool) or not isinstance(size, int):
                raise ArgumentTypeError(
                    'Pipeline: prefetch_queue_depth must be int or {"cpu_size": int, "gpu_size": int}, '
                    f"not {self.prefetch_queue_depth!r}"
                )
            if size < 1:
                raise ArgumentValueError(
                    f"Pipeline: prefetch_queue_depth must be 1 or more, not {self.prefetch_queue_depth!r}"
                )
        if self.seed < 0:
            object.__setattr__(self, "seed", fresh_seed())

    @property
    def queue_depths(self) -> tuple[int, int]:
        """Batches in the CPU stage and in the GPU stage at once."""
        depth: Any = self.prefetch_queue_depth
        sizes: Any = (depth.get("cpu_size"), depth.get("gpu_size")) if isinstance(depth, dict) else (depth, depth)
        return sizes[0], sizes[1]

    def executor_config(self) -> ExecutorConfig:
        """Return how the executor is to run.

        Raises:
            BuildError: when the pipeline was made without what running needs.
        """
        for name in ("batch_size", "num_threads"):
            if getattr(self, name) < 1:
                raise BuildError(f"the pipeline has no {name}: pass {name}= (1 or more)")
        cpu_depth, gpu_depth = self.queue_depths if self.exec_pipelined else (1, 1)
        return ExecutorConfig(
            max_batch_size=self.batch_size,
            num_threads=self.num_threads,
            device_id=0 if self.device_id == -1 else self.device_id,
            seed=self.seed,
            cpu_depth=cpu_depth,
            gpu_depth=gpu_depth,
            stream_priority=self.default_cuda_stream_priority,
            cpu_affinity=_all_cores() if self.set_affinity else (),
        )


def _all_cores() -> tuple[int, ...]:
    import psutil

    affinity: list[int] = psutil.Process().cpu_affinity()
    return tuple(affinity)
