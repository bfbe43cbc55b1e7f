"""Tickets: each identifies a submitted batch in any process. Batches that are not used are released."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat, starmap
from typing import Any

from dali_proxy._transport.protocol import CloseSession, Release

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
        key: epoch, batch, view and global batch on which the random numbers depend, see `BatchKey`; None if unknown.
        claimed: whether the batch was fetched, pickled, or never submitted, so that this object must not discard it.
        outputs: fetched results, one entry per output, or None.
        error: exception that was received instead of outputs, or None.
        formed: converted ragged outputs, by output and form.
        samples: packed dataset indices and names of the samples, if a fetched output isn't dense.
    """

    __slots__ = (
        "__weakref__", "claimed", "client", "error", "formed", "key", "outputs", "samples", "seq", "server", "size"
    )  # fmt: skip

    def __init__(
        self,
        server: bytes,
        client: int,
        seq: int,
        size: int,
        error: Exception | None = None,
        key: tuple[int, int, int, int | None] | None = None,
    ) -> None:
        self.server = server
        self.client = client
        self.seq = seq
        self.size = size
        self.key = key
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
        return (Ticket, (self.server, self.client, self.seq, self.size, self.error, self.key))

    def __del__(self, all_discards: Mapping[bytes, tuple[Discard, ...]] = _discards) -> None:
        # The dict is an argument because finalizers may run after the module's globals have been cleared.
        if not self.claimed:
            discards = all_discards.get(self.server)
            if discards:
                discards[-1](self.client, self.seq)


class TicketWithInputs(Ticket):
    """Ticket of a batch whose inputs are kept, for a look at the batch.

    Attributes:
        inputs: for each input of the pipeline, the arrays of the samples.
    """

    __slots__ = ("inputs",)

    def __init__(self, *arguments: Any, inputs: Sequence[Sequence[Any]] = ()) -> None:
        super().__init__(*arguments)
        self.inputs = inputs

    def __reduce__(self) -> tuple[Any, ...]:
        _, arguments = super().__reduce__()
        return (partial(TicketWithInputs, inputs=self.inputs), arguments)


def _ignore(released: object) -> None:
    """Do nothing, for a process that remembers nothing about released batches."""


class ReleaseQueue:
    """Released batches and closed sessions that the server hasn't been notified of yet.

    Finalizers add to it at any point of any thread, so adding takes no lock.

    Attributes:
        waiting: the batches, by their clients and the clients' numbers for them, and the sessions, by their numbers.
    """

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, int] | int] = deque()

    def add_batch(self, client: int, seq: int) -> None:
        """Add a batch, given by its client and the client's number for it."""
        self.waiting.append((client, seq))

    def add_session(self, session: int) -> None:
        """Add a session."""
        self.waiting.append(session)

    def flush(
        self,
        post: Callable[[object], object],
        forget_batches: Callable[[Sequence[tuple[int, int]]], object] = _ignore,
        forget_session: Callable[[int], object] = _ignore,
    ) -> None:
        """Notify the server of all that was added. After an exception, the next call sends everything again.

        Args:
            post: sends a message.
            forget_batches: called before the batches are sent.
            forget_session: called before a session is sent.
        """
        released: list[tuple[int, int] | int] = []
        try:
            with suppress(IndexError):  # another thread or finalizer took the item
                # The loop is in C: a signal handler that raises between removing and storing an item would lose it.
                released.extend(starmap(self.waiting.popleft, repeat((), len(self.waiting))))
            batches = [each for each in released if isinstance(each, tuple)]
            if batches:
                forget_batches(batches)
                post(Release.pack(batches))
            for session in released:
                if not isinstance(session, tuple):
                    forget_session(session)
                    post(CloseSession(session))
        except BaseException:  # torch's signal handler may raise anywhere; the server ignores repeated messages
            self.waiting.extend(released)
            raise
