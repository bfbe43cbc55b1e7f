"""The dataset workers of a server, for one process that uses it."""

from __future__ import annotations

import os
import signal
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from dali_proxy import DALIServer, DataLoader, WorkerDiedError
from dali_proxy._pool.dataset_pool import DatasetPool
from tests.dali_proxy.indexed import IndexDataset, IndexStream, affine, check_affine, noisy
from tests.waiting import PATIENCE_S, wait_until

PIPE = 1 << 16  # bytes that a pipe contains


class PrintingDataset(IndexDataset):
    """Prints more than a pipe contains."""

    def __getitem__(self, index: int) -> Any:
        print(f"sample {index}".ljust(PIPE // 8))
        return super().__getitem__(index)


class HangingDataset(IndexDataset):
    """Hangs, after it has left its process ID in a file."""

    def __init__(self, length: int, transform: Any, folder: Path) -> None:
        super().__init__(length, transform)
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        (self.folder / str(os.getpid())).touch()
        while True:
            signal.pause()


class MortalDataset(IndexDataset):
    """Kills its process at every ninth sample, once; files in a folder record this."""

    def __init__(self, length: int, transform: Any, folder: Path) -> None:
        super().__init__(length, transform)
        self.folder = folder

    def __getitem__(self, index: int) -> Any:
        if index % 9 == 8:
            with suppress(FileExistsError):
                (self.folder / str(index)).touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


class RaisingDataset(IndexDataset):
    """Raises an error of a class that a script defines."""

    def __init__(self, length: int, transform: Any, error: type[Exception]) -> None:
        super().__init__(length, transform)
        self.error = error

    def __getitem__(self, index: int) -> Any:
        raise self.error(f"sample {index} is bad")


def test_error_has_its_class_though_a_script_defines_it(monkeypatch: pytest.MonkeyPatch) -> None:
    script = sys.modules["__main__"]
    ours = type("OursError", (LookupError,), {"__module__": "__main__"})
    monkeypatch.setattr(script, "OursError", ours, raising=False)
    with DALIServer(affine(), num_workers=1) as server:
        batches = iter(DataLoader(server, RaisingDataset(4, server.proxy, ours), batch_size=2))
        with pytest.raises(ours, match="sample 0 is bad"):
            next(batches)
        monkeypatch.delattr(script, "OursError")
        with pytest.raises(LookupError, match="sample 2 is bad"):
            next(batches)


@pytest.mark.faults
def test_deaths_of_the_server_and_its_dataset_workers_cost_no_batch(tmp_path: Path) -> None:
    with DALIServer(noisy(), mode="thread") as server:
        expected = [batch.tolist() for batch, _ in DataLoader(server, IndexDataset(64, server.proxy), batch_size=4)]
    with DALIServer(noisy(), num_workers=2, restart="on-failure") as server:
        found = []
        for batch, _ in DataLoader(server, MortalDataset(64, server.proxy, tmp_path), batch_size=4):
            found.append(batch.tolist())
            if len(found) == 5:
                assert server.pid is not None
                os.kill(server.pid, signal.SIGKILL)
        assert found == expected
        assert server.losses.restarts == 1
    assert len(list(tmp_path.iterdir())) == 7


def test_loop_requests_batches_from_a_server_that_another_loop_has_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = DatasetPool.wait

    def wait_after_a_restart(pool: DatasetPool) -> None:
        monkeypatch.undo()  # only the first call
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.running)
        server.revive(server.stops)
        wait(pool)

    with DALIServer(affine(), num_workers=1, restart="on-failure", timeout=PATIENCE_S) as server:
        monkeypatch.setattr(DatasetPool, "wait", wait_after_a_restart)
        loader = DataLoader(server, IndexDataset(64, server.proxy), batch_size=4)
        assert [index for batch in loader for index in check_affine(*batch)] == list(range(64))
        assert server.stats().restarts == 1


def test_output_of_a_dataset_appears_and_blocks_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with DALIServer(affine(), mode="thread", num_workers=1) as server:
        batches = list(DataLoader(server, PrintingDataset(32, server.proxy), batch_size=4, timeout=PATIENCE_S))
    assert len(batches) == 8
    printed = [line.rstrip() for line in capfd.readouterr().out.splitlines()]
    assert [line for line in printed if line.startswith("sample")] == [f"sample {index}" for index in range(32)]


def test_epochs_that_are_left_keep_no_descriptors() -> None:
    with DALIServer(affine(), mode="thread", num_workers=1) as server:
        dataset = IndexDataset(400, server.proxy)
        loader = DataLoader(server, dataset, batch_size=4)
        counts = []
        for epoch in range(8):
            dataset.width = 3 + epoch  # so that each epoch sends another pickle of the dataset
            loop = iter(loader)
            next(loop)
            del loop
            if epoch < 2:
                counts.append(len(os.listdir("/proc/self/fd")))
        # Six more epochs: on a busy machine, memory for results may first be needed in one of them, and is kept.
        wait_until(lambda: len(os.listdir("/proc/self/fd")) <= max(counts) + 2, "closing descriptors")


def test_options_for_workers_refer_to_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    with DALIServer(affine(), mode="thread", num_workers=1) as server:
        pickles: list[bytes] = []
        put = server.pool.put
        monkeypatch.setattr(server.pool, "put", lambda data: pickles.append(data) or put(data))
        dataset = IndexDataset(40, server.proxy)
        for num_workers, prefetch_factor, expected in ((0, None, {*range(3, 17)}), (0, 5, {5}), (2, 1, {1})):
            options: Any = {"num_workers": num_workers, "prefetch_factor": prefetch_factor}
            loader = DataLoader(server, dataset, batch_size=4, persistent_workers=True, **options)
            for epoch in range(2):
                dataset.width = 3 + epoch  # the workers keep the dataset as it was when the loader began
                batches = list(loader)
                assert [batch[0].shape for batch in batches] == [(4, 3)] * 10
                assert server.stats().in_flight["loader"].batches in expected
            dataset.width = 3
        assert len(pickles) == 3
        with pytest.raises(ValueError, match="prefetch_factor must be 1 or more, or None, not -1"):
            DataLoader(server, dataset, prefetch_factor=-1)
        with pytest.raises(ValueError, match="num_workers > 0"):
            DataLoader(server, IndexStream(4, server.proxy), prefetch_factor=2)


def test_handle_that_is_dropped_is_freed_at_once() -> None:
    server = DALIServer(affine(), num_workers=1)
    assert server.pool.ready == 1
    reference = weakref.ref(server)
    del server
    assert reference() is None


def test_hanging_worker_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    def kill_parent() -> psutil.Process:
        wait_until(lambda: any(tmp_path.iterdir()))
        worker = psutil.Process(int(next(tmp_path.iterdir()).name))
        worker.parent().kill()
        return worker

    with DALIServer(affine(), mode="thread", num_workers=1) as server, ThreadPoolExecutor(1) as thread:
        killed = thread.submit(kill_parent)
        loader = DataLoader(server, HangingDataset(8, server.proxy, tmp_path), batch_size=4, timeout=PATIENCE_S)
        with pytest.raises(WorkerDiedError, match="the process that starts the dataset workers has ended"):
            next(iter(loader))
        worker = killed.result()
        try:
            wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "the worker's end")
        finally:
            worker.kill()
