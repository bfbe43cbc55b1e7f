"""The nodes that users create: operator calls, and the data nodes that stand for their outputs."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration.compatibility import follows_dali
from dali_proxy.pipeline._declaration.names import schema_name
from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._declaration.schema import REQUIRED, Kind, OperatorSchema
from dali_proxy.pipeline._graph.branches import Branch, current_branch, within
from dali_proxy.pipeline._graph.constants import constant_array, is_constant
from dali_proxy.pipeline._graph.current import Builder, current_builder
from dali_proxy.pipeline._graph.expression import Expression
from dali_proxy.pipeline._graph.indexing import index_entries
from dali_proxy.pipeline._graph.location import SourceLocation, warn_caller
from dali_proxy.pipeline._listing import did_you_mean
from dali_proxy.pipeline._rng import RandomState
from dali_proxy.pipeline.errors import (
    ArgumentMismatchError,
    ArgumentTypeError,
    ArgumentValueError,
    GraphError,
    UnknownArgumentError,
)
from dali_proxy.pipeline.types import DALIDataType, ScalarConstant

_ORDER = itertools.count()


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """One call of an operator in a graph function.

    Attributes:
        schema: declaration of the operator.
        device: "cpu", "mixed" or "gpu".
        name: the user's name for it, or None.
        inputs: positional inputs.
        arguments: constant arguments in normal form.
        argument_inputs: arguments that have one value per sample.
        location: the user's line.
        branch: branch that contains it.
        split: whether `fn._conditional.split` put it into this branch, and not the place of the call.
        twin: earlier call, for another set of inputs, whose random numbers it shares; None for its own.
        builder: builder that was current, or None.
        random_state: random state of the call in dynamic mode, or None.
        order: position among all calls of this process.
    """

    schema: OperatorSchema
    device: str
    name: str | None
    inputs: tuple[DataNode, ...]
    arguments: Mapping[str, Any]
    argument_inputs: Mapping[str, DataNode]
    location: SourceLocation
    branch: Branch = ()
    split: bool = False
    twin: OperatorCall | None = None
    builder: weakref.ref[Builder] | None = None
    random_state: RandomState | None = None
    order: int = field(default_factory=lambda: next(_ORDER))

    @property
    def display(self) -> str:
        return self.schema.display + (f" (name={self.name!r})" if self.name else "")


class DataNode(Expression):
    """An output of an operator while the graph is described: it stands for a batch that doesn't exist yet.

    Pass it to operators as an input, or as an argument with one value per sample; use arithmetic on it; return it
    from the graph function.

    Args:
        name: display name.
        device: "cpu" or "gpu".
        source: the operator call whose output it is.
        index: number of the output.

    Attributes:
        selector: the node with its truth values, by which `fn._conditional.split` splits batches; None before.
    """

    def __init__(self, name: str, device: str = "cpu", source: OperatorCall | None = None, index: int = 0) -> None:
        self.name = name
        self.device = device
        self.source = source
        self.index = index
        self.selector: DataNode | None = None

    def gpu(self) -> DataNode:
        """Return this batch on the GPU: a copy if it is on the CPU."""
        return self if self.device == "gpu" else _single(apply_operator("copy_to_gpu", (self,), {}))

    def cpu(self) -> DataNode:
        """Return this batch on the CPU: a copy if it is on the GPU."""
        return self if self.device == "cpu" else _single(apply_operator("copy_to_cpu", (self,), {}))

    def shape(self, *, dtype: Any = None, device: str = "cpu") -> DataNode:
        """Return the shapes of the samples: a batch of 1-D integer tensors (int64 unless `dtype` is given)."""
        arguments = {} if dtype is None else {"dtype": dtype}
        return _single(apply_operator("shapes", (self,), {**arguments, "device": device}))

    def property(self, key: str, *, device: str = "cpu") -> DataNode:
        """Return a property of the samples: a batch of 1-D uint8 tensors that contain text.

        Args:
            key: "layout", or "source_info": the path from which a reader read the sample.
            device: "cpu" or "gpu".
        """
        return _single(apply_operator("get_property", (self,), {"key": key, "device": device}))

    def source_info(self, *, device: str = "cpu") -> DataNode:
        """Return from where a reader read the samples: ``property("source_info")``."""
        return self.property("source_info", device=device)

    def _combine(self, operation: str, *operands: Any) -> DataNode:
        first, *others = operands
        if isinstance(first, np.generic):  # on the left, as in DALI, it has the type of a Python number
            first = first.item()
        return combine(operation, (first, *others))

    def _index(self, key: Any) -> DataNode:
        entries, indices = index_entries(key, lambda value: isinstance(value, DataNode))
        return _single(apply_operator("subscript", (self, *indices), {"key": entries}))

    def __repr__(self) -> str:
        return f"DataNode({self.name!r}, device={self.device!r})"


def _single(node: DataNode | tuple[DataNode, ...] | None) -> DataNode:
    assert isinstance(node, DataNode)
    return node


def combine(operation: str, operands: Sequence[Any]) -> DataNode:
    """Return the node of an arithmetic operation. Single numbers of NumPy keep their dtypes."""
    numbers = [
        ScalarConstant(each) if isinstance(each, np.generic | np.ndarray) and not each.ndim else each
        for each in operands
    ]
    return _single(apply_operator("arithmetic", numbers, {"operation": operation}))


def as_node(value: Any, label: str) -> DataNode:
    """Turn a value into a data node: nodes stay, constants and arrays become constants of the graph.

    Raises:
        ArgumentTypeError: for any other value; the message begins with `label`.
    """
    if isinstance(value, DataNode):
        return value
    if isinstance(value, list | tuple) and any(isinstance(item, DataNode) for item in value):
        raise ArgumentTypeError(
            f"{label} is a {type(value).__name__} with data nodes in it, but must be a single DataNode"
        )
    builder = current_builder()
    node: DataNode | None = None if builder is None else builder.convert(value, label)
    if node is not None:
        return node
    if is_constant(value):
        try:
            return constant_node(value)
        except GraphError as error:
            raise type(error)(f"{label}: {error}") from error
    if hasattr(type(value), "why_no_node"):
        why = value.why_no_node()
        raise type(why)(f"{label}: {why}") if isinstance(why, GraphError) else why
    raise ArgumentTypeError(f"{label} must be a DataNode or a constant, not {type(value).__name__}")


def constant_node(
    value: Any,
    dtype: DALIDataType | None = None,
    shape: Any = None,
    layout: str | None = None,
    device: str | None = None,
    name: str | None = None,
) -> DataNode:
    """Return the node of a constant. Has the arguments and the errors of `types.Constant`."""
    array = constant_array(value, dtype, shape)
    arguments = {"value": array, "layout": layout or None, "device": device or "cpu", "name": name}
    return _single(apply_operator("constant_value", (), arguments))


def apply_operator(
    name: str, inputs: Sequence[Any], arguments: Mapping[str, Any], twin: OperatorCall | None = None
) -> DataNode | tuple[DataNode, ...] | None:
    """Add an operator to the graph: check the call against the declaration, return the outputs.

    Args:
        name: path of the operator below `fn`.
        inputs: positional inputs; None at the end for optional ones.
        arguments: keyword arguments, with `device` and `name`.
        twin: earlier call of the operator whose random numbers it shares.

    Returns:
        The output, a tuple of outputs, or None for an operator without outputs.

    Raises:
        GraphError: the call doesn't match the declaration; the message names the operator and the user's line.
    """
    schema = lookup(name)
    call = check_call(schema, inputs, arguments, twin)
    device = schema.output_device or ("cpu" if call.device == "cpu" else "gpu")
    count = schema.output_count(call.arguments, len(call.inputs))
    nodes = tuple(DataNode(call.name or schema.name, device, call, index) for index in range(count))
    builder = current_builder()
    if schema.fed and builder is not None:
        builder.declare_input(call)
    if schema.side_effects or call.arguments.get("preserve"):
        _preserve(call)
    if builder is not None:
        nodes = builder.finish_call(call, nodes)
    if not nodes:
        return None
    return nodes[0] if count == 1 else nodes


def check_call(
    schema: OperatorSchema, inputs: Sequence[Any], arguments: Mapping[str, Any], twin: OperatorCall | None = None
) -> OperatorCall:
    """Return the call that `apply_operator` would add to the graph. Has the same arguments and errors."""
    location = SourceLocation.from_caller()
    try:
        return _check_call(schema, inputs, dict(arguments), location, twin)
    except GraphError as error:
        raise explained(error, schema, location) from error.__cause__


def explained(error: GraphError, schema: OperatorSchema, location: SourceLocation) -> GraphError:
    """Return an error whose message also names the operator and the user's line."""
    message = f"{schema.display}: {error}"
    return type(error)(f"{message}\n  at {location}" if location.line else message)


