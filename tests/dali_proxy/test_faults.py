"""When a process dies or hangs or a resource runs out, callers get an error in seconds, and nothing is left behind."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
import torch.utils.data._utils
from torch.utils.data import default_collate

from dali_proxy import BatchError, DALIServer, DataLoader, ProxyError, ServerDiedError, WorkerDiedError
from dali_proxy._transport.publisher import ResultPublisher
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._ipc.errors import ArenaFullError
from pipeline import fn, pipeline_def, types
from pipeline.errors import PipelineError
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine
from tests.waiting import PATIENCE_S, soon, wait_until

ROOT = Path(__file__).resolve().parents[2]


def run_to_the_end(iterator: Any) -> list[int]:
    batches = list(iterator)  # no code in between in which torch's SIGCHLD handler could raise
    return [index for batch in batches for index in check_affine(*batch)]


# Workers --------------------------------------------------------------------------------------------------------


class MortalDataset(IndexDataset):
    """Kills its process at one sample."""

    def __getitem__(self, index: int) -> Any:
        if index == self.length // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def in_a_child(body: Callable[[DALIServer], None], mode: Any) -> None:
    """Run a test in a separate process: torch's SIGCHLD handler raises in any code of a process, even in pytest."""

    def run() -> None:
        with DALIServer(affine(), mode=mode) as server:
            body(server)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join(PATIENCE_S)
    assert child.exitcode == 0, "its traceback is above"


@pytest.mark.combinations
@pytest.mark.parametrize("persistent_workers", [False, True])
def test_worker_that_is_killed(mode: str, persistent_workers: bool) -> None:
    def body(server: DALIServer) -> None:
        dataset = MortalDataset(48, server.proxy)
        loader = DataLoader(server, dataset, batch_size=4, num_workers=2, persistent_workers=persistent_workers)
        iterator = iter(loader)
        with soon(), pytest.raises(WorkerDiedError, match=r"worker 0 \(pid \d+\) was killed by SIGKILL"):
            run_to_the_end(iterator)
        with soon(), pytest.raises(WorkerDiedError):  # torch's iterator would continue with the remaining batches
            list(islice(iterator, 2))  # one may have arrived when the signal came
        del iterator
        dataset.length = 1000  # the next workers live longer
        check_affine(*next(iter(loader)))
        server.stats()

    in_a_child(body, mode)


class MurderousDataset(IndexDataset):
    """Kills a worker of another loader at one sample, and waits until this process has received the signal."""

    victim: Any = None

    def __getitem__(self, index: int) -> Any:
        victim = self.victim
        if victim is not None and index == 8:
            self.victim = None
            victim.kill()
            wait_until(lambda: victim.status() == psutil.STATUS_ZOMBIE)
        return super().__getitem__(index)


def test_worker_that_is_killed_while_another_loader_computes(mode: str) -> None:
    def body(server: DALIServer) -> None:
        other = iter(DataLoader(server, IndexDataset(400, server.proxy), batch_size=4, num_workers=1))
        next(other)
        dataset = MurderousDataset(40, server.proxy)
        (dataset.victim,) = (each for each in psutil.Process().children() if each.pid != server.pid)
        victim = dataset.victim.pid
        assert run_to_the_end(DataLoader(server, dataset, batch_size=4)) == list(range(40))
        with soon(), pytest.raises(WorkerDiedError, match=rf"worker 0 \(pid {victim}\) was killed by SIGKILL"):
            run_to_the_end(other)

    in_a_child(body, mode)


def test_worker_that_was_killed_before_its_batches_were_requested(mode: str) -> None:
    def body(server: DALIServer) -> None:
        dataset = MortalDataset(40, server.proxy)
        # torch's handler would raise in any code when the signal arrives, possibly after the process has ended.
        torch.utils.data._utils.signal_handling._set_SIGCHLD_handler()
        signalled = threading.Event()
        handler = signal.signal(signal.SIGCHLD, lambda *_: signalled.set())
        iterator = iter(DataLoader(server, dataset, batch_size=4, num_workers=1, prefetch_factor=8))
        (worker,) = (each for each in psutil.Process().children() if each.pid != server.pid)
        wait_until(lambda: signalled.is_set() and worker.status() == psutil.STATUS_ZOMBIE)
        signal.signal(signal.SIGCHLD, handler)
        # The worker's batches are sent through its sockets, too: torch alone would raise a bare ConnectionResetError.
        with soon(), pytest.raises(WorkerDiedError, match=f"pid {worker.pid}.*SIGKILL"):
            run_to_the_end(iterator)

    in_a_child(body, mode)


