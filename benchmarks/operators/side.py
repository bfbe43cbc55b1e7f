"""One of the two libraries: create the pipeline of a case, and time its batches."""

from __future__ import annotations

import importlib
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operators.cases import Case, PerSample, Type
from benchmarks.operators.data import BATCH, Array, layout_of, make

#: Modules of the libraries.
SIDES = {"dali-proxy": "pipeline", "nvidia-dali": "nvidia.dali"}
#: Batches in flight at once, on the GPU.
DEPTH = 2
#: Batches to trace.
_TRACED = 20


@dataclass(frozen=True)
class OutputSummary:
    """The first sample of an output: shape, dtype and mean."""

    shape: tuple[int, ...]
    dtype: str
    mean: float


@dataclass(frozen=True)
class Timing:
    """A number of batches and their duration.

    Attributes:
        batches: number of batches.
        seconds: wall time.
        cpu_seconds: CPU time of all threads of the process.
    """

    batches: int
    seconds: float
    cpu_seconds: float

    @property
    def milliseconds(self) -> float:
        """Wall time per batch."""
        return self.seconds / self.batches * 1e3

    @property
    def cpu_milliseconds(self) -> float:
        """CPU time per batch."""
        return self.cpu_seconds / self.batches * 1e3


class Side:
    """A library, with one pipeline at a time.

    Args:
        name: one of `SIDES`.
        folder: folder from `data.write_files`.
        threads: threads of the pipelines.
        on_gpu: whether operators run on GPU 0, with their data there.
        batch_size: samples of a batch, at most `data.BATCH`.
    """

    def __init__(self, name: str, folder: Path, threads: int, on_gpu: bool, batch_size: int = BATCH) -> None:
        self._library: Any = importlib.import_module(SIDES[name])
        self._folder, self._threads, self._on_gpu, self._batch_size = folder, threads, on_gpu, batch_size
        self._pipeline: Any = None

    def open(self, case: Case) -> list[OutputSummary]:
        """Create the pipeline of a case, and describe its first batch."""
        self.close()
        # On the CPU run one batch after the other, so that none runs while the other library is measured. On the GPU
        # batches must overlap, otherwise each of them waits for the device.
        one_by_one = {"prefetch_queue_depth": 1, "exec_async": False, "exec_pipelined": False}
        options: dict[str, Any] = {"prefetch_queue_depth": DEPTH} if self._on_gpu else one_by_one
        self._pipeline = self._library.Pipeline(
            batch_size=self._batch_size,
            num_threads=self._threads,
            device_id=0 if self._on_gpu else None,
            seed=1,
            **options,
        )
        with self._pipeline:
            feeds = self._describe(case)
        self._pipeline.build()
        for name, data in feeds.items():
            self._pipeline.feed_input(name, data)
        return [_describe(output) for output in self._pipeline.run()]

    def run(self) -> None:
        """Run a batch."""
        self._pipeline.run()

    def samples(self, count: int) -> list[Array]:
        """Run a batch; return the first samples of its first output."""
        output = self._pipeline.run()[0]
        return [np.array(output.at(number)) for number in range(count)]

    def _describe(self, case: Case) -> dict[str, Any]:
        """Describe the graph; return the inputs to feed once, which then repeat."""
        fn, feeds = self._library.fn, {}

        def source(data: str, on_gpu: bool) -> Any:
            name = f"in{len(feeds)}"
            batch = make(data, self._folder, self._batch_size)
            feeds[name] = _upload(batch) if on_gpu else batch
            device = "gpu" if on_gpu else "cpu"
            return fn.external_source(name=name, device=device, layout=layout_of(data), repeat_last=True, no_copy=True)

        function = fn
        for part in case.operator.split("."):
            function = getattr(function, part)
        mixed = case.operator.startswith("decoders.")
        inputs = [
            data if isinstance(data, int) else source(data, self._on_gpu and not mixed and position not in case.on_cpu)
            for position, data in enumerate(case.inputs)
        ]
        if case.operator == "external_source":
            outputs: Any = inputs
        else:
            arguments = {
                name: source(value.data, False) if isinstance(value, PerSample) else self._constant(value)
                for name, value in case.arguments.items()
            }
            if self._on_gpu:
                arguments["device"] = "mixed" if mixed else "gpu"
            outputs = function(*inputs, **arguments)
        self._pipeline.set_outputs(*(outputs if isinstance(outputs, list | tuple) else (outputs,)))
        return feeds

    def _constant(self, value: Any) -> Any:
        if isinstance(value, Type):
            return getattr(self._library.types, value.name)
        if isinstance(value, str):
            return value.format(folder=self._folder)
        if isinstance(value, list) and value and isinstance(value[0], str):
            return [self._constant(one) for one in value]
        return value

    def measure(self, seconds: float) -> Timing:
        """Take batches for a given time, at least one; wait for every batch that was issued."""
        if self._on_gpu:
            for _ in range(DEPTH + 1):  # batches prefetched before the measurement
                self._pipeline.run()
            self._synchronize()
        batches = 0
        begin, used = time.perf_counter(), time.process_time()
        while not batches or time.perf_counter() - begin < seconds:
            self._pipeline.run()
            batches += 1
        self._synchronize()
        return Timing(batches, time.perf_counter() - begin, time.process_time() - used)

    def trace(self) -> float:
        """Return the milliseconds that the GPU works for one batch. Tracing slows the host down from here on."""
        from benchmarks.gpu_time import gpu_milliseconds

        for _ in range(DEPTH + 1):
            self._pipeline.run()
        self._synchronize()
        return gpu_milliseconds(self._pipeline.run, _TRACED)

    def close(self) -> None:
        """Close the pipeline, if there is one."""
        if self._pipeline is not None:
            self._synchronize()
            with suppress(AttributeError):  # DALI's pipelines lack this method
                self._pipeline.close()
            self._pipeline = None

    def _synchronize(self) -> None:
        if self._on_gpu:
            import cupy

            cupy.cuda.Device(0).synchronize()


def _upload(batch: list[Array]) -> Any:
    """Return a batch on the GPU: one array if all shapes are equal."""
    import cupy

    if all(sample.shape == batch[0].shape for sample in batch):
        return cupy.asarray(np.stack(batch))
    return [cupy.asarray(sample) for sample in batch]


def _describe(output: Any) -> OutputSummary:
    sample = np.asarray((output.as_cpu() if hasattr(output, "as_cpu") else output).at(0))
    return OutputSummary(
        sample.shape, sample.dtype.name, float(sample.astype(np.float64).mean()) if sample.size else 0.0
    )
