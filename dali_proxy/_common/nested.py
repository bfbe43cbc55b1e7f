"""Search and replacement of objects in nested structures from datasets and collate functions."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from dali_proxy.errors import PlaceholderError

_PLAIN = frozenset((tuple, list, dict, deque, set, frozenset))  # without attributes
_LEAF_TYPES = (str, bytes, bytearray, memoryview, int, float, complex, type(None), type, range)
# Objects of these packages don't refer to batches, but to many other objects.
_LEAF_PACKAGES = frozenset(
    ("builtins", "cupy", "dali_proxy", "functools", "numpy", "pathlib", "PIL", "torch", "typing")
)


def find(data: Any, kind: type) -> list[Any]:
    """Return the objects of type `kind` in a nested structure, each once, in order of appearance.

    The search includes tuples, lists, deques, sets, values of mappings, and attributes of objects (`__slots__`,
    `__dict__`).

    Example:
        >>> find({"a": (1, 2.0), "b": [3]}, int)
        [1, 3]
    """
    if isinstance(data, kind):
        return [data]
    found: dict[int, Any] = {}
    _holders(data, kind, found)
    return list(found.values())


def replace(data: Any, kind: type, new: Callable[[Any], Any]) -> Any:
    """Return `data` with every object `x` of type `kind` replaced by `new(x)`.

    Containers and objects that hold one, at any depth, are replaced by copies of the same type; all others stay.
    Constructors aren't called. Shared objects stay shared, and cycles are allowed.

    Raises:
        PlaceholderError: the values of a mapping can't be replaced.

    Example:
        >>> replace({"a": (1, 2.0)}, int, str)
        {'a': ('1', 2.0)}
    """
    if isinstance(data, kind):
        return new(data)
    found: dict[int, Any] = {}
    holders = _holders(data, kind, found)
    if not found:
        return data
    return _Copier(kind, new, holders).copy(data)


def _children(data: Any) -> Iterator[Any]:
    if isinstance(data, tuple | list | deque | set | frozenset):
        yield from data
    elif isinstance(data, Mapping):
        yield from data.values()
    if type(data) not in _PLAIN:
        for name in _attributes(data):
            yield getattr(data, name)


def _attributes(data: Any) -> list[str]:
    """Return the names of an object's attributes in `__dict__` and in slots."""
    names = list(getattr(data, "__dict__", ()))
    for base in type(data).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{base.__name__.lstrip('_')}{slot}" if slot.startswith("__") and slot[-2:] != "__" else slot
            if slot not in ("__dict__", "__weakref__") and hasattr(data, name):
                names.append(name)
    return names


@lru_cache(maxsize=256)
def _is_leaf(kind: type) -> bool:
    """Return whether the search ends at objects of a type. Cached: abstract types take long to check."""
    if issubclass(kind, tuple | list | deque | set | frozenset | Mapping):
        return False
    return issubclass(kind, _LEAF_TYPES) or kind.__module__.partition(".")[0] in _LEAF_PACKAGES


def _holders(root: Any, kind: type, found: dict[int, Any]) -> set[int]:
    """Fill `found` with the objects of `kind` under `root`; return the ids of all containers that reach one."""
    if _is_leaf(type(root)):  # type: ignore[arg-type]  # types are hashable
        return set()
    parents: dict[int, list[int]] = {id(root): []}
    alive = [root]  # attributes may be created on access: ids are only valid while the objects live
    stack = [(id(root), _children(root))]
    while stack:
        parent, children = stack[-1]
        for child in children:
            if id(child) in parents:
                parents[id(child)].append(parent)
            elif isinstance(child, kind):
                found[id(child)] = child
                parents[id(child)] = [parent]
            elif not _is_leaf(type(child)):  # type: ignore[arg-type]
                parents[id(child)] = [parent]
                alive.append(child)
                stack.append((id(child), _children(child)))
                break
        else:
            stack.pop()
    holders: set[int] = set()
    waiting = [parent for item in found for parent in parents[item]]
    while waiting:
        holder = waiting.pop()
        if holder not in holders:
            holders.add(holder)
            waiting.extend(parents[holder])
    return holders


class _Copier:
    """Copies the holders and nothing else."""

    def __init__(self, kind: type, new: Callable[[Any], Any], holders: set[int]) -> None:
        self._kind = kind
        self._new = new
        self._holders = holders
        self._done: dict[int, Any] = {}
        self._alive: list[Any] = []

    def copy(self, data: Any) -> Any:
        key = id(data)
        if key in self._done:
            return self._done[key]
        if isinstance(data, self._kind):
            result = self._done[key] = self._new(data)
            return result
        if key not in self._holders:
            return data
        self._alive.append(data)
        if isinstance(data, tuple | frozenset):
            self._done[key] = data  # a cycle through one ends here
            values = [self.copy(child) for child in data]
            result = tuple_like(data, values) if isinstance(data, tuple) else frozenset.__new__(type(data), values)
            self._done[key] = result
            self._set_attributes(data, result)
            return result
        if isinstance(data, Mapping) and not isinstance(data, MutableMapping):
            return self._read_only(data)
        result = self._done[key] = copy.copy(data)  # before its children, which may refer back to it
        self._set_attributes(data, result)  # before its items, which an attribute may contain
        if isinstance(data, list | deque):
            for position, child in enumerate(data):
                result[position] = self.copy(child)
        elif isinstance(data, set):
            values = [self.copy(child) for child in data]
            result.clear()
            result.update(values)
        elif isinstance(data, MutableMapping):
            for name in data:
                result[name] = self.copy(data[name])
        return result

    def _set_attributes(self, data: Any, result: Any) -> None:
        if type(data) not in _PLAIN:
            for name in _attributes(data):
                object.__setattr__(result, name, self.copy(getattr(data, name)))

    def _read_only(self, data: Mapping[Any, Any]) -> Any:
        """Copy a mapping without `__setitem__`: its values are in its attributes, or a mapping creates it."""
        with suppress(TypeError):  # some types can't be copied
            result = self._done[id(data)] = copy.copy(data)
            self._set_attributes(data, result)
            if not find(list(result.values()), self._kind):
                return result
        values = {name: self.copy(child) for name, child in data.items()}
        try:
            made = type(data)(values)  # type: ignore[call-arg]
        except TypeError:
            kind = f"{type(data).__module__}.{type(data).__qualname__}"
            raise PlaceholderError(
                f"the values of a mapping of type {kind} can't be replaced by tensors: return a dict from the dataset "
                "and from collate_fn"
            ) from None
        self._done[id(data)] = made
        return made


def tuple_like(data: tuple[Any, ...], values: Iterable[Any]) -> Any:
    """Return a tuple of the same type with other values, without its attributes."""
    try:
        return tuple.__new__(type(data), values)  # its own constructor may take other arguments
    except TypeError:  # a sequence of the C API
        return type(data)(values)