def _check_call(
    schema: OperatorSchema,
    inputs: Sequence[Any],
    arguments: dict[str, Any],
    location: SourceLocation,
    twin: OperatorCall | None,
) -> OperatorCall:
    label = arguments.pop("name", None)
    if label is not None and not isinstance(label, str):
        raise ArgumentTypeError(f"argument 'name' must be str, not {type(label).__name__}")
    least = sum(not declared.optional for declared in schema.inputs)
    passed = list(inputs)
    while least < len(passed) <= len(schema.inputs) and passed[-1] is None:  # an omitted optional input
        passed.pop()
    if len(passed) < least or (len(passed) > len(schema.inputs) and not schema.variadic):
        names = ", ".join(declared.name for declared in schema.inputs) or "none"
        most = "any number of" if schema.variadic else len(schema.inputs)
        raise ArgumentMismatchError(
            f"the operator expects from {least} to {most} inputs, but received {len(passed)}; its inputs: {names}"
        )
    nodes = [as_node(value, f"input {position}") for position, value in enumerate(passed)]
    device = _choose_device(schema, arguments.pop("device", None), nodes)
    nodes = [_moved(schema, device, position, node) for position, node in enumerate(nodes)]

    if arguments.get("seed") is not None and not (schema.random or schema.is_reader or schema.fed):
        message = 'The argument "seed" should not be used with operators that don\'t use random numbers.'
        warn_caller(message, DeprecationWarning)
    builder = current_builder()
    constants: dict[str, Any] = {}
    argument_inputs: dict[str, DataNode] = {}
    for key, value in _renamed(schema, arguments).items():
        declared_argument = schema.argument(key)
        assert declared_argument is not None
        if hasattr(type(value), "why_no_node"):
            raise value.why_no_node()
        if isinstance(value, list) and declared_argument.per_sample and builder is not None:
            converted = builder.convert(value, f"argument {key!r}")
            value = value if converted is None else converted
        if isinstance(value, np.ndarray) and declared_argument.kind is Kind.FLOAT and declared_argument.per_sample:
            value = as_node(value, f"argument {key!r}")  # one array for all samples
        if isinstance(value, DataNode):
            if not declared_argument.per_sample:
                raise ArgumentTypeError(
                    f"The argument `{key}` should not be a 'DataNode' but a constant: {declared_argument.kind.value}"
                )
            if value.device != "cpu":
                raise ArgumentValueError(
                    f"Invalid device \"gpu\" for argument '{key}'. Named arguments must be on CPU: add .cpu()"
                )
            argument_inputs[key] = value
        elif isinstance(value, ScalarConstant):
            constants[key] = declared_argument.check(value.value)
        elif value is not None:
            constants[key] = declared_argument.check(value)
    if follows_dali():
        defaults = schema.dali_defaults.items()
        constants |= {name: value for name, value in defaults if name not in constants and name not in argument_inputs}
    required = sorted(each.name for each in schema.arguments if each.default is REQUIRED)
    missing = [name for name in required if name not in constants and name not in argument_inputs]
    if missing:
        names = ", ".join(f'"{name}"' for name in missing)
        raise ArgumentTypeError(
            f'Not all required arguments were specified for op "{schema_name(schema.name)}". '
            f"Please specify values for arguments: {names}"
        )
    read = (*nodes, *argument_inputs.values())
    outer = current_branch()
    if schema.merges:
        branch = _split_branch(tuple(argument_inputs.values()), outer)
    else:
        # Operators that read nothing run for all samples, unless they depend on the number of samples.
        branch = _split_branch(read, outer if read or not schema.keeps_order else ())
        _check_branch(read, branch)
    split = schema.name == "split" or (bool(read) and len(branch) > len(outer))
    return OperatorCall(
        schema,
        device,
        label,
        tuple(nodes),
        constants,
        argument_inputs,
        location,
        branch,
        split,
        twin,
        None if builder is None else weakref.ref(builder),
    )