def test_persistent_worker_that_is_killed_between_epochs(mode: str) -> None:
    def body(server: DALIServer) -> None:
        loader = DataLoader(
            server, IndexDataset(40, server.proxy), batch_size=4, num_workers=2, persistent_workers=True
        )
        assert run_to_the_end(loader) == list(range(40))
        victim = next(each for each in psutil.Process().children() if each.pid != server.pid)
        victim.suspend()  # it doesn't answer, so that the next epoch waits for it
        threading.Timer(0.3, victim.kill).start()
        with soon(), pytest.raises(WorkerDiedError, match=rf"\(pid {victim.pid}\) was killed by SIGKILL"):
            iter(loader)
        assert run_to_the_end(loader) == list(range(40))

    in_a_child(body, mode)


def test_workers_that_are_interrupted_as_they_start_run_their_own_program(tmp_path: Path) -> None:
    def body(server: DALIServer) -> None:
        training = os.getpid()
        send_signal = ctypes.CDLL(None)["raise"]  # Python calls its handler after the hook
        os.register_at_fork(after_in_child=partial(send_signal, signal.SIGINT))
        try:
            list(DataLoader(server, IndexDataset(16, server.proxy), batch_size=4, num_workers=2))
        except BaseException:  # noqa: BLE001  # the training's own names its worker
            (tmp_path / ("the training" if os.getpid() == training else "a worker")).touch()
            if os.getpid() != training:
                os._exit(0)

    in_a_child(body, "thread")
    assert [path.name for path in tmp_path.iterdir()] == ["the training"]


def test_interrupt_while_workers_start_leaves_none() -> None:
    def body(server: DALIServer) -> None:
        loader = DataLoader(server, IndexDataset(16, server.proxy), batch_size=4, num_workers=2)
        before = psutil.Process().children()
        os.register_at_fork(after_in_parent=partial(ctypes.CDLL(None)["raise"], signal.SIGINT))
        with pytest.raises(KeyboardInterrupt) as kept:  # as a notebook does
            iter(loader)
        assert psutil.Process().children() == before
        del kept

    in_a_child(body, "thread")


class HangingDataset(IndexDataset):
    """Hangs at one sample."""

    def __getitem__(self, index: int) -> Any:
        if index == 9:
            threading.Event().wait(60)
        return super().__getitem__(index)


def test_worker_that_hangs(server: DALIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.2
    )  # time that torch allows the worker for ending
    iterator = iter(DataLoader(server, HangingDataset(40, server.proxy), batch_size=4, num_workers=1, timeout=1))
    with soon(), pytest.raises(ProxyError, match=r"within 1 s.*worker 0 \(pid \d+\)"):
        run_to_the_end(iterator)


def lowest_free_descriptor(pid: int) -> int:
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    return min(set(range(len(taken) + 1)) - taken)


def failing_collate(samples: Any) -> Any:
    raise ZeroDivisionError("in collate")


def test_exception_in_collate(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=1, collate_fn=failing_collate)
    with soon(), pytest.raises(ZeroDivisionError, match="in collate"):
        next(iter(loader))


class LambdaDataset(IndexDataset):
    """Returns an object that can't be pickled for one sample."""

    def __getitem__(self, index: int) -> Any:
        return (*super().__getitem__(index), (lambda: 1) if index == 5 else 1)


def keep(samples: Any) -> Any:
    return samples


def test_sample_that_cannot_be_sent(server: DALIServer) -> None:
    iterator = iter(DataLoader(server, LambdaDataset(12, server.proxy), 4, num_workers=1, collate_fn=keep))
    next(iterator)
    with soon(), pytest.raises((AttributeError, pickle.PicklingError), match="pickle"):
        next(iterator)
    assert [index for _, index, _ in next(iterator)] == [8, 9, 10, 11]


class WithoutDescriptors(IndexDataset):
    """Uses up the worker's descriptors at one sample."""

    def __getitem__(self, index: int) -> Any:
        if index == 9:
            _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (8, most))  # these numbers are in use
        return super().__getitem__(index)


