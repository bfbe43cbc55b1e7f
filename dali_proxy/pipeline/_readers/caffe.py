"""`readers.caffe`: images and labels from LMDB databases of Caffe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.lmdb_files import LMDB_ARGUMENTS, LmdbLoader
from dali_proxy.pipeline._readers.protobuf import BYTES, fields, integer
from dali_proxy.pipeline.tensors.cpu import Array

# Fields of `Datum`.
_CHANNELS, _HEIGHT, _WIDTH, _DATA, _LABEL, _ENCODED = 1, 2, 3, 4, 5, 7
_OUTPUTS = ("image_available", "label_available")


def _outputs(arguments: Mapping[str, Any]) -> int:
    return sum(bool(arguments.get(name, True)) for name in _OUTPUTS)


@reads(
    OperatorSchema(
        name="readers.caffe",
        doc="""Reads images and labels from LMDB databases of Caffe.

The outputs are the bytes of an encoded image, 1-D uint8, or the pixels of a raw image, in the order of the database,
of shape (height, width, channels); and its label, int32 of shape (1,), or (0,) if the entry has none.""",
        arguments=(
            Argument("image_available", Kind.BOOL, "Return images.", True),
            Argument("label_available", Kind.BOOL, "Return labels.", True),
            *LMDB_ARGUMENTS,
        ),
        outputs=_outputs,
    )
)
class CaffeLoader(LmdbLoader):
    """Parses entries, each a `Datum`."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._image, self._label = (bool(node.argument(name)) for name in _OUTPUTS)
        self.outputs = [
            *([OutputSpec(dtype=np.dtype(np.uint8))] if self._image else []),
            *([OutputSpec(dtype=np.dtype(np.int32))] if self._label else []),
        ]

    def parse(self, value: memoryview) -> tuple[Array, ...]:
        data, numbers = memoryview(b""), dict[int, int]()
        for number, kind, content in fields(value):
            if number == _DATA and kind == BYTES:
                data = content
            elif number in (_CHANNELS, _HEIGHT, _WIDTH, _LABEL, _ENCODED):
                numbers[number] = integer(kind, content)
        outputs = []
        if self._image:
            pixels = np.frombuffer(data, np.uint8)
            if not numbers.get(_ENCODED):
                shape = tuple(numbers.get(each, 0) for each in (_HEIGHT, _WIDTH, _CHANNELS))
                if math.prod(shape) != pixels.size:
                    raise ValueError(f"it has {pixels.size} bytes of pixels, which isn't the shape {shape}")
                pixels = pixels.reshape(shape)
            outputs.append(pixels)
        if self._label:
            outputs.append(np.array([numbers[_LABEL]] if _LABEL in numbers else [], np.int32))
        return tuple(outputs)
