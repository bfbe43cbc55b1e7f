"""Functions of higher modules that the methods of tensors, batches, types and contexts call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Operations:
    """Functions that create tensors and call operators. The module `calling`, which imports all of them, sets them.

    Attributes:
        call: calls an operator on tensors and batches.
        combine: computes an arithmetic operation.
        subscript: indexes a tensor, or each sample of a batch.
        make_tensor: creates a tensor from data.
        make_batch: creates a batch from data.
        evaluate_pending: computes all results of this thread that are pending.
    """

    call: Callable[..., Any]
    combine: Callable[..., Any]
    subscript: Callable[..., Any]
    make_tensor: Callable[..., Any]
    make_batch: Callable[..., Any]
    evaluate_pending: Callable[[], None]


operations = Operations()
