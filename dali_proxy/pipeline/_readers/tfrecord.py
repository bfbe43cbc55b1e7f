"""`readers.tfrecord`: features of TensorFlow's examples."""

from __future__ import annotations

import inspect
import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import apply_operator, check_call, explained
from dali_proxy.pipeline._operator_api.functions import make_function
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.protobuf import BYTES, fields, floats, integers
from dali_proxy.pipeline._readers.records import RECORD_ARGUMENTS, RecordLoader, Span, read_header
from dali_proxy.pipeline._remote.data_file import DataFile
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.tfrecord import Feature, float32, int64, string

# A record consists of the length of the data (8 bytes), a checksum of the length (4), the data, and its checksum (4).
_HEAD, _TAIL = 12, 4
_DTYPES: dict[int, np.dtype[Any]] = {
    int64: np.dtype(np.int64),
    float32: np.dtype(np.float32),
    string: np.dtype(np.uint8),
}
_NAMES = {int64: "int64", float32: "float32", string: "string"}
#: The field of `Feature` that contains the values of each type.
_LISTS = {1: string, 2: float32, 3: int64}


def tfrecord(
    *,
    features: Mapping[str, Feature] | None = None,
    name: str | None = None,
    device: str | None = None,
    **arguments: Any,
) -> Any:
    """Add the reader to the graph; return its outputs by feature. The schema below has the documentation for users."""
    plain = None if features is None else _plain(features)
    call = {"name": name, "device": device, **({} if plain is None else {"features": plain}), **arguments}
    check_call(TFRECORD, (), call)  # so that errors name this function
    outputs = apply_operator("readers.tfrecord", (), call)
    return dict(zip(features or (), outputs if isinstance(outputs, list | tuple) else (outputs,), strict=True))


def _plain(features: Any) -> list[Any]:
    """Return features in a form that can be serialized."""
    try:
        if not isinstance(features, Mapping) or not features:
            raise ArgumentMismatchError(
                f"argument 'features' must be a dictionary of features by name, not {features!r}"
            )
        for key, feature in features.items():
            if not isinstance(feature, Feature):
                raise ArgumentMismatchError(
                    f'Expected `nvidia.dali.tfrecord.Feature` for the "{key}", but got {type(feature)}. Use '
                    "`nvidia.dali.tfrecord.FixedLenFeature` or `nvidia.dali.tfrecord.VarLenFeature` to define the "
                    "features to extract."
                )
            if min(feature.shape or (), default=0) < 0:
                raise ArgumentValueError(f"argument 'features' has {key!r} with the negative shape {feature.shape}")
            if feature.dtype == string and feature.variable:
                raise ArgumentValueError(
                    f"argument 'features' has {key!r} with any number of strings, which isn't supported: use "
                    "FixedLenFeature, which returns the first one"
                )
    except (ArgumentMismatchError, ArgumentValueError) as error:
        raise explained(error, TFRECORD, SourceLocation.from_caller()) from error
    return [[key, each.dtype, list(each.shape or ()), not each.variable] for key, each in features.items()]


TFRECORD = OperatorSchema(
    name="readers.tfrecord",
    doc="""Reads features of TensorFlow's examples from TFRecord files.

The result is a dictionary with an output for each feature. The output of a `FixedLenFeature` has the feature's shape,
and zeros in place of missing values. The output of a `VarLenFeature` has one dimension for the number of items,
followed by the dimensions of the feature's partial shape, which is that of one item. A string is 1-D uint8. If an
example lacks a feature, the output is a single 0 without dimensions, or an empty array for a string.

    features = fn.readers.tfrecord(
        path="train.tfrecord",
        features={
            "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
            "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
        },
    )
    images = fn.decoders.image(features["image/encoded"])

An index file has one line for each record, with its offset and its size.""",
    arguments=(
        Argument("features", Kind.OBJECT, "Features to extract: a dictionary by name.", REQUIRED),
        *RECORD_ARGUMENTS,
    ),
    outputs=lambda arguments: len(arguments["features"]),
    class_parameters=(("path", None), ("index_path", None), ("features", None)),
    function=tfrecord,
)


