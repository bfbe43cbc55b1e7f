"""`ForeignDraws`: finds out whether a function draws random numbers that don't come from `dynamic.random`."""

from __future__ import annotations

import functools
import gc
import os
import pickle
import random
import sys
from collections.abc import Callable, Hashable, Iterable
from types import FrameType
from typing import Any, TypeVar

import numpy as np

from dali_proxy.pipeline._graph.location import SourceLocation

_Result = TypeVar("_Result")

_DEPTH = 3  # of objects that are searched for generators
_DRAWING = ("getrandbits", "random")  # methods of `random.Random` in C, which all others call
_ENTROPY = tuple(getattr(os, name) for name in ("urandom", "getrandom") if hasattr(os, name))


class ForeignDraws:
    """The generators of `random`, NumPy and torch, global and own ones, and the entropy of the operating system.

    A function depends on them if each of its calls changes a generator, or uses entropy. A single call may do so for a
    constant that the function keeps, or to import a module. Numbers that are the same in each call are constants, too.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._generators = {id(each): each for each in _generators(function)}
        self._states = self._read()
        self._drawn_from = set(self._states)
        self._drawn: set[Hashable] = set()
        self._new: list[SourceLocation | None] = []

    def observe(self, call: Callable[[], _Result]) -> _Result:
        """Call a function that calls the function, and return its result."""
        drawn: dict[Hashable, SourceLocation] = {}

        def notice(frame: FrameType, event: str, argument: Any) -> None:
            if event != "c_call":
                return
            owner = getattr(argument, "__self__", None)
            if argument in _ENTROPY:
                drawn[object()] = SourceLocation.from_caller()
            elif isinstance(owner, random.Random) and argument.__name__ in _DRAWING:
                drawn.setdefault(_state(owner), SourceLocation.from_caller())

        outer = sys.getprofile()
        sys.setprofile(notice)
        try:
            result = call()
        finally:
            if outer is None or callable(outer):
                sys.setprofile(outer)
            else:  # the profiler of `python -m cProfile` in Python 3.11 and older
                sys.setprofile(None)
                outer.enable()
        states = self._read()
        self._drawn_from &= {key for key, state in states.items() if state != self._states[key]}
        self._states = states
        self._new.append(next((location for key, location in drawn.items() if key not in self._drawn), None))
        self._drawn.update(drawn)
        return result

    def find(self, call: Callable[[], object]) -> SourceLocation | None:
        """Return the line that draws, if all calls but the first one that was observed drew; otherwise None."""
        if len(self._new) > 1 and all(self._new):
            return self._new[-1]
        for key in self._drawn_from:
            location = _line_that_changes(self._generators[key], call)
            if location is not None:
                return location  # otherwise another thread drew
        return None

    def _read(self) -> dict[int, Hashable]:
        return {key: _state(generator) for key, generator in self._generators.items()}


def _generators(function: Callable[..., Any]) -> Iterable[Any]:
    """Return the global generators, those of a function, and others that the garbage collector knows."""
    kinds: tuple[type, ...] = (random.Random, np.random.Generator, np.random.RandomState)
    found = [random.random.__self__, np.random.rand.__self__]  # type: ignore[attr-defined]
    found += [each for each in gc.get_objects() if issubclass(type(each), kinds)]  # not torch's, nor frozen ones
    torch = sys.modules.get("torch")
    if hasattr(torch, "default_generator"):
        assert torch is not None
        kinds = (*kinds, torch.Generator)
        found.append(torch.default_generator)
        found += torch.cuda.default_generators if torch.cuda.is_initialized() else ()
    found += _variables(function, kinds, _DEPTH)
    return [each for each in found if _state(each) is not None]


def _variables(value: Any, kind: tuple[type, ...], depth: int) -> list[Any]:
    """Return objects of some types among the variables and attributes of a function or an object."""
    if isinstance(value, kind):
        return [value]
    if not depth:
        return []
    inner: list[Any]
    if isinstance(value, list | tuple | dict):
        inner = list(value.values() if isinstance(value, dict) else value)
    elif isinstance(value, functools.partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    else:
        owner, code = getattr(value, "__self__", None), getattr(value, "__code__", None)
        cells = getattr(value, "__closure__", None) or ()
        inner = [owner, *(getattr(cell, "cell_contents", None) for cell in cells)]
        inner += getattr(value, "__defaults__", None) or ()
        names = () if code is None else code.co_names
        inner += [value.__globals__[name] for name in names if name in value.__globals__]
        inner += list(getattr(value, "__dict__", {}).values()) if not isinstance(value, type) else []
        inner.append(vars(type(value)).get("__call__"))
    return [found for each in inner if each is not None for found in _variables(each, kind, depth - 1)]


def _state(generator: Any) -> Hashable:
    """Return a value that differs if the state of a generator does; None if it has no state."""
    try:
        if isinstance(generator, random.Random):
            return hash(generator.getstate())
        if isinstance(generator, np.random.RandomState):
            return pickle.dumps(generator.get_state(legacy=False))
        if isinstance(generator, np.random.Generator):
            return pickle.dumps(generator.bit_generator.state)
        return bytes(generator.get_state().numpy())
    except Exception:  # noqa: BLE001 - a generator of the user, or of the operating system
        return None


def _line_that_changes(generator: Any, call: Callable[[], object]) -> SourceLocation | None:
    """Call a function, and return the line after which the state of a generator differs; None if no line changes it."""
    state, before, found = _state(generator), SourceLocation(), SourceLocation()

    def follow(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal before, found
        if not found.line:
            if _state(generator) != state:
                found = before
            before = SourceLocation.from_caller()
        return follow

    outer = sys.gettrace()
    sys.settrace(follow)
    try:
        call()
    finally:
        sys.settrace(outer)
    return found if found.line else None
