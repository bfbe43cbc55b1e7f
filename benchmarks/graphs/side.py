"""One of the two libraries: build the pipeline of a graph, and describe and yield its batches."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.graphs.data import Array
from benchmarks.graphs.graphs import GRAPHS, Library
from benchmarks.operators.side import SIDES

#: Batches that are prefetched.
DEPTH = 2
#: Samples whose statistics must agree.
CHECKED = 64


@dataclass(frozen=True)
class Setup:
    """The setup of all pipelines and measurements.

    Attributes:
        files: paths of the JPEGs.
        threads: threads of each pipeline.
        device_id: the GPU, or None for the CPU.
        rounds: measurements of each library.
        seconds: duration of a measurement.
        with_dali: whether NVIDIA DALI takes part.
    """

    files: list[str]
    threads: int
    device_id: int | None
    rounds: int
    seconds: float
    with_dali: bool


#: Up to so many values of an output, its statistics vary too much: then more samples are checked, by this factor.
_FEW_VALUES, _MORE = 5000, 16


@dataclass(frozen=True)
class Summary:
    """An output over several batches: dtype, the shape if it is the same for all samples, and statistics."""

    dtype: str
    shape: tuple[int, ...] | None
    mean: float
    deviation: float

    def agrees(self, other: Summary) -> bool:
        """Return whether both may come from the same graph with different random numbers."""
        spread = max(self.deviation, other.deviation)
        return (
            (self.dtype, self.shape) == (other.dtype, other.shape)
            and abs(self.mean - other.mean) <= 0.3 * spread + 1e-3
            and abs(self.deviation - other.deviation) <= 0.3 * spread + 1e-3
        )


class Side:
    """The pipeline of one graph in one library.

    Args:
        name: one of `SIDES`.
        graph: name of the graph.
        batch_size: samples per batch.
        setup: the rest of the setup.
    """

    def __init__(self, name: str, graph: str, batch_size: int, setup: Setup) -> None:
        module = importlib.import_module(SIDES[name])
        auto_aug = importlib.import_module(f"{SIDES[name]}.auto_aug")
        for policy in ("auto_augment", "rand_augment", "trivial_augment"):
            importlib.import_module(f"{auto_aug.__name__}.{policy}")
        self.batch_size = batch_size
        library = Library(module.fn, module.types, auto_aug, setup.device_id is not None, batch_size, setup.files)

        def definition() -> Any:
            return GRAPHS[graph].describe(library)

        self._pipeline = module.pipeline_def(enable_conditionals=GRAPHS[graph].conditional)(definition)(
            batch_size=batch_size, num_threads=setup.threads, device_id=setup.device_id, seed=1,
            prefetch_queue_depth=DEPTH,
        )  # fmt: skip
        self._pipeline.build()

    def describe(self) -> list[Summary]:
        """Run batches, and describe each output. Outputs of single numbers need more samples than images."""
        batches: list[list[list[Array]]] = []
        values = 0
        while len(batches) * self.batch_size < CHECKED * (1 if values > _FEW_VALUES else _MORE):
            batches.append([_on_cpu(output) for output in self._pipeline.run()])
            values += min(sum(sample.size for sample in samples) for samples in batches[-1])
        return [
            _summarize([sample for samples in outputs for sample in samples]) for outputs in zip(*batches, strict=True)
        ]

    def stream(self) -> Iterator[tuple[range, Any]]:
        """Yield batches without end, each with the numbers of its samples."""
        samples = range(self.batch_size)
        while True:
            yield samples, self._pipeline.run()

    def close(self) -> None:
        """Close the pipeline."""
        with suppress(AttributeError):  # DALI's pipelines lack this method
            self._pipeline.close()
        del self._pipeline
        gc.collect()


def _on_cpu(output: Any) -> list[Array]:
    output = output.as_cpu() if hasattr(output, "as_cpu") else output
    return [np.array(output.at(number)) for number in range(len(output))]


def _summarize(samples: list[Array]) -> Summary:
    shapes = {sample.shape for sample in samples}
    values = np.concatenate([sample.ravel()[::7] if sample.size > 1000 else sample.ravel() for sample in samples])
    values = values.astype(np.float64)
    return Summary(
        samples[0].dtype.name, shapes.pop() if len(shapes) == 1 else None, float(values.mean()), float(values.std())
    )
