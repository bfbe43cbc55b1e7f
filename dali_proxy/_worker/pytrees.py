"""Placeholders in torch's pytrees: code that looks for tensors in a sample must not pass over its placeholders."""

from __future__ import annotations

from typing import Any, NoReturn

from dali_proxy._worker.placeholders import BatchRef, PackedRefs, Placeholder, SampleRef, StackedRefs


def register_with_pytrees() -> None:
    """Let functions such as `torch.utils._pytree.tree_flatten` raise a `PlaceholderError` for placeholders.

    torchvision's transforms (v2) flatten a sample, change the parts that they know and leave all others as they are.
    Without this, they would leave images unchanged without an error.
    """
    from torch.utils._pytree import SUPPORTED_NODES, register_pytree_node

    for kind in (SampleRef, BatchRef, StackedRefs, PackedRefs):
        if kind not in SUPPORTED_NODES:
            register_pytree_node(kind, _refuse, _unreachable)


def _refuse(ref: Placeholder) -> NoReturn:
    ref._refuse("torch.utils._pytree")


def _unreachable(values: Any, context: Any) -> NoReturn:
    raise AssertionError("placeholders aren't flattened")
