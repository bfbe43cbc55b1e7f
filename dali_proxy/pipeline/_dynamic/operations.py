"""Functions of higher modules that the methods of tensors, batches, types and contexts call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Operations:
    """Functions that create tensors and call operators. The module `calling`, which imports all of them, sets them."""

    call: Callable[..., Any]
    combine: Callable[..., Any]
    subscript: Callable[..., Any]
    make_tensor: Callable[..., Any]
    make_batch: Callable[..., Any]
    evaluate_pending: Callable[[], None]


operations = Operations()
