"""Conditions without `if`: `split` a batch, process its parts, and `merge` the results."""

from __future__ import annotations

from dali_proxy.pipeline._operators.arrays.split import merge, not_, split

__all__ = ["merge", "not_", "split"]
