"""Requests to read batches in other processes, and the readers that carry them out there."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

_READERS = 4  # readers of a rank that a process keeps: two loaders, and two epochs of each


class BatchRequest(NamedTuple):
    """A request for a batch.

    Attributes:
        reader: identity of the reader.
        data: the pickled reader, in a form that depends on the transport.
        numbered: number and dataset indices of the batch.
        seed: seed of the epoch, for random numbers that the dataset draws.
        session: session of the batch.
        number: number of the request at its server.
        slow: whether the batch probably takes long, so that no other one should wait for the same worker.
    """

    reader: bytes
    data: Any
    numbered: Any
    seed: int
    session: int
    number: int = 0
    slow: bool = False


class DatasetReader(Protocol):
    """Reads and collates batches of one loader. It is pickled in the training process."""

    def begin(self, number: int, count: int, where: str) -> None:
        """Prepare this process, one of `count` that read for the loader.

        `where` is the name of the machine for messages; empty for that of the training process.
        """

    def read(self, request: BatchRequest) -> Any:
        """Return a batch, whose placeholders are submitted."""


class DatasetReaders:
    """The readers that a process has loaded. Ranks whose datasets have the same pickle share one."""

    def __init__(self, load: Callable[[BatchRequest], DatasetReader]) -> None:
        self._load = load
        self._readers: dict[bytes, DatasetReader] = {}
        self._recent: defaultdict[int, OrderedDict[bytes, None]] = defaultdict(OrderedDict)  # by rank

    def find(self, request: BatchRequest) -> DatasetReader:
        """Return the reader of a request; load it if necessary."""
        if request.reader not in self._readers:
            self._readers[request.reader] = self._load(request)
        recent = self._recent[request.numbered.rank]
        recent[request.reader] = None
        recent.move_to_end(request.reader)
        if len(recent) > _READERS:
            oldest, _ = recent.popitem(last=False)
            if not any(oldest in others for others in self._recent.values()):
                del self._readers[oldest]
        return self._readers[request.reader]
