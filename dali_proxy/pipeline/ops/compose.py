"""`Compose`: operators that run one after another, as one callable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Compose"]


class Compose:
    """A chain of operators. The outputs of each one are the inputs of the next one.

    Inputs on the CPU are copied to the GPU for operators that run there.

    Args:
        op_list: objects of `ops`, or other callables that take and return data nodes.

    Example:
        >>> from dali_proxy import fn, ops, types
        >>> chain = ops.Compose([ops.Resize(size=(224, 224)), ops.Cast(dtype=types.FLOAT)])
        >>> chain(fn.external_source(name="images")).name
        'cast'
    """

    def __init__(self, op_list: Sequence[Callable[..., Any]]) -> None:
        self._operators = list(op_list)

    def __call__(self, *inputs: Any) -> Any:
        outputs: Any = inputs if len(inputs) != 1 else inputs[0]
        for operator in self._operators:
            outputs = operator(*outputs) if isinstance(outputs, tuple | list) else operator(outputs)
        return outputs
