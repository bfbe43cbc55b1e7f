"""Measure the time that the host takes for a batch on a GPU: ``python -m benchmarks.host_time --help``.

This needs no GPU: kernels and copies do nothing, and images have addresses but no memory. So only the host's work is
left: operators on the CPU, what decoders prepare, tables and the calls of the driver. Each batch has images of other
sizes, as photographs have. One batch runs at a time, so no thread waits for the GIL.
"""

from __future__ import annotations

import argparse
import cProfile
import ctypes
import math
import pstats
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any
from unittest import mock

import cv2
import numpy as np

import pipeline
from benchmarks.graphs.graphs import GRAPHS, Library
from dali_proxy.pipeline._codecs import DecodedBatch, EncodedBatch
from dali_proxy.pipeline._cuda import compiler
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._executor.statistics import PhaseCosts
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operators.decoding import image
from pipeline import Pipeline, auto_aug
from tests import host_cupy

#: Different images. Those of a batch follow one another in a list that is much longer.
FILES = 251
#: Batches before the measurement.
WARM_UP = 80
#: Batches whose processor time is measured together.
TOGETHER = 50
#: Smallest and largest extents of the images.
EXTENTS = (300, 640)
STAGES = ("cpu", "mixed", "gpu")

DRIVER = """
int cuStreamGetCtx(void *stream, void **context) { *context = 0; return 0; }
int cuCtxPushCurrent_v2(void *context) { return 0; }
int cuCtxPopCurrent_v2(void **context) { return 0; }
int cuMemcpyHtoDAsync_v2(unsigned long device, const void *host, unsigned long bytes, void *stream) { return 0; }
int cuLaunchKernel(void *function, ...) { return 0; }
int cuThreadExchangeStreamCaptureMode(int *mode) { return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuGetErrorString(int error, const char **text) { *text = ""; return 0; }
"""