def test_worker_without_descriptors(server: DALIServer) -> None:
    loader = DataLoader(server, WithoutDescriptors(40, server.proxy), batch_size=4, num_workers=1)
    assert run_to_the_end(loader) == list(range(40))  # samples and labels need no descriptors


# torch prints errors when it deletes an iterator whose queues it couldn't create.
@pytest.mark.filterwarnings(r"ignore:(?s)Exception ignored in. .*_MultiProcessingDataLoaderIter.__del__")
def test_training_without_descriptors(server: DALIServer) -> None:
    next(iter(DataLoader(server, IndexDataset(8, server.proxy), batch_size=4)))  # connects this process
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=4, num_workers=1)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free_descriptor(os.getpid()) + 2, limits[1]))
    try:
        with soon(), pytest.raises(OSError, match="Too many open files"):
            iter(loader)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert run_to_the_end(loader) == list(range(8))


def test_exception_in_the_training_loop(mode: str) -> None:
    def train() -> None:
        with DALIServer(affine(), mode=mode) as server:  # type: ignore[arg-type]
            for _ in DataLoader(server, IndexDataset(400, server.proxy), batch_size=4, num_workers=2):
                raise FloatingPointError("loss is nan")

    with pytest.raises(FloatingPointError):
        train()


SMALL_SHM = """
import torch
from dali_proxy import DALIServer, DataLoader, WorkerDiedError
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine

class Large(IndexDataset):
    def __getitem__(self, index):
        return self.transform([index] * 3), torch.zeros(1 << 19)  # 8 MB a batch, past the server

with DALIServer(affine()) as server:
    width = 1 << 19  # 2 MB a sample, through the server
    for images, indices in DataLoader(server, IndexDataset(12, server.proxy, width), batch_size=4, num_workers=1):
        check_affine(images, indices, width)
    try:
        next(iter(DataLoader(server, Large(12, server.proxy), batch_size=4, num_workers=1)))
    except (WorkerDiedError, RuntimeError) as error:
        print(type(error).__name__, error)
    loader = DataLoader(server, IndexDataset(12, server.proxy), batch_size=4, num_workers=1)
    full = open("/dev/shm/full", "wb", buffering=0)
    try:
        while True:
            full.write(bytes(1 << 12))
    except OSError:
        pass
    try:
        iter(loader)
    except OSError as error:
        print(error)
    full.truncate(0)
    print(sum(len(indices) for _, indices in loader))
"""


