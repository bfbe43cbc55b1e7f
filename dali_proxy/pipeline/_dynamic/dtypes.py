"""`DType`: the element types of dynamic mode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from dali_proxy.pipeline._dynamic.operations import operations
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType, to_dali_type


@dataclass(frozen=True, eq=False, repr=False)
class DType:
    """An element type. Calling it creates a tensor of this type.

    Attributes:
        kind: kind of the type.
        bits: size in bits.
        type_id: the type in the pipeline API.
        name: short name, such as "f32".
        exponent_bits: bits of the exponent of a floating-point number.
        significand_bits: bits of the significand of a floating-point number.
    """

    class Kind(Enum):
        """Kinds of types."""

        signed = 1
        unsigned = 2
        float = 3
        bool = 4
        enum = 5

    kind: Kind
    bits: int
    type_id: DALIDataType | None
    name: str
    exponent_bits: int | None = None
    significand_bits: int | None = None

    @property
    def bytes(self) -> int:
        """Size in bytes."""
        return self.bits // 8

    @staticmethod
    def from_type_id(type_id: DALIDataType) -> DType:
        """Return the type for one of the pipeline API.

        Raises:
            ArgumentTypeError: tensors don't have this type.
        """
        found = _BY_ID.get(type_id)
        if found is None:
            raise ArgumentTypeError(f"{type_id!r} isn't the type of a tensor's elements")
        return found

    @staticmethod
    def from_fw_type(numpy_type: Any) -> DType:
        """Return the type for a dtype of NumPy, CuPy or torch.

        Raises:
            ArgumentTypeError: it isn't one.
        """
        name = str(numpy_type).removeprefix("torch.")
        try:
            return DType.from_type_id(to_dali_type(np.dtype(name if name != str(numpy_type) else numpy_type)))
        except (TypeError, KeyError) as error:
            raise ArgumentTypeError(f"{numpy_type!r} could not be converted into any known DALIDataType.") from error

    @staticmethod
    def parse(name: str) -> DType:
        """Return the type of a name, such as "f32" or "float32".

        Raises:
            ArgumentValueError: there is none.
        """
        found = TYPES.get(name) or next((each for each in TYPES.values() if each.name == name), None)
        if found is None:
            raise ArgumentValueError(f"unknown type {name!r}; the types are {', '.join(TYPES)}")
        return found

    def __call__(self, data: Any, **arguments: Any) -> Any:
        return operations.make_tensor(data, self, copy=True, **arguments)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DALIDataType):
            return self.type_id is other
        return self is other

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        parts = ""
        if self.exponent_bits is not None:
            parts = f", exponent_bits={self.exponent_bits}, significand_bits={self.significand_bits}"
        return f"DType(kind={self.kind}, bits={self.bits}{parts})"

    def __str__(self) -> str:
        return self.name


_KINDS = {"b": DType.Kind.bool, "i": DType.Kind.signed, "u": DType.Kind.unsigned, "f": DType.Kind.float}
_FLOATS = {16: (5, 10), 32: (8, 23), 64: (11, 52)}


def _numeric(name: str) -> DType:
    numpy_type = np.dtype(name)
    bits, kind = 8 * numpy_type.itemsize, _KINDS[numpy_type.kind]
    short = name if kind is DType.Kind.bool else f"{numpy_type.kind}{bits}"
    return DType(kind, bits, to_dali_type(numpy_type), short, *(_FLOATS[bits] if kind is DType.Kind.float else ()))


_NUMERIC = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
_ENUMS: dict[type[Any], DType] = {
    DALIInterpType: DType(DType.Kind.enum, 32, DALIDataType.INTERP_TYPE, "InterpType"),
    DALIImageType: DType(DType.Kind.enum, 32, DALIDataType.IMAGE_TYPE, "ImageType"),
    DALIDataType: DType(DType.Kind.enum, 32, DALIDataType.DATA_TYPE, "DataType"),
}
#: All types, by their names in `dali_proxy.dynamic`.
TYPES: dict[str, DType] = {
    **{name: _numeric(name) for name in _NUMERIC},
    "bfloat16": DType(DType.Kind.float, 16, None, "bfloat16", 8, 7),
    **{each.name: each for each in _ENUMS.values()},
}
_BY_ID = {each.type_id: each for each in TYPES.values() if each.type_id is not None}


def dtype(value: Any) -> DType:
    """Return a type: itself, or that of a `DALIDataType`, a name, or a dtype of NumPy, CuPy or torch.

    Raises:
        ArgumentTypeError: the value isn't a type.
        ArgumentValueError: there is no type of that name.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, DALIDataType):
        return DType.from_type_id(value)
    return DType.parse(value) if isinstance(value, str) else DType.from_fw_type(value)


def type_id(dtype: Any) -> DALIDataType:
    """Return the `DALIDataType` of a type."""
    found = globals()["dtype"](dtype).type_id
    if found is None:
        raise ArgumentTypeError(f"operators don't support the type {dtype}")
    return found  # type: ignore[no-any-return]


def of_enum(value: Any) -> DType | None:
    """Return the type of a member of an enumeration, such as `types.INTERP_LINEAR`; None for other values."""
    return _ENUMS.get(type(value))
