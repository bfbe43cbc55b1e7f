"""What the host knows of each process that is connected to it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dali_proxy._transport.publisher import Account
from pipeline._ipc.arena_reader import ArenaReader, Pin
from pipeline._ipc.channel import Channel
from pipeline._ipc.completion import CompletionWriter
from pipeline._ipc.errors import ProtocolError

if TYPE_CHECKING:
    from dali_proxy._host.requests import Request

__all__ = ["Consumer", "Worker", "check_count"]

_MOST = 1 << 16  # of anything that the host remembers because a client said so


def check_count(count: int, what: str) -> None:
    """Raise if a client makes the host remember too much.

    Raises:
        ProtocolError: it does.
    """
    if count > _MOST:
        raise ProtocolError(f"more than {_MOST} {what}")


class Worker:
    """A process that submits batches.

    Args:
        channel: the connection.
        client: its number.
        name: for people.
        arena_bytes_limit: most bytes of its shared memory.
        pin: registers that memory with CUDA; see `ArenaReader`.

    Attributes:
        channel: the connection.
        client: its number; never used again while this server runs.
        name: for people, such as "worker 0".
        pid: of the process.
        arena: its shared memory.
        completions: tells it which requests have been read.
        queue: its requests that wait for the executor, in order.
        submitted: how many requests it has submitted.
        waited: seconds that it waited for room in its shared memory.
        gone: whether it has disconnected.
        awaited: who has asked for requests that it hasn't submitted yet, by its numbers of the requests.
        unwanted: its numbers of requests that it hasn't submitted yet and that nobody wants: messages of different
            processes may overtake each other.
    """

    def __init__(
        self,
        channel: Channel,
        client: int,
        name: str,
        arena_bytes_limit: int = 1 << 40,
        pin: Pin | None = None,
    ) -> None:
        self.channel = channel
        self.client = client
        self.name = name
        self.pid = channel.peer_pid
        self.arena = ArenaReader(limit=arena_bytes_limit, pin=pin)
        self.completions = CompletionWriter()
        self.queue: deque[Request] = deque()
        self.submitted = 0
        self.waited = 0.0
        self.gone = False
        self.awaited: dict[int, Consumer] = {}
        self.unwanted: set[int] = set()

    def disconnect(self) -> None:
        """Forget what only a living worker needs. Requests that it has submitted stay."""
        self.gone = True
        self.arena.close()  # requests keep the mappings that they read
        self.completions.close()

    def __repr__(self) -> str:
        return f"{self.name} (pid {self.pid})"


class Consumer:
    """A process that fetches results.

    Attributes:
        channel: the connection.
        account: the memory that was lent to it.
        sessions: its iterators that have not ended.
    """

    def __init__(self, channel: Channel, account: Account) -> None:
        self.channel = channel
        self.account = account
        self.sessions: set[int] = set()
