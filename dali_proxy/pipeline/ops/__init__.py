"""Operators as classes: created with constant arguments, called with inputs.

Example:
    >>> from dali_proxy import fn, ops
    >>> resize = ops.Resize(size=(224, 224))
    >>> resize(fn.external_source(name="images")).device
    'cpu'
"""

from typing import Any

from dali_proxy.pipeline._catalog import all_schemas, fill_namespace, make_class
from dali_proxy.pipeline._declaration.names import class_name
from dali_proxy.pipeline._declaration.suggestions import missing_operator
from dali_proxy.pipeline.ops.compose import Compose as Compose

_operators = fill_namespace(__name__, [schema for schema in all_schemas() if not schema.hidden], make_class, class_name)
globals().update(_operators)
__all__ = sorted([*_operators, "Compose"])


def __getattr__(name: str) -> Any:
    raise missing_operator(__name__, name, __all__)
