"""Checkpoints of readers and random generators."""

from __future__ import annotations

from dali_proxy.pipeline._dynamic.checkpoints import Checkpoint
from dali_proxy.pipeline._dynamic.context import EvalContext

__all__ = ["Checkpoint", "current"]


def current() -> Checkpoint:
    """Return the checkpoint of the current context."""
    return EvalContext.current().checkpoint
