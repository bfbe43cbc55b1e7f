"""Batches overlap, threads run in parallel, and a steady state allocates nothing."""

from __future__ import annotations

import io
import json
import queue
import resource
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._executor import BatchRequest, BatchResult, Executor, ExecutorConfig
from dali_proxy.pipeline._graph import Graph
from dali_proxy.pipeline._imaging.jpeg_region import decode_regions
from dali_proxy.pipeline._operator_api.trace import Trace
from dali_proxy.pipeline._operator_api.trace_file import ProcessSpans, save_spans
from dali_proxy.pipeline._operators.decoding import image_batches
from pipeline import fn
from pipeline.tensors import TensorListCPU
from tests.pipeline.graphs import graph_of

CONFIG = ExecutorConfig(max_batch_size=8, num_threads=2, device_id=None, seed=1, cpu_depth=2)


def image_graph() -> Graph:
    images = fn.decoders.image_random_crop(fn.external_source(name="x"))
    return graph_of([fn.crop_mirror_normalize(fn.resize(images, size=(64, 64)), mirror=fn.random.coin_flip())])


def encoded(jpeg_folder: Path) -> TensorListCPU:
    files = sorted(jpeg_folder.rglob("*.jpg"))[:8]
    return TensorListCPU([np.fromfile(path, np.uint8) for path in files])


def run(executor: Executor, data: TensorListCPU, batches: int, at_once: int = 3) -> list[BatchResult]:
    done: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
    for _ in range(at_once):
        executor.submit(BatchRequest(len(data), {"x": data}), done.put)
    last = []
    for number in range(batches):
        last = [done.get(timeout=60)]
        assert last[0].error is None, last[0].error
        if number + at_once < batches:
            executor.submit(BatchRequest(len(data), {"x": data}), done.put)
    return last


class Meeting:
    """A meeting of two threads that wait for each other once: alone, the first one waits for a minute and fails."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2)
        self._over = False

    def __call__(self) -> None:
        if not self._over:
            self._barrier.wait(60)
            self._over = True


def test_work_on_different_batches_overlaps_on_threads_that_run_in_parallel(
    jpeg_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Executor(image_graph(), CONFIG) as executor:
        run(executor, encoded(jpeg_folder), 5)
        for _ in range(20):  # if other processes use the cores, batches may take turns for a while
            executor.trace = trace = Trace()
            meet = Meeting()
            monkeypatch.setattr(image_batches, "decode_regions", lambda *a, meet=meet: meet() or decode_regions(*a))
            run(executor, encoded(jpeg_folder), 20)
            spans = trace.spans()
            steps = [span for span in spans if "decoders.image_random_crop" in span.name]
            samples = [span for span in spans if span.name.startswith("samples ") and "stage" not in span.lane]
            assert len(samples) >= 20 * 2  # each call of a decoder has four images
            assert any(a.lane != b.lane and a.overlaps(b) for a in samples for b in samples)
            batches_overlap = any(a.batch != b.batch and a.overlaps(b) for a in steps for b in steps)
            if batches_overlap:
                break
    assert batches_overlap, "batches in the CPU stage overlap"
    assert len({span.lane for span in samples}) == 2
    save_spans(tmp_path / "trace.json", [ProcessSpans(1, "server", spans)])
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == len(spans)


@pytest.mark.gpu
def test_copies_and_work_on_a_gpu_overlap_with_work_on_the_cpu(jpeg_folder: Path) -> None:
    images = fn.resize(fn.decoders.image_random_crop(fn.external_source(name="x")), size=(512, 512))
    graph = graph_of([fn.gaussian_blur(images.gpu(), sigma=3.0)])
    with Executor(graph, replace(CONFIG, device_id=0)) as executor:
        run(executor, encoded(jpeg_folder), 5)
        executor.trace = trace = Trace()
        run(executor, encoded(jpeg_folder), 40)
        spans = trace.spans()
    on_cpu = [span for span in spans if "decoders.image_random_crop" in span.name]
    for name in ("copy_to_gpu", "gaussian_blur"):
        on_gpu = [span for span in spans if name in span.name and span.lane.startswith("GPU ")]
        assert len(on_gpu) == 40
        assert any(a.batch != b.batch and a.overlaps(b) for a in on_gpu for b in on_cpu), name


@pytest.mark.gpu
def test_images_of_two_batches_are_uploaded_concurrently(jpeg_folder: Path) -> None:
    images = fn.decoders.image(fn.external_source(name="x")).gpu()
    graph = graph_of([fn.crop_mirror_normalize(fn.random_resized_crop(images, size=(64, 64)))])
    with Executor(graph, replace(CONFIG, device_id=0)) as executor:
        executor.trace = trace = Trace()
        run(executor, encoded(jpeg_folder), 60, at_once=4)
        spans = trace.spans()
    copies = [span for span in spans if span.name == "copy_to_gpu" and span.lane.startswith("dali-mixed-stage")]
    assert len(copies) == 60
    assert {span.lane for span in copies} == {"dali-mixed-stage-0", "dali-mixed-stage-1"}


def test_many_batches_allocate_nothing_new(jpeg_folder: Path) -> None:
    data = encoded(jpeg_folder)
    with Executor(image_graph(), CONFIG) as executor:
        run(executor, data, 100)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        run(executor, data, 300, at_once=3)
        # One for each of the three concurrent batches, and those that frames of both sides still hold briefly.
        assert executor.batch_memory._buffers.allocated <= 6
        # 300 batches of 8 outputs of 48 KB would be 28,000 pages if the memory were fresh.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults < 5000


def test_heavy_operators_leave_the_interpreter_to_others() -> None:
    """While one thread decodes and resizes a large image, this thread continues to run Python code."""
    noise = np.random.default_rng(1).integers(0, 256, (3000, 3000, 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, "jpeg", quality=90)
    data = TensorListCPU([np.frombuffer(buffer.getvalue(), np.uint8)])
    done: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
    with Executor(image_graph(), ExecutorConfig(1, 1, None, 1)) as executor:
        shares = []
        for _ in range(20):  # if other processes use the cores, this thread may not run for a while
            executor.submit(BatchRequest(1, {"x": data}), done.put)
            longest, begin = 0.0, work_of_others()
            last = begin
            while done.empty():
                now = work_of_others()
                longest, last = max(longest, now - last), now
            assert done.get().error is None
            shares.append(longest / (last - begin) if last > begin else 1.0)
            if shares[-1] < 1 / 3:
                break
    assert min(shares) < 1 / 3, "one call held the interpreter for a large part of the batch"


def work_of_others() -> float:
    """Return the CPU time of this process's other threads; other users of the cores don't count."""
    return time.process_time() - time.thread_time()


@pytest.mark.parametrize("depth", [1, 2])
def test_depth_limits_how_many_batches_are_in_the_cpu_stage(jpeg_folder: Path, depth: int) -> None:
    config = ExecutorConfig(8, 2, None, 1, cpu_depth=depth)
    with Executor(image_graph(), config) as executor:
        executor.trace = trace = Trace()
        run(executor, encoded(jpeg_folder), 12, at_once=4)
    steps: list[Any] = [span for span in trace.spans() if "decoders" in span.name]
    most = max(sum(a.begin <= b.begin < a.end for a in steps) for b in steps)
    assert most <= depth
