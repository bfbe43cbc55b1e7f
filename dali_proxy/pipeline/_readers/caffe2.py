"""`readers.caffe2`: images, labels and other arrays from LMDB databases of Caffe2."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.lmdb_files import LMDB_ARGUMENTS, LmdbLoader
from dali_proxy.pipeline._readers.protobuf import BYTES, fields, floats, integer, integers
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

# Values of `label_type`.
_SINGLE, _SPARSE, _DENSE, _WEIGHTED, _NONE = range(5)
# Fields of `TensorProto`, and values of its data type.
_DIMS, _TYPE, _FLOATS, _INTS, _BYTES, _STRINGS = range(1, 7)
_IS_FLOAT, _IS_INT, _IS_BYTE, _IS_STRING = range(1, 5)


def _output_count(arguments: Mapping[str, Any]) -> int:
    kind = arguments.get("label_type", _SINGLE)
    labels = 0 if kind == _NONE else 2 if kind in (_SPARSE, _WEIGHTED) else 1
    others = int(arguments.get("additional_inputs", 0)) + bool(arguments.get("bbox", False))
    return bool(arguments.get("image_available", True)) + labels + others


@reads(
    OperatorSchema(
        name="readers.caffe2",
        doc="""Reads images, labels and other arrays from LMDB databases of Caffe2.

The outputs follow in this order:

- the bytes of an encoded image, 1-D uint8, or the pixels of a raw image of shape (height, width, channels);
- the label, int32 or float32: of shape (1,), or (`num_labels`,) with sparse labels, which have a second output: their
  indices, or weights if they have any;
- `additional_inputs` arrays, 1-D int32 or float32;
- a box, of shape (4,).""",
        arguments=(
            Argument("image_available", Kind.BOOL, "Return images.", True),
            Argument(
                "label_type",
                Kind.INT,
                "Type of the labels: 0 for one integer, 1 for indices of labels, 2 for a vector, 3 for indices of "
                "labels and their weights, 4 for no label.",
                _SINGLE,
            ),
            Argument("num_labels", Kind.INT, "Number of labels, for types 1 and 3.", 1),
            Argument("additional_inputs", Kind.INT, "Number of further arrays.", 0),
            Argument("bbox", Kind.BOOL, "Return boxes.", False),
            *LMDB_ARGUMENTS,
        ),
        outputs=_output_count,
    )
)
class Caffe2Loader(LmdbLoader):
    """Parses entries, each a `TensorProtos`."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._image, self._box = bool(node.argument("image_available")), bool(node.argument("bbox"))
        self._kind, self._count = node.argument("label_type"), node.argument("num_labels")
        self._others = node.argument("additional_inputs")
        if not _SINGLE <= self._kind <= _NONE:
            raise ArgumentValueError(f"argument 'label_type' must be from 0 to 4, not {self._kind}")
        if self._others < 0 or self._count < 1:
            raise ArgumentValueError("'additional_inputs' must be 0 or more, and 'num_labels' 1 or more")
        self.outputs = [OutputSpec()] * _output_count(node.arguments)

    def parse(self, value: memoryview) -> tuple[Array, ...]:
        protos = (content for number, kind, content in fields(value) if number == 1 and kind == BYTES)
        outputs = [_image(_next(protos))] if self._image else []
        if self._kind != _NONE:
            outputs += self._labels(protos)
        outputs += [_numbers(_next(protos)) for _ in range(self._others)]
        if self._box:
            box = _numbers(_next(protos))
            if box.size != 4:
                raise ValueError(f"a box has {box.size} values instead of 4")
            outputs.append(box)
        return tuple(outputs)

    def _labels(self, protos: Iterator[memoryview]) -> list[Array]:
        label = _numbers(_next(protos))
        if self._kind == _SINGLE and label.size != 1:
            raise ValueError(f"its label has {label.size} values instead of 1")
        if self._kind in (_SINGLE, _DENSE):
            return [label]
        for index in label.tolist():
            if not 0 <= index < self._count:
                raise ValueError(f"Label index out of bounds: {index} (num_labels={self._count})")
        weights = _numbers(_next(protos)) if self._kind == _WEIGHTED else np.ones(label.size, np.int32)
        if weights.size != label.size:
            raise ValueError(f"it has {label.size} labels, but {weights.size} weights")
        vector = np.zeros(self._count, weights.dtype)
        vector[label.astype(np.intp)] = weights
        return [vector, weights if self._kind == _WEIGHTED else label]


def _next(protos: Iterator[memoryview]) -> memoryview:
    proto = next(protos, None)
    if proto is None:
        raise ValueError("it has fewer arrays than the arguments request")
    return proto


def _parse(proto: memoryview) -> tuple[int, list[int], dict[int, list[tuple[int, memoryview]]]]:
    """Return the data type, the dimensions and the other fields of a `TensorProto`."""
    kind, dims, others = 0, list[int](), dict[int, list[tuple[int, memoryview]]]()
    for number, wire, content in fields(proto):
        if number == _DIMS:
            dims += integers(wire, content).tolist()
        elif number == _TYPE:
            kind = integer(wire, content)
        else:
            others.setdefault(number, []).append((wire, content))
    return kind, dims, others


def _image(proto: memoryview) -> Array:
    kind, dims, others = _parse(proto)
    if kind == _IS_STRING:
        (_, content), *_ = others.get(_STRINGS) or [(BYTES, memoryview(b""))]
        return np.frombuffer(content, np.uint8)
    if kind != _IS_BYTE or len(dims) not in (2, 3):
        raise ValueError(f"an image must be a string, or bytes of 2 or 3 dimensions, not type {kind} of shape {dims}")
    pixels = np.frombuffer(b"".join(content for _, content in others.get(_BYTES, [])), np.uint8)
    shape = (*dims, 1)[:3]
    if min(shape) < 0 or math.prod(shape) != pixels.size:
        raise ValueError(f"Image data size mismatch: {pixels.size} bytes (expected: {math.prod(shape)})")
    return pixels.reshape(shape)


def _numbers(proto: memoryview) -> Array:
    """Return the numbers of a `TensorProto`, 1-D."""
    kind, _, others = _parse(proto)
    if kind == _IS_INT:
        parts = [integers(wire, content).astype(np.int32) for wire, content in others.get(_INTS, [])]
        return np.concatenate(parts) if parts else np.empty(0, np.int32)
    if kind == _IS_FLOAT:
        parts = [floats(wire, content) for wire, content in others.get(_FLOATS, [])]
        return np.concatenate(parts) if parts else np.empty(0, np.float32)
    raise ValueError(f"an array has the data type {kind}, but must be FLOAT or INT32")
