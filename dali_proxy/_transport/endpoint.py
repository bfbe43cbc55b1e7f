"""A server's address, and connections to it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from dali_proxy._transport.protocol import CODEC, VERSION, Goodbye, Hello, Welcome, check_versions
from dali_proxy.errors import ProxyError, ServerClosedError, ServerDiedError
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._ipc.channel import Channel, Received
from dali_proxy.pipeline._ipc.connecting import connect
from dali_proxy.pipeline._ipc.errors import ChannelClosedError, ChannelRefusedError, ChannelTimeoutError, ProtocolError
from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline.errors import GraphError
from dali_proxy.pipeline.types import to_numpy_type

if TYPE_CHECKING:
    from dali_proxy.pipeline import Pipeline

#: Key of the socket for monitors. It isn't a secret: the socket's folder and the kernel's report of the peer's user
#: protect it, and it gives reports only.
MONITOR_KEY = b"monitor"


class OtherReleaseError(ProxyError):
    """The server speaks another version of the protocol."""


@dataclass(frozen=True)
class InputSpec:
    """An input of a pipeline, as its `external_source` declares it.

    Attributes:
        name: name of the input.
        dtype: NumPy name of the dtype that it must have; None for any.
        ndim: number of dimensions that a sample must have; None for any.
        is_path: whether a sample is the path of a file that the pipeline reads.
    """

    name: str
    dtype: str | None = None
    ndim: int | None = None
    is_path: bool = False

    def __str__(self) -> str:
        """Return the name, and what is declared."""
        dimensions = None if self.ndim is None else f"{self.ndim} dimensions"
        declared = [each for each in (self.dtype, dimensions, "a path" * self.is_path) if each]
        return f"{self.name} ({', '.join(declared)})" if declared else self.name


@dataclass(frozen=True)
class Endpoint:
    """A server's address, and what clients need to know about its pipeline.

    Attributes:
        path: path of the server's socket.
        key: secret that authenticates clients.
        inputs: the pipeline's inputs.
        outputs: number of the pipeline's outputs.
        max_batch_size: maximum number of samples in a batch.
        arena_bytes: initial shared memory for samples of each worker.
        arena_bytes_limit: maximum of that memory.
        timeout: seconds to wait for a server that runs but doesn't answer; None for no limit.
        unused: declared inputs that no output depends on.
        sender_rank: rank of the process that this one got the endpoint from; see `rank`.
        is_remote: whether the servers run in a cluster, so that only datasets there can connect to them.
        processes: number of processes that share the server's batches; see `process_of`. Each has a socket.
        ranks: number of ranks that the processes are divided among.
        structure: structure of what the proxy returns, see `pipeline._dynamic.structure`; None for a tuple of the
            outputs, or the only output.
    """

    path: str
    key: bytes = field(repr=False)
    inputs: tuple[InputSpec, ...]
    outputs: int
    max_batch_size: int
    arena_bytes: int = 64 << 20
    arena_bytes_limit: int = 4 << 30
    timeout: float | None = None
    unused: tuple[str, ...] = ()
    sender_rank: int = 0
    is_remote: bool = False
    processes: int = 1
    ranks: int = 1
    structure: Any = field(default=None, compare=False)

    @property
    def rank(self) -> int:
        """Rank of this process now, so that ranks draw different random numbers. Workers have that of their parent."""
        here = current_ranks()
        return here.rank if here.source else self.sender_rank

    def process_of(self, rank: int, batch: int) -> int:
        """Return the number of the process that runs a batch of a rank.

        Clients with the same rank, as in a tensor-parallel group, have the same process for the same batch, so that it
        is computed once. If there are as many ranks as processes, each rank has its own process. The batches of a rank
        that has several go to them in turn.
        """
        return (rank + self.ranks * batch) % self.processes

    def of_process(self, number: int) -> Endpoint:
        """Return the address of one of the processes."""
        return replace(self, path=path_of_process(self.path, number))

    @property
    def of_processes(self) -> list[Endpoint]:
        """The addresses of all processes."""
        return [self.of_process(number) for number in range(self.processes)]

    def __reduce__(self) -> tuple[Any, ...]:
        sent = replace(self, sender_rank=0 if _pickling.anonymous else self.rank)
        return Endpoint, tuple(getattr(sent, name) for name in _NAMES)


_NAMES = tuple(each.name for each in fields(Endpoint))


class _Pickling(threading.local):
    anonymous = False


_pickling = _Pickling()


@contextmanager
def without_rank() -> Iterator[None]:
    """Leave the rank out of endpoints that this thread pickles in the block, so that the pickles of ranks are equal."""
    _pickling.anonymous = True
    try:
        yield
    finally:
        _pickling.anonymous = False


_served_here: dict[str, Endpoint] = {}  # servers of clusters that run in this process, by the path of their handle


def serve_here(remote: Endpoint, local: Endpoint) -> None:
    """Connect the proxies of a server in a cluster to a server in this process."""
    _served_here[remote.path] = local


def input_specs(pipeline: Pipeline) -> tuple[InputSpec, ...]:
    """Return the inputs that a proxy is called with.

    Raises:
        GraphError: the pipeline has no input, or an input that a proxy can't feed.
    """
    specs = []
    graph = pipeline._internals.graph
    paths = {node.inputs[0].node for node in graph.find(Role.FILE_READ)}
    for name, node in graph.fed_inputs.items():
        if node.schema.role is not Role.EXTERNAL_SOURCE:
            raise GraphError(
                f"{node.display} makes several batches from one input, so a proxy can't feed it: use "
                "fn.decoders.video of an fn.external_source"
            )
        dtype = node.argument("dtype")
        dtype_name = None if dtype is None else to_numpy_type(dtype).name
        specs.append(InputSpec(name, dtype_name, node.argument("ndim"), node.index in paths))
    if not specs:
        raise GraphError(
            "the pipeline has no input, so the proxy can't be called: use fn.external_source(name=...) without a source"
        )
    return tuple(specs)


def open_channel(endpoint: Endpoint, role: str, name: str) -> tuple[Channel, Received]:
    """Connect to a server. Return the channel and the received `Welcome` with its descriptors.

    Args:
        endpoint: the server's address.
        role: role in `Hello`.
        name: name of this process in messages.

    Raises:
        ServerClosedError: no server is running there.
        ProxyError: the server doesn't answer, runs in a cluster, or belongs to another release of dali-proxy.
    """
    endpoint = _served_here.get(endpoint.path, endpoint)
    if endpoint.is_remote:
        raise ProxyError(
            "the servers run in a cluster: their proxy works only in a dataset that dali_proxy.DataLoader reads there"
        )
    with server_errors():
        try:
            channel = connect(endpoint.path, endpoint.key, CODEC)
        except ChannelRefusedError as error:
            raise ServerClosedError(f"the server refused the connection: {error}") from None
        except ChannelClosedError as error:
            raise ServerClosedError(
                f"the server is not running: use it inside `with DALIServer(...)`, or call start() ({error})"
            ) from None
    return channel, _greet(channel, role, name)


def _greet(channel: Channel, role: str, name: str) -> Received:
    """Send `Hello`, and return the received `Welcome`. Close the channel if the server refuses this process."""
    try:
        with server_errors():
            channel.send(Hello(role=role, pid=os.getpid(), name=name), timeout=10)
            received = channel.receive(timeout=10)
        welcome = received.message
        if not isinstance(welcome, Welcome):
            received.close_fds()
            if isinstance(welcome, Goodbye):
                raise ServerClosedError(f"the server is closed: {welcome.reason}")
            raise ProxyError(f"the server answered {type(welcome).__name__} to a greeting")
        try:
            check_versions(server=welcome.version, client=VERSION, name="this process")
        except ProtocolError as error:
            received.close_fds()
            raise OtherReleaseError(str(error)) from None
    except BaseException:
        channel.close()
        raise
    return received


def path_of_process(path: str, number: int) -> str:
    """Return the path of the socket of a server's process: the first one has that of the server."""
    return os.path.join(os.path.dirname(path), str(number), os.path.basename(path)) if number else path


def monitor_path(path: str) -> str:
    """Return the path of the socket for monitors of the server that listens at `path`."""
    return os.path.join(os.path.dirname(path), "monitor")


def open_monitor(path: str) -> Channel:
    """Connect to a server for reading reports.

    Args:
        path: path of the server's socket, as in `Endpoint`.

    Raises:
        ServerClosedError: no server is running there.
        ProxyError: the server doesn't answer, or belongs to another release of dali-proxy.
    """
    with server_errors():
        try:
            channel = connect(monitor_path(path), MONITOR_KEY, CODEC, timeout=5.0)
        except ChannelClosedError as error:
            raise ServerClosedError(f"the server is not running ({error})") from None
    _greet(channel, "monitor", "monitor")
    return channel


class server_errors:  # named like a function; `contextmanager` would cost a microsecond per sample
    """Turn errors of a channel into errors of its server."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ChannelClosedError):
            raise ServerDiedError(f"the server is gone: {error}") from error
        if isinstance(error, ChannelTimeoutError):
            raise ProxyError(f"the server is alive but doesn't answer: {error}") from error
