"""Operators as functions. A call adds an operator to the graph of the current pipeline.

Example:
    >>> from dali_proxy import fn
    >>> node = fn.external_source(name="images")
    >>> fn.resize(node, size=(224, 224)).device
    'cpu'
"""

from typing import Any

from dali_proxy.pipeline._catalog import all_schemas, fill_namespace, make_function
from dali_proxy.pipeline._declaration.suggestions import missing_operator
from dali_proxy.pipeline.fn import _conditional as _conditional

_operators = fill_namespace(
    __name__,
    [schema for schema in all_schemas() if not schema.hidden],
    make_function,
    lambda path: path.rpartition(".")[2],
)
globals().update(_operators)
__all__ = sorted(_operators)


def __getattr__(name: str) -> Any:
    raise missing_operator(__name__, name, [schema.name for schema in all_schemas() if not schema.hidden])
