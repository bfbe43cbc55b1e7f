"""Results on a GPU are memory of torch's caching allocator: right on every stream, for as long as anyone holds them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from dali_proxy import DALIGenericIterator, DALIServer, DataLoader, LastBatchPolicy, torch_python_function
from pipeline import Pipeline, fn
from pipeline.errors import FrameworkArgumentError
from tests.environment import with_project
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(120, func_only=True)]

BATCH, WIDTH = 8, 1 << 18
BUSY_CYCLES = 100_000_000  # more than 50 ms

#: How the pipeline runs: mode, placement, and whether a Python function computes the output.
WAYS = {
    "server": ("process", "server", False),
    "server-function": ("process", "server", True),
    "consumer": ("process", "consumer", False),
    "consumer-function": ("process", "consumer", True),
    "cores": ("process", "cores", False),
    "engine": ("process", "engine", False),
    "thread": ("thread", "server", False),
    "thread-function": ("thread", "server", True),
}


class Numbers(Dataset[Any]):
    """Sample i is an array of the number i."""

    def __init__(self, transform: Any, length: int = 12 * BATCH) -> None:
        self.transform, self.length = transform, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.full(WIDTH, index, np.float32)), index


def doubling(function: bool) -> Pipeline:
    """Return a pipeline that doubles its input on the GPU."""
    with Pipeline(batch_size=BATCH, num_threads=2, device_id=0, seed=1, py_num_workers=0) as pipe:
        numbers = fn.external_source(name="x").gpu()
        doubled = fn.python_function(numbers, function=lambda x: x * 2, device="gpu") if function else numbers * 2
        pipe.set_outputs(doubled)
    return pipe


def serving(way: str) -> DALIServer:
    mode, placement, function = WAYS[way]
    return DALIServer(doubling(function), mode=mode, placement=placement)


@pytest.fixture(params=WAYS)
def server(request: pytest.FixtureRequest) -> Iterator[DALIServer]:
    with serving(request.param) as running:
        yield running


def loader_of(server: DALIServer, **options: Any) -> DataLoader:
    return DataLoader(server, Numbers(server.proxy), BATCH, **options)


def check(read: torch.Tensor, indices: torch.Tensor) -> None:
    """Check what was read of a batch: a row of its first and last numbers for each sample."""
    expected = (indices * 2.0).reshape(-1, 1).expand(-1, read.shape[1])
    assert torch.equal(read.cpu(), expected), f"{read[:, 0].tolist()} instead of {expected[:, 0].tolist()}"


def ends(doubled: torch.Tensor) -> torch.Tensor:
    """Copy a few numbers of each sample, on the current stream."""
    return doubled[:, :: WIDTH // 8].clone()


def busy() -> None:
    """Keep the current stream busy for a while."""
    torch.cuda._sleep(BUSY_CYCLES)


def prefetched(loader: Any, stream: torch.cuda.Stream) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Take batches on a side stream, one ahead, as prefetchers of training scripts do."""
    batches = iter(loader)

    def take() -> Any:
        with torch.cuda.stream(stream):
            return next(batches, None)

    following = take()
    while following is not None:
        torch.cuda.current_stream().wait_stream(stream)
        doubled, indices = following
        doubled.record_stream(torch.cuda.current_stream())
        del following
        yield doubled, indices
        del doubled
        following = take()


def test_batches_that_are_prefetched_on_a_side_stream_keep_their_pixels(server: DALIServer) -> None:
    found = []
    for doubled, indices in prefetched(loader_of(server), torch.cuda.Stream()):
        busy()
        found.append((ends(doubled), indices))
        del doubled
    assert len(found) == 12
    for read, indices in found:
        check(read, indices)


def test_batches_that_side_streams_read_keep_their_pixels(server: DALIServer) -> None:
    streams = [torch.cuda.Stream() for _ in range(3)]
    found = []
    for doubled, indices in loader_of(server, num_workers=1):
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                busy()
                found.append((ends(doubled), indices))
            doubled.record_stream(stream)
        del doubled
    torch.cuda.synchronize()
    assert len(found) == 36
    for read, indices in found:
        check(read, indices)


def test_batches_that_are_dropped_while_a_kernel_reads_them_keep_their_pixels(server: DALIServer) -> None:
    found = []
    for doubled, indices in loader_of(server):
        busy()
        found.append((ends(doubled), indices))
        del doubled
    for read, indices in found:
        check(read, indices)


def test_batches_that_only_views_and_autograd_refer_to_keep_their_pixels(server: DALIServer) -> None:
    weight = torch.ones(WIDTH, device="cuda", requires_grad=True)
    kept = []
    for doubled, indices in loader_of(server):
        kept.append((doubled.detach()[:, 5:].view(BATCH, -1)[:, ::1000], (doubled * weight).sum(), indices))
        del doubled
    for view, product, indices in kept:
        check(view, indices)
        weight.grad = None
        product.backward()
        assert float(weight.grad[7]) == float(indices.sum() * 2)  # type: ignore[index]


