"""Imports every operator and reader, so that they are registered, with the old names of operators."""

import importlib
import pkgutil

from dali_proxy.pipeline import _operators, _readers
from dali_proxy.pipeline._catalog.aliases import register_aliases
from dali_proxy.pipeline._declaration.registry import all_schemas
from dali_proxy.pipeline._graph.nodes import constant_node
from dali_proxy.pipeline._operator_api.functions import fill_namespace, make_class, make_function

__all__ = ["all_schemas", "constant_node", "fill_namespace", "make_class", "make_function"]

for _package in (_operators, _readers):
    for _module in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_module.name)
register_aliases()
