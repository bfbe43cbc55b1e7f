"""The base of the classes of `ops`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pipeline._declaration.schema import OperatorSchema
from pipeline._graph.input_sets import call_operator
from pipeline._graph.nodes import DataNode
from pipeline._operator_api.op_schema import OpSchema
from pipeline._operator_api.op_spec import OpSpec

__all__ = ["OperatorClass"]


class OperatorClass:
    """An operator that is created with constant arguments and called with inputs.

    Attributes:
        schema_name: the operator's name in DALI, such as "readers__File".
    """

    schema_name: ClassVar[str]
    _declared: ClassVar[OperatorSchema]
    _values: Sequence[Any] = ()
    _arguments: Mapping[str, Any]

    def __init__(self, **arguments: Any) -> None:
        self._arguments = arguments

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        return call_operator(self._declared, inputs, {**self._arguments, **arguments})

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
