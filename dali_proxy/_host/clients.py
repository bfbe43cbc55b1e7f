"""The processes that are connected to the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dali_proxy._common.latency import Latency
from dali_proxy._transport.protocol import ReadBatch
from dali_proxy._transport.publisher import Account
from dali_proxy.pipeline._ipc.arena_reader import ArenaReader, Pin
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.channel_server import ChannelServer
from dali_proxy.pipeline._ipc.completion import CompletionWriter
from dali_proxy.pipeline._ipc.errors import ProtocolError

_MOST = 1 << 16  # limit for each kind of object that the host stores for a client


def check_count(count: int, what: str) -> None:
    """Raise if the host stores too many objects for a client.

    Args:
        count: number of objects.
        what: their name, for the message.

    Raises:
        ProtocolError: there are more than 65536.
    """
    if count > _MOST:
        raise ProtocolError(f"more than {_MOST} {what}")


class Worker:
    """A process that submits batches.

    Args:
        channel: the connection.
        client: client number.
        name: name in messages.
        arena_bytes_limit: maximum size of its shared memory, in bytes.
        pin: registers that memory with CUDA; see `ArenaReader`.

    Attributes:
        channel: the connection.
        client: client number; never used again while this server runs.
        name: name in messages, such as "worker 0".
        pid: process ID.
        arena: its shared memory.
        completions: counter that shows the worker which of its requests have been read.
        submitted: number of requests that it has submitted.
        waited: seconds that it waited for free space in its shared memory.
        gone: whether it has disconnected.
        awaited: consumers that asked for requests before the worker submitted them, by request number. Messages of
            different processes may overtake each other.
        released: numbers of requests that a consumer released before the worker submitted them.
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
        self.submitted = 0
        self.waited = 0.0
        self.gone = False
        self.awaited: dict[int, Consumer] = {}
        self.released: set[int] = set()

    def disconnect(self) -> None:
        """Free the resources of the connection. Requests that were submitted stay."""
        self.gone = True
        self.arena.close()  # requests keep the mappings that they use
        self.completions.close()

    def __repr__(self) -> str:
        return f"{self.name} (pid {self.pid})"


class Monitor:
    """A process that reads reports.

    Args:
        channel: the connection.
        server: the channel's server.
    """

    def __init__(self, channel: Channel, server: ChannelServer) -> None:
        self.channel = channel
        #: Sends a message, and descriptors; see `ChannelServer.post`.
        self.send: Callable[..., None] = partial(server.post, channel)


class Consumer(Monitor):
    """A process that fetches results.

    Args:
        channel: the connection.
        account: account of the memory that is lent to it.
        server: the channel's server.

    Attributes:
        pid: process ID.
        account: account of the memory that is lent to it.
        sessions: its iterators that have not ended, and for each the number of the last batch to send without being
            asked.
        latency: durations of the stages "queue" and "pipeline" of its batches.
    """

    def __init__(self, channel: Channel, account: Account, server: ChannelServer) -> None:
        super().__init__(channel, server)
        self.pid = channel.peer_pid
        self.account = account
        self.sessions: dict[int, int] = {}
        self.latency = {"queue": Latency(), "pipeline": Latency()}


@dataclass(eq=False)
class ReadTask:
    """A batch that a consumer wants to be read.

    Attributes:
        consumer: the consumer; None if it doesn't need the batch any more.
        message: the consumer's message.
        fd: its descriptor.
        deaths: number of workers that died while they read it.
    """

    consumer: Consumer | None
    message: ReadBatch
    fd: int
    deaths: int = 0

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)


class DatasetWorker(Monitor):
    """A process that reads batches for consumers. It submits them through another connection, as a `Worker`.

    Args:
        channel: the connection.
        server: the channel's server.

    Attributes:
        pid: process ID.
        tasks: the batches that it reads or has queued, by the host's number.
    """

    def __init__(self, channel: Channel, server: ChannelServer) -> None:
        super().__init__(channel, server)
        self.pid = channel.peer_pid
        self.tasks: dict[int, ReadTask] = {}


class Pool(Monitor):
    """The process that starts the dataset workers. It sends nothing: its connection shows that it lives.

    It receives the number of workers to run if that changes.
    """
