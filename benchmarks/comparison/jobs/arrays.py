"""Small arrays that need no work: the cost of the loader itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.comparison.job import DRAWN, Arrays, Job


class SmallArrays(Job):
    """A row of a table, 64 numbers, and its label. The rows are in memory."""

    name = "arrays"
    title = "rows of 64 numbers, in memory"
    batch_size = 256
    bounds = (0.0, 0.0)
    units = (1.0, 1.0)

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.rows = rng.normal(size=(DRAWN, 64)).astype(np.float32)
        self.labels = rng.integers(0, 1000, DRAWN)

    def stored(self, index: int) -> Arrays:
        return self.rows[index % DRAWN], self.labels[index % DRAWN]

    def transform(self, *inputs: np.ndarray) -> Arrays:
        return inputs

    def graph(self, library: Any, *inputs: Any) -> Any:
        return inputs

    def reference(self, *inputs: np.ndarray) -> Arrays:
        return inputs