def test_small_shared_memory_of_the_system() -> None:
    in_namespaces = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = "mount -t tmpfs -o size=1m none /dev/shm"
    if (
        not shutil.which("unshare")
        or subprocess.run([*in_namespaces, mount], capture_output=True, check=False).returncode
    ):
        pytest.skip("this system has no user namespaces")
    run = subprocess.run(
        [*in_namespaces, f'{mount} && exec "$0" -c "$1"', sys.executable, SMALL_SHM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(("WorkerDiedError worker 0", "RuntimeError")), run.stdout
    assert "shared memory" in run.stdout or "No space left" in run.stdout
    assert run.stdout.endswith("/dev/shm has no space for the semaphores of their queues\n12\n"), run.stdout


# The server -----------------------------------------------------------------------------------------------------


@pipeline_def(num_threads=1, device_id=None, batch_size=4)
def stuck() -> Any:
    """Never finish a batch."""
    return fn.external_source(name="x") + fn.external_source(lambda info: time.sleep(60), batch=False)


def test_server_that_is_killed_while_all_wait_for_it() -> None:
    with DALIServer(stuck(), arena_bytes=1 << 16, arena_bytes_limit=1 << 16) as server:
        loader = DataLoader(server, IndexDataset(400, server.proxy, width=1000), batch_size=4, num_workers=2)
        errors: list[str] = []

        def loop() -> None:
            try:
                deque(loader, maxlen=0)
            except ServerDiedError as error:
                errors.append(str(error))

        threads = [threading.Thread(target=loop) for _ in range(2)]
        for thread in threads:
            thread.start()
        wait_until(lambda: server.stats().queued > 4)  # and the workers' shared memory is full
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        with soon():
            for thread in threads:
                thread.join()
        assert len(errors) == 2
        assert all("SIGKILL" in error for error in errors)


@pipeline_def(num_threads=1, device_id=None, batch_size=4)
def enlarged() -> Any:
    """Enlarge images of one pixel to the size that their brightness specifies."""
    x = fn.external_source(name="x")
    return fn.resize(x, size=fn.cast(x[0, 0, :1], dtype=types.FLOAT) * 1000.0)


def test_server_that_runs_out_of_memory() -> None:
    with DALIServer(enlarged()) as server:

        def size_of(thousands: int) -> list[int]:
            image = np.full((1, 1, 1), thousands, np.uint8)
            return list(server.produce_data(default_collate([server.proxy(image)])).shape)

        assert size_of(1) == [1, 1000, 1000, 1]
        assert server.pid is not None
        used = psutil.Process(server.pid).memory_info().vms
        resource.prlimit(server.pid, resource.RLIMIT_AS, (used + (100 << 20), resource.RLIM_INFINITY))
        with soon(), pytest.raises(BatchError, match=r"(?i)memory|allocate"):
            size_of(20)
        assert size_of(2) == [1, 2000, 2000, 1]  # it continues with batches that fit


@pytest.mark.parametrize("num_workers", [0, 1])
def test_sample_larger_than_the_arena(mode: str, num_workers: int) -> None:
    with DALIServer(affine(), mode=mode, arena_bytes=1 << 12, arena_bytes_limit=1 << 20) as server:  # type: ignore[arg-type]
        width = 20_000  # 80 kB a sample, 320 kB a batch
        loader = DataLoader(server, IndexDataset(40, server.proxy, width), batch_size=4, num_workers=num_workers)
        seen = [index for batch in loader for index in check_affine(*batch, width=width)]
        assert seen == list(range(40))
        loader = DataLoader(server, IndexDataset(8, server.proxy, 300_000), batch_size=4, num_workers=num_workers)
        with soon(), pytest.raises(ArenaFullError, match="raise arena_bytes_limit"):
            next(iter(loader))


def test_full_arena_delays_a_worker() -> None:
    with DALIServer(affine(), arena_bytes=1 << 14, arena_bytes_limit=1 << 14) as server:
        loader = DataLoader(server, IndexDataset(200, server.proxy, 500), 4, num_workers=1, prefetch_factor=10)
        assert [index for batch in loader for index in check_affine(*batch, width=500)] == list(range(200))


def test_server_without_descriptors() -> None:
    with DALIServer(affine()) as server:
        loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=4, num_workers=1)
        here = DataLoader(server, IndexDataset(8, server.proxy), batch_size=4)
        assert run_to_the_end(here) == list(range(8))
        assert server.pid is not None
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (lowest_free_descriptor(server.pid), 4096))
        with soon(), pytest.raises(ProxyError, match="ulimit -n"):
            run_to_the_end(loader)
        assert run_to_the_end(here) == list(range(8))  # connected clients continue
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        assert run_to_the_end(loader) == list(range(8))


@pipeline_def(num_threads=2, device_id=None, batch_size=16)
def with_a_source() -> Any:
    """Compute 3 x + 7, where 7 comes from a function of the user."""
    return fn.external_source(name="x") * 3 + fn.external_source(lambda info: np.int32(7), batch=False)


def start_and_loop(mode: Any, pipe: Any = affine) -> None:
    with DALIServer(pipe(), mode=mode) as server:
        assert run_to_the_end(DataLoader(server, IndexDataset(24, server.proxy), batch_size=4)) == list(range(24))


def test_descriptor_that_is_missing_at_any_step_is_an_error_that_names_the_limit(mode: str) -> None:
    """Nothing is left, not even a descriptor of a file."""
    start_and_loop(mode)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = os.listdir("/proc/self/fd")
    for number in range(100):
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free_descriptor(os.getpid()) + number, limits[1]))
        error: Any = None
        try:
            with soon():
                start_and_loop(mode)
        except (OSError, PipelineError) as raised:
            error = str(raised)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert os.listdir("/proc/self/fd") == before, error
        if error is None:
            return
        assert "Too many open files" in error or "ulimit -n" in error
    pytest.fail("100 descriptors should be enough")


