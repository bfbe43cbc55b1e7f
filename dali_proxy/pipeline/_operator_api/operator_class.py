"""The base of the classes of `ops`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dali_proxy.pipeline._declaration.schema import OperatorSchema
from dali_proxy.pipeline._graph.input_sets import call_operator
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import DataNode, check_names, check_repeated, explained
from dali_proxy.pipeline._operator_api.op_schema import OpSchema
from dali_proxy.pipeline._operator_api.op_spec import OpSpec
from dali_proxy.pipeline.errors import ArgumentTypeError


class OperatorClass:
    """An operator that is created with constant arguments and called with inputs.

    Attributes:
        schema_name: the operator's name in DALI, such as "readers__File".
    """

    schema_name: ClassVar[str]
    _declared: ClassVar[OperatorSchema]
    _values: Sequence[Any] = ()
    _arguments: Mapping[str, Any]

    def __init__(self, *values: Any, **arguments: Any) -> None:
        self._arguments = bind(self._declared, values, arguments)

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        check_repeated(self._declared, self._arguments, arguments)
        path = ".".join(["ops", *self._declared.name.split(".")[:-1], type(self).__name__])
        return call_operator(self._declared, inputs, {**self._arguments, **arguments}, path)

    @property
    def device(self) -> str:
        """Device of the operator: the argument of that name, or the operator's first device."""
        return str(self._arguments.get("device") or self._declared.devices[0])

    @property
    def preserve(self) -> bool:
        """Whether the operator runs even if no output needs it."""
        return bool(self._arguments.get("preserve")) or self._declared.side_effects

    @property
    def schema(self) -> OpSchema:
        """The declaration of the operator."""
        return OpSchema(self._declared)

    @property
    def spec(self) -> OpSpec:
        """The operator's constant arguments."""
        spec = OpSpec(self.schema_name).AddArg("device", self.device)
        for name, value in self._arguments.items():
            if isinstance(value, DataNode):
                spec.AddArgumentInput(name, value.name)
            elif name not in ("device", "name") and value is not None:
                spec.AddArg(name, value)
        return spec


def bind(schema: OperatorSchema, values: Sequence[Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with which a class of `ops` was created, by name.

    Args:
        schema: the operator.
        values: arguments by position, of those that `OperatorSchema.class_parameters` lists.
        arguments: arguments by name.

    Raises:
        ArgumentTypeError: there are too many values, or an argument is unknown or given twice.
    """
    names = [name for name, _ in schema.class_parameters]
    twice = [name for name in names[: len(values)] if name in arguments]
    if len(values) > len(names) or twice:
        wrong = f"got multiple values for argument {twice[0]!r}" if twice else f"takes {len(names)} values by position"
        raise explained(ArgumentTypeError(wrong), schema, SourceLocation.from_caller())
    check_names(schema, arguments)
    return {**dict(schema.class_parameters), **dict(zip(names, values, strict=False)), **arguments}
