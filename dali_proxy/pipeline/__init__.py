"""Describes, compiles and runs pipelines that load data, with the operators of NVIDIA DALI.

Names are loaded when they are first used, together with all operators. A server's process and the workers of sources
import private modules instead, so they start faster: they only load the operators of their pipeline.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dali_proxy.pipeline import dynamic, errors, fn, math, ops, tensors, types
    from dali_proxy.pipeline._definition import (
        OperatorConcurrency,
        Pipeline,
        StreamPolicy,
        do_not_convert,
        pipeline_def,
    )
    from dali_proxy.pipeline._graph import DataNode, newaxis
    from dali_proxy.pipeline._operator_def import operator_def

__all__ = [
    "DataNode",
    "OperatorConcurrency",
    "Pipeline",
    "StreamPolicy",
    "do_not_convert",
    "dynamic",
    "errors",
    "fn",
    "math",
    "newaxis",
    "operator_def",
    "ops",
    "pipeline_def",
    "tensors",
    "types",
]

_PACKAGES = {
    "DataNode": "_graph",
    "OperatorConcurrency": "_definition",
    "Pipeline": "_definition",
    "StreamPolicy": "_definition",
    "do_not_convert": "_definition",
    "newaxis": "_graph",
    "operator_def": "_operator_def",
    "pipeline_def": "_definition",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    importlib.import_module(f"{__name__}._requirements").check_requirements()
    importlib.import_module(f"{__name__}._catalog")
    if name in _PACKAGES:
        value = getattr(importlib.import_module(f"{__name__}.{_PACKAGES[name]}"), name)
    else:
        value = importlib.import_module(f"{__name__}.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
