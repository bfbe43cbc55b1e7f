"""Metadata of a result, for a consumer that runs the device stage."""

from __future__ import annotations

from array import array
from typing import Annotated

from dali_proxy._transport.fields import Labels
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._ipc.messages import U32, U64, Message, Meta

MAX_SAMPLES = 1 << 20

Name = Annotated[str, Meta(max_length=256)]
Line = Annotated[str, Meta(max_length=4096)]
Table = Annotated[bytes, Meta(max_length=8 * MAX_SAMPLES)]

#: Key of a request: the client that submitted it, and the client's number for it.
Key = tuple[int, int]


class Origin(Message, frozen=True, kw_only=True):
    """The batch that a result belongs to, and the worker that submitted it.

    Attributes:
        epoch, batch, view, batch_size, indices, names, global_batch: see `Submit`.
        paths, worker, worker_pid: see `Failure`; the paths of all samples, and of each sample as many.
    """

    epoch: U64
    batch: U64
    view: U32
    batch_size: U32
    indices: Labels
    names: Labels
    paths: Annotated[tuple[Line, ...], Meta(max_length=MAX_SAMPLES)]
    worker: Name
    worker_pid: U32
    global_batch: U64 | None = None


def pack_keys(keys: list[Key]) -> bytes:
    """Return requests as ``uint64[n, 2]``."""
    return array("Q", [number for key in keys for number in key]).tobytes()  # NumPy is slower for so few


def unpack_keys(table: bytes) -> list[Key]:
    """Return the requests of a table from `pack_keys`.

    Raises:
        ProtocolError: the table doesn't consist of pairs.
    """
    if len(table) % 16:
        raise ProtocolError("this isn't a table of pairs")
    numbers = memoryview(table).cast("Q").tolist()
    return list(zip(numbers[::2], numbers[1::2], strict=True))
