"""The description of a host on its way to the process that runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import accumulate

from dali_proxy._host.control import Failed, Ready, Start, StartFailed
from dali_proxy._host.forks import prepare_for_forks
from dali_proxy._host.host import Host
from dali_proxy._host.options import Alternative, HostOptions
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._definition.serializing import deserialize_for_host
from dali_proxy.pipeline._ipc.channel import Channel, Received
from dali_proxy.pipeline._ipc.errors import ChannelTimeoutError, IPCError
from dali_proxy.pipeline._ipc.interpreter import import_path, working_directory
from dali_proxy.pipeline._ipc.memory import SharedBlock


@contextmanager
def shared_bytes(data: bytes) -> Iterator[SharedBlock]:
    """Yield shared memory that contains bytes, for a message with its descriptor."""
    block = SharedBlock.create(max(len(data), 1))
    try:
        block.array[: len(data)] = memoryview(data)
        yield block
    finally:
        block.close()


def read_bytes(fd: int, nbytes: int) -> bytes:
    """Return the bytes in the shared memory of a descriptor, which this function owns."""
    block = SharedBlock.attach(fd, nbytes or 1)
    data: bytes = block.array[:nbytes].tobytes()
    block.close()
    return data


@contextmanager
def start_message(pipeline: bytes, options: HostOptions) -> Iterator[tuple[Start, tuple[int, ...]]]:
    """Yield the message that starts a host, and its descriptors.

    Args:
        pipeline: the pipeline, from `serialize_for_host`.
        options: settings.
    """
    parts = [pipeline, options.device_stage]
    for each in options.alternatives:
        parts += [each.pipeline, each.device_stage]
    message = Start(
        nbytes=tuple(map(len, parts)),
        directory=working_directory(),
        sys_path=import_path(),
        path=options.path,
        key=options.key,
        server=options.server,
        unclaimed_bytes=options.unclaimed_bytes,
        arena_bytes_limit=options.arena_bytes_limit,
        host_stage_only=(options.host_stage_only, *(each.host_stage_only for each in options.alternatives)),
        device_id=options.device_id,
        shares=options.shares,
    )
    with shared_bytes(b"".join(parts)) as block:
        yield message, (block.fd,)


def start_host(control: Channel, pipeline: bytes, options: HostOptions, timeout: float) -> Ready:
    """Start a host in the process at the other end of a channel, and wait until it is ready.

    Args:
        control: the channel.
        pipeline: see `start_message`.
        options: see `start_message`.
        timeout: seconds that sending and starting may take.

    Raises:
        ChannelClosedError: the process has ended.
        ProxyError: it doesn't answer in time, or not as a host does. It also raises what the start raises there.
    """
    with in_time(control.peer_pid, timeout), start_message(pipeline, options) as (message, fds):
        control.send(message, fds, timeout=timeout)
        prepare_for_forks()
        answer = control.receive(timeout).message
    return check_ready(answer)


@contextmanager
def in_time(pid: int, timeout: float) -> Iterator[None]:
    """Let a start that takes too long raise an error that says so.

    Args:
        pid: ID of the process that starts.
        timeout: seconds that the start may take.
    """
    try:
        yield
    except ChannelTimeoutError as error:
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        busy = load > 2 * cores
        remedy = (
            "end other programs, or start it again later"
            if busy
            else f"`py-spy dump --pid {pid}` shows what it does during a start; a file system or a driver may hang"
        )
        raise ProxyError(
            f"the server didn't start within {timeout:.0f} s: its process (pid {pid}) runs, but doesn't answer. The "
            f"machine is {'overloaded' if busy else 'not overloaded'} (load {load:.0f} on {cores} cores): {remedy}"
        ) from error


def check_ready(answer: object) -> Ready:
    """Return the answer of a process that has started; raise the error of one that couldn't."""
    if isinstance(answer, StartFailed):
        raise answer.rebuild() from ProxyError(f"in the server's process\n\n{answer.text}")
    if not isinstance(answer, Ready):
        raise ProxyError(f"the server's process answered {type(answer).__name__}")
    return answer


def reason_of_end(control: Channel) -> str:
    """Return the reason that the process at the other end of a channel has sent for its end, if any."""
    reason = ""
    with suppress(IPCError):
        for received in control.receive_ready(rest=True):
            if isinstance(received.message, Failed):
                reason = received.message.reason
    return reason


def read_start(received: Received) -> tuple[bytes, HostOptions]:
    """Return the arguments of `start_message`, which another process has sent."""
    start = received.message
    ends = list(accumulate(start.nbytes))
    data = read_bytes(received.fds[0], ends[-1])
    parts = [data[begin:end] for begin, end in zip((0, *ends), ends, strict=False)]
    first, *others = map(Alternative, parts[::2], start.host_stage_only, parts[1::2])
    return first.pipeline, HostOptions(
        path=start.path,
        key=start.key,
        server=start.server,
        unclaimed_bytes=start.unclaimed_bytes,
        arena_bytes_limit=start.arena_bytes_limit,
        host_stage_only=first.host_stage_only,
        device_stage=first.device_stage,
        alternatives=tuple(others),
        device_id=start.device_id,
        shares=start.shares,
    )


def make_host(
    pipeline: bytes, options: HostOptions, on_lost_gpu: Callable[[str], None], caches: list[ValueCache] | None = None
) -> Host:
    """Return a host. Nothing of the pipeline is left if that fails.

    Args:
        pipeline: see `start_message`.
        options: see `start_message`.
        on_lost_gpu: see `Host`.
        caches: the cache of this process, which all its hosts use; empty before the first host that has one.
    """
    built = deserialize_for_host(pipeline)
    if caches is not None:
        cache = None if caches else ValueCache.from_argument(built._internals.arguments.cache)
        caches += [] if cache is None else [cache]
        built._internals.cache = next(iter(caches), None)
    try:
        return Host(built, options, on_lost_gpu=on_lost_gpu)
    except BaseException:
        built._internals.close()
        raise
