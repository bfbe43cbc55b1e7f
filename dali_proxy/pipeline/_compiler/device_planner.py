"""Plan the GPU work of a graph (copies and launches) in a process that may have no GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._bulk.gather import gather
from dali_proxy.pipeline._compiler.make_operator import make_operator
from dali_proxy.pipeline._compiler.per_frame_arguments import by_frames
from dali_proxy.pipeline._cuda.launch import Launch
from dali_proxy.pipeline._declaration.registry import implementation
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.error_context import error_context
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.request import BatchRequest, ExecutorConfig, TensorList
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

_LINE = 64  # alignment of samples, in bytes
_PAGE = 256  # alignment of batches and tables, in bytes, for vector loads and DMA


@dataclass(frozen=True)
class Derivation:
    """The derivation of an output from an input.

    Attributes:
        input: number of the graph's input that the output derives from.
        on_gpu: whether the output is on the GPU; otherwise it is the input itself.
        chain: operators that run as one; empty for a copy.
    """

    input: int
    on_gpu: bool
    chain: tuple[GraphNode, ...] = ()


def simple_derivations(graph: Graph) -> tuple[Derivation, ...] | None:
    """Return the derivation of each output, if the graph only copies inputs and runs pixel operators on the copies.

    The arguments of the operators must be inputs or constants. Return None for any other graph.
    """
    inputs = {node.index: number for number, node in enumerate(graph.inputs) if node.device == "cpu"}
    available = {
        *inputs,
        *(node.index for node in graph.nodes if node.schema.role is Role.CONSTANT and node.device == "cpu"),
    }
    copies = {
        node.index: inputs[node.inputs[0].node]
        for node in graph.nodes
        if node.schema.role is Role.COPY_TO_GPU and not node.branch and node.inputs[0].node in inputs
    }
    chains: dict[int, tuple[GraphNode, ...]] = {}
    for node in graph.nodes:
        if _is_pixel_operator(node) and all(edge.node in available for edge in node.sources[1:]):
            before = node.inputs[0].node
            chain = (*chains.get(before, ()), node)
            one_launch = sum(implementation(each.operator, "gpu").traits.gathers for each in chain) <= 1
            if (before in copies or before in chains) and one_launch:
                chains[node.index] = chain
    known = available | copies.keys() | chains.keys()
    if any(node.index not in known for node in graph.nodes):
        return None
    derivations = []
    for edge in graph.outputs:
        if edge.node in inputs:
            derivations.append(Derivation(inputs[edge.node], on_gpu=False))
        elif edge.node in copies:
            derivations.append(Derivation(copies[edge.node], on_gpu=True))
        elif edge.node in chains:
            chain = chains[edge.node]
            derivations.append(Derivation(copies[chain[0].inputs[0].node], on_gpu=True, chain=chain))
        else:
            return None
    return tuple(derivations)


def _is_pixel_operator(node: GraphNode) -> bool:
    if node.device != "gpu" or node.branch:
        return False
    kind = implementation(node.operator, "gpu")
    return issubclass(kind, PixelOperator) and not kind.traits.launches


@dataclass(frozen=True, eq=False)
class Target:
    """The layout of an output's GPU memory. Addresses begin at 0: the process with the memory adds its address.

    Attributes:
        table: addresses, shapes and strides of the samples.
        layout: layout of a sample.
        dense: whether the output is one array with the batch dimension first.
        nbytes: size of the memory in bytes.
    """

    table: Samples
    layout: str
    dense: bool
    nbytes: int

    @classmethod
    def from_shapes(cls, shapes: Int64s, dtype: np.dtype[Any], layout: str) -> Target:
        """Return the memory layout for samples of shapes (N, ndim)."""
        dense = bool((shapes == shapes[0]).all())
        table, nbytes = Samples.packed(0, shapes, dtype, 1 if dense else _PAGE)
        return cls(table, layout, dense, nbytes)


@dataclass(frozen=True, eq=False)
class PlannedOutput:
    """One output of a batch.

    Attributes:
        batch: input that the output derives from; the output itself if it stays on the CPU.
        target: layout of its memory on the GPU; None if it stays on the CPU.
        launch: launch that computes it from the block; None for a copy of `batch`.
        offsets: offsets of the launch's tables in the block.
    """

    batch: TensorListCPU
    target: Target | None = None
    launch: Launch | None = None
    offsets: tuple[int, ...] = ()


@dataclass(eq=False)
class PlannedBatch:
    """The outputs of a batch, and the contents of one block of memory with all that launches read: images and tables.

    Addresses in the tables are offsets from the start of the block, and from the start of the output's memory.

    Attributes:
        outputs: outputs in order.
        nbytes: size of the block in bytes; 0 without launches.
    """

    outputs: list[PlannedOutput] = field(default_factory=list)
    nbytes: int = 0
    _batches: list[tuple[TensorListCPU, Int64s]] = field(default_factory=list)
    _tables: list[tuple[Array, int]] = field(default_factory=list)

    def write(self, block: Array) -> None:
        """Write the block of `nbytes` bytes."""
        for batch, offsets in self._batches:
            gather(batch, block, offsets)
        for table, offset in self._tables:
            block[offset : offset + table.nbytes] = table.view(np.uint8).reshape(-1)

    def add_batch(self, batch: TensorListCPU, target: Target) -> int:
        """Reserve space in the block for a batch, with the memory layout of `target`. Return its offset."""
        offset = self._room(target.nbytes)
        self._batches.append((batch, target.table.pointers + offset))
        return offset

    def add_tables(self, tables: Sequence[Array]) -> tuple[int, ...]:
        """Reserve space in the block for the tables of a launch. Return their offsets."""
        offsets = tuple(self._room(table.nbytes) for table in tables)
        self._tables += zip(tables, offsets, strict=True)
        return offsets

    def _room(self, nbytes: int) -> int:
        offset = self.nbytes
        self.nbytes += -(-nbytes // _PAGE) * _PAGE
        return offset


class Planner:
    """Plans the batches of a graph. It needs neither a GPU nor CuPy, and is thread-safe.

    Args:
        graph: graph for which `simple_derivations` doesn't return None.
        config: configuration of an executor. The launches, including random numbers, equal those of this executor.

    Raises:
        BuildError: an operator can't be created.
    """

    def __init__(self, graph: Graph, config: ExecutorConfig) -> None:
        derivations = simple_derivations(graph)
        assert derivations is not None  # the caller checks this
        self._graph = graph
        self._derivations = derivations
        self._seed = config.seed
        setup = Setup(config.max_batch_size, config.num_threads, config.device_id, config.seed)

        def create(node: GraphNode) -> Any:
            return by_frames(graph, node, make_operator(node, setup))

        self._constants = {node.index: create(node) for node in graph.nodes if node.schema.role is Role.CONSTANT}
        self._operators = {node.index: create(node) for each in derivations for node in each.chain}
        #: Numbers of the inputs that are outputs, or that outputs are copies of.
        self.unchanged = frozenset(each.input for each in derivations if not each.chain)

    def plan(self, inputs: Sequence[TensorList], key: BatchKey) -> PlannedBatch | None:
        """Plan a batch.

        Args:
            inputs: inputs of the graph, in order.
            key: key of the batch's random numbers.

        Returns:
            The planned batch; None if the batch must run operator by operator.

        Raises:
            OperatorError: samples failed; it names the operator and these samples.
        """
        batches = cast("Sequence[TensorListCPU]", inputs)
        planned = PlannedBatch()
        batch = self._batch(batches, key)
        sources = sorted({each.input for each in self._derivations if each.chain})
        images = {number: _image_source(planned, batches[number]) for number in sources}
        for derivation in self._derivations:
            data = batches[derivation.input]
            if derivation.chain:
                pixels = self._expressed(batch, derivation.chain, images[derivation.input])
                if pixels is None:
                    return None
                target = Target.from_shapes(pixels.shapes, pixels.dtype, pixels.layout)
                launch = pixels.launch(target.table)
                planned.outputs.append(PlannedOutput(data, target, launch, planned.add_tables(launch.tables)))
            elif derivation.on_gpu:
                table = data.table()
                target = Target.from_shapes(table.shapes, table.dtype, data.layout())
                planned.outputs.append(PlannedOutput(data, target))
            else:
                planned.outputs.append(PlannedOutput(data))
        return planned

    def _expressed(
        self, batch: Batch, chain: Sequence[GraphNode], pixels: PixelExpression | None
    ) -> PixelExpression | None:
        """Return the result of a chain of operators as one expression; None if it needs more than one launch."""
        for node in chain:
            operator = self._operators[node.index]
            if pixels is None or not isinstance(operator, PixelOperator):
                return None
            traits = operator.traits
            if (traits.gathers and pixels.reads > 1) or not pixels.may_be_read(elements=traits.elementwise):
                return None
            with error_context(node, batch):
                pixels = operator.express(batch, pixels)
        return pixels

    def _batch(self, inputs: Sequence[TensorListCPU], key: BatchKey) -> Batch:
        """Return the batch from which the operators resolve their arguments."""
        nodes = self._graph.inputs
        request = BatchRequest(len(inputs[0]), {node.name: each for node, each in zip(nodes, inputs, strict=True)}, key)
        fed = {Edge(node.index): value for node, value in zip(nodes, inputs, strict=True)}
        batch = Batch.without_executor(request, fed, self._seed)
        for index, constant in self._constants.items():
            (value,) = constant.run(batch, [])
            batch.keep(Edge(index), value)
        return batch


def _image_source(planned: PlannedBatch, data: TensorListCPU) -> PixelExpression | None:
    """Reserve room in the block for images, and return the expression that reads them."""
    table = data.table()
    packed, nbytes = Samples.packed(0, table.shapes, table.dtype, _LINE)
    offset = planned.add_batch(data, Target(packed, "", False, nbytes))
    placed = Samples(packed.pointers + offset, packed.shapes, packed.strides, packed.dtype)
    return PixelExpression.from_samples(placed, data.layout())
