"""`Pipeline`: a graph, the arguments to run it with, and its life from description to outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import cloudpickle

from pipeline.definition.arguments import PipelineArguments
from pipeline.definition.feeding import check_batch, own_copy, to_batch
from pipeline.definition.running import Runner
from pipeline.errors import (
    ArgumentTypeError,
    GraphError,
    InputError,
    PipelineError,
)
from pipeline.executor import Executor
from pipeline.executor.request import TensorList
from pipeline.graph import DataNode, Graph, GraphNode, OperatorCall, as_node
from pipeline.graph.current import pop_pipeline, push_pipeline
from pipeline.serialization import SerializedPipeline, decode_pipeline, encode_pipeline

__all__ = ["Pipeline"]


class Pipeline:
    """A data processing graph and what runs it.

    Describe the graph with `pipeline_def`, by `set_outputs` within ``with pipe:``, or by overriding `define_graph`;
    then call `run`.

    Args:
        batch_size: largest batch; batches may be smaller.
        num_threads: threads of the CPU stage.
        device_id: the GPU; None for a pipeline that uses none.
        seed: of the random numbers; -1 draws one.
        exec_pipelined: whether batches overlap at all.
        prefetch_queue_depth: batches on their way at once; a dict {"cpu_size": x, "gpu_size": y} sets stages apart.
        exec_async: accepted; batches always run apart from the caller.
        bytes_per_sample: accepted; buffers size themselves.
        set_affinity: bind threads to cores.
        max_streams: most CUDA streams; -1 for one a batch on its way.
        default_cuda_stream_priority: of the CUDA streams.
        enable_memory_stats: gather the sizes of outputs.
        py_num_workers: processes for parallel external sources.
        py_start_method: "fork" or "spawn".
        exec_dynamic: accepted; GPU results may always go back to the CPU.

    Raises:
        ArgumentTypeError, ArgumentValueError: for arguments that can't be used.

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
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "__class__")}
        self._arguments = PipelineArguments(**given)
        self._outputs: tuple[DataNode, ...] | None = None
        self._kept: list[OperatorCall] = []
        self._graph: Graph | None = None
        self._executor: Executor | None = None
        self._runner: Runner | None = None
        self._style: str | None = None  # "run" or "schedule": the first one used, they can't be mixed

    # Description ------------------------------------------------------------------------------------------------

    def define_graph(self) -> Any:
        """Override it to describe the graph: return the outputs.

        The other ways are `pipeline_def` and `set_outputs`.
        """
        raise GraphError("the pipeline has no outputs: use pipeline_def, call set_outputs() or override define_graph()")

    def set_outputs(self, *output_data_nodes: Any) -> None:
        """Set the outputs of the pipeline.

        Args:
            *output_data_nodes: data nodes, or constants.

        Raises:
            ArgumentTypeError: for anything else.
        """
        self._refuse_when_built("set_outputs()")
        if not output_data_nodes:
            raise GraphError("set_outputs() needs at least one output")
        self._outputs = tuple(as_node(node, f"output {number}") for number, node in enumerate(output_data_nodes))

    def add_sink(self, edge: DataNode) -> None:
        """Keep an operator whose outputs nothing uses."""
        self._refuse_when_built("add_sink()")
        if not isinstance(edge, DataNode) or edge.source is None:
            raise ArgumentTypeError(f"add_sink() needs a DataNode, not {type(edge).__name__}")
        self.keep(edge.source)

    def keep(self, call: OperatorCall) -> None:
        """Keep an operator call in the graph though no output needs it."""
        self._kept.append(call)

    def __enter__(self) -> Pipeline:
        push_pipeline(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        pop_pipeline()

    @staticmethod
    def push_current(pipeline: Pipeline) -> None:
        """Make a pipeline current, for operators that have side effects."""
        push_pipeline(pipeline)

    @staticmethod
    def pop_current() -> None:
        """Make the pipeline current that was so before."""
        pop_pipeline()

    # Building ---------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The frozen graph; describing it ends here."""
        if self._graph is None:
            if self._outputs is None:
                with self:
                    made = self.define_graph()
                if made is None:
                    raise GraphError("define_graph() returned nothing: return the outputs of the pipeline")
                self.set_outputs(*(made if isinstance(made, tuple | list) else (made,)))
            assert self._outputs is not None
            self._graph = Graph.of(self._outputs, self._kept)
        return self._graph

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Get ready to run; running does it by itself. Does nothing the second time.

        Args:
            define_graph: describes the graph instead of the method of that name.

        Raises:
            BuildError: when the pipeline can't run here; the message says what is missing.
        """
        if self._executor is not None:
            return
        if define_graph is not None:
            if self._outputs is not None:
                raise GraphError("build(define_graph=...) can't be used with set_outputs() or pipeline_def")
            with self:
                made = define_graph()
            self.set_outputs(*(made if isinstance(made, tuple | list) else (made,)))
        arguments = self._arguments
        self._executor = Executor(self.graph, arguments.executor_config())
        depth = max(arguments.queue_depths) if arguments.exec_pipelined else 1
        self._runner = Runner(self._executor, self.inputs, arguments.batch_size, depth)

    def _refuse_when_built(self, what: str) -> None:
        if self._graph is not None:
            raise GraphError(f"{what} comes too late: the graph of the pipeline is fixed")

    @property
    def executor(self) -> Executor:
        """The executor, for whoever runs batches by `Executor.submit`; builds the pipeline."""
        self.build()
        assert self._executor is not None
        return self._executor

    def close(self) -> None:
        """End all threads and free the device. The pipeline can't run afterwards."""
        if self._executor is not None:
            self._executor.close()

    # Running ----------------------------------------------------------------------------------------------------

    def run(self, **inputs: Any) -> tuple[TensorList, ...]:
        """Run one batch and return its outputs; starts the next ones as far as there is data.

        Args:
            **inputs: a batch for inputs of the graph, by name.

        Raises:
            OperatorError: when an operator failed; the pipeline goes on with the next batch.
        """
        self._use_style("run")
        for name, data in inputs.items():
            self.feed_input(name, data)
        runner = self._built_runner()
        if not runner.busy:
            runner.schedule()
        runner.fill()
        outputs = runner.take()
        runner.fill()
        return outputs

    def schedule_run(self) -> None:
        """Start one batch; take its outputs with `share_outputs` or `outputs`."""
        self._use_style("schedule")
        self._built_runner().schedule()

    def share_outputs(self) -> tuple[TensorList, ...]:
        """Wait for the oldest batch and return its outputs; they stay valid as long as they are held."""
        self._use_style("schedule")
        return self._built_runner().take()

    def release_outputs(self) -> None:
        """Tell that outputs are used no more. Buffers return by themselves when they are dropped."""
        self._use_style("schedule")

    def outputs(self) -> tuple[TensorList, ...]:
        """Wait for the oldest batch and return its outputs."""
        return self._built_runner().take()

    def feed_input(
        self,
        data_node: DataNode | str,
        data: Any,
        layout: str | None = None,
        cuda_stream: Any = None,
        use_copy_kernel: bool = False,
    ) -> None:
        """Queue a batch for an `external_source`.

        Args:
            data_node: the node, or its name.
            data: an array with the batch dimension in front, or a list of samples: NumPy, torch or CuPy arrays,
                anything with ``__array__``, DLPack, tensors of this package.
            layout: names of the dimensions of a sample.
            cuda_stream: accepted for compatibility.
            use_copy_kernel: accepted for compatibility.

        Raises:
            InputError: for an unknown name, or data that doesn't fit the input.
        """
        name = data_node.name if isinstance(data_node, DataNode) else data_node
        node = self.inputs.get(name)
        if node is None:
            known = ", ".join(map(repr, self.inputs)) or "none"
            raise InputError(f"the pipeline has no input {name!r}; its inputs are: {known}")
        batch = check_batch(to_batch(data, layout, f"input {name!r}"), node, self.max_batch_size)
        self._built_runner().feed(name, batch if node.argument("no_copy") else own_copy(batch))

    def reset(self) -> None:
        """Begin the next epoch: what is queued or on its way is dropped."""
        self._built_runner().reset()

    def empty(self) -> bool:
        """Tell whether nothing is on its way."""
        return self._runner is None or not self._runner.busy

    def _built_runner(self) -> Runner:
        self.build()
        assert self._runner is not None
        return self._runner

    def _use_style(self, style: str) -> None:
        if self._style not in (None, style):
            raise PipelineError(
                "run() can't be mixed with schedule_run(), share_outputs() and release_outputs() on one pipeline"
            )
        self._style = style

    # Serialization ----------------------------------------------------------------------------------------------

    def serialize_for_host(self) -> bytes:
        """Return the pipeline as bytes for a process of one's own; they hold code, never read them from elsewhere."""
        made = encode_pipeline(self.graph, vars(self._arguments))
        return bytes(cloudpickle.dumps((made.data, made.objects)))

    @classmethod
    def from_host_bytes(cls, data: bytes) -> Pipeline:
        """Make a pipeline from what `serialize_for_host` returned, in a process of one's own."""
        return cls._from_serialized(SerializedPipeline(*cloudpickle.loads(data)))

    @classmethod
    def _from_serialized(cls, made: SerializedPipeline, **overrides: Any) -> Pipeline:
        graph, arguments = decode_pipeline(made.data, made.objects)
        pipe = Pipeline(**{**arguments, **overrides})
        pipe._graph = graph
        return pipe

    # Properties -------------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> Mapping[str, GraphNode]:
        """The `external_source` operators that are to be fed, by name."""
        return {node.name: node for node in self.graph.find("external_source")}

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in the order in which the graph function made them."""
        return tuple(self.inputs)

    @property
    def output_devices(self) -> tuple[str, ...]:
        """The device of each output, "cpu" or "gpu"."""
        return tuple(self.graph.device_of(edge) for edge in self.graph.outputs)

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
    def seed(self) -> int:
        """Seed of the random numbers."""
        return self._arguments.seed

    @property
    def exec_pipelined(self) -> bool:
        """Whether batches overlap."""
        return self._arguments.exec_pipelined

    @property
    def exec_async(self) -> bool:
        """Whether batches run apart from the caller."""
        return self._arguments.exec_async

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
