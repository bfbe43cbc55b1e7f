"""`readers.webdataset`: samples of several files each, in tar archives."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from dali_proxy.pipeline._bulk.buffer_pool import BufferPool
from dali_proxy.pipeline._bulk.native import compiled
from dali_proxy.pipeline._bulk.ranges import FileRanges
from dali_proxy.pipeline._declaration import REQUIRED, Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.arguments import EPOCH_SHUFFLE_ARGUMENTS, READER_ARGUMENTS, output_dtypes
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.loader import Loader
from dali_proxy.pipeline._remote.data_file import Blocks, DataFile, open_files, open_text
from dali_proxy.pipeline._remote.urls import local_path
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError, InputError
from dali_proxy.pipeline.tensors.cpu import Array

_LARGEST = (1 << 63) - 1  # offset or size
_VERSION = re.compile(r"v1\.[0-9]+")


@dataclass(frozen=True)
class _Member:
    """A file in an archive: its offset, its size, and its name if the index has it."""

    offset: int
    size: int
    name: str = ""


#: A sample: its files by extension, which follows the first dot of the name; the first file of each extension.
_Sample = dict[str, _Member]


def _outputs(arguments: Mapping[str, Any]) -> int:
    return max(1, len(arguments.get("ext") or ()))


@reads(
    OperatorSchema(
        name="readers.webdataset",
        doc="""Reads samples of several files from tar archives.

The files of a sample are adjacent in the archive, and their paths are the same up to the first dot of the file name;
the extension follows it. Each output is one of these files, 1-D, with the dtype in `dtypes`.

Without `index_paths`, the reader scans the archives when it is created.""",
        arguments=(
            Argument("paths", Kind.STRINGS, "Paths of the archives.", REQUIRED),
            Argument("ext", Kind.STRINGS, 'For each output, its possible extensions, such as "jpg;png".', REQUIRED),
            Argument("index_paths", Kind.STRINGS, "For each archive, the index file with the offsets of its samples."),
            Argument("case_sensitive_extensions", Kind.BOOL, "Match extensions case-sensitively.", True),
            Argument("dtypes", Kind.OBJECT, "Dtype of each output; UINT8 by default."),
            Argument(
                "missing_component_behavior",
                Kind.STRING,
                'Handling of samples that lack a file: "empty" returns an empty array, "skip" leaves the sample out, '
                '"error" raises an error.',
                "empty",
            ),
            *READER_ARGUMENTS,
            *EPOCH_SHUFFLE_ARGUMENTS,
        ),
        outputs=_outputs,
    )
)
class WebdatasetLoader(Loader):
    """Loads files directly from uncompressed tar archives."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        self._paths, indices = argument("paths"), argument("index_paths")
        for name in ("paths", "ext"):
            if not argument(name):
                raise ArgumentValueError(f"argument {name!r} is an empty list")
        if indices is not None and len(indices) != len(self._paths):
            raise ArgumentValueError(f"{len(indices)} index_paths for {len(self._paths)} archives")
        if argument("missing_component_behavior") not in ("", "empty", "skip", "error"):
            raise ArgumentValueError(
                f'argument \'missing_component_behavior\' must be "empty", "skip" or "error", '
                f"not {argument('missing_component_behavior')!r}"
            )
        self._fold = str if argument("case_sensitive_extensions") else str.lower
        self._extensions = [{self._fold(one) for one in each.split(";") if one} for each in argument("ext")]
        self._dtypes = output_dtypes(argument("dtypes"), len(self._extensions), np.dtype(np.uint8))
        self.outputs = tuple(OutputSpec(dtype=dtype) for dtype in self._dtypes)
        self._entries: list[tuple[int, tuple[_Member | None, ...]]] = []  # the archive, and a file for each output
        self._files: list[DataFile] = []

    def open(self) -> int:
        argument, blocks = self.node.argument, Blocks()
        indices = argument("index_paths")
        shuffles = argument("random_shuffle") or argument("shuffle_after_epoch")  # entries that aren't adjacent
        self._files = open_files(self._paths, None if shuffles else blocks)
        self.remote = any(file.remote for file in self._files)
        for number, (path, file) in enumerate(zip(self._paths, self._files, strict=True)):
            if indices:
                samples = _samples_of_index(indices[number])
            else:
                samples = _samples_of_archive(path, file.stream(blocks) if file.remote else None)
            for sample in samples:
                self._add(number, sample)
        if not self._entries:
            raise BuildError(f"no samples in {listed([*map(repr, self._paths)])}")
        if not self.remote and compiled is not None:
            self.ranges = self._find_ranges()
        return len(self._entries)

    def read(self, entry: int) -> tuple[Array, ...]:
        archive, members = self._entries[entry]
        files = [member for member in members if member is not None]
        check_size(f"the sample {self.source_info(entry)}", sum(member.size for member in files))
        if any(member.offset + member.size > self._files[archive].size for member in files):
            raise InputError(f"the archive {self._paths[archive]!r} ends within {self.source_info(entry)}")
        pread = self._files[archive].pread
        if self._files[archive].remote:
            pread = _adjacent(pread, members)
        outputs = []
        for member, dtype in zip(members, self._dtypes, strict=True):
            data = b"" if member is None else pread(member.size, member.offset)
            if member is not None and len(data) < member.size:
                raise InputError(f"the archive {self._paths[archive]!r} ends within {self.source_info(entry)}")
            outputs.append(np.frombuffer(data, dtype))
        return tuple(outputs)

    def source_info(self, entry: int) -> str:
        archive, members = self._entries[entry]
        first = members[0]
        return "" if first is None else f"{self._paths[archive]}:{first.offset}:{first.name}"

    def close(self) -> None:
        while self._files:
            self._files.pop().close()

    def _find_ranges(self) -> FileRanges:
        rows = [[_range_of(archive, member) for member in members] for archive, members in self._entries]
        archives, offsets, sizes = np.moveaxis(np.array(rows, np.int64), -1, 0)
        ends = np.array([file.size for file in self._files])[archives]
        sizes[(offsets > ends) | (sizes > ends - offsets)] = -1
        descriptors = np.array([file.descriptor for file in self._files], np.int64)
        return FileRanges(descriptors[archives], offsets, sizes, BufferPool(pin_for=self.setup.reading_gpu))

    def _add(self, archive: int, sample: _Sample) -> None:
        members = tuple(self._choose(sample, extensions) for extensions in self._extensions)
        if None in members:
            behavior = self.node.argument("missing_component_behavior")
            if behavior == "error":
                found = ", ".join(sample) or "none"
                raise BuildError(f"a sample of the archive {self._paths[archive]!r} lacks a file; it has {found}")
            if behavior == "skip":
                return
        for member, dtype in zip(members, self._dtypes, strict=True):
            if member is not None and member.size % dtype.itemsize:
                name = member.name or "a file"
                raise BuildError(f"{self._paths[archive]!r}: {name} of {member.size} bytes isn't an array of {dtype}")
        self._entries.append((archive, members))

    def _choose(self, sample: _Sample, extensions: set[str]) -> _Member | None:
        return next((member for extension, member in sample.items() if self._fold(extension) in extensions), None)


