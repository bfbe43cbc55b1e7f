"""Processor time of epochs whose samples come from the folder of a cache."""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import Any

from benchmarks.cache.epochs import epoch_cost, make_pipeline
from benchmarks.cache.files import draw_files

_TIMES = ("without", "writing", "reading", "second")
_PATIENCE = 0.02  # seconds between files while they are written: what a disk can't take in time isn't stored


def measure_disk(kind: str, name: str, count: int, rounds: int) -> dict[str, Any]:
    """Return microseconds of processor time for an image, and of elapsed time for those that are read.

    "writing" is a first epoch with an empty folder, with the thread that writes. "reading" is the first epoch of a new
    pipeline with this folder, and "second" the one after it. The system has the files in memory.

    Args:
        kind: kind of the files; see `KINDS`.
        name: the pipeline; see `PIPELINES`.
        count: number of files.
        rounds: number of rounds. In each, all contestants take turns.
    """
    files, others = draw_files(kind, count), draw_files(kind, 1)
    plain = make_pipeline(name, 0)
    epoch_cost(plain, files)
    times: dict[str, list[float]] = {key: [] for key in (*_TIMES, "reading, elapsed", "loaded")}
    for _ in range(rounds):
        times["without"].append(epoch_cost(plain, files))
        with tempfile.TemporaryDirectory(dir=".") as folder:
            cache = {"memory": "4GB", "folder": f"{folder}/cache", "disk": "8GB"}
            writing = make_pipeline(name, cache)
            epoch_cost(writing, others)
            begin = time.process_time()
            for number in range(count):  # one at a time, as slowly as a training
                writing.run(encoded=[files[number]])
                time.sleep(_PATIENCE)
            writing.close()
            times["writing"].append((time.process_time() - begin) / count * 1e6)
            reading = make_pipeline(name, cache)
            epoch_cost(reading, others)
            started = time.perf_counter()
            times["reading"].append(epoch_cost(reading, files))
            times["reading, elapsed"].append((time.perf_counter() - started) / count * 1e6)
            cache_of = reading._internals.cache
            assert cache_of is not None
            times["loaded"].append(cache_of.report()["cache_loaded"])
            times["second"].append(epoch_cost(reading, files))
            reading.close()
    plain.close()
    figures = {key: round(statistics.median(each)) for key, each in times.items()}
    return {"kind": kind, "pipeline": name, "files": count, **figures}
