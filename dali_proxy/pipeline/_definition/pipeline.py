"""`Pipeline`: a graph and everything that runs it. This class defines all that a user calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._definition.arguments import PipelineArguments
from dali_proxy.pipeline._definition.checkpoint import Checkpoint
from dali_proxy.pipeline._definition.graph_format import decode_pipeline, encode_pipeline
from dali_proxy.pipeline._definition.internals import PipelineInternals
from dali_proxy.pipeline._definition.policies import OperatorConcurrency, StreamPolicy
from dali_proxy.pipeline._definition.views import PipelineViews
from dali_proxy.pipeline._graph import DataNode, Graph, SourceLocation
from dali_proxy.pipeline._graph.builder import GraphBuilder
from dali_proxy.pipeline._graph.current import current_builder, pop_builder, push_builder
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline._operator_api.reader import ReaderMeta
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operator_api.waiting import check_stream, waited_by
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, NoOutputsError, PipelineError
from dali_proxy.pipeline.types import DALIDataType

if TYPE_CHECKING:
    from typing_extensions import Self


class Pipeline(PipelineViews):
    """A data processing graph and everything that runs it.

    Describe the graph with `pipeline_def`, by `set_outputs` within ``with pipe:``, or by overriding `define_graph`;
    then call `run`.

    A subclass may use any attribute that NVIDIA DALI's `Pipeline` doesn't define, even for operators and data:
    ``self.input = ...``, ``self.inputs = ...``.

    Args:
        batch_size: largest batch; batches may be smaller.
        num_threads: threads of the CPU stage.
        device_id: the GPU. None, if an operator needs a GPU, is the current device of CUDA when the pipeline is built.
        seed: seed of the random numbers; -1 draws one.
        exec_pipelined: whether batches overlap: the next ones start before the first one is done.
        prefetch_queue_depth: batches in flight at once; a dict {"cpu_size": x, "gpu_size": y} sets them for each stage.
            Where small batches run as one on the GPU, more are in flight, up to 1 GiB of results, if that is faster.
        exec_async: whether batches run in the background; if not, `run` and `schedule_run` return when the batches
            that they started are done.
        bytes_per_sample: expected size of a sample of the outputs. The pipeline allocates that much memory when it is
            built. Buffers grow beyond it when necessary.
        set_affinity: bind each thread of the CPU stage to a core, near the GPU if the pipeline uses one.
        max_streams: largest number of CUDA streams; -1 for one per batch in the GPU stage.
        default_cuda_stream_priority: priority of the CUDA streams: 0 is the lowest, negative numbers are higher.
        enable_memory_stats: record the sizes of outputs, for `executor_statistics`.
        py_num_workers: processes for parallel external sources and, if it is more than `num_threads`, for Python
            functions; with 0, both run in this process.
        py_start_method: start method of these processes, "fork" or "spawn".
        py_callback_pickler: for start method "spawn", an object with functions `dumps` and `loads`, such as the module
            `dill`, or a tuple of it, a dict of keyword arguments of `dumps`, and one of `loads`. It sends the sources
            to the processes. By default, functions that the processes can't import are sent with their code.
        exec_dynamic: accepted; GPU results may always return to the CPU.
        experimental_exec_dynamic: deprecated name of `exec_dynamic`.
        enable_checkpointing: whether `checkpoint` may be called.
        checkpoint: resume where `checkpoint` was called, in this process or in another one.
        output_dtype: dtype of all outputs, or a list with the dtype of each. A batch with a different dtype raises an
            error. None, in a list too, declares nothing.
        output_ndim: number of dimensions of the samples, as for `output_dtype`.
        output_layout: layout of the samples, as for `output_dtype`.
        stream_policy: accepted; all operators of a batch share a CUDA stream.
        concurrency: accepted; operators of different stages always run at the same time.
        cache: bytes of memory for decoded samples, such as "8GB": later epochs then don't decode them again. The
            results are the same; `explain` says which operators it concerns. A dict such as {"memory": "8GB",
            "folder": "/nvme/me/cache", "disk": "100GB"} adds files on a local disk, which survive the process.

    Raises:
        ArgumentTypeError, ArgumentValueError: an argument can't be used.
        SerializationError: `checkpoint` isn't a checkpoint.

    Example:
        >>> import numpy as np
        >>> from dali_proxy import Pipeline, fn
        >>> pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
        >>> with pipe:
        ...     pipe.set_outputs(fn.external_source(name="x") + 1)
        >>> (out,) = pipe.run(x=np.array([[1], [2]], np.int32))
        >>> out.as_array().ravel().tolist()
        [2, 3]
    """

    # Properties that DALI doesn't define are cached_property, which a subclass's assignment replaces. Our own code
    # reads `_internals` only, so it doesn't depend on them.

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
        py_callback_pickler: Any = None,
        exec_dynamic: bool | None = None,
        experimental_exec_dynamic: bool | None = None,
        enable_checkpointing: bool = False,
        checkpoint: bytes | None = None,
        output_dtype: DALIDataType | Sequence[DALIDataType | None] | None = None,
        output_ndim: int | Sequence[int | None] | None = None,
        output_layout: str | Sequence[str | None] | None = None,
        stream_policy: StreamPolicy | None = None,
        concurrency: OperatorConcurrency | None = None,
        cache: int | str | Mapping[str, Any] = 0,
    ) -> None:
        arguments = {name: value for name, value in locals().items() if name not in ("self", "checkpoint", "__class__")}
        if arguments.pop("experimental_exec_dynamic") is not None:
            warn_caller("experimental_exec_dynamic is deprecated, please use exec_dynamic instead", Warning)
            arguments["exec_dynamic"] = experimental_exec_dynamic
        resumed = None if checkpoint is None else Checkpoint.from_bytes(checkpoint)
        if resumed is not None:
            arguments["seed"] = resumed.seed
        self._internals = PipelineInternals(self, PipelineArguments(**arguments), resumed, create=pipeline_from_graph)

    def __repr__(self) -> str:
        internals = self._internals
        arguments = ", ".join(
            f"{name}={getattr(internals.arguments, name)}" for name in ("batch_size", "num_threads", "device_id")
        )
        return f"<Pipeline{internals.summary}; {arguments}; {internals.state}>"

    # Describing the graph -----------------------------------------------------------------------------------------

    def define_graph(self) -> Any:
        """Override this method to describe the graph: return the outputs.

        The other ways are `pipeline_def` and `set_outputs`.
        """
        raise NoOutputsError(
            "the pipeline has no outputs: use pipeline_def, call set_outputs() or override define_graph()"
        )

    def set_outputs(self, *output_data_nodes: Any) -> None:
        """Set the outputs of the pipeline.

        Args:
            *output_data_nodes: data nodes or constants. `build` raises an ArgumentTypeError if an output is neither.
        """
        self._internals.builder.set_outputs(*output_data_nodes)

    def add_sink(self, edge: DataNode) -> None:
        """Keep an operator in the graph, even if no output of the pipeline needs it.

        Args:
            edge: an output of the operator.

        Raises:
            ArgumentTypeError: `edge` isn't an output of an operator.
            GraphError: the graph is fixed.
        """
        self._internals.builder.add_sink(edge)

    def __enter__(self) -> Self:
        push_builder(self._internals.builder)
        return self

    def __exit__(self, *exc_info: object) -> None:
        pop_builder()

    @staticmethod
    def current() -> Pipeline | None:
        """Return the pipeline whose graph is being described, or None."""
        builder = current_builder()
        return None if builder is None or builder.owner is None else builder.owner()

    @staticmethod
    def push_current(pipeline: Pipeline) -> None:
        """Make a pipeline current, for operators that have side effects; ``with pipeline:`` is safer."""
        push_builder(pipeline._internals.builder)

    @staticmethod
    def pop_current() -> None:
        """Restore the pipeline that was current before.

        Raises:
            GraphError: no pipeline is current.
        """
        pop_builder()

    # Building and closing -----------------------------------------------------------------------------------------

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Prepare the pipeline for running. `run` calls this if necessary. Does nothing the second time.

        Args:
            define_graph: describes the graph instead of the method of that name.

        Raises:
            BuildError: the pipeline can't run here; the message says what is missing.
        """
        self._internals.build(define_graph, Pipeline.iter_setup)

    def start_py_workers(self) -> None:
        """Start the worker processes of parallel external sources. `build` calls this if necessary.

        A process that has used CUDA can't be forked. Call this first if other code uses CUDA before the pipeline is
        built, or if several pipelines fork workers.

        Raises:
            WorkerError: the workers could not be started.
        """
        self._internals.start_workers()

    def close(self) -> None:
        """End all threads and worker processes, and free the device. The pipeline can't run afterwards."""
        self._internals.close()

    # Running ------------------------------------------------------------------------------------------------------

    def run(self, cuda_stream: Any = None, /, **inputs: Any) -> tuple[TensorList, ...]:
        """Run one batch and return its outputs. Start the next batches if their data exists.

        Args:
            cuda_stream: a stream, of CuPy, torch or as a handle, that waits for outputs on the GPU.
            **inputs: a batch for inputs of the graph, by name.

        Raises:
            OperatorError: an operator failed; the pipeline continues with the next batch.
        """
        check_stream(cuda_stream)
        self._internals.use_api("BASIC")

        def feed() -> None:
            for name, data in inputs.items():
                self.feed_input(name, data)

        return waited_by(cuda_stream, self._internals.as_declared(self._internals.runner.run(feed if inputs else None)))

    def schedule_run(self) -> None:
        """Start one batch, and later ones if their data exists. Take the outputs with `share_outputs` or `outputs`.

        Raises:
            MissingInputError: an input has no data.
        """
        self._internals.use_api("SCHEDULED")
        self._internals.runner.schedule()

    def share_outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """Wait for the oldest batch and return its outputs. They stay valid as long as they are referenced.

        Args:
            cuda_stream: a stream, of CuPy, torch or as a handle, that waits for outputs on the GPU.

        Raises:
            StopIteration: the data has ended, or no batch was scheduled.
            PipelineError: the batch failed.
        """
        self._internals.use_api("SCHEDULED")
        return waited_by(cuda_stream, self._internals.as_declared(self._internals.runner.take()))

    def release_outputs(self) -> None:
        """Declare that outputs aren't used any more. Not necessary: dropping them frees their buffers."""
        self._internals.use_api("SCHEDULED")

    def outputs(self, cuda_stream: Any = None) -> tuple[TensorList, ...]:
        """Wait for the oldest batch and return its outputs. Has the arguments and errors of `share_outputs`."""
        return self.share_outputs(cuda_stream)

    def iter_setup(self) -> None:
        """Override this method to feed inputs. The pipeline calls it before it starts a batch.

        Raise `StopIteration` in it when no more data exists.
        """

    def feed_input(
        self,
        data_node: DataNode | str,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Queue a batch for an `external_source`, or a video for an `inputs.video`, which turns it into batches.

        Args:
            data_node: the node, or its name.
            data: an array with the batch dimension in front, or a list of samples: NumPy, torch or CuPy arrays,
                objects with ``__array__`` or DLPack, tensors of this package.
            layout: names of the dimensions of a sample.
            cuda_stream: for data on a GPU, the stream that writes it and that uses it afterwards: a stream of torch or
                CuPy, or a handle. The default is the current stream of the data's library; 0 is the default stream.
                With -1 the pipeline waits for nothing, so the data must be complete; this returns after the copy.
            use_copy_kernel: copy data on a GPU with a kernel instead of ``cudaMemcpyAsync``.

        Raises:
            UnknownInputError: the pipeline has no such input.
            InputError: the data doesn't fit the input, or the input has a source.
        """
        self._internals.feed(data_node, data, layout, cuda_stream, use_copy_kernel)

    def input_feed_count(self, name: str) -> int:
        """Return how many batches of an input must be fed to keep all stages busy."""
        if name not in self._internals.graph.fed_inputs:
            raise self._internals.builder.unknown_input(name)
        return self._internals.arguments.depth(uses_gpu=self._internals.graph.uses_gpu)

    def reset(self) -> None:
        """Begin the next epoch if the data has ended; otherwise do nothing.

        Batches in flight, and data that was already fed, are processed first.
        """
        self._internals.runner.reset()

    def empty(self) -> bool:
        """Return whether no batch is in flight."""
        return not self._internals.busy

    def enable_api_check(self, enable: bool) -> None:
        """Enable or disable the error for mixing `run` with `schedule_run`, `share_outputs` and `release_outputs`.

        It is enabled by default: one of them would take batches that the other scheduled.
        """
        self._internals.checks_api = bool(enable)

    # Checkpoints --------------------------------------------------------------------------------------------------

    def checkpoint(self, filename: str | Path | None = None, *, notes: Mapping[str, int] | None = None) -> bytes:
        """Return the state with which a new pipeline of the same graph resumes after the batches that were taken.

        Random numbers and sources continue exactly, even in another process: ``Pipeline(..., checkpoint=...)``. A
        callable source is called with the next index. An iterable source is read again up to its position, so it must
        yield the same items. A callable without an argument starts from its beginning; data that was fed isn't
        included.

        Args:
            filename: a file to write the checkpoint to, in addition.
            notes: numbers to store; the new pipeline returns them as `checkpoint_notes`.

        Raises:
            ArgumentValueError: the pipeline was created without ``enable_checkpointing=True``.
        """
        arguments = self._internals.arguments
        if not arguments.enable_checkpointing:
            raise ArgumentValueError(
                "Cannot access checkpoints with checkpointing disabled: checkpoint() needs a pipeline that was created "
                "with enable_checkpointing=True"
            )
        data = Checkpoint(arguments.drawn_seed, self._internals.runner.position, notes or {}).to_bytes()
        if filename is not None:
            Path(filename).write_bytes(data)
        return data

    @property
    def is_restored_from_checkpoint(self) -> bool:
        """Whether the pipeline was created with a checkpoint."""
        return self._internals.checkpoint is not None

    @cached_property
    def checkpoint_notes(self) -> Mapping[str, int]:
        """The notes in the checkpoint that the pipeline was created with; empty without a checkpoint."""
        return self._internals.checkpoint_notes

    # Serializing --------------------------------------------------------------------------------------------------

    def serialize(self, define_graph: Callable[[], Any] | None = None, filename: str | Path | None = None) -> bytes:
        """Return the graph and the arguments of the pipeline as bytes, for `deserialize`.

        Sources and other callables are omitted: bytes that can be read safely can't hold code. Methods that a subclass
        overrides, other than `define_graph`, are omitted, too.

        Args:
            define_graph: describes the graph instead of the method of that name.
            filename: a file to write the bytes to, in addition.

        Raises:
            GraphError: `define_graph` was passed, but the graph is already described.
        """
        if define_graph is not None:
            self._internals.describe(define_graph, "serialize(define_graph=...)")
        internals = self._internals
        data = encode_pipeline(internals.declared_graph, internals.declared_arguments.by_name).data
        if filename is not None:
            Path(filename).write_bytes(data)
        return data

    @classmethod
    def deserialize(
        cls,
        serialized_pipeline: bytes | None = None,
        filename: str | Path | None = None,
        *,
        callbacks: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Pipeline:
        """Create a pipeline from the bytes that `serialize` returned, and build it. Reading runs no code.

        Args:
            serialized_pipeline: the bytes.
            filename: a file that contains them; pass one of the two.
            callbacks: the callables of the pipeline, by the names of their operators: a source by the name of its
                `external_source`, another object by "operator.argument".
            **kwargs: arguments of `Pipeline`, in place of the serialized ones.

        Raises:
            SerializationError: the bytes aren't a pipeline, or callbacks are missing; the message names them.

        Example:
            >>> import numpy as np
            >>> from dali_proxy import Pipeline, fn
            >>> with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
            ...     pipe.set_outputs(fn.external_source(lambda: np.ones((2, 1)), name="ones") * 2)
            >>> copy = Pipeline.deserialize(pipe.serialize(), callbacks={"ones": lambda: np.zeros((2, 1))})
            >>> copy.run()[0].as_array().ravel().tolist()
            [0.0, 0.0]
        """
        if (serialized_pipeline is None) == (filename is None):
            raise ArgumentValueError("deserialize() needs either serialized_pipeline or filename")
        data = serialized_pipeline if filename is None else Path(filename).read_bytes()
        graph, arguments = decode_pipeline(data, callbacks)
        try:
            pipeline = pipeline_from_graph(graph, {**arguments, **kwargs})
        except ArgumentTypeError:
            raise
        except TypeError as error:
            raise ArgumentTypeError(f"deserialize(): {error}") from error
        pipeline.build()
        return pipeline

    def deserialize_and_build(self, serialized_pipeline: bytes, *, callbacks: Mapping[str, Any] | None = None) -> None:
        """Read the graph from the bytes that `serialize` returned, and build the pipeline.

        Arguments of this pipeline stay; those that were left at their defaults are read from the bytes.

        Args:
            serialized_pipeline: the bytes.
            callbacks: as for `deserialize`.

        Raises:
            GraphError: the pipeline already has a graph.
            SerializationError: as for `deserialize`.
        """
        internals = self._internals
        internals.builder.refuse_described("deserialize_and_build()")
        graph, arguments = decode_pipeline(serialized_pipeline, callbacks)
        internals.declare(internals.declared_arguments.over(arguments))
        internals.builder = GraphBuilder(graph)
        self.build()

    # Readers and statistics ---------------------------------------------------------------------------------------

    @overload
    def reader_meta(self, name: None = None) -> dict[str, dict[str, int]]: ...
    @overload
    def reader_meta(self, name: str) -> dict[str, int]: ...
    def reader_meta(self, name: str | None = None) -> Any:
        """Return the metadata of a reader. Builds the pipeline.

        The keys are `epoch_size`, samples in the data set; `epoch_size_padded`, the same with the padding that makes
        all shards equal; `number_of_shards`; `shard_id`; `pad_last_batch`; `stick_to_shard`.

        Args:
            name: name of the reader; None for a dict of all readers by name.

        Raises:
            PipelineError: the pipeline has no reader of that name.
        """
        metas = {reader: meta.as_dict() for reader, meta in self._reader_metas().items()}
        if name is None:
            return metas
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a reader must be named by a str, not {type(name).__name__}")
        if name not in metas:
            known = ", ".join(map(repr, metas)) or "none"
            raise PipelineError(f"the pipeline has no reader {name!r}; its readers are: {known}")
        return metas[name]

    def _reader_metas(self) -> Mapping[str, ReaderMeta]:
        return self._internals.runner.executor.readers.metas

    @overload
    def epoch_size(self, name: None = None) -> dict[str, int]: ...
    @overload
    def epoch_size(self, name: str) -> int: ...
    def epoch_size(self, name: str | None = None) -> Any:
        """Return the number of samples of an epoch, with the padding that makes all shards equal. Builds the pipeline.

        Args:
            name: name of the reader; None for a dict of all readers by name.

        Raises:
            PipelineError: the pipeline has no reader of that name.
        """
        if name is None:
            return {reader: meta["epoch_size_padded"] for reader, meta in self.reader_meta().items()}
        return self.reader_meta(name)["epoch_size_padded"]

    def executor_statistics(self) -> dict[str, dict[str, list[int]]]:
        """Return how much memory the outputs of operators have needed so far, by the names of the operators.

        Each operator has four lists with the largest number of bytes for each of its outputs: `real_memory_size`, of a
        batch; `max_real_memory_size`, of a sample; `reserved_memory_size` and `max_reserved_memory_size`, of the
        memory that contains them. Empty unless the pipeline was created with ``enable_memory_stats=True``.
        """
        memory = self._internals.runner.executor.memory
        return {} if memory is None else memory.by_operator()

    def external_source_shm_statistics(self) -> dict[str, list[int]]:
        """Return how much shared memory the workers of parallel external sources have.

        Returns:
            `capacities`: sizes of the workers' segments, in bytes. `per_sample_capacities`: the same, divided by the
            number of samples that a worker reads for a batch.
        """
        return self._internals.shared_memory_statistics()

    # Inputs and outputs -------------------------------------------------------------------------------------------

    @property
    def num_outputs(self) -> int:
        """Number of outputs."""
        return len(self._internals.graph.outputs)

    def output_dtype(self) -> list[DALIDataType | None]:
        """Return the declared dtype of each output; None if it isn't declared."""
        return self._internals.arguments.output_declarations.for_outputs("output_dtype", self.num_outputs)

    def output_ndim(self) -> list[int | None]:
        """Return the declared number of dimensions of each output; None if it isn't declared."""
        return self._internals.arguments.output_declarations.for_outputs("output_ndim", self.num_outputs)

    def output_stream(self) -> Any:
        """Return the CUDA stream of the outputs that were taken last; None if none of them is on a GPU."""
        return self._internals.runner.output_stream

    @cached_property
    def output_devices(self) -> tuple[str, ...]:
        """The device of each output, "cpu" or "gpu"."""
        return self._internals.graph.output_devices

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs to feed, in the order in which they were described."""
        return tuple(self._internals.graph.fed_inputs)

    @cached_property
    def unused_inputs(self) -> Mapping[str, SourceLocation]:
        """The user's lines that declare inputs on which no output depends, by name. The graph omits these inputs."""
        return self._internals.unused_inputs


def pipeline_from_graph(graph: Graph, arguments: Mapping[str, Any]) -> Pipeline:
    """Return a pipeline that runs a graph that was built before, with arguments of `Pipeline`."""
    pipeline = Pipeline(**arguments)
    pipeline._internals.builder = GraphBuilder(graph)
    return pipeline
