"""Readers of files with many records, whose offsets come from an index file or from the file itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import Setup
from dali_proxy.pipeline._readers.arguments import FILE_SHUFFLE_ARGUMENTS, READER_ARGUMENTS
from dali_proxy.pipeline._readers.loader import Loader
from dali_proxy.pipeline._remote.data_file import Blocks, DataFile, open_files, open_text
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError, InputError
from dali_proxy.pipeline.tensors.cpu import Array

#: Offset and size of a record.
Span = tuple[int, int]

#: Arguments of readers of records.
RECORD_ARGUMENTS: tuple[Argument, ...] = (
    Argument("path", Kind.STRINGS, "Paths of the files.", REQUIRED),
    Argument(
        "index_path",
        Kind.STRINGS,
        "For each file, the index file with the offsets of its records. By default, the files are scanned when the "
        "reader is created.",
    ),
    Argument("use_o_direct", Kind.BOOL, "Accepted for compatibility; files are read through the cache.", False),
    *READER_ARGUMENTS,
    *FILE_SHUFFLE_ARGUMENTS,
)


class RecordLoader(Loader):
    """Reads the records of several files. A format implements `scan`, `parse_index` and `parse`."""

    random_access = False

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._paths, self._indices = node.argument("path"), node.argument("index_path") or None
        if not self._paths:
            raise ArgumentValueError("argument 'path' is an empty list")
        if self._indices is not None and len(self._indices) != len(self._paths):
            raise ArgumentValueError(
                f"argument 'index_path' has {len(self._indices)} files, but 'path' has {len(self._paths)}"
            )
        self._files: list[DataFile] = []
        self._spans: npt.NDArray[np.int64] = np.empty((0, 3), np.int64)  # file, offset and size of each record

    @abstractmethod
    def scan(self, file: DataFile) -> Iterator[Span]:
        """Yield the records of a file in order.

        Raises:
            ValueError: the file is damaged.
        """

    @abstractmethod
    def parse_index(self, lines: list[list[str]], size: int) -> list[Span]:
        """Return the records that an index lists, given the words of its lines and the size of the file.

        Raises:
            ValueError: the index is damaged.
        """

    @abstractmethod
    def parse(self, record: bytes) -> tuple[Array, ...]:
        """Return the outputs for a record.

        Raises:
            ValueError: the record is damaged.
        """

    def open(self) -> int:
        spans = []
        self._files = open_files(self._paths, Blocks())
        self.remote = any(file.remote for file in self._files)
        for number, (path, file) in enumerate(zip(self._paths, self._files, strict=True)):
            try:
                found = self._read_index(self._indices[number], file.size) if self._indices else list(self.scan(file))
            except OSError as error:
                raise BuildError(f"can't read the file {path!r}: {error.strerror or error}") from error
            except ValueError as error:
                raise BuildError(f"the file {path!r} can't be read: {error}") from error
            rows = np.empty((len(found), 3), np.int64)
            rows[:, 0] = number
            rows[:, 1:] = np.array(found, np.int64).reshape(-1, 2)
            spans.append(rows)
        self._spans = np.concatenate(spans)
        self.file_sizes = [len(rows) for rows in spans]
        if not len(self._spans):
            raise BuildError(f"no records in {', '.join(map(repr, self._paths))}")
        return len(self._spans)

    def read(self, entry: int) -> tuple[Array, ...]:
        number, offset, size = self._spans[entry].tolist()
        check_size(f"the record {self.source_info(entry)}", size)
        record = self._files[number].pread(size, offset)
        try:
            if len(record) < size:
                raise ValueError(f"the file ends after {len(record)} of {size} bytes")
            return self.parse(record)
        except ValueError as error:
            raise InputError(f"the record {self.source_info(entry)} can't be read: {error}") from error

    def source_info(self, entry: int) -> str:
        number, offset, _ = self._spans[entry].tolist()
        return f"{self._paths[number]} at index {offset}"

    def close(self) -> None:
        while self._files:
            self._files.pop().close()

    def _read_index(self, path: str, size: int) -> list[Span]:
        try:
            with open_text(path, encoding="ascii") as file:
                spans = self.parse_index([words for line in file if (words := line.split())], size)
        except OSError as error:
            raise BuildError(f"can't read the index {path!r}: {error.strerror or error}") from error
        except ValueError as error:
            raise BuildError(f"{path!r} isn't an index of records: {error}") from error
        if not spans:
            raise BuildError(f"the index {path!r} is empty")
        for offset, length in spans:
            if offset < 0 or length < 0 or offset + length > size:
                raise BuildError(f"the index {path!r} lists {length} bytes at {offset}, but its file has {size} bytes")
        return spans


def read_header(file: DataFile, offset: int, size: int) -> bytes:
    """Return bytes of a file.

    Raises:
        ValueError: the file ends before.
    """
    data = file.pread(size, offset)
    if len(data) < size:
        raise ValueError(f"it ends within the record at {offset}")
    return data
