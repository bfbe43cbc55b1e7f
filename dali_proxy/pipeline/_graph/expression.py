"""`Expression`: arithmetic, comparison, bitwise operators and indexing for objects that stand for future data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from dali_proxy.pipeline._graph.foreign_use import ForeignUse

_Self = TypeVar("_Self", bound="Expression")


class Expression(ForeignUse, ABC):
    """Python's operators for a class that can build a node for each of them."""

    __hash__ = object.__hash__
    # NumPy scalars and arrays on the left leave the operation to us.
    __array_ufunc__ = None

    @abstractmethod
    def _combine(self: _Self, operation: str, *operands: Any) -> _Self:
        """Return the node of an operation, which is named as in the `operator` module."""

    @abstractmethod
    def _index(self: _Self, key: Any) -> _Self:
        """Return the node of ``self[key]``."""

    def __add__(self: _Self, other: Any) -> _Self:
        return self._combine("add", self, other)

    def __radd__(self: _Self, other: Any) -> _Self:
        return self._combine("add", other, self)

    def __sub__(self: _Self, other: Any) -> _Self:
        return self._combine("sub", self, other)

    def __rsub__(self: _Self, other: Any) -> _Self:
        return self._combine("sub", other, self)

    def __mul__(self: _Self, other: Any) -> _Self:
        return self._combine("mul", self, other)

    def __rmul__(self: _Self, other: Any) -> _Self:
        return self._combine("mul", other, self)

    def __truediv__(self: _Self, other: Any) -> _Self:
        return self._combine("truediv", self, other)

    def __rtruediv__(self: _Self, other: Any) -> _Self:
        return self._combine("truediv", other, self)

    def __floordiv__(self: _Self, other: Any) -> _Self:
        return self._combine("floordiv", self, other)

    def __rfloordiv__(self: _Self, other: Any) -> _Self:
        return self._combine("floordiv", other, self)

    def __mod__(self: _Self, other: Any) -> _Self:
        return self._combine("mod", self, other)

    def __rmod__(self: _Self, other: Any) -> _Self:
        return self._combine("mod", other, self)

    def __pow__(self: _Self, other: Any) -> _Self:
        return self._combine("pow", self, other)

    def __rpow__(self: _Self, other: Any) -> _Self:
        return self._combine("pow", other, self)

    def __neg__(self: _Self) -> _Self:
        return self._combine("neg", self)

    def __pos__(self: _Self) -> _Self:
        return self._combine("pos", self)

    def __eq__(self: _Self, other: object) -> _Self:  # type: ignore[override]
        return self._combine("eq", self, other)

    def __ne__(self: _Self, other: object) -> _Self:  # type: ignore[override]
        return self._combine("ne", self, other)

    def __lt__(self: _Self, other: Any) -> _Self:
        return self._combine("lt", self, other)

    def __le__(self: _Self, other: Any) -> _Self:
        return self._combine("le", self, other)

    def __gt__(self: _Self, other: Any) -> _Self:
        return self._combine("gt", self, other)

    def __ge__(self: _Self, other: Any) -> _Self:
        return self._combine("ge", self, other)

    def __abs__(self: _Self) -> _Self:
        return self._combine("abs", self)

    def __invert__(self: _Self) -> _Self:
        return self._combine("invert", self)

    def __lshift__(self: _Self, other: Any) -> _Self:
        return self._combine("lshift", self, other)

    def __rlshift__(self: _Self, other: Any) -> _Self:
        return self._combine("lshift", other, self)

    def __rshift__(self: _Self, other: Any) -> _Self:
        return self._combine("rshift", self, other)

    def __rrshift__(self: _Self, other: Any) -> _Self:
        return self._combine("rshift", other, self)

    def __and__(self: _Self, other: Any) -> _Self:
        return self._combine("and_", self, other)

    def __rand__(self: _Self, other: Any) -> _Self:
        return self._combine("and_", other, self)

    def __or__(self: _Self, other: Any) -> _Self:
        return self._combine("or_", self, other)

    def __ror__(self: _Self, other: Any) -> _Self:
        return self._combine("or_", other, self)

    def __xor__(self: _Self, other: Any) -> _Self:
        return self._combine("xor", self, other)

    def __rxor__(self: _Self, other: Any) -> _Self:
        return self._combine("xor", other, self)

    def __getitem__(self: _Self, key: Any) -> _Self:
        return self._index(key)

    def __iter__(self) -> Any:
        # Without this, Python would iterate by calling self[0], self[1], ... forever.
        raise TypeError("a DataNode stands for a batch that doesn't exist yet: it can't be iterated")

    def __bool__(self) -> bool:
        raise TypeError(
            '"DataNode" was used in conditional context: it has no truth value while the graph is described. To use '
            "conditional execution via `if` statements you need to specify `enable_conditionals=True` in "
            "`@nvidia.dali.pipeline_def` decorator; it applies to `and`, `or` and `not`, too, but not to `while`"
        )
