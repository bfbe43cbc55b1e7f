"""Faults of servers and training processes that use a GPU: the right data, or a clear error; and no hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import Dataset

from dali_proxy import BatchError, DALIServer, DataLoader
from dali_proxy._common.folders import remove_dead_folders
from dali_proxy.errors import ProxyError, ServerDiedError
from pipeline import Pipeline, errors, fn
from tests.environment import ROOT, with_project
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(80, func_only=True)]

BATCH, WIDTH = 8, 4096
PLACED = [("process", "server"), ("process", "consumer"), ("thread", "server")]
DIED_S = 10.0
"""Seconds for an error after the server's death: the driver needs some of them to end a process's work on the GPU."""


class Numbers(Dataset[Any]):
    """Sample i is an array of the number i."""

    def __init__(self, transform: Any, length: int = 6 * BATCH) -> None:
        self.transform, self.length = transform, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.full(WIDTH, index, np.float32)), index


def doubling(function: Callable[[Any], Any] | None = None) -> Pipeline:
    """Return a pipeline that doubles its input on the GPU, with a function of the user if there is one."""
    with Pipeline(batch_size=BATCH, num_threads=2, device_id=0, seed=1, py_num_workers=0) as pipe:
        numbers = fn.external_source(name="x").gpu()
        doubled = numbers * 2 if function is None else fn.python_function(numbers, function=function, device="gpu")
        pipe.set_outputs(doubled)
    return pipe


def check(doubled: torch.Tensor, indices: torch.Tensor) -> None:
    assert doubled.is_cuda
    expected = (indices * 2.0).reshape(-1, 1).expand(-1, WIDTH)
    assert torch.equal(doubled.cpu(), expected)


def check_epoch(server: DALIServer, **options: Any) -> None:
    loader = DataLoader(server, Numbers(server.proxy), BATCH, **options)
    found = []
    for doubled, indices in loader:
        check(doubled, indices)
        found += indices.tolist()
    assert found == list(range(len(loader.dataset)))  # type: ignore[arg-type]


SLOW = "for (long long end = clock64() + 4000000000; clock64() < end;);"  # two seconds
BAD_ADDRESS = "*reinterpret_cast<volatile int*>(16ull) = 1;"
ENDLESS = "while (*reinterpret_cast<volatile int*>(memory) != 1234567) __nanosleep(1000);"


def launching(body: str, launched: Path, *, once: bool = True) -> Callable[[Any], Any]:
    """Return a function that doubles its input, and launches a kernel before it doubles sample 15.

    Args:
        body: code of the kernel.
        launched: file that the function creates after the launch.
        once: whether it launches the kernel only while that file doesn't exist.
    """
    code, path = f'extern "C" __global__ void run(int* memory) {{ {body} }}', str(launched)

    def double(x: Any) -> Any:
        import os

        import cupy

        if float(x[0]) == 15 and not (once and os.path.exists(path)):
            cupy.RawKernel(code, "run")((1,), (1,), (cupy.zeros(1, cupy.int32),))
            os.close(os.open(path, os.O_CREAT))
        return x * 2

    return double


@pytest.mark.parametrize("restart", ["never", "on-failure"])
def test_server_that_is_killed_while_its_gpu_works(tmp_path: Path, restart: Any) -> None:
    """The results were issued, but not computed: no stream of the training may wait for them, or read them."""
    launched = tmp_path / "launched"
    with DALIServer(doubling(launching(SLOW, launched)), restart=restart) as server:
        loader = DataLoader(server, Numbers(server.proxy), BATCH)
        iterator = iter(loader)
        check(*next(iterator))
        assert server.pid is not None
        pid = server.pid
        torch.cuda.synchronize()
        ended = kill_after(launched, pid)
        if restart == "on-failure":
            rest = list(iterator)
            for batch in rest:
                check(*batch)
            assert len(rest) == 5
            assert server.losses.restarts >= 1
        else:
            with pytest.raises(ServerDiedError, match=f"pid {pid}.*SIGKILL"):
                next(iterator)
            assert time.monotonic() - ended() < DIED_S
            server.start()
            check_epoch(server)
        begin = time.monotonic()
        torch.cuda.synchronize()
        assert time.monotonic() - begin < DIED_S


def kill_after(launched: Path, pid: int) -> Callable[[], float]:
    """Kill a process as soon as a file exists. Return a function that returns the time of the signal."""
    times: list[float] = []

    def kill() -> None:
        wait_until(launched.exists, "the launch")
        times.append(time.monotonic())
        os.kill(pid, signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()

    def ended() -> float:
        killing.join(PATIENCE_S)
        return times[0]

    return ended


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_tensors_outlive_the_server_that_made_them(end: str) -> None:
    """CUDA keeps shared memory as long as a process has mapped it."""
    server = DALIServer(doubling())
    server.start()
    held = list(DataLoader(server, Numbers(server.proxy), BATCH))
    running = held[0][0].sum()
    if end == "kill":
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.running)
    server.stop()
    filling = torch.full((64 << 20,), 7, device="cuda", dtype=torch.uint8)  # would overwrite freed memory
    with DALIServer(doubling()) as other:
        check_epoch(other)
    for batch in held:
        check(*batch)
    assert float(running) == float(held[0][0].sum())
    assert int(filling.min()) == 7
    del held, batch
    torch.cuda.synchronize()
    check_epoch_of_a_new_server()


def check_epoch_of_a_new_server() -> None:
    with DALIServer(doubling()) as server:
        check_epoch(server, num_workers=2)


TRAINING = """
import ctypes, os, sys
import torch
from dali_proxy import DALIServer, DataLoader

ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: it also ends if the tests are killed
assert os.getppid() == int(sys.argv[4])
sys.path.insert(0, sys.argv[3])
from tests.dali_proxy.test_faults_gpu import BATCH, Numbers, doubling

