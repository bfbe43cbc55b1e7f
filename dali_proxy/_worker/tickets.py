"""Tickets: each identifies a submitted batch in any process, and releases the batch if it isn't used."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

Discard = Callable[[int, int], None]

# Functions that notify a server of an unused batch: server token -> functions(client, seq), of which the last one is
# called. The dict is process-wide, because tickets are unpickled and know only the server's token.
_discards: dict[bytes, tuple[Discard, ...]] = {}
os.register_at_fork(after_in_child=_discards.clear)


def discard_through(server: bytes, discard: Discard, *, preferred: bool = True) -> None:
    """Register `discard(client, seq)`. From now on, a ticket of `server` calls it if the ticket dies unused.

    This applies to tickets in this process. Finalizers call the function, so it must not wait for a lock. If it isn't
    preferred, it is called only if there is no other function.
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
    """The identity of a batch that was submitted to a server: (server, client, sequence number).

    The references to all outputs of the batch share it. It stores the outputs after they are fetched once. A ticket
    that dies before it is fetched or pickled notifies the server.

    Attributes:
        server: token of the server. Each start of a server has a different one.
        client: number that the server assigned to the process that submitted the batch.
        seq: sequence number of the batch within the client.
        size: number of samples.
        claimed: whether the batch was fetched, pickled, or never submitted, so that this object must not discard it.
        outputs: fetched results, one entry per output, or None.
        error: exception that was received instead of outputs, or None.
        formed: converted ragged outputs, by output and form.
        samples: packed dataset indices and names of the samples, if a fetched output isn't dense.
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
    def from_error(cls, error: Exception) -> Ticket:
        """Return a ticket for a batch that couldn't be submitted; fetching the batch raises the error."""
        return cls(b"", 0, 0, 0, error)

    def __repr__(self) -> str:
        return f"Ticket(client={self.client}, seq={self.seq}, size={self.size})"

    def __copy__(self) -> Ticket:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Ticket:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        self.claimed = True  # the reader of the pickle is responsible from now on
        return (Ticket, (self.server, self.client, self.seq, self.size, self.error))

    def __del__(self, all_discards: Mapping[bytes, tuple[Discard, ...]] = _discards) -> None:
        # The dict is an argument because finalizers may run after the module's globals have been cleared.
        if not self.claimed:
            discards = all_discards.get(self.server)
            if discards:
                discards[-1](self.client, self.seq)
