"""`DebugBuilder`: runs each operator when the graph function calls it, and returns nodes that have their data."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration.schema import OperatorSchema, Role
from dali_proxy.pipeline._definition.arguments import PipelineArguments
from dali_proxy.pipeline._definition.debug_call import KeptCall
from dali_proxy.pipeline._executor.shared import SharedResources
from dali_proxy.pipeline._external_source.data import check_batch, to_batch
from dali_proxy.pipeline._external_source.source import SerialSource
from dali_proxy.pipeline._external_source.spec import SourceSpec
from dali_proxy.pipeline._graph.branches import Branch
from dali_proxy.pipeline._graph.builder import GraphBuilder
from dali_proxy.pipeline._graph.graph import Graph, GraphNode
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall, check_call
from dali_proxy.pipeline._graph.on_cpu import COPIES, MovedGraph
from dali_proxy.pipeline._operator_api.branch_batches import samples_of_list, take_samples
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operators.arrays.merge import common_property
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import ArgumentValueError, GraphError, InputError, MissingInputError, PipelineError
from dali_proxy.pipeline.tensors.cpu import Array, TensorCPU, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorGPU, TensorListGPU

#: The source of batches that the user passes to operators. It isn't registered, because graphs don't contain it.
_BATCH = OperatorSchema("batch", "A batch of the user.", devices=("cpu", "gpu"), hidden=True)


class DebugNode(DataNode):
    """An output of an operator that has run. It can be used like any `DataNode`, and its data can be inspected."""

    def __init__(self, name: str, device: str, source: OperatorCall, index: int, data: TensorList | None) -> None:
        super().__init__(name, device, source, index)
        self._data = data

    @property
    def data(self) -> TensorList | None:
        """The batch; None if no sample takes the branch of the operator."""
        return self._data

    def get(self) -> TensorList:
        """Return the batch, in a branch of an `if` the samples that take the branch.

        Raises:
            PipelineError: no sample takes the branch.
        """
        if self._data is None:
            raise PipelineError(f"{self.name}: no sample of the batch takes this branch, so there is no data")
        return self._data

    def shape(self, *, dtype: Any = None, device: str = "cpu") -> Any:
        """Return the shapes of the samples, as a list of tuples."""
        return [] if self._data is None else self._data.shape()

    def source_info(self, *, device: str = "cpu") -> Any:
        """Return where each sample lies in its data set; empty strings for samples that don't come from a reader."""
        return [] if self._data is None else [sample.source_info() for sample in self._data]

    def __repr__(self) -> str:
        return f"DataNodeDebug(name={self.name!r}, data={self._data})"

    __str__ = __repr__


