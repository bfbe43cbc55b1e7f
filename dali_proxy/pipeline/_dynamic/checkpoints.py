"""`Checkpoint`: the states of the readers and random generators of a program.

Example:
    >>> from dali_proxy import dynamic
    >>> rng = dynamic.random.RNG(seed=1)
    >>> checkpoint = dynamic.checkpoint.Checkpoint()
    >>> checkpoint.register(rng, "rng")
    'rng'
    >>> checkpoint.collect()
    >>> expected = rng()
    >>> resumed = dynamic.checkpoint.Checkpoint()
    >>> resumed.deserialize(checkpoint.serialize())
    >>> other = dynamic.random.RNG()
    >>> _ = resumed.register(other, "rng")
    >>> other() == expected
    True
"""

from __future__ import annotations

import glob
import json
import re
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, PipelineError

_GENERATED = "__op_"
_VERSION = 1
_NUMBER = re.compile(r"\{seq(?::[^}]*)?\}")


@dataclass
class _State:
    value: Any
    type: str | None
    applied: bool  # whether the object has this state


class Checkpoint:
    """The states of readers and generators: any objects with `get_state` and `set_state`."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._states: dict[str, _State] = {}
        self._generated = 0
        self._complete = self._loaded = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the registered objects."""
        return tuple(self._objects)

    @property
    def is_complete(self) -> bool:
        """Whether `collect` was the last operation that set states."""
        return self._complete

    @property
    def is_loaded(self) -> bool:
        """Whether `load` or `deserialize` was the last operation that set states."""
        return self._loaded

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, name: object) -> bool:
        return name in self._objects

    def register(self, op: Any, name: str | None = None) -> str:
        """Add an object, and set its state if one was loaded for its name.

        Args:
            op: reader or generator.
            name: name; by default the next one of "__op_0", "__op_1" and so on, which depends on the order of calls.

        Returns:
            The name.

        Raises:
            ArgumentTypeError: it has no `get_state` and `set_state`, or the state belongs to another class.
            ArgumentValueError: the name is reserved for generated names.
            PipelineError: it is registered with another name.
            KeyError: a loaded checkpoint has no state for a generated name.
        """
        if not (hasattr(op, "get_state") and hasattr(op, "set_state")):
            raise ArgumentTypeError(f"a checkpoint needs readers and generators, not {type(op).__name__}")
        if name is not None and name.startswith(_GENERATED):
            raise ArgumentValueError(f"Manually assigned names must not start with {_GENERATED!r}.")
        known = next((key for key, each in self._objects.items() if each is op), None)
        if known is not None and name in (None, known):
            return known
        if known is not None:
            raise PipelineError(
                f"Cannot register the operator with a new key {name!r} when it's already been added with the key "
                f"{known!r}."
            )
        if name is None:
            name = f"{_GENERATED}{self._generated}"
            if self._loaded and name not in self._states:
                raise KeyError(
                    f"Loaded checkpoint has no state for the operator's key {name!r}. If your registration order "
                    "changed since the checkpoint was saved, use the named form `register(op, name)` instead."
                )
            self._generated += 1
        self._objects[name] = op
        if name in self._states:
            self._apply(name)
        return name

    def collect(self) -> None:
        """Read the states of all registered objects.

        Raises:
            PipelineError: there are states without an object.
        """
        self._check_known()
        self._states = {name: _State(op.get_state(), type(op).__name__, True) for name, op in self._objects.items()}
        self._complete, self._loaded = True, False

    def restore(self) -> None:
        """Set the states of all registered objects. Do nothing without states.

        Raises:
            PipelineError: there are states without an object, or objects without a state.
        """
        if not self._states:
            return
        self._check_known()
        missing = [name for name in self._objects if name not in self._states]
        if missing:
            raise PipelineError(f"Checkpoint has no state for these registered ops: {missing}.")
        for name in self._states:
            self._apply(name)

    def get_state(self, name: str) -> Any:
        """Return the state of an object.

        Raises:
            KeyError: no object has this name.
        """
        if name not in self._objects:
            raise KeyError(f"No op registered under {name!r}.")
        return self._states[name].value

    def set_state(self, name: str, value: Any, op_type: Any = None) -> None:
        """Set the state of an object; `register` and `restore` apply it.

        Args:
            name: name of an object, which may be registered later.
            value: state.
            op_type: class of the object, or its name, to check.

        Raises:
            KeyError: the checkpoint is complete, and no object has this name.
            ArgumentTypeError: `op_type` isn't a class.
        """
        if self._complete and name not in self._objects:
            raise KeyError(f"No operator registered under {name!r}.")
        if op_type is not None and not isinstance(op_type, type | str):
            raise ArgumentTypeError(f"op_type must be a class or its name, not {type(op_type).__name__}")
        type_name = op_type.__name__ if isinstance(op_type, type) else op_type
        self._states[name] = _State(value, type_name, False)

    def serialize(self) -> str:
        """Return the states as JSON.

        Raises:
            PipelineError: there are none.
        """
        if not self._states:
            raise PipelineError("Cannot serialize an empty checkpoint. Call `collect` (or `set_state`) first.")
        states = {name: {"state": str(each.value), "type": each.type} for name, each in self._states.items()}
        return json.dumps({"version": _VERSION, "states": states})

    def deserialize(self, data: str) -> None:
        """Replace the states by those of `serialize`.

        Raises:
            ValueError: the text isn't a checkpoint.
        """
        loaded = json.loads(data)
        if not isinstance(loaded, dict) or loaded.get("version") != _VERSION:
            raise ArgumentValueError("the text isn't a checkpoint of this version")
        self._states = {name: _State(each["state"], each["type"], False) for name, each in loaded["states"].items()}
        self._complete, self._loaded = False, True

    def save(self, filename: str) -> str:
        """Write the states to a file, and return its path.

        Args:
            filename: path; ``{seq}``, as in "state_{seq:04d}.json", becomes the next number without a file.

        Raises:
            PipelineError: there are no states.
        """
        text = self.serialize()
        numbers = [number for number, _ in _numbered(filename)]
        path = filename.format(seq=max(numbers, default=-1) + 1)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def load(self, filename: str) -> str:
        """Read the states from a file, and return its path.

        Args:
            filename: path; with ``{seq}``, the file with the highest number is read.

        Raises:
            FileNotFoundError: there is no such file.
        """
        path = max(_numbered(filename), default=(0, ""))[1] if _NUMBER.search(filename) else filename
        if not path:
            raise FileNotFoundError(f"No checkpoint file matches filename {filename!r}.")
        with open(path, encoding="utf-8") as file:
            self.deserialize(file.read())
        return path

    def clear(self) -> None:
        """Remove all objects and states."""
        self.__init__()  # type: ignore[misc]

    def _apply(self, name: str) -> None:
        state, op = self._states[name], self._objects[name]
        if state.applied:
            return
        if state.type not in (None, type(op).__name__):
            raise ArgumentTypeError(f"the state {name!r} belongs to {state.type}, not to {type(op).__name__}")
        op.set_state(state.value)
        state.applied = True

    def _check_known(self) -> None:
        unknown = [name for name in self._states if name not in self._objects]
        if unknown:
            raise PipelineError(f"Checkpoint state has entries with no corresponding registered ops: {unknown}.")


def _numbered(filename: str) -> list[tuple[int, str]]:
    """Return the existing files of a name with a number, each with its number."""
    if not _NUMBER.search(filename):
        return []
    parts = _NUMBER.split(filename)
    pattern = re.compile(r"(\d+)".join(map(re.escape, parts)))
    matches = ((pattern.fullmatch(path), path) for path in glob.glob("*".join(map(glob.escape, parts))))
    return [(int(match.group(1)), path) for match, path in matches if match]
