"""`GraphBuilder`: collects what a user describes, then freezes it as a graph."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dali_proxy.pipeline._graph.constants import is_constant
from dali_proxy.pipeline._graph.current import pop_builder, push_builder
from dali_proxy.pipeline._graph.graph import Graph
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall, as_node
from dali_proxy.pipeline._graph.numbering import Numbering
from dali_proxy.pipeline.errors import ArgumentTypeError, GraphError, InputError, NoOutputsError, UnknownInputError

if TYPE_CHECKING:
    from typing_extensions import Self


class GraphBuilder:
    """Builds the graph of one pipeline. In its `with` block it collects the operators that have side effects.

    Attributes:
        graph: the frozen graph; None while it is described.
        owner: the pipeline, or None.
        title: name of the function that described the graph; empty without one.
        structure: structure of the function's result, with numbers of outputs; None for a tuple of the outputs.
    """

    def __init__(self, graph: Graph | None = None, owner: weakref.ref[Any] | None = None) -> None:
        self.graph = graph
        self.owner = owner
        self._outputs: tuple[DataNode, ...] | None = None
        self._fault: GraphError | None = None  # of the outputs; reported when the graph is built, as in DALI
        self._preserved: list[OperatorCall] = []
        self._declared: list[OperatorCall] = []  # inputs
        self.title = ""
        self.structure: Any = None
        self._names: dict[int, str] = {}  # of the graph's nodes, by the order of the calls that created them

    def __enter__(self) -> Self:
        push_builder(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        pop_builder()

    @property
    def described(self) -> bool:
        """Whether the outputs are set, or the graph is frozen."""
        return self._outputs is not None or self.graph is not None

    def refuse_described(self, caller: str) -> None:
        """Raise a GraphError that begins with `caller` if the graph is already described."""
        if self.described:
            raise GraphError(f"{caller} can't be used: the graph of the pipeline is already described")

    def describe(self, function: Callable[[], Any]) -> None:
        """Set the outputs to the result of a function that describes the graph."""
        with self:
            self.set_returned(function(), function)

    def set_returned(self, returned: Any, function: Callable[..., Any]) -> None:
        """Set the outputs to the value that a function returned.

        Each item of a tuple, or of a list that contains data nodes, is an output. Any other value is one output.
        """
        if returned is None or (isinstance(returned, tuple | list) and not returned):
            raise NoOutputsError(f"{_display(function)} returned nothing: return the outputs of the pipeline")
        several = isinstance(returned, tuple) or (
            isinstance(returned, list) and any(isinstance(item, DataNode) for item in returned)
        )
        self.set_outputs(*(returned if several else (returned,)))
        if self._fault is not None:
            raise type(self._fault)(f"{_display(function)}: {self._fault}") from self._fault.__cause__
        self.title = getattr(function, "__qualname__", "")

    def set_outputs(self, *outputs: Any) -> None:
        """Set the outputs: data nodes or constants. Others are an error of `freeze`."""
        self._refuse_frozen("set_outputs()")
        if not outputs:
            raise NoOutputsError("set_outputs() needs at least one output")
        self._outputs, self._fault = (), None
        try:
            self._outputs = tuple(_output(number, output) for number, output in enumerate(outputs))
        except GraphError as error:
            self._fault = type(error)(f"{error}\n  at {SourceLocation.from_caller()}")
            self._fault.__cause__ = error.__cause__

    def add_sink(self, node: DataNode) -> None:
        """Keep the operator of a node in the graph, even if no output needs it."""
        self._refuse_frozen("add_sink()")
        if not isinstance(node, DataNode) or node.source is None:
            raise ArgumentTypeError(f"add_sink() needs a DataNode, not {type(node).__name__}")
        self.preserve(node.source)

    def preserve(self, call: OperatorCall) -> None:
        """Keep an operator in the graph, even if no output needs it."""
        self._preserved.append(call)

    def finish_call(self, call: OperatorCall, nodes: tuple[DataNode, ...]) -> tuple[DataNode, ...]:
        """Return the outputs of a call that was added to the graph. Debug mode, which runs it, returns other nodes."""
        return nodes

    def convert(self, value: Any, label: str) -> DataNode | None:
        """Return a node for a value that only debug mode accepts as an input, such as a batch; None for others."""
        return None

    def declare_input(self, call: OperatorCall) -> None:
        """Record the declaration of an input."""
        self._declared.append(call)

    def freeze(self) -> Graph:
        """Return the graph. It can't be changed any more."""
        if self.graph is None:
            if self._fault is not None:
                raise self._fault
            assert self._outputs is not None
            numbering = Numbering(self._outputs, self._preserved)
            _check_pipelines(numbering.calls, self)
            self.graph = Graph.from_numbering(numbering, self._outputs)
            self._names = {order: self.graph.nodes[number].name for order, number in numbering.numbers.items()}
        return self.graph

    def name_of(self, data_node: DataNode | str) -> str:
        """Return the name of a node in the frozen graph. Nodes that the user didn't name have generated names."""
        if isinstance(data_node, str):
            return data_node
        if not isinstance(data_node, DataNode):
            raise ArgumentTypeError(f"an input must be named by a DataNode or a str, not {type(data_node).__name__}")
        call = data_node.source
        return data_node.name if call is None else self._names.get(call.order, data_node.name)

    @property
    def unused_inputs(self) -> Mapping[str, SourceLocation]:
        """The user's lines that declare inputs on which no output depends, by name. The frozen graph omits them."""
        unused = (call for call in self._declared if call.order not in self._names)
        return {call.name or call.schema.name: call.location for call in unused if call.arguments.get("source") is None}

    def unknown_input(self, name: str) -> InputError:
        """Return the error for a name that isn't that of an input to feed. It says why."""
        graph = self.freeze()
        if any(node.name == name for node in graph.inputs):
            return InputError(
                f"Cannot use `feed_input` on the external source {name!r} with a `source` argument specified."
            )
        if name in self.unused_inputs:
            at = self.unused_inputs[name]
            return UnknownInputError(
                f"Could not find an input operator with name {name!r} that an output depends on. The input is declared "
                f"at {at}"
            )
        known = ", ".join(map(repr, graph.fed_inputs)) or "none"
        return UnknownInputError(f"Could not find an input operator with name {name!r}; the inputs are: {known}")

    def summary(self, moved: Graph | None = None) -> str:
        """Return the name, the inputs and the outputs in one line, as far as they are known."""
        title = f" {self.title}" if self.title else ""
        graph = moved or self.graph
        if graph is None:
            known = "not described" if self._outputs is None else f"outputs: {len(self._outputs)}"
            return f"{title}: {known}"
        inputs = ", ".join(map(repr, graph.fed_inputs)) or "none"
        return f"{title}: inputs {inputs}; outputs on {', '.join(graph.output_devices)}"

    def _refuse_frozen(self, caller: str) -> None:
        if self.graph is not None:
            raise GraphError(f"{caller} is too late: the graph of the pipeline is already fixed")


