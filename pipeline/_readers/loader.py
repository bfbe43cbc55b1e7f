"""What is to be written for a new format: how to list a data set, and how to read one entry of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pipeline._bulk.files import FileBuffers
from pipeline._bulk.paths import PathTable
from pipeline._bulk.read_file import read_file
from pipeline._graph.graph import GraphNode
from pipeline._operator_api.operator import OutputSpec, Setup
from pipeline.tensors.cpu import Array

__all__ = ["FilesLoader", "Loader"]


class Loader(ABC):
    """A data set of one reader.

    Args:
        node: the reader in the graph; its arguments are to be checked here.
        setup: sizes and devices.

    Example:
        A reader of text files, a line a sample::

            @reads(OperatorSchema("readers.lines", "Reads lines.", arguments=(PATH, *READER_ARGUMENTS)))
            class LineLoader(Loader):
                outputs = (OutputSpec(dtype=np.dtype(np.uint8)),)

                def open(self) -> int:
                    self._lines = Path(self.node.argument("path")).read_bytes().splitlines()
                    return len(self._lines)

                def read(self, entry: int) -> tuple[Array, ...]:
                    return (np.frombuffer(self._lines[entry], np.uint8),)
    """

    #: What is known of each output. Samples of known shape and dtype are copied into one array a batch; others go
    #: into the batch as they are.
    outputs: Sequence[OutputSpec]

    #: Whether any entry is read as fast as the next one, so that ``random_shuffle`` may mix all of them beforehand.
    random_access: ClassVar[bool] = True

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        self.node = node
        self.setup = setup

    @abstractmethod
    def open(self) -> int:
        """Find the entries of the data set, and return how many there are. Called once, before anything is read.

        Raises:
            PipelineError: when there is nothing to read, or the data set isn't what it should be.
        """

    @abstractmethod
    def read(self, entry: int) -> tuple[Array, ...]:
        """Read one entry: an array for each output, which nothing changes later.

        Called on many threads at once; must release the GIL while it waits.

        Raises:
            PipelineError: when it can't be read; the message names what it is.
        """

    def source_info(self, entry: int) -> str:
        """Return where an entry lies, as users know it: ``source_info`` of its sample."""
        return ""

    def close(self) -> None:  # noqa: B027 - most have nothing to free
        """Free what was opened. Called once, when nothing is read any more."""


class FilesLoader(Loader):
    """A data set whose first output is a whole file: files are read a batch at a time, with little Python for each.

    Attributes:
        paths: of all entries; `open` has to set it.
        buffers: memory for batches of them.
    """

    paths: PathTable

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self.buffers = FileBuffers(setup.reading_gpu)

    @abstractmethod
    def rest(self, entries: Sequence[int]) -> Sequence[Array]:
        """Return the other outputs of a batch, an array with a row for each entry. Must be quick and not fail."""

    def read(self, entry: int) -> tuple[Array, ...]:
        return read_file(self.paths.path(entry)), *(column[0] for column in self.rest([entry]))