def _split_branch(read: Sequence[DataNode], branch: Branch) -> Branch:
    """Return the branch of an operator: that of an input if `fn._conditional.split` split it, otherwise `branch`."""
    for node in read:
        call = node.source
        if call is not None and call.split and len(call.branch) > len(branch) and within(call.branch, branch):
            branch = call.branch
    return branch


def check_names(schema: OperatorSchema, arguments: Mapping[str, Any]) -> None:
    """Check that an operator has arguments of these names.

    Raises:
        UnknownArgumentError: it doesn't have one of them.
    """
    unknown = [name for name in arguments if name not in ("device", "name") and schema.argument(name) is None]
    if unknown:
        raise explained(_unknown(schema, unknown[0]), schema, SourceLocation.from_caller())


def check_repeated(schema: OperatorSchema, created: Mapping[str, Any], called: Mapping[str, Any]) -> None:
    """Check that the call of an object of `ops` doesn't repeat arguments with which it was created.

    Raises:
        ArgumentValueError: it repeats one.
    """
    for name in called:
        if name in created:
            error = ArgumentValueError(f"The argument `{name}` was already specified in __init__.")
            raise explained(error, schema, SourceLocation.from_caller())


def _unknown(schema: OperatorSchema, name: str) -> UnknownArgumentError:
    known = sorted(argument.name for argument in schema.arguments)
    return UnknownArgumentError(
        f'Argument "{name}" is not defined for operator "{schema_name(schema.name)}"{did_you_mean(name, known) or "."} '
        f"Its arguments are: {', '.join(known) or 'none'}"
    )