def _range_of(archive: int, member: _Member | None) -> tuple[int, int, int]:
    return (archive, 0, 0) if member is None else (archive, min(member.offset, _LARGEST), min(member.size, _LARGEST))


def _adjacent(pread: Callable[[int, int], bytes], members: Sequence[_Member | None]) -> Callable[[int, int], bytes]:
    """Read the files of a sample, which are adjacent, with one call. Return a function that returns parts of them."""
    files = [member for member in members if member is not None]
    begin = min((member.offset for member in files), default=0)
    end = max((member.offset + member.size for member in files), default=0)
    content = pread(end - begin, begin)
    return lambda size, offset: content[offset - begin : offset - begin + size]


def _samples_of_archive(path: str, stream: IO[bytes] | None) -> Iterator[_Sample]:
    last, sample = None, _Sample()
    try:
        with tarfile.open(local_path(path), "r:", stream) as archive:
            for member in archive:
                folder, _, name = member.name.rpartition("/")
                stem, _, extension = name.partition(".")
                if not member.isfile() or not stem:  # skip names that begin with a dot
                    continue
                if (folder, stem) != last:
                    if last is not None:
                        yield sample
                    last, sample = (folder, stem), _Sample()
                if extension:
                    sample.setdefault(extension, _Member(member.offset_data, member.size, member.name))
            _check_end(archive)
    except (tarfile.TarError, OSError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        raise BuildError(f"can't read the archive {path!r}: {error}") from error
    if last is not None:
        yield sample


def _check_end(archive: tarfile.TarFile) -> None:
    """Check that an iteration has ended at the end of the archive: it also ends, silently, at a damaged header.

    Raises:
        ValueError: there is a damaged header.
    """
    file: Any = archive.fileobj
    file.seek(archive.offset)
    header, behind = file.read(tarfile.BLOCKSIZE), file.read(tarfile.BLOCKSIZE)
    if any(header):
        ended = "ends within a header" if len(header) < tarfile.BLOCKSIZE else "has a damaged header"
        raise ValueError(f"it {ended}, at offset {archive.offset}")
    if any(behind):  # the end is marked by two blocks of zeros
        raise ValueError(f"it has a header of zeros, at offset {archive.offset}, but continues behind it")


def _samples_of_index(path: str) -> Iterator[_Sample]:
    """Read an index: a line with the version and the number of samples, then one line per sample."""
    try:
        with open_text(path) as file:
            version, count = next(file, "").split()[:2]
            if not _VERSION.fullmatch(version):
                raise ValueError(f"unknown version {version!r}")
            for _ in range(int(count)):
                words = next(file).split()
                sample = _Sample()
                while words:
                    extension, offset, size, *words = words
                    named = words and not (len(words) > 1 and words[1].isdigit())  # some indices contain names, too
                    name = words.pop(0) if named else ""
                    member = _Member(int(offset), int(size), name)
                    if min(member.offset, member.size) < 0:  # an end after that of the archive is an error of its batch
                        raise ValueError(f"it lists {size} bytes at {offset}")
                    sample.setdefault(extension, member)
                yield sample
    except OSError as error:
        raise BuildError(f"can't read the index {path!r}: {error.strerror or error}") from error
    except (ValueError, StopIteration) as error:
        raise BuildError(f"{path!r} isn't an index of an archive: {error or 'it ends too early'}") from error
