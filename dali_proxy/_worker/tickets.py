"""A ticket names one submitted batch, wherever it travels, and gives the batch back when nobody wants it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Ticket", "discard_through", "forget_discard"]

Discard = Callable[[int, int], None]

# How this process tells a server that a batch is not wanted: server token -> functions(client, seq), of which the last
# is used. It has to be process-wide, because tickets come out of pickles and know nothing but the server's token.
_discards: dict[bytes, tuple[Discard, ...]] = {}
os.register_at_fork(after_in_child=_discards.clear)


def discard_through(server: bytes, discard: Discard, *, preferred: bool = True) -> None:
    """From now on, tickets of `server` that die unused in this process call `discard(client, seq)`.

    The function is called by finalizers: it must not take a lock that it may have to wait for. If it isn't preferred,
    it is called when there is no other.
    """
    others = _discards.get(server, ())
    _discards[server] = (*others, discard) if preferred else (discard, *others)


def forget_discard(server: bytes, discard: Discard) -> None:
    """Undo `discard_through`."""
    left = tuple(other for other in _discards.get(server, ()) if other != discard)
    if left:
        _discards[server] = left
    else:
        _discards.pop(server, None)


class Ticket:
    """One batch that was submitted to a server: (server, client, sequence number).

    Shared by the references of all outputs of the batch. Its outputs are fetched once and kept here. A ticket that
    dies without having been fetched, or sent on in a pickle, tells the server so.

    Attributes:
        server: token of the server's start that knows the batch.
        client: the server's number of the client that submitted it.
        seq: the client's number of the batch.
        size: number of samples.
        claimed: whether this object is no longer responsible for the batch.
        outputs: what was fetched, one entry an output, or None.
        error: the exception that came instead of outputs, or None.
        formed: what was made of ragged outputs, by output and form.
        samples: dataset indices and names of the samples, packed, if an output that was fetched isn't dense.
    """

    __slots__ = (
        "__weakref__", "claimed", "client", "error", "formed", "outputs", "samples", "seq", "server", "size"
    )  # fmt: skip

    def __init__(self, server: bytes, client: int, seq: int, size: int, error: Exception | None = None) -> None:
        self.server = server
        self.client = client
        self.seq = seq
        self.size = size
        self.error = error
        self.claimed = error is not None
        self.outputs: tuple[Any, ...] | None = None
        self.formed: dict[tuple[int, str], Any] = {}
        self.samples = ("", "")

    @classmethod
    def of_error(cls, error: Exception) -> Ticket:
        """Return a ticket for a batch that couldn't be submitted; the error is raised where the batch is wanted."""
        return cls(b"", 0, 0, 0, error)

    def __repr__(self) -> str:
        return f"Ticket(client={self.client}, seq={self.seq}, size={self.size})"

    def __copy__(self) -> Ticket:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ticket:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        self.claimed = True  # whoever reads the pickle is responsible from now on
        return (Ticket, (self.server, self.client, self.seq, self.size, self.error))

    def __del__(self, all_discards: Mapping[bytes, tuple[Discard, ...]] = _discards) -> None:
        # The dict is an argument because finalizers run even when modules have lost their names.
        if not self.claimed:
            discards = all_discards.get(self.server)
            if discards:
                discards[-1](self.client, self.seq)
