"""`readers.mxnet`: images and labels from RecordIO files of MXNet."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from dali_proxy.pipeline._declaration import OperatorSchema
from dali_proxy.pipeline._operator_api.operator import OutputSpec
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.records import RECORD_ARGUMENTS, RecordLoader, Span, read_header
from dali_proxy.pipeline._remote.data_file import DataFile
from dali_proxy.pipeline.tensors.cpu import Array

# A part of a record is a magic number, its length with a flag in the upper three bits, and the data, padded to four
# bytes. MXNet splits records that contain the magic number at a multiple of four bytes, and leaves the number out.
_MAGIC = 0xCED7230A
_PART = struct.Struct("<II")
_WHOLE, _LAST = 0, 3
# The data begins with the number of labels that follow (0 if the label in this header is the only one), a label, and
# two identifiers.
_HEAD = struct.Struct("<IfQQ")


def _part(data: bytes, at: int) -> tuple[int, int]:
    """Return the flag and the length of the part that begins at a position.

    Raises:
        ValueError: no part begins there.
    """
    if len(data) - at < _PART.size:
        raise ValueError("it ends within a record")
    magic, length = _PART.unpack_from(data, at)
    if magic != _MAGIC:
        raise ValueError("wrong magic number, so it isn't in the format RecordIO")
    return length >> 29, length & (1 << 29) - 1


@reads(
    OperatorSchema(
        name="readers.mxnet",
        doc="""Reads images and labels from RecordIO files of MXNet.

The outputs are the bytes of the image file, 1-D uint8; and its labels, float32, 1-D.

An index file has a line with key and offset for each record. Records are read in the order of the file.""",
        arguments=RECORD_ARGUMENTS,
        outputs=2,
    )
)
class MxnetLoader(RecordLoader):
    """Reads records, including those that consist of several parts."""

    outputs = (OutputSpec(dtype=np.dtype(np.uint8)), OutputSpec(dtype=np.dtype(np.float32)))

    def scan(self, file: DataFile) -> Iterator[Span]:
        start, offset, size = 0, 0, file.size
        while offset < size:
            flag, length = _part(read_header(file, offset, _PART.size), 0)
            offset += _PART.size + length + -length % 4
            if flag in (_WHOLE, _LAST):
                yield start, min(offset, size) - start
                start = offset

    def parse_index(self, lines: list[list[str]], size: int) -> list[Span]:
        offsets = sorted(int(offset) for _, offset in lines)
        ends = [*offsets[1:], size]
        return [(start, end - start) for start, end in zip(offsets, ends, strict=True)]

    def parse(self, record: bytes) -> tuple[Array, ...]:
        data = _join(record)
        if len(data) < _HEAD.size:
            raise ValueError(f"its data has {len(data)} bytes, but its header {_HEAD.size}")
        count, label, _, _ = _HEAD.unpack_from(data)
        image = _HEAD.size + 4 * count
        if image > len(data):
            raise ValueError(f"it has {len(data) - _HEAD.size} bytes for {count} labels")
        labels = np.frombuffer(data, "<f4", count, _HEAD.size) if count else np.array([label], np.float32)
        return np.frombuffer(data, np.uint8, offset=image), labels.astype(np.float32, copy=False)


def _join(record: bytes) -> bytes:
    """Return the data of a record.

    Raises:
        ValueError: the record is damaged.
    """
    parts, at = [], 0
    while True:
        flag, length = _part(record, at)
        at += _PART.size
        if length > len(record) - at:
            raise ValueError(f"it needs {length} bytes, but only {len(record) - at} are available")
        parts.append(record[at : at + length])
        if flag in (_WHOLE, _LAST):
            return struct.pack("<I", _MAGIC).join(parts)
        at += length + -length % 4