def test_results_are_counted_by_the_allocator_of_torch(server: DALIServer) -> None:
    iterator = iter(loader_of(server))
    next(iterator)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    kept = [next(iterator)[0] for _ in range(6)]
    nbytes = sum(doubled.nbytes for doubled in kept)
    assert torch.cuda.memory_allocated() - before > nbytes * 0.6, "some of it was ahead"
    del kept
    del iterator
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def test_results_are_taken_when_unused_memory_of_torch_fills_the_limit(server: DALIServer) -> None:
    loader = loader_of(server)
    for doubled, indices in loader:
        check(ends(doubled), indices)
    filling = [torch.empty(64 << 20, dtype=torch.uint8, device="cuda") for _ in range(4)]
    del filling
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 20)) / total)
    try:
        kept = list(loader)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    for doubled, indices in kept:
        check(ends(doubled), indices)


def receive(batches: Any, sums: Any) -> None:
    """Return the sums of tensors that another process sends."""
    for doubled in iter(batches.get, None):
        sums.put(doubled.double().sum().item())
        del doubled
    sums.put(None)


@pytest.mark.parametrize("way", ["server", "consumer-function", "thread"])
def test_results_can_be_sent_to_another_process(way: str) -> None:
    context = torch.multiprocessing.get_context("spawn")
    batches, sums = context.Queue(), context.Queue()
    other = context.Process(target=receive, args=(batches, sums))
    other.start()
    with serving(way) as server:
        expected = []
        for doubled, indices in loader_of(server):
            batches.put(doubled)
            expected.append(float(indices.sum()) * 2 * WIDTH)
        batches.put(None)
        assert list(iter(lambda: sums.get(timeout=PATIENCE_S), None)) == expected
        del doubled
    other.join()
    for queue in (batches, sums):
        queue.close()
        queue.join_thread()
    torch.cuda.ipc_collect()  # torch removes the file that counts what it has sent