@contextmanager
def null_gpu() -> Iterator[None]:
    """Replace the GPU, its driver and its decoders by functions that do nothing."""
    import cupy

    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "driver.c"), Path(folder, "libcuda.so.1")
        source.write_text(DRIVER)
        command = ["cc", "-O2", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
    pointer, array, unowned = cupy.cuda.MemoryPointer, cupy.ndarray, cupy.cuda.UnownedMemory

    addresses = count(1 << 40, 1 << 30)  # each memory has its own, as on a GPU

    def allocate(size: int) -> Any:
        return pointer(unowned(next(addresses), size, None, 0), 0)

    def new(shape: Any, dtype: Any) -> Any:
        return host_cupy._allocators[-1](math.prod(shape) * np.dtype(dtype).itemsize)

    def empty(shape: Any, dtype: Any = float, memory: Any = None, **options: Any) -> Any:
        return array(shape, dtype, memory or new(shape, dtype), **options)

    with host_cupy.installed(), mock.patch.object(host_cupy, "_allocators", [allocate]):
        stand_in: Any = sys.modules["cupy"]
        stand_in.cuda.MemoryPointer, stand_in.cuda.UnownedMemory = pointer, unowned
        stand_in.ndarray = stand_in.empty = empty
        stand_in.cuda.runtime.memcpyAsync = lambda *_: None
        compiled = mock.patch.object(compiler, "_compile", return_value=compiler.Kernel(None, 1))
        with compiled, mock.patch.object(image, "ImageBatchDecoder", Decoder):
            yield


class Decoder:
    """Stands for `ImageBatchDecoder`: its images have addresses, and the sizes in the headers of the JPEGs."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._addresses = count(1 << 44, 1 << 30)

    def reserve(self, *_: Any) -> None: ...

    def close(self) -> None: ...

    def decode(self, encoded: EncodedBatch, stream: Any, *, regions: Any = None, **_: Any) -> DecodedBatch:
        headers = encoded.headers
        shapes = np.full((len(encoded), 3), 3, np.int64)
        shapes[:, 0], shapes[:, 1] = headers["height"], headers["width"]
        if regions is not None:
            shapes[:, :2] = regions[:, 2:] - regions[:, :2]
        samples, _size = Samples.packed(next(self._addresses), shapes, np.uint8)
        return DecodedBatch(samples, (), 0, [self] * len(encoded), lambda last: None)


def write_images(folder: Path) -> list[str]:
    """Write black JPEGs of many sizes, and return their paths."""
    paths = [str(folder / f"{number}.jpg") for number in range(FILES)]
    sizes = np.random.default_rng(0).integers(*EXTENTS, (FILES, 2))
    for path, (height, width) in zip(paths, sizes.tolist(), strict=True):
        cv2.imwrite(path, np.zeros((height, width, 3), np.uint8))
    return paths


def build(graph: str, size: int, files: list[str]) -> Pipeline:
    """Return the pipeline of a graph."""
    for policy in ("auto_augment", "rand_augment", "trivial_augment"):
        import_module(f"{auto_aug.__name__}.{policy}")
    library = Library(pipeline.fn, pipeline.types, auto_aug, True, size, files)
    describe = partial(GRAPHS[graph].describe, library)
    definition = pipeline.pipeline_def(lambda: describe(), enable_conditionals=GRAPHS[graph].conditional)
    pipe: Pipeline = definition(batch_size=size, num_threads=1, device_id=0, seed=1, exec_pipelined=False)
    pipe.build()
    return pipe


class Stopwatch:
    """Measures the phases of each batch, and can profile them.

    Attributes:
        times: processor time of the thread that runs the phases of a kind, in microseconds, by the number of the batch.
        profiler: the profiler; None to profile nothing.
    """

    def __init__(self, *, profile: bool) -> None:
        self.times: dict[str, dict[int, float]] = {stage: defaultdict(float) for stage in STAGES}
        self.profiler = cProfile.Profile() if profile else None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Measure all executors inside of the block."""
        with (
            mock.patch.object(Executor, "_run_on_gpu", self._timed(Executor._run_on_gpu)),
            mock.patch.object(Executor, "_run_steps", self._timed(Executor._run_steps)),
            # The clock of a thread is slow on some machines.
            mock.patch.object(PhaseCosts, "weight", lambda *_: 0),  # noqa: PT008 - it is called for each batch
        ):
            yield

    def _timed(self, function: Callable[..., None]) -> Callable[..., None]:
        on_gpu = function is Executor._run_on_gpu

        def timed(executor: Executor, run: Any, phase: Any, *rest: Any) -> None:
            if phase.on_gpu != on_gpu:  # inside of `_run_on_gpu`
                function(executor, run, phase, *rest)
                return
            profiler = self.profiler if run.batch.number >= WARM_UP else None
            begin = time.thread_time_ns()
            if profiler is not None:
                profiler.enable()
            try:
                function(executor, run, phase, *rest)
            finally:
                if profiler is not None:
                    profiler.disable()
                self.times[phase.device][run.batch.number] += (time.thread_time_ns() - begin) / 1e3

        return timed


def measure(graph: str, size: int, files: list[str], *, batches: int, profile: bool) -> list[float]:
    """Return what a batch takes in microseconds: in the phases of each kind, and processor time of all threads."""
    watch, processor = Stopwatch(profile=profile), []
    with watch.installed():
        pipe = build(graph, size, files)
        for _ in range(WARM_UP):
            pipe.run()
        for _ in range(max(1, batches // TOGETHER)):
            begin = time.process_time_ns()
            for _ in range(TOGETHER):
                pipe.run()
            processor.append((time.process_time_ns() - begin) / 1e3 / TOGETHER)
        pipe.close()
    if watch.profiler is not None:
        statistics = pstats.Stats(watch.profiler)
        statistics.sort_stats("tottime").print_stats(45)
        statistics.sort_stats("cumulative").print_stats(90)
    # The shortest times: other load on the machine only adds. But a few batches may need less than the others.
    measured = [[time for number, time in watch.times[stage].items() if number >= WARM_UP] for stage in STAGES]
    return [*[float(np.percentile(each, 10)) if each else 0.0 for each in measured], min(processor)]


def main() -> None:
    """Measure the graphs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=list(GRAPHS), help="graphs, by default all")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16], help="samples per batch")
    parser.add_argument("--batches", type=int, default=300, help="measured batches")
    parser.add_argument("--same", action="store_true", help="images of the same sizes in each batch")
    parser.add_argument("--profile", action="store_true", help="also print where the time of the phases goes")
    given = parser.parse_args()
    columns = [*STAGES, "processor"]
    print(f"{'graph':<20}{'samples':>10}" + "".join(f"{each:>10}" for each in columns) + "   us per batch")
    with null_gpu(), tempfile.TemporaryDirectory() as folder:
        files = write_images(Path(folder))
        for graph in given.graphs:
            for size in given.sizes:
                listed = [files[number % FILES] for number in range(size if given.same else size * FILES)]
                times = measure(graph, size, listed, batches=given.batches, profile=given.profile)
                print(f"{graph:<20}{size:>10}" + "".join(f"{each:>10.0f}" for each in times), flush=True)


if __name__ == "__main__":
    main()
