"""Schemas of operators: name, inputs, arguments, devices and documentation.

`fn.*`, `ops.*`, their docstrings, their argument checks and the serialized form all come from the schema.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType


class Kind(Enum):
    """Types of arguments. The values are the names of the types in the documentation."""

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


class Role(Enum):
    """Operators that the compiler treats in a special way."""

    #: The argument `value`, for every sample.
    CONSTANT = "constant"
    #: A row of the argument `table` for each sample.
    TABLE_ROW = "row of a table"
    COPY_TO_GPU = "copy to the GPU"
    COPY_TO_CPU = "copy to the CPU"
    #: The argument `operation` of numbers, element by element.
    ARITHMETIC = "arithmetic"
    #: Independent random numbers, with the same bits on the CPU and the GPU.
    DISTRIBUTION = "distribution"
    #: A matrix, from numbers and matrices.
    TRANSFORM = "transform"
    #: Points, which aren't frames, and are mapped by matrices.
    MAPPED_POINTS = "mapped points"
    #: Data of the user: fed, or read from a source.
    EXTERNAL_SOURCE = "external source"
    #: Decoders of images, and of other data.
    IMAGE_DECODER = "decoder of images"
    DECODER = "decoder"
    #: The shapes of encoded images.
    IMAGE_SHAPE = "shapes of images"
    #: The contents of files, whose paths are data.
    FILE_READ = "files of paths"
    #: Samples as sequences of arguments, one for each frame.
    PER_FRAME = "per frame"
    #: A pipeline of NVIDIA's package.
    NVIDIA_PIPELINE = "NVIDIA's pipeline"


DECODERS = frozenset({Role.IMAGE_DECODER, Role.DECODER})


class _Required(Enum):
    REQUIRED = "required"

    def __repr__(self) -> str:
        return "<required>"


#: The default of required arguments.
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
        doc: documentation, with units.
        default: default value; `REQUIRED` if there is none.
        dali_default: default value in scripts that import `nvidia.dali`, if it differs; None if it doesn't.
        per_sample: whether the argument accepts a `DataNode` with one value per sample.
        choices: allowed values of a string, in any case; empty if all strings are allowed.
        unknown: start of the error for another string, in DALI's words, with ``{}`` for the string.
        replaced_by: argument that this one is the deprecated name of; empty if it isn't one.
        deprecated: warning for users of the argument; empty for no warning.
    """

    name: str
    kind: Kind
    doc: str
    default: Any = None
    per_sample: bool = False
    choices: tuple[str, ...] = ()
    unknown: str = ""
    replaced_by: str = ""
    deprecated: str = ""
    dali_default: Any = None

    @property
    def warning(self) -> str:
        """The warning for users of the argument, in DALI's words; empty for no warning."""
        if self.replaced_by:
            return (
                f"The argument `{self.name}` is a deprecated alias for `{self.replaced_by}`. "
                f"Use `{self.replaced_by}` instead."
            )
        return self.deprecated

    def check(self, value: Any) -> Any:
        """Return a constant value in normal form: Python numbers, tuples, enum members.

        Raises:
            ArgumentMismatchError: the value has the wrong type.
            ArgumentValueError: a string isn't one of the choices.
        """
        if value is None or self.kind is Kind.OBJECT:
            return _copied(value)
        if self.kind in _ENUMS:
            return self._check_enum(value)
        if self.kind in (Kind.STRING, Kind.LAYOUT):
            return self._check_string(value)
        if self.kind is Kind.STRINGS:
            items = (value,) if isinstance(value, str | os.PathLike) else value
            return tuple(self._check_string(item) for item in self._sequence(items))
        if self.kind in (Kind.INTS, Kind.FLOATS):
            convert = self._check_int if self.kind is Kind.INTS else self._check_float
            return tuple(convert(item) for item in ((value,) if _is_number(value) else self._sequence(value)))
        if self.kind is Kind.BOOL:
            return bool(self._check_int(value))
        return self._check_int(value) if self.kind is Kind.INT else self._check_float(value)

    def _refuse(self, value: Any) -> ArgumentMismatchError:
        expected = self.kind.value + (f", such as {_MEMBERS[self.kind]}" if self.kind in _MEMBERS else "")
        return ArgumentMismatchError(
            f"argument {self.name!r} must be {expected}, not {type(value).__name__} ({value!r})"
        )

    def _sequence(self, value: Any) -> list[Any]:
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise self._refuse(value)
        return list(np.asarray(value).ravel()) if hasattr(value, "__array__") else list(value)

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
        if isinstance(value, os.PathLike) and not self.choices:
            value = os.fsdecode(value)
        if not isinstance(value, str) and not self.unknown:
            raise self._refuse(value)
        if not self.choices or value in self.choices:
            return str(value)
        if str(value).lower() in self.choices:
            return str(value).lower()
        if self.unknown:
            raise ArgumentValueError(
                f"{self.unknown.format(value)} Argument {self.name!r} must be one of {self._listed}"
            )
        raise ArgumentValueError(f"argument {self.name!r} must be one of {self._listed}, not {value!r}")

    @property
    def _listed(self) -> str:
        return ", ".join(map(repr, self.choices))

    def _check_int(self, value: Any) -> int:
        number = _as_number(value)
        if isinstance(number, int | np.integer | np.bool_):
            return int(number)
        if isinstance(number, float | np.floating) and float(number).is_integer():
            return int(number)
        raise self._refuse(value)

    def _check_float(self, value: Any) -> float:
        number = _as_number(value)
        if isinstance(number, int | float | np.number | np.bool_) and not isinstance(number, np.complexfloating):
            return float(number)
        raise self._refuse(value)


