"""The arguments of a pipeline: checks, and their meaning for the executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from dali_proxy.pipeline._cache.options import CacheOptions
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._definition.output_declarations import OutputDeclarations
from dali_proxy.pipeline._definition.policies import OperatorConcurrency, StreamPolicy
from dali_proxy.pipeline._executor import ExecutorConfig
from dali_proxy.pipeline._external_source.parallel.pickler import SourcePickler
from dali_proxy.pipeline._rng import fresh_seed
from dali_proxy.pipeline.errors import (
    ArgumentMismatchError,
    ArgumentTypeError,
    ArgumentValueError,
    MissingSizeError,
    UnknownArgumentError,
)

_INTEGERS = (
    "batch_size",
    "num_threads",
    "seed",
    "device_id",
    "bytes_per_sample",
    "max_streams",
    "default_cuda_stream_priority",
    "py_num_workers",
)


@dataclass(frozen=True)
class PipelineArguments:
    """The arguments of a `Pipeline`. Its docstring describes each of them.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument can't be used.
    """

    batch_size: int = -1
    num_threads: int = -1
    device_id: int | None = -1
    seed: int = -1
    exec_pipelined: bool = True
    prefetch_queue_depth: int | dict[str, int] = 2
    exec_async: bool = True
    bytes_per_sample: int = 0
    set_affinity: bool = False
    max_streams: int = -1
    default_cuda_stream_priority: int = 0
    enable_memory_stats: bool = False
    py_num_workers: int = 1
    py_start_method: str = "fork"
    py_callback_pickler: Any = None
    exec_dynamic: bool | None = None
    enable_checkpointing: bool = False
    output_dtype: Any = None
    output_ndim: Any = None
    output_layout: Any = None
    stream_policy: StreamPolicy | None = None
    concurrency: OperatorConcurrency | None = None
    cache: Any = 0

    def __post_init__(self) -> None:
        for name in ("batch_size", "num_threads", "seed", "max_streams", "default_cuda_stream_priority"):
            if getattr(self, name) is None:  # DALI's own default
                object.__setattr__(self, name, PipelineArguments.__dataclass_fields__[name].default)
        for name in _INTEGERS:
            value = getattr(self, name)
            refused = isinstance(value, bool) and name != "seed"
            if refused or not (hasattr(value, "__index__") or (value is None and name == "device_id")):
                wanted = "int or None" if name == "device_id" else "int"
                raise ArgumentTypeError(f"Pipeline: {name} must be {wanted}, not {type(value).__name__} ({value!r})")
        if self.py_start_method not in ("fork", "spawn"):
            raise ArgumentValueError(
                f'Pipeline: py_start_method must be "fork" or "spawn", not {self.py_start_method!r}'
            )
        if self.py_callback_pickler is not None and self.py_start_method == "fork":
            raise ArgumentValueError(
                "``py_callback_pickler`` should not be set when 'fork' start method is used: forked workers inherit "
                "the sources"
            )
        _ = self.pickler
        for name in ("py_num_workers", "bytes_per_sample"):
            if getattr(self, name) < 0:
                raise ArgumentMismatchError(f"Pipeline: {name} must be 0 or more, not {getattr(self, name)}")
        if self.max_streams < 1 and self.max_streams != -1:
            raise ArgumentValueError(
                f"Pipeline: max_streams must be 1 or more, or -1 for any number, not {self.max_streams}"
            )
        for name, enum in (("stream_policy", StreamPolicy), ("concurrency", OperatorConcurrency)):
            if not isinstance(getattr(self, name), enum | None):
                raise ArgumentTypeError(f"Pipeline: {name} must be a {enum.__name__}, not {getattr(self, name)!r}")
        _ = self.output_declarations
        object.__setattr__(self, "cache", CacheOptions.from_argument(self.cache, "Pipeline: cache").plain())
        self._check_depth()
        if not self.exec_pipelined and not self.exec_async and isinstance(self.prefetch_queue_depth, dict):
            raise ArgumentValueError(
                "Pipeline: separate queues (prefetch_queue_depth as a dict) need exec_pipelined or exec_async"
            )

    def _check_depth(self) -> None:
        if isinstance(self.prefetch_queue_depth, dict) and set(self.prefetch_queue_depth) != {"cpu_size", "gpu_size"}:
            raise UnknownArgumentError(
                'Pipeline: prefetch_queue_depth must be int or {"cpu_size": int, "gpu_size": int}, '
                f"not {self.prefetch_queue_depth!r}"
            )
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

    @property
    def given_seed(self) -> int | None:
        """The seed that the user passed, or None."""
        return self.seed if self.seed >= 0 else None

    @cached_property
    def drawn_seed(self) -> int:
        """The seed, or one that is drawn once if the user passed none."""
        return self.seed if self.seed >= 0 else fresh_seed()

    @cached_property
    def output_declarations(self) -> OutputDeclarations:
        """The declared dtypes, numbers of dimensions and layouts of the outputs."""
        return OutputDeclarations(self.output_dtype, self.output_ndim, self.output_layout)

    @cached_property
    def pickler(self) -> SourcePickler | None:
        """The pickler of the user, which sends sources to spawned workers; None for the default."""
        return None if self.py_callback_pickler is None else SourcePickler.from_argument(self.py_callback_pickler)

    @property
    def by_name(self) -> dict[str, Any]:
        """The arguments by name, except for code of the user."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "py_callback_pickler"}

    def over(self, others: Mapping[str, Any]) -> PipelineArguments:
        """Return these arguments, with `others` in place of those that were left at their defaults."""
        return PipelineArguments(**{**others, **self.explicit})

    @property
    def explicit(self) -> dict[str, Any]:
        """The arguments by name that differ from their defaults, except for code of the user."""
        defaults = PipelineArguments().by_name
        return {name: value for name, value in self.by_name.items() if value != defaults[name]}

    @property
    def queue_depths(self) -> tuple[int, int]:
        """Batches in the CPU stage and in the GPU stage at once."""
        depth: Any = self.prefetch_queue_depth
        return (depth["cpu_size"], depth["gpu_size"]) if isinstance(depth, dict) else (depth, depth)

    def depth(self, *, uses_gpu: bool) -> int:
        """Return the largest number of batches in flight. With a GPU, each of its two stages has its own batches."""
        if not self.exec_pipelined:
            return 1
        return sum(self.queue_depths) if uses_gpu else max(self.queue_depths)

    def executor_config(self) -> ExecutorConfig:
        """Return the configuration of the executor.

        Raises:
            MissingSizeError: the pipeline was created without an argument that is needed to run it.
        """
        for name in ("batch_size", "num_threads"):
            if (size := getattr(self, name)) < 1:
                given = f"'s {name} is 0" if size == 0 else f" has no {name}"
                raise MissingSizeError(f"the pipeline{given}: pass {name}= (1 or more)")
        cpu_depth, gpu_depth = self.queue_depths if self.exec_pipelined else (1, 1)
        device_id = 0 if self.device_id == -1 else self.device_id
        return ExecutorConfig(
            max_batch_size=self.batch_size,
            num_threads=self.num_threads,
            device_id=device_id,
            seed=self.drawn_seed,
            cpu_depth=cpu_depth,
            gpu_depth=gpu_depth,
            gpu_streams=gpu_depth if self.max_streams == -1 else min(gpu_depth, self.max_streams),
            stream_priority=self.default_cuda_stream_priority,
            set_affinity=self.set_affinity,
            bytes_per_sample=self.bytes_per_sample,
            memory_statistics=self.enable_memory_stats,
            seeded=self.seed >= 0,
        )
