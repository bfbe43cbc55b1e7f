"""The first part of a pipeline's life: its graph is described, then fixed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pipeline._graph import DataNode, Graph, GraphNode, OperatorCall, SourceLocation, as_node
from pipeline._graph.current import pop_pipeline, push_pipeline
from pipeline._graph.graph import calls_behind, check_pipelines
from pipeline.errors import ArgumentTypeError, GraphError, InputError, NoOutputsError, UnknownInputError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DescribesGraph"]


class DescribesGraph:
    """The part of a pipeline that has a graph."""

    def __init__(self) -> None:
        self._outputs: tuple[DataNode, ...] | None = None
        self._kept: list[OperatorCall] = []
        self._declared: list[OperatorCall] = []  # inputs
        self._title = ""  # of the function that described the graph
        self._graph: Graph | None = None
        self._names: dict[int, str] = {}  # of the graph's nodes, by the order of the calls that made them
        self._inputs: dict[str, GraphNode] | None = None

    def define_graph(self) -> Any:
        """Override it to describe the graph: return the outputs.

        The other ways are `pipeline_def` and `set_outputs`.
        """
        raise NoOutputsError(
            "the pipeline has no outputs: use pipeline_def, call set_outputs() or override define_graph()"
        )

    def set_outputs(self, *output_data_nodes: Any) -> None:
        """Set the outputs of the pipeline.

        Args:
            *output_data_nodes: data nodes, or constants.

        Raises:
            ArgumentTypeError: for anything else.
        """
        self._refuse_when_built("set_outputs()")
        if not output_data_nodes:
            raise NoOutputsError("set_outputs() needs at least one output")
        try:
            self._outputs = tuple(_output(number, made) for number, made in enumerate(output_data_nodes))
        except GraphError as error:
            raise type(error)(f"{error}\n  at {SourceLocation.of_caller()}") from error.__cause__

    def take_outputs(self, made: Any, maker: Callable[..., Any]) -> None:
        """Set the outputs to what a function that describes the graph returned.

        A tuple, or a list with data nodes in it, has an output in each item; anything else is one output.
        """
        if made is None or (isinstance(made, tuple | list) and not made):
            raise NoOutputsError(f"{_display(maker)} returned nothing: return the outputs of the pipeline")
        several = isinstance(made, tuple) or (
            isinstance(made, list) and any(isinstance(item, DataNode) for item in made)
        )
        try:
            self.set_outputs(*(made if several else (made,)))
        except GraphError as error:
            raise type(error)(f"{_display(maker)}: {error}") from error.__cause__
        self._title = getattr(maker, "__qualname__", "")

    def describe(self, define_graph: Callable[[], Any], what: str) -> None:
        """Describe the graph by a function, for `what`, which refuses a graph that was described before."""
        self.refuse_when_described(what)
        with self:
            self.take_outputs(define_graph(), define_graph)

    def refuse_when_described(self, what: str) -> None:
        """Raise a GraphError when the pipeline has outputs."""
        if self._outputs is not None or self._graph is not None:
            raise GraphError(f"{what} can't be used: the graph of the pipeline is already described")

    def add_sink(self, edge: DataNode) -> None:
        """Keep an operator in the graph though no output of the pipeline needs it.

        Args:
            edge: an output of the operator.

        Raises:
            ArgumentTypeError: it is none.
            GraphError: the graph is fixed.
        """
        self._refuse_when_built("add_sink()")
        if not isinstance(edge, DataNode) or edge.source is None:
            raise ArgumentTypeError(f"add_sink() needs a DataNode, not {type(edge).__name__}")
        self.keep(edge.source)

    def keep(self, call: OperatorCall) -> None:
        """Keep an operator call in the graph though no output needs it."""
        self._kept.append(call)

    def declare(self, call: OperatorCall) -> None:
        """Note that an input was declared, which no output may need."""
        self._declared.append(call)

    def __enter__(self) -> Self:
        push_pipeline(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        pop_pipeline()

    @staticmethod
    def push_current(pipeline: DescribesGraph) -> None:
        """Make a pipeline current, for operators that have side effects; ``with pipeline:`` is safer."""
        push_pipeline(pipeline)

    @staticmethod
    def pop_current() -> None:
        """Make the pipeline current that was so before.

        Raises:
            GraphError: no pipeline is current.
        """
        pop_pipeline()

    @property
    def graph(self) -> Graph:
        """The frozen graph; describing it ends here."""
        if self._graph is None:
            if self._outputs is None:
                with self:
                    self.take_outputs(self.define_graph(), self.define_graph)
            assert self._outputs is not None
            calls = calls_behind(self._outputs, self._kept)
            check_pipelines(calls, self)
            self._graph = Graph.of(self._outputs, self._kept)
            self._names = {call.order: node.name for call, node in zip(calls, self._graph.nodes, strict=True)}
        return self._graph

    def _refuse_when_built(self, what: str) -> None:
        if self._graph is not None:
            raise GraphError(f"{what} is too late: the graph of the pipeline is already fixed")

    def name_of(self, data_node: DataNode | str) -> str:
        """Return the name of a node in the graph, which is a generated one where the user gave none."""
        if isinstance(data_node, str):
            return data_node
        if not isinstance(data_node, DataNode):
            raise ArgumentTypeError(f"an input must be named by a DataNode or a str, not {type(data_node).__name__}")
        _ = self.graph  # nodes without a name get theirs
        call = data_node.source
        return data_node.name if call is None else self._names.get(call.order, data_node.name)

    def unknown_input(self, name: str) -> InputError:
        """Make the error that tells why there is no such input to be fed."""
        if any(node.name == name for node in self.graph.inputs):
            return InputError(f"{name!r} can't be fed: it has a source")
        if name in self.unused_inputs:
            at = self.unused_inputs[name]
            return UnknownInputError(
                f"the input {name!r} is declared, but no output depends on it, so it can't be fed\n  at {at}"
            )
        known = ", ".join(map(repr, self.inputs)) or "none"
        return UnknownInputError(f"the pipeline has no input {name!r}; its inputs are: {known}")

    @property
    def inputs(self) -> Mapping[str, GraphNode]:
        """The operators that are to be fed, by name; not those that have a source."""
        if self._inputs is None:
            fed = (node for node in self.graph.inputs if node.argument("source") is None)
            self._inputs = {node.name: node for node in fed}
        return self._inputs

    @property
    def unused_inputs(self) -> Mapping[str, SourceLocation]:
        """Where inputs were declared that no output depends on, by name: they are not part of the graph."""
        _ = self.graph  # fixes what is part of it
        unused = (call for call in self._declared if call.order not in self._names)
        return {call.name or call.schema.name: call.location for call in unused if call.arguments.get("source") is None}

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs, in the order in which the graph function made them."""
        return tuple(self.inputs)

    @property
    def output_devices(self) -> tuple[str, ...]:
        """The device of each output, "cpu" or "gpu"."""
        return tuple(self.graph.device_of(edge) for edge in self.graph.outputs)

    def summary(self) -> str:
        """Return the name, the inputs and the outputs in a line, as far as they are known: describing goes on."""
        title = f" {self._title}" if self._title else ""
        if self._graph is None:
            known = "not described" if self._outputs is None else f"outputs: {len(self._outputs)}"
            return f"{title}: {known}"
        inputs = ", ".join(map(repr, self.inputs)) or "none"
        return f"{title}: inputs {inputs}; outputs on {', '.join(self.output_devices)}"

    @property
    def num_outputs(self) -> int:
        """How many outputs there are."""
        return len(self.graph.outputs)


def _output(number: int, made: Any) -> DataNode:
    if isinstance(made, list | tuple) and any(isinstance(item, DataNode) for item in made):
        raise ArgumentTypeError(
            f"output {number} is a {type(made).__name__} of data nodes, which isn't an output: return each of them as "
            f"one (*nodes)"
        )
    return as_node(made, f"output {number}")


def _display(maker: Callable[..., Any]) -> str:
    """Return how messages call a function that describes a graph: its name, and where it was written."""
    written = inspect.unwrap(maker)
    code = getattr(getattr(written, "__func__", written), "__code__", None)
    at = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"the graph function {getattr(maker, '__qualname__', type(maker).__qualname__)}{at}"
