"""`LoaderEvaluator`: the times of a loader's batches, and the same loop with cached batches for comparison."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any


class LoaderEvaluator:
    """A wrapper of a loader that measures how long each batch takes.

    Args:
        dataloader: a `DataLoader`, or any iterable with a length.
        mode: "log" measures the batches of the loader. "replay" reads `num_cached_batches` batches when it is created,
            and then returns these again and again: the speed that an ideal loader would have.
        num_cached_batches: number of batches for "replay".
        metrics_file: default file for `save_metrics`.

    Example:
        >>> evaluator = LoaderEvaluator([1, 2, 3])
        >>> list(evaluator), evaluator.get_metrics()["total_batches"]
        ([1, 2, 3], 3)
    """

    def __init__(
        self, dataloader: Any, mode: str = "log", num_cached_batches: int = 20, metrics_file: str | None = None
    ) -> None:
        self.dataloader = dataloader
        self.mode = mode
        self.num_cached_batches = num_cached_batches
        self.metrics_file = metrics_file
        self.cached_batches: list[Any] = []
        self.batch_times: list[float] = []
        self.start_time = self.end_time = 0.0
        if mode == "replay":
            self.cached_batches = list(islice(dataloader, num_cached_batches))

    @property
    def cache_ready(self) -> bool:
        """Whether batches are cached."""
        return bool(self.cached_batches)

    def __len__(self) -> int:
        return len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        return self._measured(self._replayed() if self.cached_batches else self.dataloader)

    def _replayed(self) -> Iterator[Any]:
        for number in range(len(self)):
            yield self.cached_batches[number % len(self.cached_batches)]

    def _measured(self, batches: Iterable[Any]) -> Iterator[Any]:
        self.batch_times = []
        self.start_time = last = time.perf_counter()
        for batch in batches:
            self.batch_times.append(time.perf_counter() - last)
            yield batch
            last = time.perf_counter()
        self.end_time = time.perf_counter()

    def get_metrics(self) -> dict[str, Any]:
        """Return the measured times in seconds, of the last pass over the loader; empty before the first one."""
        times = self.batch_times
        if not times:
            return {}
        return {
            "mode": self.mode,
            "total_batches": len(times),
            "total_time": max(0.0, self.end_time - self.start_time),
            "avg_batch_time": sum(times) / len(times),
            "min_batch_time": min(times),
            "max_batch_time": max(times),
            "batch_times": list(times),
            "cached_batches": len(self.cached_batches),
            "cache_ready": self.cache_ready,
        }

    def print_summary(self) -> None:
        """Print the measured times, without those of single batches."""
        print("Loader Evaluator Summary:")  # noqa: T201 - its purpose
        for name, value in {"mode": self.mode, **self.get_metrics()}.items():
            if name != "batch_times":
                print(f"  {name}: {value}")  # noqa: T201

    def save_metrics(self, filename: str | None = None) -> None:
        """Write the measured times to a JSON file.

        Args:
            filename: the file; by default the `metrics_file` of the constructor. Without either, nothing is written.
        """
        path = filename or self.metrics_file
        if path:
            Path(path).write_text(json.dumps(self.get_metrics(), indent=2), encoding="utf-8")