with DALIServer(doubling(), mode=sys.argv[1], placement=sys.argv[2]) as server:
    print(server.pid, flush=True)
    held = []
    while True:
        loader = DataLoader(server, Numbers(server.proxy, 400), BATCH, num_workers=1)
        for number, (doubled, _) in enumerate(loader):
            held = [*held[-5:], doubled * 2]
            busy = torch.ones(2048, 2048, device="cuda")
            for _ in range(20):
                busy = busy @ busy * 1e-4
            if number == 5:
                print("trains", flush=True)
"""


@pytest.mark.parametrize(("mode", "placement"), PLACED)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_training_that_is_killed_leaves_no_process(mode: str, placement: str, number: signal.Signals) -> None:
    with running_training(mode, placement) as (training, pid):
        children = [psutil.Process(pid), *psutil.Process(training.pid).children(recursive=True)]
        training.send_signal(number)
        training.wait(PATIENCE_S)
        _, alive = psutil.wait_procs(children, timeout=15)
        assert not alive
    assert not list(Path("/dev/shm").glob(f"cuda.shm.*.{pid:x}.*"))


@contextmanager
def running_training(mode: str, placement: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a process that trains. Return it and the number of its server's process; kill it at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", TRAINING, mode, placement, str(ROOT), str(os.getpid())],
        stdout=subprocess.PIPE,
        env=with_project(),
        text=True,
        start_new_session=True,
    ) as training:
        assert training.stdout is not None
        try:
            pid, trains = training.stdout.readline(), training.stdout.readline()
            assert trains == "trains\n", "the training has failed: see its stderr"
            yield training, int(pid)
        finally:
            training.kill()
    remove_dead_folders()  # as the next server does: with mode="thread", no process is left that could


def test_server_outlives_a_training_that_is_killed_while_its_gpu_reads_results() -> None:
    """Its slots must not wait for its streams forever."""
    with DALIServer(doubling()) as server:
        check_epoch(server)
        context = torch.multiprocessing.get_context("spawn")
        reading = context.Event()
        other = context.Process(target=read_slowly, args=(server, reading))
        other.start()
        assert reading.wait(PATIENCE_S)
        other.kill()
        other.join()
        for _ in range(3):
            check_epoch(server)


def read_slowly(server: DALIServer, reading: Any) -> None:
    """Return a result to the server while a kernel that reads it waits behind a long one."""
    import cupy

    code = f'extern "C" __global__ void run(int* memory) {{ {SLOW * 5} }}'
    kernel = cupy.RawKernel(code, "run")
    kernel.compile()
    for sample in range(3):
        doubled = server.produce_data(server.proxy(np.full(WIDTH, sample, np.float32)))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel((1,), (1,), (cupy.zeros(1, cupy.int32),))
        total = doubled.sum()
        del doubled
    reading.set()
    time.sleep(PATIENCE_S)
    del total


def test_illegal_address_ends_the_server_and_not_the_training(tmp_path: Path) -> None:
    kept = torch.arange(5, device="cuda")
    with DALIServer(doubling(launching(BAD_ADDRESS, tmp_path / "launched"))) as server:
        iterator = iter(DataLoader(server, Numbers(server.proxy), BATCH))
        with pytest.raises(ServerDiedError, match=r"lost its CUDA context \(cudaErrorIllegalAddress") as caught:
            list(iterator)
        assert "compute-sanitizer" in str(caught.value)
        assert kept.sum().item() == 10, "the context of the training is another one"
        server.start()
        check_epoch(server)


def test_restarted_server_repeats_batches_after_an_illegal_address(tmp_path: Path) -> None:
    function = launching(BAD_ADDRESS, tmp_path / "launched")
    with DALIServer(doubling(function), restart="on-failure") as server:
        check_epoch(server, num_workers=2)
        assert server.losses.restarts >= 1


def test_batch_that_always_loses_the_context_is_named(tmp_path: Path) -> None:
    function = launching(BAD_ADDRESS, tmp_path / "launched", once=False)
    with DALIServer(doubling(function), restart="on-failure") as server:
        iterator = iter(DataLoader(server, Numbers(server.proxy), BATCH))
        check(*next(iterator))
        with pytest.raises(ServerDiedError, match=r"(?s)batch 1 of epoch 0 was lost.*8.*lost its CUDA context"):
            next(iterator)
        check(*next(iterator))


def test_error_of_a_function_costs_its_batch_only() -> None:
    """The context is intact, so the server continues."""

    def double(x: Any) -> Any:
        import cupy

        if float(x[0]) == 8:
            cupy.zeros(4) + cupy.zeros(3)
        return x * 2

    with DALIServer(doubling(double)) as server:
        pid = server.pid
        iterator = iter(DataLoader(server, Numbers(server.proxy), BATCH))
        check(*next(iterator))
        with pytest.raises(BatchError, match="python_function"):
            next(iterator)
        assert len(list(iterator)) == 4
        assert server.pid == pid


def test_kernel_without_an_end_is_an_error_after_the_timeout(tmp_path: Path) -> None:
    with DALIServer(doubling(launching(ENDLESS, tmp_path / "launched")), timeout=8.0) as server:
        iterator = iter(DataLoader(server, Numbers(server.proxy), BATCH))
        check(*next(iterator))
        begin = time.monotonic()
        with pytest.raises(ProxyError, match=r"8 s, the limit of DALIServer\(timeout=\.\.\.\)"):
            next(iterator)
        assert 3 < time.monotonic() - begin < 8 + DIED_S
        assert torch.ones(1000, device="cuda").sum().item() == 1000, "the GPU still works for the training"
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.running)
        server.start()
        check_epoch(server)


def test_server_with_a_kernel_without_an_end_can_be_stopped(tmp_path: Path) -> None:
    server = DALIServer(doubling(launching(ENDLESS, tmp_path / "launched")), timeout=8.0)
    with server:
        iterator = iter(DataLoader(server, Numbers(server.proxy), BATCH))
        check(*next(iterator))
        with pytest.raises(ProxyError, match="8 s"):
            next(iterator)
        begin = time.monotonic()
    assert time.monotonic() - begin < 20
    check_epoch_of_a_new_server()


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_results_are_held_across_epochs(mode: Any, placement: Any) -> None:
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        held = []
        for _ in range(3):
            held += list(DataLoader(server, Numbers(server.proxy), BATCH, num_workers=1))
            held += list(DataLoader(server, Numbers(server.proxy), BATCH, shuffle=True))
        for batch in held:
            check(*batch)
        del held, batch


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_training_that_runs_out_of_memory_goes_on(mode: Any, placement: Any) -> None:
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        iterator = iter(DataLoader(server, Numbers(server.proxy), BATCH, num_workers=1))
        found = []
        for doubled, indices in iterator:
            with pytest.raises(torch.OutOfMemoryError):
                torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
            assert torch.equal(doubled[:, 0].cpu(), indices * 2.0)
            found += indices.tolist()
        assert found == list(range(6 * BATCH))


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_training_that_replays_a_cuda_graph(mode: Any, placement: Any) -> None:
    """The step is captured while batches are in flight, as in training that warms up with its own batches."""
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        loader = DataLoader(server, Numbers(server.proxy, 40 * BATCH), BATCH, num_workers=2, prefetch_factor=4)
        static, weight = torch.zeros(BATCH, WIDTH, device="cuda"), torch.full((WIDTH,), 0.5, device="cuda")
        graph, total, sums = None, None, []
        for number, (doubled, _) in enumerate(loader):
            static.copy_(doubled)
            if number < 3:
                side = torch.cuda.Stream()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    total = (static * weight).mean(dim=1)
                torch.cuda.current_stream().wait_stream(side)
            elif number == 3:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                    total = (static * weight).mean(dim=1)
            if graph is not None:
                graph.replay()
            assert total is not None
            sums.append(total.clone())
        assert torch.cat(sums).cpu().tolist() == list(range(40 * BATCH))


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_streams_of_the_training_read_complete_batches(mode: Any, placement: Any) -> None:
    """Batches are fetched on one side stream and used on another, as prefetchers do."""
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        fetching, computing = torch.cuda.Stream(), torch.cuda.Stream()
        busy = torch.ones(2048, 2048, device="cuda")
        torch.cuda.synchronize()
        sums = []
        iterator = iter(DataLoader(server, Numbers(server.proxy, 30 * BATCH), BATCH, num_workers=2))
        while True:
            with torch.cuda.stream(fetching):
                for _ in range(5):
                    busy = busy @ busy * 1e-4
                batch = next(iterator, None)
            if batch is None:
                break
            computing.wait_stream(fetching)
            with torch.cuda.stream(computing):
                sums.append(batch[0].mean(dim=1))
            fetching.wait_stream(computing)  # before the batch is dropped, as CUDA requires
            del batch
        torch.cuda.synchronize()
        assert torch.cat(sums).cpu().tolist() == [2.0 * index for index in range(30 * BATCH)]


@pytest.mark.parametrize(("mode", "placement"), PLACED)
def test_workers_are_forked_after_cuda_was_initialized(mode: Any, placement: Any) -> None:
    assert torch.ones(3, device="cuda").sum().item() == 3
    with DALIServer(doubling(), mode=mode, placement=placement) as server:
        for _ in range(2):
            check_epoch(server, num_workers=2, multiprocessing_context="fork")
        check_epoch(server, num_workers=1, multiprocessing_context="spawn", persistent_workers=True)


def test_forked_child_that_fetches_a_result_on_the_gpu_gets_an_error() -> None:
    """CUDA doesn't work in a forked child of a process that uses it."""
    with DALIServer(doubling()) as server:
        check_epoch(server)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                try:
                    server.produce_data(server.proxy(np.zeros(WIDTH, np.float32)))
                    message = "no error"
                except Exception as error:  # noqa: BLE001 - the parent checks it
                    message = f"{type(error).__name__}: {error}"
                os.write(writer, message.encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            message = pipe.read().decode()
        os.waitpid(child, 0)
        assert "forked" in message, message
        check_epoch(server)


VISIBLE = """
import os, sys
import torch
sys.path.insert(0, sys.argv[1])
from pipeline.errors import DeviceError
from dali_proxy import DALIServer
from tests.dali_proxy.test_faults_gpu import check_epoch, doubling

for mode, placement in (("process", "server"), ("process", "consumer"), ("thread", "server")):
    try:
        with DALIServer(doubling(), mode=mode, placement=placement) as server:
            check_epoch(server)
            print("right")
    except DeviceError as error:
        print("DeviceError:", str(error).partition(chr(10))[0])
"""


@pytest.mark.parametrize("visible", ["uuid", "short uuid", "number", "none", "-1"])
def test_visible_devices(visible: str) -> None:
    uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
    values = {"uuid": uuid, "short uuid": uuid[:12], "number": "0", "none": "", "-1": "-1"}
    done = subprocess.run(
        [sys.executable, "-c", VISIBLE, str(ROOT)],
        env=with_project(CUDA_VISIBLE_DEVICES=values[visible]),
        capture_output=True,
        text=True,
        timeout=75,
        check=False,
    )
    lines = done.stdout.splitlines()
    if visible in ("none", "-1"):
        assert len(lines) == 3, done.stderr
        assert all("DeviceError" in line and ("GPU" in line or "CUDA device" in line) for line in lines), lines
    else:
        assert lines == ["right"] * 3, done.stderr


def test_server_that_sees_other_devices_than_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable was changed after CUDA was initialized in the training; with one GPU, it can only be hidden."""
    assert torch.ones(3, device="cuda").sum().item() == 3
    uuid = torch.cuda.get_device_properties(0).uuid
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(errors.DeviceError, match=r"GPU|CUDA device"), DALIServer(doubling()):
        pass
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"GPU-{uuid}")
    with DALIServer(doubling()) as server:
        check_epoch(server)