def _copied(value: Any) -> Any:
    """Return a copy of an array, list or dictionary, which the caller may change before the operator runs."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) is list:
        return list(map(_copied, value))
    return {key: _copied(each) for key, each in value.items()} if type(value) is dict else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number | np.bool_) or getattr(value, "shape", None) == ()


def _as_number(value: Any) -> Any:
    """Return an array or tensor with one element as a number, and any other value unchanged."""
    if isinstance(value, np.generic) or not hasattr(value, "__array__"):
        return value
    array = np.asarray(value)
    return array.item() if array.size == 1 and array.dtype.kind in "biuf" else value


@dataclass(frozen=True)
class Input:
    """One positional input of an operator.

    Attributes:
        name: name in the documentation.
        doc: documentation.
        optional: whether callers may omit it (last inputs only).
        any_device: whether a GPU operator accepts the input on the CPU, without a copy.
    """

    name: str
    doc: str
    optional: bool = False
    any_device: bool = False


#: Arguments of all operators.
COMMON_ARGUMENTS: tuple[Argument, ...] = (
    Argument("bytes_per_sample_hint", Kind.INTS, "Accepted for compatibility; sizes of buffers are automatic."),
    Argument("preserve", Kind.BOOL, "Run the operator even if no output of the pipeline depends on it.", False),
    Argument("seed", Kind.INT, "Seed of the operator's random numbers; by default derived from the pipeline's.", -1),
)

#: The name of an argument of operators that run the user's code: the results depend on the inputs only.
DETERMINISTIC = "deterministic"

#: An argument of the operators that draw random numbers, as in DALI: numbers that take the place of the seed.
RANDOM_STATE = Argument("_random_state", Kind.INTS, "State of the random generator of each sample.", per_sample=True)


@dataclass(frozen=True)
class OperatorSchema:
    """The schema of an operator.

    Attributes:
        name: path below `fn`, such as "decoders.image".
        doc: documentation; the first line is the summary.
        inputs: positional inputs.
        arguments: keyword arguments, without those of all operators.
        devices: supported devices: "cpu", "mixed" (inputs on the CPU, outputs on the GPU), "gpu".
        outputs: number of outputs, or a function that computes it from the constant arguments.
        optional_outputs: whether each optional input adds an output.
        variadic: whether the last input may be repeated.
        output_device: device of the outputs, if it differs from the operator's.
        merges: whether the inputs come from nested branches: each sample has exactly one of them.
        side_effects: whether the operator must not be pruned, nor called without a current pipeline.
        fed: whether users feed data to it by its name.
        hidden: whether the operator is internal, without a function in `fn`.
        random: whether the operator draws random numbers.
        draws: names of what it draws for each sample, for a look at a batch; or a function that returns them for the
            constant arguments. They are its first outputs, unless it passes others to `Batch.note_draws`. Empty if
            there is nothing short to show, such as a number for each pixel.
        role: what the compiler must know of it; None for most operators.
        keeps_order: whether each sample of the outputs is computed from the same sample of the first input.
        function: handwritten function of `fn`, for calls that do more than add one operator.
        alias_of: operator that this name is an alias of; the function adds that operator to the graph.
        class_parameters: arguments that the class in `ops` also accepts by position, with the class's defaults.
        deprecated: the end of the warning for users of a deprecated name, such as " Use `...` instead."; None for a
            name that isn't deprecated.
        check: checks the constant arguments of a node before its implementation is created.
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
    random: bool = False
    draws: tuple[str, ...] | Callable[[Mapping[str, Any]], tuple[str, ...]] = ()
    role: Role | None = None
    keeps_order: bool = True
    function: Callable[..., Any] | None = None
    alias_of: str | None = None
    class_parameters: tuple[tuple[str, Any], ...] = ()
    deprecated: str | None = None
    check: Callable[[Any], object] | None = None

    @property
    def display(self) -> str:
        """The name of the operator in messages."""
        return self.name if self.hidden else f"fn.{self.name}"

    @property
    def is_reader(self) -> bool:
        """Whether the operator reads a data set."""
        return "readers" in (self.alias_of or self.name).split(".")[:-1]

    @property
    def stateful(self) -> bool:
        """Whether equal inputs can have different results: random numbers, readers, sources, user code."""
        return self.random or self.fed or self.side_effects or self.is_reader

    def argument(self, name: str) -> Argument | None:
        """Return the declaration of an argument, or None."""
        return self._declared.get(name)

    @cached_property
    def _declared(self) -> Mapping[str, Argument]:
        hidden = (RANDOM_STATE,) if self.random else ()
        return {argument.name: argument for argument in (*hidden, *COMMON_ARGUMENTS, *self.arguments)}

    def value_of(self, arguments: Mapping[str, Any], name: str) -> Any:
        """Return the value of a constant argument, or its default."""
        return arguments[name] if name in arguments else self.defaults.get(name)

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """Default values of the arguments that have one, by name."""
        return {name: each.default for name, each in self._declared.items() if each.default is not REQUIRED}

    @cached_property
    def dali_defaults(self) -> Mapping[str, Any]:
        """Defaults in scripts that import `nvidia.dali`, as far as they differ."""
        return {each.name: each.dali_default for each in self.arguments if each.dali_default is not None}

    def output_count(self, arguments: Mapping[str, Any], inputs: int = 0) -> int:
        """Return the number of outputs for constant arguments and a number of inputs."""
        count = self.outputs if isinstance(self.outputs, int) else self.outputs(arguments)
        least = sum(not declared.optional for declared in self.inputs)
        return count + (max(0, inputs - least) if self.optional_outputs else 0)
