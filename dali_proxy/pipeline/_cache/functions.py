"""Describe functions of the user, so that an edited function has another description."""

from __future__ import annotations

import copyreg
import hashlib
import os
import pickle
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt

_SCRIPTS = ("__main__", "__mp_main__")
_LIBRARIES = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib"))
# Attributes of a class that don't change results.
_MEANINGLESS = ("__doc__", "__firstlineno__", "__dict__", "__weakref__", "__dataclass_fields__", "_abc_impl")
_whichmodule: Callable[[Any, str], str] = pickle.whichmodule  # type: ignore[attr-defined]  # missing in typeshed
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def describe_function(function: Callable[..., Any]) -> str | None:
    """Return a description of a function, equal for equal results; None if it can't be described.

    It has the function's code, its defaults, the variables that it uses from outside, and the files of the modules that
    it names, with those that these import. The same holds for functions and classes among these variables. Of installed
    libraries, it has the versions.

    Args:
        function: a function, or another object that can be called.

    Example:
        >>> one, same, other = (eval(f"lambda x: x + {number}") for number in (1, 1, 2))
        >>> describe_function(one) == describe_function(same)
        True
        >>> describe_function(one) == describe_function(other)
        False
    """
    walk = _Walk()
    try:
        walk.add(function)
    except Exception as error:  # noqa: BLE001 - an object that can't be pickled raises anything
        pass_on_interrupt(error)
        return None
    return walk.digest.hexdigest()


class _Walk:
    """A digest of objects and what they consist of."""

    def __init__(self) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, tuple[int, Any]] = {}  # by ID: the number of the object, and the object

    def add(self, value: Any) -> None:
        if isinstance(value, _PLAIN):
            self._note(type(value).__name__, value)
            return
        number, _ = self._seen.setdefault(id(value), (len(self._seen), value))
        if number < len(self._seen) - 1:
            self._note("again", number)
            return
        self._note(type(value).__name__)
        if type(value) is np.ndarray and not value.dtype.hasobject:
            self._note(str(value.dtype), value.shape, value.tobytes())
        elif isinstance(value, dict):
            self._add_all([each for item in value.items() for each in item])
        elif isinstance(value, list | tuple):
            self._add_all(value)
        elif isinstance(value, set | frozenset):
            self._add_all(sorted(value, key=repr))
        elif isinstance(value, CodeType):
            self._note(value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_flags)
            self._note(value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount)
            self._add_all(value.co_consts)
        elif isinstance(value, FunctionType | type) and _is_named(value):
            self._note(value.__module__, value.__qualname__, _version(value.__module__))
        elif isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, MethodType):
            self._add_all([value.__func__, value.__self__])
        elif isinstance(value, ModuleType):
            self._add_module(value)
        elif isinstance(value, type):
            self._add_class(value)
        elif isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | None):
            self._note(value.__module__, value.__qualname__, _version(value.__module__ or ""))
        elif isinstance(value, staticmethod | classmethod):
            self.add(value.__func__)
        elif isinstance(value, property):
            self._add_all([value.fget, value.fset])
        else:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
            self.add(type(value))
            if not isinstance(reduced, str):
                self.add(tuple(map(_listed, reduced)))
            elif _is_installed(module := _whichmodule(value, reduced)):  # a pickle would have only its name
                self._note(module, reduced, _version(module))
            elif _is_installed(type(value).__module__):  # it may hide a function, as that of `functools.cache`
                self.add(value.__wrapped__)
            else:  # a class of the user, which says that the name suffices
                self._note(module, reduced)

    def _add_all(self, values: Any) -> None:
        self._note(len(values))
        for value in values:
            self.add(value)

    def _add_function(self, function: FunctionType) -> None:
        self.add(function.__code__)
        self._add_all([function.__defaults__, function.__kwdefaults__])
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # it is empty as long as the outer function runs
                self._note("empty")
        for name in sorted(set(_names(function.__code__)) & function.__globals__.keys()):
            self._note(name)
            self.add(function.__globals__[name])

    def _add_class(self, kind: type) -> None:
        self._note(kind.__module__, kind.__qualname__)
        self._add_all(kind.__bases__)
        for name, value in sorted(vars(kind).items()):
            if name not in _MEANINGLESS and not isinstance(value, GetSetDescriptorType | MemberDescriptorType):
                self._note(name)
                self.add(value)

    def _add_module(self, module: ModuleType) -> None:
        """Add the file of a module and, unless it is installed, what it has from other modules."""
        self._note(module.__name__, _version(module.__name__), _content(module))
        if _is_installed(module.__name__):
            return
        for name, value in sorted(vars(module).items()):
            home = value if isinstance(value, ModuleType) else sys.modules.get(str(getattr(value, "__module__", "")))
            if home is not None and home is not module and not _is_installed(home.__name__):
                self.add(home)
            elif isinstance(value, _PLAIN) and not name.startswith("__"):
                self._note(name, value)

    def _note(self, *parts: Any) -> None:
        self.digest.update(repr(parts).encode())


def _is_installed(name: str | None) -> bool:
    """Return whether a module belongs to Python or to an installed library."""
    if name in _SCRIPTS:  # also if it runs by `python -m` from where libraries are
        return False
    if name is None or name.partition(".")[0] in (*sys.stdlib_module_names, *sys.builtin_module_names):
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and any(file.startswith(folder) for folder in _LIBRARIES)


def _is_named(value: FunctionType | type) -> bool:
    """Return whether a function or class is that of an installed library, and not one that its code has made."""
    return _is_installed(value.__module__) and "<locals>" not in value.__qualname__


def _version(name: str) -> str:
    return str(getattr(sys.modules.get(name.partition(".")[0]), "__version__", ""))


def _names(code: CodeType) -> Iterator[str]:
    """Return the names that a function uses, with those of the functions in it."""
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names(value)


def _content(module: ModuleType) -> bytes:
    path = getattr(module, "__file__", None)
    return Path(path).read_bytes() if path else b""


def _listed(value: Any) -> Any:
    """Return the items of an iterator."""
    return list(value) if isinstance(value, Iterator) else value
