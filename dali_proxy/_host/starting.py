"""The description of a host on its way to the process that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

from dali_proxy._host.control import Start
from dali_proxy._host.host import Host
from dali_proxy._host.options import Alternative, HostOptions
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._definition.serializing import deserialize_for_host
from dali_proxy.pipeline._ipc.channel import Received
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