@dataclass(frozen=True)
class _Wanted:
    """A requested feature.

    Attributes:
        name: its name.
        kind: type of its values.
        shape: shape of the output; if the number of values isn't fixed, its shape without the first dimension.
        fixed: whether the number of values is fixed.
    """

    name: str
    kind: int
    shape: tuple[int, ...]
    fixed: bool

    def output(self, encoded: memoryview) -> Array:
        """Return the output for the encoded values of an example.

        Raises:
            ValueError: the type or the number of the values doesn't fit the request.
        """
        values = _values(encoded, self)
        if self.kind == string:
            return values
        wanted = math.prod(self.shape)
        if not self.fixed:
            if values.size % max(1, wanted) or not wanted:
                raise ValueError(f"{values.size} values of {self.name!r} don't fit the partial shape {self.shape}")
            return values.reshape(-1, *self.shape)
        if values.size > wanted:
            raise ValueError(
                f"Output tensor shape is too small: {list(self.shape)}. Expected at least {values.size} elements, "
                f"which {self.name!r} has"
            )
        result = np.zeros(self.shape, _DTYPES[self.kind])
        result.reshape(-1)[: values.size] = values
        return result

    def missing(self) -> Array:
        """Return the output for examples that lack the feature."""
        return np.zeros((0,) if self.kind == string else (), _DTYPES[self.kind])


def _values(encoded: memoryview, wanted: _Wanted) -> Array:
    """Return the values in an encoded `Feature`. If they are strings, return the bytes of the first one."""
    found = []
    for number, _, values in fields(encoded):
        kind = _LISTS.get(number)
        if kind is None:
            continue
        if kind != wanted.kind:
            raise ValueError(f"{wanted.name!r} contains values of {_NAMES[kind]}, not of {_NAMES[wanted.kind]}")
        for item, wire, value in fields(values):
            if item != 1:
                continue
            if kind == string:
                return np.frombuffer(value, np.uint8)
            found.append(integers(wire, value) if kind == int64 else floats(wire, value))
    return np.concatenate(found) if found else np.empty(0, _DTYPES[wanted.kind])


def _features(example: memoryview) -> Iterator[tuple[str, memoryview]]:
    """Yield the name and the encoded `Feature` of each entry of an encoded `Example`."""
    for number, kind, value in fields(example):
        if number != 1 or kind != BYTES:
            continue
        for _, _, entry in fields(value):
            parts = {item: part for item, _, part in fields(entry)}
            yield bytes(parts.get(1, b"")).decode(errors="replace"), parts.get(2, memoryview(b""))


@reads(TFRECORD)
class TfrecordLoader(RecordLoader):
    """Reads examples. Checksums aren't verified."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._wanted = [
            _Wanted(name, kind, tuple(shape), fixed) for name, kind, shape, fixed in node.argument("features")
        ]
        self.outputs = [OutputSpec(dtype=_DTYPES[each.kind]) for each in self._wanted]

    def scan(self, file: DataFile) -> Iterator[Span]:
        offset, size = 0, file.size
        while offset < size:
            (length,) = struct.unpack_from("<Q", read_header(file, offset, _HEAD))
            whole = _HEAD + length + _TAIL
            if whole > size - offset:
                raise ValueError(f"it ends within the record at {offset}")
            yield offset, whole
            offset += whole

    def parse_index(self, lines: list[list[str]], size: int) -> list[Span]:
        return [(int(offset), int(length)) for offset, length in lines]

    def parse(self, record: bytes) -> tuple[Array, ...]:
        length = struct.unpack_from("<Q", record)[0] if len(record) >= _HEAD else 0
        if not 0 < length <= len(record) - _HEAD:
            raise ValueError(f"it has {length} bytes of data, but the index has {max(0, len(record) - _HEAD)} for it")
        encoded = dict(_features(memoryview(record)[_HEAD : _HEAD + length]))
        return tuple(
            each.output(encoded[each.name]) if each.name in encoded else each.missing() for each in self._wanted
        )


_declared = make_function(replace(TFRECORD, function=None))
tfrecord.__doc__ = _declared.__doc__
tfrecord.__signature__ = inspect.signature(_declared)  # type: ignore[attr-defined]