class DebugBuilder(GraphBuilder):
    """Runs operators at once, and keeps them for the following batches.

    Attributes:
        fed: batches that were fed and not used yet, by the name of the input.
    """

    def __init__(self, arguments: PipelineArguments, conditional: bool, on_cpu: bool = False) -> None:
        super().__init__()
        self._arguments = arguments
        self._config = replace(
            arguments.executor_config(), num_threads=1, cpu_depth=1, gpu_depth=1, gpu_streams=1, set_affinity=False
        )
        self._shared = SharedResources(1)
        self._conditional = conditional
        self._on_cpu = on_cpu
        self._kept: list[KeptCall] = []
        self._sources: dict[SourceSpec, _ReadSource] = {}
        self._last: dict[str, TensorList] = {}
        self.fed: dict[str, deque[TensorList]] = {}
        self._begin(BatchKey())

    def run(self, function: Callable[[], Any], named: Callable[..., Any], key: BatchKey) -> tuple[TensorList, ...]:
        """Call a graph function, and return the data of its results."""
        self._begin(key)
        with self:
            self.set_returned(function(), named)
        outputs = self._outputs or ()
        for node in outputs:
            if node.source is not None and node.source.branch:
                raise GraphError(f"the pipeline returns {node.name}, which has only the samples of its branch")
        return tuple(node.get() for node in outputs if isinstance(node, DebugNode))

    @property
    def kept(self) -> tuple[KeptCall, ...]:
        """The operators of the first batch, in order."""
        return tuple(self._kept)

    @property
    def moved(self) -> MovedGraph:
        """The operators and outputs of the first batch that were declared for a GPU."""
        outputs = self._outputs or ()
        return MovedGraph(
            Graph((), ()),
            tuple(kept.declared for kept in self._kept if kept.declared.device != "cpu"),
            outputs=tuple(number for number, node in enumerate(outputs) if node.device == "gpu"),
        )

    def close(self) -> None:
        """End the threads of all operators."""
        for kept in self._kept:
            kept.close()
        self._shared.close()

    def finish_call(self, call: OperatorCall, nodes: tuple[DataNode, ...]) -> tuple[DataNode, ...]:
        """Run an operator; return nodes with its outputs."""
        number = self._numbers[call.order] = len(self._numbers)
        data = self._run(call, number)
        return tuple(
            DebugNode(node.name, node.device, call, node.index, None if data is None else data[node.index])
            for node in nodes
        )

    def convert(self, value: Any, label: str) -> DataNode | None:
        """Return a node for a batch: tensors of a pipeline, or a list with an array for each sample."""
        if not _is_batch(value):
            return None
        if self._conditional:
            raise ArgumentValueError(
                "Debug mode with conditional execution (when `enable_conditionals=True`) doesn't allow for "
                "modification of operator outputs by libraries other than DALI or using the TensorLists extracted via "
                f"`.get()` as inputs. Expected `DataNodeDebug` as an input, got {type(value).__name__} at {label}."
            )
        batch = to_batch(value, None, label)
        self._check_size(len(batch), f"{label.capitalize()} has batch size")
        device = "gpu" if isinstance(batch, TensorListGPU) else "cpu"
        return DebugNode("batch", device, check_call(_BATCH, (), {"device": device}), 0, batch)

    def _begin(self, key: BatchKey) -> None:
        """Forget the calls of the last batch."""
        self._key = key
        self._size: int | None = None
        self._numbers: dict[int, int] = {}  # numbers of calls in the graph, by their order
        self._used = 0  # kept calls of this batch
        self._positions: dict[tuple[tuple[int, int], ...], Array] = {}
        self._preserved.clear()
        self._declared.clear()

    def _run(self, call: OperatorCall, number: int) -> tuple[TensorList, ...] | None:
        if self._on_cpu and call.schema.role in COPIES:
            return (self._local(call.inputs[0], call.branch),)
        if call.schema.role is Role.CONSTANT:
            return (self._constant(call),)
        if call.schema.merges:
            return self._merge(call)
        kept = self._keep(call, number)
        if call.schema.fed:
            data = self._fed_data(kept)
            return kept.run([data], len(data), self._key)
        positions = self._positions_of(call.branch)
        if not len(positions):
            return None
        inputs = [self._local(node, call.branch) for node in (*call.inputs, *call.argument_inputs.values())]
        branch = (len(self._positions_of(())), positions) if call.branch else None
        return kept.run(inputs, len(positions), self._key, branch)

    def _keep(self, call: OperatorCall, number: int) -> KeptCall:
        """Return the operator at this position of the graph function, which the first batch created."""
        twin = None if call.twin is None else self._numbers.get(call.twin.order)
        position = self._used
        self._used += 1
        if position == len(self._kept):
            self._kept.append(KeptCall(call, number, twin, self._config, self._shared, self._on_cpu))
        else:
            self._kept[position].check(call)
        return self._kept[position]

    def _fed_data(self, kept: KeptCall) -> TensorList:
        """Return the data of an `external_source`: from its source, or data that was fed."""
        node = kept.node
        if node.schema.role is not Role.EXTERNAL_SOURCE:
            raise GraphError(f"{node.display} can't run in debug mode\n  at {node.location}")
        output = node.argument("source")
        if output is None:
            batch = self._take_fed(node)
        else:
            source = self._sources.setdefault(output.spec, _ReadSource(output.spec, node, self._arguments.batch_size))
            batch = source.read(self._key, self._arguments.batch_size)[output.output]
        batch = check_batch(batch, node, self._arguments.batch_size)
        self._check_size(len(batch), "External Source operator returned batch size")
        return batch

    def _take_fed(self, node: GraphNode) -> TensorList:
        queue = self.fed.get(node.name)
        if queue:
            self._last[node.name] = queue.popleft()
        elif node.name not in self._last or not node.argument("repeat_last"):
            raise MissingInputError(
                f"the input {node.name!r} has no data: call feed_input({node.name!r}, ...) or run({node.name}=...) "
                f"first"
            )
        return self._last[node.name]

    def _check_size(self, size: int, what: str) -> None:
        if self._size is None:
            self._size = size
        elif size != self._size:
            raise GraphError(
                f"Batch size must be uniform across an iteration. {what}: {size}. Expected: {self._size}\n"
                f"  at {SourceLocation.from_caller()}"
            )

    def _constant(self, call: OperatorCall) -> TensorList:
        array, layout = call.arguments["value"], call.arguments.get("layout") or ""
        size = len(self._positions_of(()))
        if call.device == "cpu" or self._on_cpu:
            return TensorListCPU(np.broadcast_to(array, (size, *array.shape)), layout)
        import cupy

        with cupy.cuda.Device(self._config.device_id):
            return TensorListGPU([cupy.asarray(array)] * size, layout)

    def _positions_of(self, branch: Branch) -> Array:
        """Return the positions in the batch of the samples that take a branch."""
        if self._size is None:
            self._size = self._arguments.batch_size
        if not branch:
            return np.arange(self._size)
        path = tuple((id(selector), value) for selector, value in branch)
        if path not in self._positions:
            selector, value = branch[-1]
            outer = self._positions_of(branch[:-1])
            chosen = self._numbers_of(selector, branch[:-1]) if len(outer) else np.empty(0)
            self._positions[path] = outer[chosen == value]
        return self._positions[path]

    def _numbers_of(self, node: DataNode, branch: Branch) -> Array:
        """Return one integer per sample of a branch."""
        samples = samples_of_list(self._local(node, branch))
        return np.array([np.asarray(sample).item() for sample in samples]).astype(np.int64)

    def _local(self, node: DataNode, branch: Branch) -> TensorList:
        """Return the samples of a node that take a branch. The branch has samples."""
        assert isinstance(node, DebugNode)
        data, own = node.get(), self._positions_of(_branch_of(node))
        wanted = self._positions_of(branch)
        return data if len(wanted) == len(own) else take_samples(data, np.searchsorted(own, wanted))

    def _merge(self, call: OperatorCall) -> tuple[TensorList, ...] | None:
        positions = self._positions_of(call.branch)
        if not len(positions):
            return None
        chosen = self._numbers_of(call.argument_inputs["selector"], call.branch)
        nodes = [call.inputs[value] for value in sorted(set(chosen.tolist()))]
        taken = {id(node): node.get() for node in nodes if isinstance(node, DebugNode)}
        layout = common_property("layouts", [data.layout() for data in taken.values()])
        common_property("types", [str(data.samples[0].dtype) for data in taken.values()])
        common_property("sample dimensions", [data.ndim for data in taken.values()])
        lists = {key: samples_of_list(data) for key, data in taken.items()}
        samples = []
        for value, position in zip(chosen.tolist(), positions.tolist(), strict=True):
            node = call.inputs[value]
            samples.append(lists[id(node)][np.searchsorted(self._positions_of(_branch_of(node)), position)])
        on_cpu = call.device == "cpu" or self._on_cpu
        return (TensorListCPU(samples, layout) if on_cpu else TensorListGPU(samples, layout),)


class _ReadSource:
    """A source that is read once for each batch, although several operators may have its outputs."""

    def __init__(self, spec: SourceSpec, node: GraphNode, batch_size: int) -> None:
        self._source = SerialSource(spec, node, batch_size)
        self._key: BatchKey | None = None
        self._batches: list[TensorList] = []

    def read(self, key: BatchKey, batch_size: int) -> list[TensorList]:
        if key != self._key:
            self._batches = self._source.next_batch(key, batch_size)
            self._key = key
            if len({len(batch) for batch in self._batches}) > 1:
                sizes = ", ".join(str(len(batch)) for batch in self._batches)
                raise InputError(f"External source must return outputs with consistent batch size. Got: {sizes}")
        return self._batches


def _branch_of(node: DataNode) -> Branch:
    return () if node.source is None else node.source.branch


def _is_batch(value: Any) -> bool:
    if isinstance(value, TensorListCPU | TensorListGPU):
        return True
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(
        isinstance(item, np.ndarray | TensorCPU | TensorGPU)
        or (hasattr(item, "shape") and (hasattr(item, "__dlpack__") or hasattr(item, "__cuda_array_interface__")))
        for item in value
    )
