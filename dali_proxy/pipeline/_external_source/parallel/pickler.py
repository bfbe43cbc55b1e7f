"""The user's own pickler for sources that are sent to spawned workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dali_proxy.pipeline.errors import ArgumentMismatchError


@dataclass(frozen=True)
class SourcePickler:
    """Pickles sources with functions of the user.

    Attributes:
        functions: object with the functions `dumps` and `loads`, such as a module.
        dump_arguments: keyword arguments of `dumps`.
        load_arguments: keyword arguments of `loads`.
    """

    functions: Any
    dump_arguments: Mapping[str, Any] = field(default_factory=dict)
    load_arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_argument(cls, value: Any) -> SourcePickler:
        """Return the pickler for the argument `py_callback_pickler` of a pipeline.

        Raises:
            ArgumentMismatchError: the argument is neither an object with the two functions nor a tuple that begins with
                one.
        """
        items = value if isinstance(value, tuple) else (value,)
        if not 1 <= len(items) <= 3 or not all(callable(getattr(items[0], name, None)) for name in ("dumps", "loads")):
            raise ArgumentMismatchError(
                "Pipeline: py_callback_pickler must be a module or another object with the functions `dumps` and "
                f"`loads`, or a tuple of it and their keyword arguments, not {value!r}"
            )
        return cls(items[0], *(arguments or {} for arguments in items[1:]))

    def pickled(self, source: Any) -> Any:
        """Return an object that becomes the source when another process unpickles it."""
        return _Pickled(self.functions.loads, self.functions.dumps(source, **self.dump_arguments), self.load_arguments)


@dataclass(frozen=True)
class _Pickled:
    loads: Any
    data: Any
    arguments: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self.loads, self.data, self.arguments)


def _load(loads: Any, data: Any, arguments: Mapping[str, Any]) -> Any:
    return loads(data, **arguments)
