"""`Pipeline`: a graph, the arguments to run it with, and its life from description to outputs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pipeline._concurrency.finalizers import Ending
from pipeline._definition.arguments import PipelineArguments
from pipeline._definition.checkpoint import Checkpoint
from pipeline._definition.description import DescribesGraph
from pipeline._definition.drawing import DrawsGraph
from pipeline._definition.engine import Engine
from pipeline._definition.readers import ReportsReaders
from pipeline._definition.reporting import ReportsArguments
from pipeline._definition.running import Runner
from pipeline._definition.serializing import Serializes
from pipeline._definition.sources import SourceGroup
from pipeline._executor import Executor
from pipeline._external_source.data import check_batch, to_batch
from pipeline._external_source.device import take_over
from pipeline._graph import DataNode
from pipeline._operator_api.request import BatchRequest, BatchResult, TensorList
from pipeline._operators.decoding.input_parts import split_video
from pipeline.errors import GraphError, PipelineError

__all__ = ["Pipeline"]


class Pipeline(Serializes, DrawsGraph, ReportsReaders, ReportsArguments):
    """A data processing graph and what runs it.

    Describe the graph with `pipeline_def`, by `set_outputs` within ``with pipe:``, or by overriding `define_graph`;
    then call `run`.

    Args:
        batch_size: largest batch; batches may be smaller.
        num_threads: threads of the CPU stage.
        device_id: the GPU; None for a pipeline that uses none.
        seed: of the random numbers; -1 draws one.
        exec_pipelined: whether batches overlap: others start before the first one is done.
        prefetch_queue_depth: batches on their way at once; a dict {"cpu_size": x, "gpu_size": y} sets stages apart.
        exec_async: whether batches run while the caller goes on; else those that were started are done when `run` or
            `schedule_run` returns.
        bytes_per_sample: size of a sample of the outputs, as far as it is known beforehand: memory for it is made
            ready when the pipeline is built. Buffers grow as they must in any case.
        set_affinity: bind each thread of the CPU stage to a core, with a GPU to one that is near it.
        max_streams: most CUDA streams; -1 for one a batch in the GPU stage.
        default_cuda_stream_priority: of the CUDA streams: 0 is the lowest, negative numbers come before it.
        enable_memory_stats: keep note of the sizes of outputs, for `executor_statistics`.
        py_num_workers: processes for parallel external sources; 0 reads these sources in this process.
        py_start_method: how they are started, "fork" or "spawn".
        exec_dynamic: accepted; GPU results may always go back to the CPU.
        enable_checkpointing: whether `checkpoint` may be called.
        checkpoint: go on where `checkpoint` was called, in this process or in another one.

    Raises:
        ArgumentTypeError, ArgumentValueError: for arguments that can't be used.
        SerializationError: for a checkpoint that is none.

    Example:
        >>> import numpy as np
        >>> from pipeline import Pipeline, fn
        >>> pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
        >>> with pipe:
        ...     pipe.set_outputs(fn.external_source(name="x") + 1)
        >>> (out,) = pipe.run(x=np.array([[1], [2]], np.int32))
        >>> out.as_array().ravel().tolist()
        [2, 3]
    """

    def __init__(
        self,
        batch_size: int = -1,
        num_threads: int = -1,
        device_id: int | None = -1,
        seed: int = -1,
        exec_pipelined: bool = True,
        prefetch_queue_depth: int | dict[str, int] = 2,
        exec_async: bool = True,
        bytes_per_sample: int = 0,
        set_affinity: bool = False,
        max_streams: int = -1,
        default_cuda_stream_priority: int = 0,
        *,
        enable_memory_stats: bool = False,
        py_num_workers: int = 1,
        py_start_method: str = "fork",
        exec_dynamic: bool = False,
        enable_checkpointing: bool = False,
        checkpoint: bytes | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "checkpoint", "__class__")}
        self._checkpoint = None if checkpoint is None else Checkpoint.from_bytes(checkpoint)
        if self._checkpoint is not None:
            given["seed"] = self._checkpoint.seed
        self._arguments = PipelineArguments(**given)
        DescribesGraph.__init__(self)
        self._sources: SourceGroup | None = None
        self._engine: Engine | None = None
        self._runner: Runner | None = None
        self._closing: Ending | None = None  # also when the pipeline is dropped without close()
        self._checks_style = True
        self._style: str | None = None  # "run" or "schedule": the first one used, they can't be mixed

    # Building ---------------------------------------------------------------------------------------------------

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Get ready to run; running does it by itself. Does nothing the second time.

        Args:
            define_graph: describes the graph instead of the method of that name.

        Raises:
            BuildError: when the pipeline can't run here; the message says what is missing.
        """
        if self._engine is not None:
            return
        if define_graph is not None:
            if self._sources is not None:
                raise GraphError("build(define_graph=...) is too late: start_py_workers() has already fixed the graph")
            self.describe(define_graph, "build(define_graph=...)")
        self.start_py_workers()
        assert self._sources is not None
        try:
            engine = Engine(self.graph, self._arguments, self.inputs, self._sources)
            self._keep_until_closed(engine.close)
            self._runner = Runner(
                engine.executor,
                engine.inputs,
                engine.sources,
                self.max_batch_size,
                self._arguments.depth,
                self._setup(),
                self._arguments.enable_checkpointing,
                self.exec_async,
            )
            if self._checkpoint is not None:
                self._runner.restore(self._checkpoint.position)
        except BaseException:
            self.close()
            self._sources = None
            raise
        self._engine = engine

    def start_py_workers(self) -> None:
        """Start the worker processes of parallel external sources; `build` does it by itself.

        Forking a process that has used CUDA is not possible. Where other code uses CUDA before the pipeline is
        built, or several pipelines fork workers, call it first.

        Raises:
            WorkerError: they could not be started.
        """
        if self._sources is not None:
            return
        arguments = self._arguments
        arguments.executor_config()  # says what is missing before anything starts
        self._sources = SourceGroup(
            self.graph, arguments.batch_size, arguments.py_num_workers, arguments.py_start_method
        )
        self._keep_until_closed(self._sources.close)

    def _keep_until_closed(self, close: Callable[[], None]) -> None:
        if self._closing is not None:
            self._closing.never()
        self._closing = Ending(self, close)

    def _setup(self) -> Callable[[], Any] | None:
        """Return what calls `iter_setup`, if somebody has written one. It does not keep the pipeline."""
        if getattr(self.iter_setup, "__func__", None) is Pipeline.iter_setup:
            return None
        pipeline = weakref.ref(self)

        def setup() -> None:
            alive = pipeline()
            if alive is not None:
                alive.iter_setup()

        return setup

    @property
    def executor(self) -> Executor:
        """The executor, for whoever runs batches by `Executor.submit`; builds the pipeline."""
        return self._built().executor

    def submit(self, request: BatchRequest, on_done: Callable[[BatchResult], None]) -> None:
        """Run one batch for a caller who brings the fed inputs, and may have many batches on their way: a server.

        What sources give is added, in the order of the calls, on another thread.

        Args:
            request: the batch.
            on_done: called once with the result, on another thread: it must be quick and must not raise.

        Raises:
            PipelineError: the batch was not started, and `on_done` is not called.
        """
        self._built().submitter.submit(request, on_done)

    def __repr__(self) -> str:
        closed = self._closing is not None and not self._closing.pending
        state = "closed" if closed else "not built" if self._engine is None else "built"
        arguments = ", ".join(
            f"{name}={getattr(self._arguments, name)}" for name in ("batch_size", "num_threads", "device_id")
        )
        return f"<Pipeline{self.summary()}; {arguments}; {state}>"

    def close(self) -> None:
        """End all threads and worker processes, and free the device. The pipeline can't run afterwards."""
        if self._closing is not None:
            self._closing.now()

    # Running ----------------------------------------------------------------------------------------------------

    def run(self, **inputs: Any) -> tuple[TensorList, ...]:
        """Run one batch and return its outputs; starts the next ones as far as there is data.

        Args:
            **inputs: a batch for inputs of the graph, by name.

        Raises:
            OperatorError: when an operator failed; the pipeline goes on with the next batch.
        """
        self._use_style("run")

        def feed() -> None:
            for name, data in inputs.items():
                self.feed_input(name, data)

        return self._built_runner().run(feed)

    def schedule_run(self) -> None:
        """Start one batch, and others ahead of it; take its outputs with `share_outputs` or `outputs`.

        Raises:
            MissingInputError: an input has no data.
        """
        self._use_style("schedule")
        self._built_runner().schedule()

    def share_outputs(self) -> tuple[TensorList, ...]:
        """Wait for the oldest batch and return its outputs; they stay valid as long as they are held.

        Raises:
            StopIteration: the data has ended, or no batch was scheduled.
            PipelineError: the batch failed.
        """
        self._use_style("schedule")
        return self._built_runner().take()

    def release_outputs(self) -> None:
        """Tell that outputs are used no more. Buffers return by themselves when they are dropped."""
        self._use_style("schedule")

    def outputs(self) -> tuple[TensorList, ...]:
        """Wait for the oldest batch and return its outputs. Raises as `share_outputs` does."""
        return self.share_outputs()

    def iter_setup(self) -> None:
        """Override it to feed inputs: it is called before each batch that is started.

        Raise `StopIteration` in it when there is no more data.
        """

    def feed_input(
        self,
        data_node: DataNode | str,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Queue a batch for an `external_source`, or a video for an `inputs.video`, which becomes several batches.

        Args:
            data_node: the node, or its name.
            data: an array with the batch dimension in front, or a list of samples: NumPy, torch or CuPy arrays,
                anything with ``__array__``, DLPack, tensors of this package.
            layout: names of the dimensions of a sample.
            cuda_stream: for data on a GPU, the stream that made it and that goes on to use it: a stream of torch or
                CuPy, or a handle. By default the current one of the data's library; 0 is the default stream. With -1
                nothing is waited for, so the data must be complete; then it is copied when this returns.
            use_copy_kernel: copy data on a GPU with a kernel instead of by ``cudaMemcpyAsync``.

        Raises:
            UnknownInputError: the pipeline has no such input.
            InputError: the data doesn't fit the input, or the input has a source.
        """
        name = self.name_of(data_node)
        node = self.inputs.get(name)
        if node is None:
            raise self.unknown_input(name)
        batch = to_batch(data, layout or None, f"input {name!r}")
        engine = self._built()
        if node.operator != "external_source":
            for part in split_video(batch, node, self.max_batch_size, self.device_id):
                engine.inputs.feed(name, part)
            return
        batch = check_batch(batch, node, self.max_batch_size)
        engine.inputs.feed(name, take_over(batch, node, data, cuda_stream, use_copy_kernel))

    def input_feed_count(self, name: str) -> int:
        """Return how many batches of an input have to be fed before all stages are busy."""
        if name not in self.inputs:
            raise self.unknown_input(name)
        return self._arguments.depth

    def reset(self) -> None:
        """Begin the next epoch, if the data has ended; else do nothing.

        Batches that are on their way, and data that was fed, come first.
        """
        self._built_runner().reset()

    def empty(self) -> bool:
        """Tell whether nothing is on its way."""
        return self._runner is None or not self._runner.busy

    def checkpoint(self, filename: str | Path | None = None, *, notes: Mapping[str, int] | None = None) -> bytes:
        """Return what a new pipeline of the same graph needs to go on after the batches that were taken.

        Random numbers and sources continue exactly, also in another process: ``Pipeline(..., checkpoint=...)``. A
        callable source is asked for what comes next; an iterable one is read again up to where it was, so it must
        give the same. Data that was fed is not part of it.

        Args:
            filename: a file to write it to, as well.
            notes: what to find in `checkpoint_notes` of the new pipeline.

        Raises:
            PipelineError: the pipeline was made without ``enable_checkpointing=True``.
            SerializationError: a source can't go on elsewhere.
        """
        if not self._arguments.enable_checkpointing:
            raise PipelineError("checkpoint() needs a pipeline that was made with enable_checkpointing=True")
        data = Checkpoint(self._arguments.drawn_seed, self._built_runner().position, notes or {}).to_bytes()
        if filename is not None:
            Path(filename).write_bytes(data)
        return data

    def executor_statistics(self) -> dict[str, dict[str, list[int]]]:
        """Return how much memory the outputs of operators had so far, by the names of the operators.

        Each has four lists with a number of bytes for each output of the operator, the largest so far:
        `real_memory_size`, of a batch; `max_real_memory_size`, of a sample; `reserved_memory_size` and
        `max_reserved_memory_size`, of the memory that they lie in. Empty unless the pipeline was made with
        ``enable_memory_stats=True``.
        """
        memory = self._built().executor.memory
        return {} if memory is None else memory.by_operator()

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether the pipeline was made with a checkpoint."""
        return self._checkpoint is not None

    @property
    def checkpoint_notes(self) -> Mapping[str, int]:
        """The notes in the checkpoint that the pipeline was made with; nothing without one."""
        return {} if self._checkpoint is None else self._checkpoint.notes

    def _built(self) -> Engine:
        self.build()
        assert self._engine is not None
        return self._engine

    def _built_runner(self) -> Runner:
        self.build()
        assert self._runner is not None
        return self._runner

    def enable_api_check(self, enable: bool) -> None:
        """Tell whether mixing `run` with `schedule_run`, `share_outputs` and `release_outputs` is an error.

        It is at first: batches that one of them scheduled would be taken by the other.
        """
        self._checks_style = bool(enable)

    def _use_style(self, style: str) -> None:
        if self._checks_style and self._style not in (None, style):
            raise PipelineError(
                "run() can't be mixed with schedule_run(), share_outputs() and release_outputs() on one pipeline"
            )
        self._style = style
