"""What a miss costs: batches of samples that no cache has, in turn without a cache and with one."""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np

from benchmarks.cache.epochs import make_pipeline
from benchmarks.cache.files import Bytes, draw_files
from dali_proxy import Pipeline

_CACHE = 2 << 30
_WARM = 5  # pairs that aren't measured: they allocate the buffers


def measure_misses(kind: str, name: str, count: int, pairs: int, batch: int = 32) -> dict[str, Any]:
    """Return the processor time of an image, in microseconds, and the ratio with a cache to without one.

    The ratio is the median over pairs of neighbouring batches, because a machine's load changes. All pages of the
    cache are allocated before: the system zeroes each of them once, not for each miss.

    Args:
        kind: kind of the files; see `KINDS`.
        name: the pipeline; see `PIPELINES`, except "files".
        count: number of files, of which copies that differ behind their end are made.
        pairs: number of pairs of batches.
        batch: number of samples of a batch.
    """
    files = draw_files(kind, count)
    plain, cached = make_pipeline(name, 0), make_pipeline(name, _CACHE)
    held = cached._internals.cache
    assert held is not None
    done = -1
    while held.pages.done > done:  # also if the system can't allocate pages ahead
        done = held.pages.done
        held.pages.use(done, _CACHE)
        held.pages.wait()
    times = []
    for pair in range(_WARM + pairs):
        samples = [_changed(files[number % count], pair * batch + number) for number in range(batch)]
        order = (plain, cached) if pair % 2 else (cached, plain)
        cost = {pipe: _cost(pipe, samples) for pipe in order}
        times.append((cost[plain], cost[cached]))
    report = held.report()
    plain.close()
    cached.close()
    return {
        "kind": kind,
        "pipeline": name,
        "misses": report["cache_misses"],
        "values": report["cache_values"],
        "microseconds": [round(statistics.median(column)) for column in zip(*times[_WARM:], strict=True)],
        "cost of a miss": round(statistics.median(other / one for one, other in times[_WARM:]) - 1, 4),
    }


def _changed(file: Bytes, number: int) -> Bytes:
    """Return a file with other bytes behind its end, which decoders ignore."""
    return np.concatenate([file, np.frombuffer(number.to_bytes(8, "little"), np.uint8)])


def _cost(pipe: Pipeline, samples: list[Bytes]) -> float:
    begin = time.process_time()
    pipe.run(encoded=samples)
    return (time.process_time() - begin) / len(samples) * 1e6