@pytest.mark.parametrize("pipe", [affine, with_a_source])
def test_thread_that_cannot_start_is_an_error_that_leaves_nothing(pipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start, allowed, started = threading.Thread.start, 0, 0

    def start_some(thread: threading.Thread) -> None:
        nonlocal started
        started += 1
        if started > allowed:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    threads, descriptors = threading.active_count(), os.listdir("/proc/self/fd")
    for allowed in range(100):
        started, error = 0, None
        try:
            with soon():
                start_and_loop("thread", pipe)
        except (RuntimeError, BatchError) as raised:
            error = str(raised)
        assert threading.active_count() == threads
        assert os.listdir("/proc/self/fd") == descriptors
        if error is None:
            assert allowed > 3
            return
        assert "can't start new thread" in error
    pytest.fail("100 threads should be enough")


@pytest.mark.parametrize(("kind", "step"), [(Executor, "_check"), (ResultPublisher, "publish")])
def test_step_of_the_server_that_finds_no_memory_costs_its_batch(
    kind: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_once(*_: object, **__: object) -> None:
        monkeypatch.undo()
        raise MemoryError("no memory for this step")

    with DALIServer(affine(), mode="thread") as server:
        iterator = iter(DataLoader(server, IndexDataset(12, server.proxy), batch_size=4))
        assert check_affine(*next(iterator)) == [0, 1, 2, 3]
        monkeypatch.setattr(kind, step, fail_once)
        with soon(), pytest.raises(BatchError, match="no memory for this step"):
            next(iterator)
        assert check_affine(*next(iterator)) == [8, 9, 10, 11]


def test_batches_that_are_held_until_the_server_has_no_descriptor() -> None:
    with DALIServer(affine()) as server:
        loader = DataLoader(server, IndexDataset(1200, server.proxy), batch_size=4, num_workers=1)
        assert server.pid is not None
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (lowest_free_descriptor(server.pid) + 60, 4096))
        held: list[Any] = []
        loop = iter(loader)
        message = ""
        with soon():
            while not message:
                try:
                    held.append(next(loop))
                except BatchError as error:  # `pytest.raises` would keep the loop and its batches alive
                    message = str(error)
        assert "no file descriptor left" in message
        del loop
        held.clear()
        assert [index for batch in loader for index in check_affine(*batch)] == list(range(1200))


def test_socket_folder_that_is_removed() -> None:
    with DALIServer(affine()) as server:
        loader = DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=1)
        iterator = iter(loader)
        check_affine(*next(iterator))
        shutil.rmtree(Path(server.endpoint.path).parent)
        assert run_to_the_end(iterator) == list(range(4, 40))  # connections stay open
        with pytest.raises(ServerDiedError, match="was removed while it ran"):
            raise server.end_error() or AssertionError
        server.start()
        assert run_to_the_end(loader) == list(range(40))
        assert os.path.exists(server.endpoint.path)


# The training process -------------------------------------------------------------------------------------------


def train_for_ever(mode: Any, pids: Any) -> None:
    """Train until the process is killed."""
    with DALIServer(affine(), mode=mode) as server:
        for number, _ in enumerate(DataLoader(server, IndexDataset(10**9, server.proxy), batch_size=4, num_workers=1)):
            if number == 3:
                pids.put([child.pid for child in psutil.Process().children()])
            time.sleep(0.01)  # the training


def test_training_process_that_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        torch.utils.data._utils.worker, "MP_STATUS_CHECK_INTERVAL", 1
    )  # interval at which workers check their parent
    context = multiprocessing.get_context("fork")
    fates = [("process", signal.SIGKILL), ("thread", signal.SIGTERM), ("process", signal.SIGINT)]
    trainings, children = [], []
    for mode, number in fates:
        pids = context.SimpleQueue()
        training = context.Process(target=train_for_ever, args=(mode, pids))
        training.start()
        trainings.append((psutil.Process(training.pid), number))
        children += [psutil.Process(pid) for pid in pids.get()]
        pids.close()
    with soon():
        for training, number in trainings:
            training.send_signal(number)
        _, alive = psutil.wait_procs([training for training, _ in trainings] + children, timeout=PATIENCE_S)
    assert not alive
    with DALIServer(affine()):  # removes the files that the server in thread mode couldn't remove
        assert len(list(Path(tempfile.gettempdir()).glob("dali-proxy-*"))) == 1
