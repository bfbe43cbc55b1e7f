"""The interface of a dataset format: how to list a dataset, and how to read one of its entries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from dali_proxy.pipeline._bulk.files import FileBuffers
from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._bulk.ranges import FileRanges
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

#: The samples of one output: a batch, an array with a row per sample, or an array per sample.
Column = TensorListCPU | Array | Sequence[Array]


class Loader(ABC):
    """The dataset of one reader.

    Args:
        node: the reader in the graph. The constructor checks its arguments.
        setup: sizes and devices.

    Example:
        A reader of text files, one line per sample::

            @reads(OperatorSchema("readers.lines", "Reads lines.", arguments=(PATH, *READER_ARGUMENTS)))
            class LineLoader(Loader):
                outputs = (OutputSpec(dtype=np.dtype(np.uint8)),)

                def open(self) -> int:
                    self._lines = Path(self.node.argument("path")).read_bytes().splitlines()
                    return len(self._lines)

                def read(self, entry: int) -> tuple[Array, ...]:
                    return (np.frombuffer(self._lines[entry], np.uint8),)
    """

    #: Known properties of each output. Samples of known shape and dtype are copied into one array per batch; others
    #: become part of the batch without a copy.
    outputs: Sequence[OutputSpec]

    #: Whether random access is as fast as sequential access, so that ``random_shuffle`` can shuffle all entries first.
    random_access: ClassVar[bool] = True

    #: For formats with many entries per file: the number of entries in each file, in the order of the entries; `open`
    #: sets it. ``shuffle_after_epoch`` then shuffles the files, not their entries.
    file_sizes: Sequence[int] | None = None

    #: Whether entries are read one by one from URLs, so that more threads should read; `open` sets it.
    remote: bool = False

    #: For outputs that are ranges of open local files: these ranges, which are then read a batch at a time; `open` may
    #: set it. The outputs' dtypes are known.
    ranges: FileRanges | None = None

    #: Largest number of entries that a thread reads with one call of `read_together`.
    together: ClassVar[int] = 1

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        self.node = node
        self.setup = setup

    @abstractmethod
    def open(self) -> int:
        """List the entries of the dataset and return their number. Called once, before the first read.

        Raises:
            PipelineError: the dataset is empty or invalid.
        """

    @abstractmethod
    def read(self, entry: int) -> tuple[Array, ...]:
        """Read one entry: an array for each output, which must not change later.

        Many threads call this at once. Implementations must release the GIL while they wait.

        Raises:
            PipelineError: the entry can't be read; the message names it.
        """

    def read_together(self, entries: Sequence[int]) -> Sequence[tuple[Array, ...]]:
        """Read several entries like `read`, but with fewer calls that need the GIL.

        If this raises, the entries are read one by one, so that the error belongs to one of them.
        """
        return [self.read(entry) for entry in entries]

    def source_info(self, entry: int) -> str:
        """Return the origin of an entry, such as its path: the ``source_info`` of its sample."""
        return ""

    def close(self) -> None:  # noqa: B027 - most loaders have nothing to free
        """Free all resources. Called once, after the last read."""


class FilesLoader(Loader):
    """A dataset whose entries are whole files. Files are read a batch at a time, with little Python per file.

    Attributes:
        paths: paths of all entries; `open` sets it. Without it, `read` reads each entry.
        buffers: memory for batches of files.
    """

    paths: PathTable | None = None

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self.buffers = FileBuffers(setup.reading_gpu)

    def parse(self, files: TensorListCPU, entries: Sequence[int]) -> Sequence[Column]:
        """Return the outputs for the contents of files, 1-D uint8; by default these contents.

        Raises:
            OperatorError: files are damaged; `failures` lists them.
        """
        return (files,)

    def read(self, entry: int) -> tuple[Array, ...]:
        raise NotImplementedError("loaders without paths must implement this")
