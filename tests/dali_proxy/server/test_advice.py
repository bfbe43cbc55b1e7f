"""Advice for real bottlenecks: `stats()`, `top` and the page say what limits the speed, and what helps.

The processes are real. No test depends on a rate: on a busy machine, the same processes wait for the same reasons.
So waits take far longer than a busy machine needs to wake a process.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader, OperatorTimes, ServerStats
from dali_proxy._monitor.servers import Servers
from pipeline import fn, pipeline_def
from tests.thorough import thorough_except
from tests.waiting import PATIENCE_S

SECONDS = 1.0  # of a loop and its measurement
IMAGE = np.zeros((64, 64, 3), np.uint8)


@pipeline_def(num_threads=1, device_id=None, batch_size=4)
def cheap() -> Any:
    return fn.flip(fn.external_source(name="image"), horizontal=1)


@pipeline_def(num_threads=1, device_id=None, batch_size=4)
def expensive() -> Any:
    image = fn.flip(fn.external_source(name="image"), horizontal=1)
    return fn.gaussian_blur(fn.resize(image, size=(900, 900)), window_size=41)


class Images(Dataset[Any]):
    """Returns images after `wait`."""

    def __init__(self, proxy: Any, length: int = 4000) -> None:
        self.proxy = proxy
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        self.wait()
        return self.proxy(image=IMAGE)

    def wait(self) -> None:
        """Do what the dataset does for an image."""


class SlowDisk(Images):
    """Sleeps as a process does that waits for a disk."""

    def wait(self) -> None:
        time.sleep(0.1)


class SlowNetwork(Images):
    """Reads from a server on the network."""

    port = 0

    def wait(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            while connection.recv(1 << 16):
                pass


class SlowCode(Images):
    """Computes, as a dataset does that decodes."""

    def wait(self) -> None:
        hashlib.pbkdf2_hmac("sha256", b"image", b"salt", 40_000)


def loop(server: DALIServer, dataset: Images, *, train: float = 0.0, **options: Any) -> None:
    """Loop until enough is measured."""
    loader = DataLoader(server, dataset, batch_size=4, **options)
    begin = time.monotonic()

    def is_measured() -> bool:
        stats = server.stats()
        measured = stats.worker_elapsed / options["num_workers"] if "num_workers" in options else stats.observed
        return min(measured, stats.training + stats.worker_wait + stats.result_wait) > SECONDS or stats.starts_limit

    while not is_measured() and time.monotonic() < begin + PATIENCE_S:
        for number, _ in enumerate(loader):
            time.sleep(train)
            if number % 4 == 3 and is_measured():
                break


@contextmanager
def advised(pipe: Any) -> Iterator[tuple[DALIServer, list[ServerStats]]]:
    """Run a server. Check that all places give the same advice after the loop."""
    found: list[ServerStats] = []
    with DALIServer(pipe) as server:
        yield server, found
        stats = server.stats()
        found.append(stats)
        servers = Servers(server.endpoint.path)
        try:
            (seen,) = servers.observations()
        finally:
            servers.close()
        assert seen.recent.limited_by == stats.limited_by
        assert seen.advice.partition(":")[0] == stats.advice.partition(":")[0]
        assert seen.to_dict()["advice"] == seen.advice
        assert stats.to_dict()["advice"] == stats.advice


def test_slow_disk_needs_more_workers() -> None:
    with advised(cheap()) as (server, found):
        loop(server, SlowDisk(server.proxy), num_workers=2)
    (stats,) = found
    assert stats.limited_by == "workers"
    assert "The workers wait" in stats.advice, stats
    assert "raise num_workers (2 now), also beyond the" in stats.advice


def test_slow_network_needs_more_workers() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    ends = threading.Event()

    def serve() -> None:
        while not ends.is_set():
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,)).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            ends.wait(0.1)
            connection.sendall(bytes(1000))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with advised(cheap()) as (server, found):
            dataset = SlowNetwork(server.proxy)
            dataset.port = listener.getsockname()[1]
            loop(server, dataset, num_workers=2)
    finally:
        ends.set()
        socket.create_connection(listener.getsockname()).close()
        thread.join()
        listener.close()
    assert found[0].limited_by == "workers"
    assert "for a disk or a network" in found[0].advice, found[0]


def test_dataset_that_computes_is_not_said_to_wait() -> None:
    with advised(cheap()) as (server, found):
        loop(server, SlowCode(server.proxy), num_workers=2)
    (stats,) = found
    assert stats.limited_by == "workers"
    assert "for a disk or a network" not in stats.advice, stats
    assert stats.worker_processor + stats.worker_runnable > stats.worker_elapsed / 2


def test_dataset_in_the_training_process_needs_workers() -> None:
    with advised(cheap()) as (server, found):
        loop(server, SlowDisk(server.proxy))
    assert "pass num_workers=1 or more" in found[0].advice


def test_slow_operator_is_named_without_arguments_that_it_lacks() -> None:
    with advised(expensive()) as (server, found):
        loop(server, Images(server.proxy), num_workers=1)
    (stats,) = found
    assert stats.limited_by == "pipeline"
    assert "fn.gaussian_blur takes" in stats.advice, stats
    assert "parallel=" not in stats.advice
    assert "GIL" not in stats.advice


def sleepy(image: Any) -> Any:
    time.sleep(0.1)
    return image


@pytest.mark.parametrize(
    ("parallel", "remedy"),
    thorough_except([(False, "pass parallel=True"), (None, "raise py_num_workers")], (False, "pass parallel=True")),
)
def test_slow_python_function_is_named(parallel: bool | None, remedy: str) -> None:
    @pipeline_def(num_threads=2, device_id=None, batch_size=4)
    def slow() -> Any:
        image = fn.flip(fn.external_source(name="image"), horizontal=1)
        return fn.python_function(image, function=sleepy, parallel=parallel)

    with advised(slow()) as (server, found):
        loop(server, Images(server.proxy), num_workers=1)
    assert found[0].limited_by == "pipeline"
    assert "fn.python_function (sleepy) mostly waits" in found[0].advice, found[0]
    assert remedy in found[0].advice


def test_slow_training_needs_no_other_loader() -> None:
    with advised(cheap()) as (server, found):
        loop(server, Images(server.proxy), train=0.3, num_workers=1)
    assert found[0].limited_by == "training"
    assert "A faster loader wouldn't help" in found[0].advice


def test_short_run_does_not_say_what_threads_wait_for() -> None:
    operators = {"fn.decoders.image (a.py:1)": OperatorTimes(2, 0.3, 13.2)}
    stats = ServerStats(
        seconds=7, batches=2, training=1, result_wait=6, busy=6.5, operators=operators, threads=2, cores=2
    )
    assert "mostly waits" not in stats.advice
    measured = replace(stats, observed=5.0, cores_idle=8.0)
    assert "fn.decoders.image (a.py:1) mostly waits" in measured.advice


def test_training_on_an_overloaded_machine_is_told_so() -> None:
    stats = ServerStats(seconds=10, batches=5, training=9.5, worker_wait=0.2, cores=2, observed=9.0, cores_other=15.0)
    assert stats.limited_by == "training"
    assert "The machine is overloaded" in stats.advice


def burn(parent: int) -> None:
    while os.getppid() == parent:
        hashlib.pbkdf2_hmac("sha256", b"burn", b"salt", 100_000)


@pytest.mark.parametrize(
    ("pipe", "dataset"), thorough_except([(cheap, SlowCode), (expensive, Images)], (cheap, SlowCode))
)
def test_machine_that_other_programs_overload(pipe: Any, dataset: type[Images]) -> None:
    with DALIServer(pipe()) as server:
        count = 2 * server.stats().cores
        others = [multiprocessing.Process(target=burn, args=(os.getpid(),), daemon=True) for _ in range(count)]
        try:
            for other in others:
                other.start()
            loop(server, dataset(server.proxy), num_workers=2)
            stats = server.stats()
        finally:
            for other in others:
                other.kill()
                other.join()
    assert "The machine is overloaded: other programs use" in stats.advice, stats


def test_own_load_is_not_that_of_other_programs() -> None:
    with DALIServer(cheap()) as server:
        loop(server, SlowCode(server.proxy), num_workers=server.stats().cores)
        stats = server.stats()
    used = stats.cores * stats.observed - stats.cores_idle
    assert stats.cores_other < used, stats


def test_short_epochs_need_persistent_workers() -> None:
    with advised(cheap()) as (server, found):
        loop(server, Images(server.proxy, length=8), num_workers=1)
    (stats,) = found
    assert stats.worker_starts > 0
    assert "The start of workers limits the speed" in stats.advice, stats
    assert "persistent_workers=True" in stats.advice


def test_only_epochs_with_new_workers_count_as_starts() -> None:
    with DALIServer(cheap()) as server:
        dataset = Images(server.proxy, length=8)
        lasting = DataLoader(server, dataset, batch_size=4, num_workers=1, persistent_workers=True)
        assert [len(list(lasting)) for _ in range(3)] == [2, 2, 2]
        assert len(list(DataLoader(server, dataset, batch_size=4))) == 2
        assert server.stats().worker_starts == 0
        loader = DataLoader(server, dataset, batch_size=4, num_workers=1)
        assert [len(list(loader)) for _ in range(2)] == [2, 2]
        assert server.stats().worker_starts == 2
        del lasting


def test_top_shows_the_rate_of_the_loop() -> None:
    """The server has made all batches long before the loop takes them."""
    with DALIServer(cheap()) as server:
        servers = Servers(server.endpoint.path)
        rates = []
        try:
            loader = DataLoader(server, Images(server.proxy, length=48), batch_size=4, num_workers=1)
            for number, _ in enumerate(loader):
                time.sleep(0.2)
                if number % 4 == 0:
                    (seen,) = servers.observations(newer=True)
                    rates.append((seen.samples_per_second, seen.recent.samples))
        finally:
            servers.close()
    assert any(made == 0 for _, made in rates[1:]), rates
    assert all(0 < rate <= 20.5 for rate, _ in rates[1:]), rates


def test_workers_are_remembered_after_the_loop() -> None:
    with DALIServer(cheap()) as server:
        assert len(list(DataLoader(server, Images(server.proxy, length=8), batch_size=4, num_workers=2))) == 2
        stats = server.stats()
    assert stats.num_workers == 2
    assert "8 samples taken in 2 batches, with 2 workers" in str(stats)


@pytest.mark.parametrize("limits", [True, False])
def test_report_says_that_a_store_limits_the_speed(limits: bool) -> None:
    operators = {"fn.io.file.read": OperatorTimes(10, 0.2, 9.0)}
    cores: dict[str, Any] = {"cores": 2, "observed": 10.0, "cores_idle": 15.0}
    requests: dict[str, Any] = {
        "remote_reads": 640,
        "remote_bytes": 6_400_000,
        "remote_seconds": 32.0,
        "remote_repeats": 30,
        "remote_limit": 48,
    }
    waits = {"training": 1.0, "result_wait": 9.0} if limits else {"training": 9.0, "result_wait": 0.1}
    stats = ServerStats(operators=operators, seconds=10.0, busy=8.0, loop_batches=20, **waits, **cores, **requests)
    line = " ".join(str(stats).split())
    assert "remote 640 requests answered, 6.4 MB, 50 ms each; 30 sent again" in line
    assert ("The store limits the speed: 4 requests wait" in line) is limits
    assert ("at most 48 are sent at once" in line) is limits
