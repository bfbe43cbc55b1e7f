"""Compare ways to copy a batch from a worker's shared memory to a GPU: ``python -m benchmarks.gpu.uploads``.

Batches of encoded and of decoded images lie in an arena as a worker has written them, consecutive or scattered.
The arena is registered with CUDA ("pinned": copied directly) or not ("staged": gathered in pinned memory first).
"""

from __future__ import annotations

import argparse
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._cuda.pinned import PinnedMemory
from dali_proxy.pipeline._ipc.arena_reader import ArenaReader
from dali_proxy.pipeline._ipc.memory import SharedBlock
from dali_proxy.pipeline._operator_api.upload import upload
from pipeline.tensors.cpu import TensorListCPU

SEGMENT = 1 << 30
IN_FLIGHT = 2


@dataclass
class Uploading:
    """The attributes of a batch that `upload` needs."""

    stream: Any
    pool: ThreadPool
    keep_alive: list[Any] = field(default_factory=list)


def tables(kind: str, scattered: bool, batch_size: int) -> list[np.ndarray]:
    """Return the sample tables of as many batches as the segment has room for, in the format of `ArenaReader.batch`."""
    rng = np.random.default_rng(0)
    count = batch_size * 4
    if kind == "encoded":
        shapes = rng.integers(30_000, 90_000, (count, 1))
    else:
        shapes = np.stack([rng.integers(300, 481, count), rng.integers(400, 641, count), np.full(count, 3)], axis=1)
    room = -(-np.prod(shapes, axis=1) // 64) * 64
    rows = np.column_stack((np.zeros(count, np.int64), np.cumsum(room) - room, shapes))
    rows = rows[np.cumsum(room) <= SEGMENT]
    if scattered:
        rng.shuffle(rows)
    return [np.ascontiguousarray(rows[begin : begin + batch_size]) for begin in range(0, len(rows), batch_size)][:-1]


def pin_now(memory: np.ndarray, on_pinned: Callable[[np.ndarray], None]) -> None:
    """Register memory with CUDA, as the host's `Pinner` does on its thread."""
    on_pinned(np.asarray(PinnedMemory(memory, 0)))


def rate(batches: Callable[[], Iterator[TensorListCPU]], threads: int, seconds: float) -> tuple[float, ...]:
    """Upload batch after batch; return batches per second, GB/s, and ms per batch of this thread and of all threads."""
    import cupy

    stream, flying = cupy.cuda.Stream(non_blocking=True), deque[tuple[Any, Uploading, Any]]()
    count = nbytes = 0
    used = used_here = begin = 0.0
    with ThreadPool(threads, "uploads") as pool, stream:
        for data in batches():
            if count == 8:  # buffers exist
                stream.synchronize()
                begin, used, used_here, nbytes = time.perf_counter(), time.process_time(), time.thread_time(), 0
            uploading = Uploading(stream, pool)
            made = upload(uploading, data)  # type: ignore[arg-type]
            event = cupy.cuda.Event(block=True, disable_timing=True)
            event.record(stream)
            flying.append((event, uploading, made))
            if len(flying) > IN_FLIGHT:
                flying.popleft()[0].synchronize()
            count, nbytes = count + 1, nbytes + data.nbytes
            if count > 8 and time.perf_counter() - begin > seconds:
                break
        stream.synchronize()
        wall = time.perf_counter() - begin
    batches_timed = count - 8
    return (
        batches_timed / wall,
        nbytes / wall / 1e9,
        (time.thread_time() - used_here) / batches_timed * 1e3,
        (time.process_time() - used) / batches_timed * 1e3,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    print(f"{'':36}{'images/s':>12}{'GB/s':>8}{'ms of its thread':>18}{'ms of all threads':>19}")
    with SharedBlock.create(SEGMENT) as block:
        block.array[:] = 1
        for pinned in (True, False):
            reader = ArenaReader(pin=pin_now if pinned else None)
            begin = time.perf_counter()
            reader.attach(0, os.dup(block.fd), SEGMENT)
            if pinned:
                print(f"registering {SEGMENT >> 20} MiB took {(time.perf_counter() - begin) * 1e3:.0f} ms")
            for kind in ("encoded", "decoded"):
                for scattered in (False, True):
                    rows = tables(kind, scattered, options.batch_size)

                    def batches(rows: list[np.ndarray] = rows, reader: ArenaReader = reader) -> Iterator[TensorListCPU]:
                        while True:
                            yield from (reader.batch(table, np.uint8) for table in rows)

                    each, gigabytes, here, everywhere = rate(batches, options.threads, options.seconds)
                    name = f"{kind}, {'pinned' if pinned else 'staged'}{', scattered' if scattered else ''}"
                    print(f"{name:36}{each * options.batch_size:12,.0f}{gigabytes:8.1f}{here:18.2f}{everywhere:19.2f}")
            reader.close()


if __name__ == "__main__":
    main()
