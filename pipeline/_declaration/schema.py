"""What an operator declares, once: its name, inputs, arguments, devices and documentation.

`fn.*`, `ops.*`, their docstrings, their argument checks and the serialized form all come from this declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from pipeline.errors import ArgumentMismatchError, ArgumentValueError
from pipeline.types import DALIDataType, DALIImageType, DALIInterpType

__all__ = ["REQUIRED", "Argument", "Input", "Kind", "OperatorSchema"]


class Kind(Enum):
    """Types of arguments. Each value is how the documentation writes it."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    STRING = "str"
    INTS = "int or list of int"
    FLOATS = "float or list of float"
    STRINGS = "str or list of str"
    DTYPE = "DALIDataType"
    IMAGE_TYPE = "DALIImageType"
    INTERP = "DALIInterpType"
    LAYOUT = "layout str"
    OBJECT = "object"


class _Required(Enum):
    REQUIRED = "required"

    def __repr__(self) -> str:
        return "<required>"


#: The default of an argument that has none.
REQUIRED = _Required.REQUIRED

_ENUMS: dict[Kind, type[DALIDataType] | type[DALIImageType] | type[DALIInterpType]] = {
    Kind.DTYPE: DALIDataType,
    Kind.IMAGE_TYPE: DALIImageType,
    Kind.INTERP: DALIInterpType,
}
_MEMBERS = {Kind.DTYPE: "types.FLOAT", Kind.IMAGE_TYPE: "types.RGB", Kind.INTERP: "types.INTERP_LINEAR"}


