"""Measure the time that the host takes to launch a batch on a GPU: ``python -m benchmarks.host_time --help``.

This needs no GPU: kernels do nothing, and images have addresses but no memory. So only the host's work of the GPU phase
is left: operators, tables and the calls of the driver. Each batch has images of other sizes, as photographs have.
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
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

import pipeline
from benchmarks.graphs.graphs import GRAPHS, Library
from dali_proxy.pipeline._cuda import compiler
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._executor.statistics import PhaseCosts
from dali_proxy.pipeline._kernels.samples import Samples
from pipeline import Pipeline, auto_aug
from pipeline.tensors.gpu import TensorListGPU
from tests import host_cupy

GRAPHS_SHOWN = ("imagenet", "simclr", "decode_window", "resize_shorter")
#: Batches of images, which repeat. There are more than the sizes that a step may remember.
DISTINCT = 64
#: Batches before the measurement.
WARM_UP = 80
#: Smallest and largest extents of the images.
EXTENTS = (300, 640)

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
    """Replace the GPU and its driver by functions that do nothing."""
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
        with mock.patch.object(compiler, "_compile", return_value=compiler.Kernel(None, 1)):
            yield


def batches(size: int, varied: bool) -> Iterator[TensorListGPU]:
    """Yield batches of images at made-up addresses."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(DISTINCT if varied else 1):
        extents = rng.integers(*EXTENTS, (size, 2))
        shapes = np.concatenate([extents, np.full((size, 1), 3)], axis=1)
        samples, _ = Samples.packed(1 << 44, shapes, np.uint8)
        made.append(samples)
    for samples in cycle(made):
        table = Samples(samples.pointers, samples.shapes, samples.strides, samples.dtype)
        yield TensorListGPU.from_table(table, object(), 0, "HWC")


def build(graph: str, size: int, varied: bool) -> Pipeline:
    """Return the pipeline of a graph, whose images are fed."""
    pipe = Pipeline(batch_size=size, num_threads=1, device_id=0, seed=1, prefetch_queue_depth=1)
    source = batches(size, varied)

    def images(*_: Any, **__: Any) -> Any:
        options: dict[str, Any] = {"device": "gpu", "layout": "HWC", "batch": True, "no_copy": True, "cuda_stream": -1}
        return pipeline.fn.external_source(lambda: next(source), **options)

    names = {name: getattr(pipeline.fn, name) for name in pipeline.fn.__all__}
    decoders = SimpleNamespace(image=images, image_random_crop=images)
    functions = SimpleNamespace(**{**names, "decoders": decoders, "readers": SimpleNamespace(file=lambda **_: (0, 0))})
    with pipe:
        outputs = GRAPHS[graph].describe(Library(functions, pipeline.types, auto_aug, True, size, []))
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    pipe.build()
    return pipe


def measure(graph: str, size: int, *, varied: bool, count: int, profile: bool) -> list[float]:
    """Return the time of the GPU phases of each batch, in microseconds."""
    times: list[float] = []
    profiler = cProfile.Profile()
    run = Executor._run_on_gpu

    def timed(executor: Executor, *arguments: Any) -> None:
        begin = time.perf_counter_ns()
        profiled = profile and len(times) >= WARM_UP
        if profiled:
            profiler.enable()
        try:
            run(executor, *arguments)
        finally:
            if profiled:
                profiler.disable()
            times.append((time.perf_counter_ns() - begin) / 1e3)

    # The clock of a thread is slow on some machines.
    unmeasured = mock.patch.object(PhaseCosts, "weight", lambda *_: 0)  # noqa: PT008 - it is called for each batch
    with mock.patch.object(Executor, "_run_on_gpu", timed), unmeasured:
        pipe = build(graph, size, varied)
        for _ in range(WARM_UP + count):
            pipe.run()
        pipe.close()
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)
    return times[WARM_UP:]


def main() -> None:
    """Measure the graphs, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=GRAPHS_SHOWN, help=f"graphs, by default {' '.join(GRAPHS_SHOWN)}")
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 64, 256], help="samples per batch")
    parser.add_argument("--batches", type=int, default=300, help="measured batches")
    parser.add_argument("--same", action="store_true", help="images of the same sizes in each batch")
    parser.add_argument("--profile", action="store_true", help="also print where the time goes")
    given = parser.parse_args()
    print(f"{'graph':<20}" + "".join(f"{size:>10}" for size in given.sizes) + "   samples: us per batch")
    with null_gpu():
        for graph in given.graphs:
            found = [
                measure(graph, size, varied=not given.same, count=given.batches, profile=given.profile)
                for size in given.sizes
            ]
            # The shortest times: other load on the machine only adds.
            print(f"{graph:<20}" + "".join(f"{min(each):>10.0f}" for each in found), flush=True)


if __name__ == "__main__":
    main()
