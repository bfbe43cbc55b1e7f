"""Interoperation of dynamic mode with torch: `nodes` for `torchdata.nodes`, which is an optional dependency."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["nodes"]


def __getattr__(name: str) -> Any:
    if name == "nodes":
        return importlib.import_module(f"{__name__}.nodes")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