@dataclass(frozen=True)
class Argument:
    """One keyword argument of an operator.

    Attributes:
        name: keyword.
        kind: type.
        doc: what it means, with units.
        default: value when the user gives none; `REQUIRED` for no default.
        per_sample: whether a `DataNode` may be given: one value a sample.
        choices: the allowed values of a string, when there are only some.
    """

    name: str
    kind: Kind
    doc: str
    default: Any = None
    per_sample: bool = False
    choices: tuple[str, ...] = ()

    def check(self, value: Any) -> Any:
        """Return a constant value in its normal form: Python numbers, tuples, enum members.

        Raises:
            ArgumentMismatchError: when the value is of another type.
            ArgumentValueError: when a string is none of the choices.
        """
        if value is None or self.kind is Kind.OBJECT:
            return value
        if self.kind in _ENUMS:
            return self._check_enum(value)
        if self.kind in (Kind.STRING, Kind.LAYOUT):
            return self._check_string(value)
        if self.kind is Kind.STRINGS:
            items = (value,) if isinstance(value, str) else value
            return tuple(self._check_string(item) for item in self._sequence(items))
        if self.kind in (Kind.INTS, Kind.FLOATS):
            convert = self._check_int if self.kind is Kind.INTS else self._check_float
            scalar = isinstance(value, int | float | np.number | np.bool_)
            return tuple(convert(item) for item in ((value,) if scalar else self._sequence(value)))
        if self.kind is Kind.BOOL:
            return bool(self._check_int(value))
        return self._check_int(value) if self.kind is Kind.INT else self._check_float(value)

    def _refuse(self, value: Any) -> ArgumentMismatchError:
        wanted = self.kind.value + (f", as {_MEMBERS[self.kind]}" if self.kind in _MEMBERS else "")
        return ArgumentMismatchError(f"argument {self.name!r} must be {wanted}, not {type(value).__name__} ({value!r})")

    def _sequence(self, value: Any) -> list[Any]:
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise self._refuse(value)
        return list(np.asarray(value).ravel()) if isinstance(value, np.ndarray) else list(value)

    def _check_enum(self, value: Any) -> Any:
        enum = _ENUMS[self.kind]
        if isinstance(value, enum):
            return value
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            try:
                return enum(int(value))
            except ValueError:
                pass
        raise self._refuse(value)

    def _check_string(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._refuse(value)
        if self.choices and value not in self.choices:
            raise ArgumentValueError(
                f"argument {self.name!r} must be one of {', '.join(map(repr, self.choices))}, not {value!r}"
            )
        return value

    def _check_int(self, value: Any) -> int:
        if isinstance(value, int | np.integer | np.bool_):
            return int(value)
        if isinstance(value, float | np.floating) and float(value).is_integer():
            return int(value)
        raise self._refuse(value)

    def _check_float(self, value: Any) -> float:
        if isinstance(value, int | float | np.number | np.bool_) and not isinstance(value, np.complexfloating):
            return float(value)
        raise self._refuse(value)


@dataclass(frozen=True)
class Input:
    """One positional input of an operator.

    Attributes:
        name: how the documentation calls it.
        doc: what it holds.
        optional: whether it may be left out (only at the end).
        any_device: whether an operator on the GPU takes it from the CPU as it is, with no copy.
    """

    name: str
    doc: str
    optional: bool = False
    any_device: bool = False


#: Arguments that every operator has.
COMMON_ARGUMENTS: tuple[Argument, ...] = (
    Argument("bytes_per_sample_hint", Kind.INTS, "Accepted for compatibility; buffers size themselves."),
    Argument("preserve", Kind.BOOL, "Keep the operator even if no output of the pipeline needs it.", False),
    Argument("seed", Kind.INT, "Seed of this operator's random numbers; by default made from the pipeline's.", -1),
)


@dataclass(frozen=True)
class OperatorSchema:
    """The declaration of an operator.

    Attributes:
        name: path below `fn`, such as "decoders.image".
        doc: documentation, first line first.
        inputs: positional inputs.
        arguments: keyword arguments, besides those that all operators have.
        devices: where it runs, of "cpu", "mixed" (inputs on the CPU, outputs on the GPU) and "gpu".
        outputs: how many outputs, or a function of the constant arguments that tells.
        optional_outputs: each optional input that is given adds an output.
        variadic: the last input may be repeated.
        output_device: device of the outputs where it isn't the operator's own.
        merges: its inputs belong to branches of its own branch: for each sample, one of them has been made.
        side_effects: the operator may not be pruned, nor called without a current pipeline.
        fed: whether users feed it by its name.
        hidden: internal: no `fn` function is made of it.
        keeps_order: a sample of the outputs is made of the same sample of the first input.
        function: the function of `fn`, written by hand where a call is more than adding one operator.
        alias_of: the operator that this is another name of, which is what its function adds to the graph.
    """

    name: str
    doc: str
    inputs: tuple[Input, ...] = ()
    arguments: tuple[Argument, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    outputs: int | Callable[[Mapping[str, Any]], int] = 1
    optional_outputs: bool = False
    variadic: bool = False
    output_device: str | None = None
    merges: bool = False
    side_effects: bool = False
    fed: bool = False
    hidden: bool = False
    keeps_order: bool = True
    function: Callable[..., Any] | None = None
    alias_of: str | None = None

    @property
    def display(self) -> str:
        """How messages call the operator."""
        return self.name if self.hidden else f"fn.{self.name}"

    def argument(self, name: str) -> Argument | None:
        """Return the declaration of an argument, or None."""
        for argument in (*self.arguments, *COMMON_ARGUMENTS):
            if argument.name == name:
                return argument
        return None

    def value_of(self, arguments: Mapping[str, Any], name: str) -> Any:
        """Return a constant argument, or its default when it wasn't given."""
        if name in arguments:
            return arguments[name]
        declared = self.argument(name)
        return None if declared is None or declared.default is REQUIRED else declared.default

    def output_count(self, arguments: Mapping[str, Any], inputs: int = 0) -> int:
        """Return the number of outputs, given the constant arguments and how many inputs there are."""
        count = self.outputs if isinstance(self.outputs, int) else self.outputs(arguments)
        least = sum(not declared.optional for declared in self.inputs)
        return count + (max(0, inputs - least) if self.optional_outputs else 0)