def test_batch_cannot_be_taken_while_a_graph_is_captured(server: DALIServer) -> None:
    static = torch.zeros(BATCH, WIDTH, device="cuda")
    iterator = iter(loader_of(server))
    check(ends(next(iterator)[0]), torch.arange(BATCH))
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(FrameworkArgumentError, match="captured into a CUDA graph"), torch.cuda.graph(graph):
        static.copy_(next(iterator)[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = static * 3
    count = 0
    for doubled, indices in iter(loader_of(server)):
        static.copy_(doubled)
        graph.replay()
        check(ends(product) / 3, indices)
        count += 1
    assert count == 12


@pytest.mark.parametrize("way", ["server", "consumer", "consumer-function"])
@pytest.mark.parametrize("end", ["stop", "SIGTERM", "SIGKILL", "restart"])
def test_batches_that_are_held_never_change(way: str, end: str) -> None:
    server = serving(way)
    server.start()
    iterator = iter(loader_of(server))
    held = [next(iterator) for _ in range(3)]
    torch.cuda.synchronize()
    busy()
    held.append(next(iterator))  # its copy waits behind the kernel
    running = ends(held[0][0])
    assert server.pid is not None
    if end.startswith("SIG"):
        os.kill(server.pid, getattr(signal, end))
        wait_until(lambda: not server.running)
    del iterator
    server.stop()
    filling = [torch.full((64 << 20,), 7, device="cuda", dtype=torch.uint8) for _ in range(8)]
    if end == "restart":
        server.start()
        for doubled, indices in loader_of(server):
            check(ends(doubled), indices)
        server.stop()
    check(running, held[0][1])
    for doubled, indices in held:
        check(ends(doubled), indices)
    assert all(int(each.min()) == 7 for each in filling)


ALLOCATORS = """
import sys
from tests.dali_proxy.test_results_gpu import check, ends, loader_of, serving
for way in ("server", "consumer", "thread", "thread-function"):
    with serving(way) as server:
        held = [(doubled, indices) for _ in range(2) for doubled, indices in loader_of(server, num_workers=1)]
        for doubled, indices in held:
            check(ends(doubled), indices)
        del held, doubled
print("right")
"""


@pytest.mark.parametrize("setting", ["expandable_segments:True", "backend:cudaMallocAsync"])
def test_results_with_other_allocators_of_torch(setting: str) -> None:
    environment = {**with_project(), "PYTORCH_CUDA_ALLOC_CONF": setting, "PYTORCH_ALLOC_CONF": setting}
    run = subprocess.run(
        [sys.executable, "-c", ALLOCATORS], env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert run.stdout == "right\n", run.stderr


def numbers_pipe(count: int = 12) -> Pipeline:
    """Return a pipeline whose own source yields the numbers."""

    def source() -> Iterator[Any]:
        for batch in range(count):
            yield [np.full(WIDTH, batch * BATCH + sample, np.float32) for sample in range(BATCH)]

    with Pipeline(batch_size=BATCH, num_threads=2, device_id=0, seed=1, prefetch_queue_depth=2) as pipe:
        pipe.set_outputs(fn.external_source(source=source).gpu() * 2)
    return pipe


@pytest.mark.parametrize("use", ["held", "prefetched"])
def test_batches_of_iterators_never_change(use: str) -> None:
    iterator = DALIGenericIterator(numbers_pipe(), ["x"], last_batch_policy=LastBatchPolicy.PARTIAL)
    batches = (
        (batch[0]["x"], torch.arange(number * BATCH, (number + 1) * BATCH)) for number, batch in enumerate(iterator)
    )
    found = []
    if use == "held":
        found = [(doubled, indices) for doubled, indices in batches]
        found = [(ends(doubled), indices) for doubled, indices in found]
    else:
        for doubled, indices in prefetched(batches, torch.cuda.Stream()):
            busy()
            found.append((ends(doubled), indices))
            del doubled
    assert len(found) == 12
    for read, indices in found:
        check(read, indices)


def test_iterators_allocate_from_torch() -> None:
    iterator = DALIGenericIterator(numbers_pipe(), ["x"], last_batch_policy=LastBatchPolicy.PARTIAL)
    next(iterator)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    kept = [next(iterator)[0]["x"] for _ in range(5)]
    assert torch.cuda.memory_allocated() - before >= 4 * kept[0].nbytes


def failing(body: str) -> Callable[[Any], Any]:
    code = f'extern "C" __global__ void run(int* memory) {{ {body} }}'

    def double(x: Any) -> Any:
        import cupy

        if float(x[0]) == 13:
            cupy.RawKernel(code, "run")((1,), (1,), (cupy.zeros(1, cupy.int32),))
        return x * 2

    return double


def asserting(x: Any) -> Any:
    """Double a tensor, or the tensors of a batch; an assertion fails on the GPU for sample 13."""
    if isinstance(x, list):
        return [asserting(each) for each in x]
    return x * 2 + x[(x[:1] == 13).long() * 10**9] * 0


def faulty(kind: str) -> Pipeline:
    with Pipeline(batch_size=BATCH, num_threads=2, device_id=0, seed=1, py_num_workers=0) as pipe:
        numbers = fn.external_source(name="x").gpu()
        if kind == "address":
            bad = "*reinterpret_cast<volatile int*>(16ull) = 1;"
            pipe.set_outputs(fn.python_function(numbers, function=failing(bad), device="gpu", name="doubled"))
        else:
            pipe.set_outputs(torch_python_function(numbers, function=asserting, device="gpu", name="doubled"))
    return pipe


@pytest.mark.parametrize("kind", ["address", "assert"])
@pytest.mark.parametrize("restart", ["never", "on-failure"])
def test_error_of_a_kernel_names_operator_line_batch_and_indices(kind: str, restart: Any) -> None:
    with DALIServer(faulty(kind), restart=restart) as server:
        iterator = iter(loader_of(server))
        with pytest.raises(Exception, match="lost its CUDA context") as caught:
            list(iterator)
        text = str(caught.value)
        assert "batch 1 of epoch 0" in text
        assert "8" in text.partition("dataset indices")[2][:40]
        assert "doubled" in text
        assert "test_results_gpu.py" in text
        assert "can't be opened" not in text


def test_server_with_a_kernel_that_never_ends_stops_within_seconds() -> None:
    endless = "while (*reinterpret_cast<volatile int*>(memory) != 1234567) __nanosleep(1000);"
    with Pipeline(batch_size=BATCH, num_threads=2, device_id=0, seed=1, py_num_workers=0) as pipe:
        numbers = fn.external_source(name="x").gpu()
        pipe.set_outputs(fn.python_function(numbers, function=failing(endless), device="gpu"))
    server = DALIServer(pipe, timeout=4.0)
    server.start()
    iterator = iter(loader_of(server))
    check(ends(next(iterator)[0]), torch.arange(BATCH))
    with pytest.raises(Exception, match="4 s, the limit"):
        next(iterator)
    begin = time.monotonic()
    server.stop()
    taken = time.monotonic() - begin
    assert taken < 3.5, f"stop() took {taken:.1f} s"
    assert torch.ones(1000, device="cuda").sum().item() == 1000
