"""The operators of dynamic mode as classes, as in the private module of NVIDIA DALI that scripts use.

An object is created with constant arguments and called with inputs, any number of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dali_proxy.pipeline import dynamic
from dali_proxy.pipeline._catalog import all_schemas, fill_namespace
from dali_proxy.pipeline._declaration.names import class_name
from dali_proxy.pipeline._declaration.schema import OperatorSchema
from dali_proxy.pipeline._declaration.suggestions import missing_operator
from dali_proxy.pipeline._dynamic.functions import is_function

__all__: list[str] = []


def _make(schema: OperatorSchema) -> type[Any]:
    function: Any = dynamic
    for name in schema.name.split("."):
        function = getattr(function, name)
    return type(class_name(schema.name), (_Operator,), {"_function": staticmethod(function)})


class _Operator:
    _function: Callable[..., Any]

    def __init__(self, max_batch_size: int | None = None, name: str | None = None, **arguments: Any) -> None:
        arguments.pop("seed", None)  # calls take `rng` instead
        self._arguments = arguments

    def __call__(self, *inputs: Any, **arguments: Any) -> Any:
        return type(self)._function(*inputs, **{**self._arguments, **arguments})


_namespace = fill_namespace(__name__, [schema for schema in all_schemas() if is_function(schema)], _make, class_name)
globals().update(_namespace)


def __getattr__(name: str) -> Any:
    raise missing_operator(__name__, name, _namespace)
