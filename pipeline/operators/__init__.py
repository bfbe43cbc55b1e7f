"""Operators: a registry, and one module per family that declares and implements them."""

from pipeline.operators import (
    arithmetic,
    constant,
    external_source,
    random_numbers,
    subscript,
    transfer,
)
from pipeline.operators.functions import class_name, fill_namespace, make_class, make_function
from pipeline.operators.registry import all_schemas

#: Modules whose import fills the registry.
FAMILIES = (arithmetic, constant, external_source, random_numbers, subscript, transfer)

__all__ = ["FAMILIES", "all_schemas", "class_name", "fill_namespace", "make_class", "make_function"]
