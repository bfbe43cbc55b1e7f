"""Pickles functions and other objects of the user for a process that doesn't run the user's script.

If a fresh interpreter would import the same module, an object of the module is sent by name; otherwise it is sent with
its code. Such modules are scripts, notebooks, ``python -c``, and the module ``__mp_main__`` in processes that
`multiprocessing` spawned.
"""

from __future__ import annotations

import functools
import inspect
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType
from typing import Any

import cloudpickle

from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline.errors import SerializationError

_SCRIPTS = ("__main__", "__mp_main__")
_registry_lock = new_lock(Level.PICKLING, "pickling")  # cloudpickle has one list of modules for all threads


def dumps(value: object, objects: Mapping[str, object], most: int | None = None) -> bytes:
    """Return an object as bytes for `loads` in another process.

    Args:
        value: the object.
        objects: the user's objects in it, with their names in messages, to find the one that can't be pickled.
        most: largest number of bytes; None for no limit.

    Raises:
        SerializationError: something in it can't be pickled, and the message names it; or it has more bytes.
    """
    file = io.BytesIO() if most is None else _BoundedFile(most)
    try:
        return _dump(value, file)
    except _TooLargeError as error:
        raise SerializationError(f"it has more than {most:,} bytes when it is pickled") from error
    except Exception as error:
        pass_on_interrupt(error)
        name, item, reason = _find_fault(objects) or ("the pipeline", value, error)
        used = ", ".join(f"{each} (of type {kind})" for each, kind in _unpicklable_names(item))
        raise SerializationError(
            f"{display_name(item)}, used by {name}, can't be sent to another process: {reason}"
            + (f". It uses {used}" if used else "")
            + ". Define it in a module that can be imported, or create the object that can't be pickled inside the "
            "function, at its first call"
        ) from error


def loads(data: bytes) -> Any:
    """Return the object that `dumps` pickled. This runs code: never call it with bytes from elsewhere.

    Raises:
        SerializationError: a module that the object needs can't be imported here, or isn't the same.
    """
    try:
        return cloudpickle.loads(data)
    except Exception as error:
        pass_on_interrupt(error)
        raise SerializationError(
            f"a function or another object of the pipeline can't be loaded in process {os.getpid()}: "
            f"{type(error).__name__}: {error}. Modules are imported anew there, with the sys.path of the process that "
            "made the pipeline: the import must work without what that process has done before"
        ) from error


class _WithCode:
    """An object that pickles with its code, for any pickler."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return loads, (dumps(self._value, {"the loader": self._value}),)


def for_spawned(value: Any) -> Any:
    """Return an object, to be pickled for a process that multiprocessing spawns.

    Such a process runs the user's script again, so that it finds what the script defines. It can't do this for the
    cells of a notebook, and for ``python -c``: their objects pickle with their code.
    """
    main = sys.modules["__main__"]
    defined = getattr(value, "__module__", None)  # a class or a function; an instance has its class's
    if defined == "__main__" and not hasattr(main, "__file__") and getattr(main, "__spec__", None) is None:
        return _WithCode(value)
    return value


def display_name(value: Any) -> str:
    """Return the name of a callable or another object for messages, with the file and line of its definition."""
    function = _function_of(value)
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    code = getattr(function, "__code__", None)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else str(name)


def _function_of(value: Any) -> Any:
    if isinstance(value, functools.partial):
        return _function_of(value.func)
    written = inspect.unwrap(value) if callable(value) else value
    return getattr(written, "__func__", written)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles by value the objects that a fresh interpreter can't import, until `close`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._importable: dict[str, bool] = {}
        self._registered: list[ModuleType] = []

    def reducer_override(self, obj: Any) -> Any:
        name = obj.__name__ if type(obj) is ModuleType else getattr(obj, "__module__", None)
        if isinstance(obj, FunctionType | type | ModuleType) and isinstance(name, str) and name in sys.modules:
            self._look_at(name)
        return super().reducer_override(obj)

    def close(self) -> None:
        for module in self._registered:
            cloudpickle.unregister_pickle_by_value(module)

    def _look_at(self, name: str) -> None:
        if name in self._importable:
            return
        self._importable[name] = _is_importable(name)
        module = sys.modules[name]
        if not self._importable[name] and module.__name__ not in cloudpickle.list_registry_pickle_by_value():
            with suppress(ValueError):  # it has another name in sys.modules: cloudpickle handles this
                cloudpickle.register_pickle_by_value(module)
                self._registered.append(module)


class _TooLargeError(Exception):
    """A pickle is larger than allowed."""


class _BoundedFile(io.BytesIO):
    """A file in memory that takes so many bytes at most."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self.tell() + memoryview(data).nbytes > self._most:
            raise _TooLargeError
        return super().write(data)


def _dump(value: object, file: io.BytesIO | None = None) -> bytes:
    with _registry_lock, file or io.BytesIO() as file:
        pickler = _Pickler(file)
        try:
            pickler.dump(value)
            return file.getvalue()
        finally:
            pickler.close()


def _is_importable(name: str) -> bool:
    """Return whether a fresh interpreter with the same sys.path would import the same module as this process."""
    package, _, _ = name.rpartition(".")
    if name in _SCRIPTS:
        return False
    if name.partition(".")[0] in sys.stdlib_module_names:
        return True
    if package and (package not in sys.modules or not _is_importable(package)):
        return False
    file = getattr(sys.modules[name], "__file__", None)
    if file is None and package:
        return True  # its package creates it
    spec = _find_spec(name, getattr(sys.modules[package], "__path__", None) if package else None)
    if spec is None:
        return False
    return file is None or not spec.has_location or os.path.realpath(str(spec.origin)) == os.path.realpath(file)


def _find_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    for finder in sys.meta_path:  # importlib.util.find_spec() would return that of the module in sys.modules
        with suppress(Exception):
            spec = finder.find_spec(name, path)
            if spec is not None:
                return spec
    return None


def _find_fault(objects: Mapping[str, object]) -> tuple[str, object, Exception] | None:
    for name, item in objects.items():
        try:
            _dump(item)
        except Exception as error:  # noqa: BLE001 - pickling runs the code of any type
            return name, item, error
    return None


def _unpicklable_names(value: object) -> Iterator[tuple[str, str]]:
    """Yield the variables of a function that can't be pickled, and their types."""
    function = _function_of(value)
    if not isinstance(function, FunctionType):
        return
    used = inspect.getclosurevars(function)
    for name, each in {**used.globals, **used.nonlocals}.items():
        try:
            _dump(each)
        except Exception:  # noqa: BLE001 - likewise
            yield name, type(each).__qualname__