def _output(number: int, value: Any) -> DataNode:
    if isinstance(value, list | tuple) and any(isinstance(item, DataNode) for item in value):
        raise ArgumentTypeError(
            f"Illegal pipeline output type. The output {number} contains a nested `DataNode`. Missing list/tuple "
            f"expansion (*) is the likely cause: it is a {type(value).__name__}"
        )
    if not is_constant(value) and not isinstance(value, DataNode) and not hasattr(type(value), "why_no_node"):
        raise ArgumentTypeError(
            f"Illegal output type. The output {number} is a `{type(value)}`. Allowed types are ``DataNode`` and types "
            "convertible to `types.Constant` (numerical constants, 1D lists/tuple of numbers and ND arrays)."
        )
    return as_node(value, f"output {number}")


def _display(function: Callable[..., Any]) -> str:
    """Return the name and the location of a function that describes a graph, for messages."""
    written = inspect.unwrap(function)
    code = getattr(getattr(written, "__func__", written), "__code__", None)
    at = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return f"the graph function {getattr(function, '__qualname__', type(function).__qualname__)}{at}"


def _check_pipelines(calls: Iterable[OperatorCall], builder: GraphBuilder) -> None:
    """Check that the operators of a graph were not called within different pipelines.

    Raises:
        GraphError: they were; the message names the first operator that was called within another pipeline.
    """
    within = [call for call in calls if call.builder is not None]
    if all(call.builder == within[0].builder for call in within):
        return
    foreign = next(call for call in within if call.builder is not None and call.builder() is not builder)
    raise GraphError(
        f"The pipeline is invalid because it contains operators with non-unique names: {foreign.display} was called "
        f"within a different pipeline than other operators of the graph\n"
        f"  at {foreign.location}"
    )