def _renamed(schema: OperatorSchema, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with new names in place of deprecated ones. Warns about deprecated arguments."""
    result: dict[str, Any] = {}
    for key, value in arguments.items():
        declared = schema.argument(key)
        if declared is None:
            raise _unknown(schema, key)
        if declared.warning and value is not None:
            warn_caller(declared.warning, DeprecationWarning)
        if declared.replaced_by and declared.replaced_by in arguments:
            raise ArgumentTypeError(
                f"got an unexpected '{key}' deprecated argument when '{declared.replaced_by}' was already provided"
            )
        result[declared.replaced_by or key] = value
    return result


def _check_branch(read: Sequence[DataNode], branch: Branch) -> None:
    for node in read:
        if node.source is not None and not within(branch, node.source.branch):
            raise ArgumentValueError(
                f"{node!r} was described in a branch and has only its samples, but is used outside of it: return it "
                f"from the branches"
            )


def _choose_device(schema: OperatorSchema, wanted: Any, inputs: Sequence[DataNode]) -> str:
    if wanted is None:
        on_gpu = any(node.device == "gpu" for node in inputs)
        wanted = "gpu" if on_gpu and "gpu" in schema.devices else schema.devices[0]
    if wanted not in schema.devices:
        raise ArgumentValueError(f'Unsupported device type: "{wanted}". It must be one of {", ".join(schema.devices)}')
    return str(wanted)


def _moved(schema: OperatorSchema, device: str, position: int, node: DataNode) -> DataNode:
    declared = schema.inputs[min(position, len(schema.inputs) - 1)]
    if declared.any_device:
        return node
    if device in ("cpu", "mixed") and node.device == "gpu" and schema.output_device is None:
        raise ArgumentValueError(
            f'The input {position} is stored on incompatible device "gpu". Valid device is "cpu": add .cpu() to the '
            "input or choose device='gpu'"
        )
    return node.gpu() if device == "gpu" else node


def _preserve(call: OperatorCall) -> None:
    builder = current_builder()
    if builder is None:
        raise GraphError(
            f"{call.display} has to run although no output needs it (it has side effects, or preserve=True): call it "
            f"within a pipeline (`with pipe:`)\n  at {call.location}"
        )
    builder.preserve(call)
