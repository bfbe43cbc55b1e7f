"""Several processes share the batches of a server: with the bits of one, whichever of them dies."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from torch.utils.data import IterableDataset

from dali_proxy import DALIServer, DataLoader, ServerDiedError
from dali_proxy._host import HostGroup, HostOptions, ProcessHost
from dali_proxy._monitor.servers import Servers
from dali_proxy.distributed import _SharedServer, set_ranks
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentMismatchError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, affine, decoded, jpeg, noisy, sample, sum_and_difference
from tests.environment import with_project
from tests.thorough import thorough_except
from tests.waiting import soon, wait_until

SAMPLES, BATCH = 96, 4


@pipeline_def(num_threads=2, device_id=None, batch_size=BATCH, seed=5)
def random_outputs() -> Any:
    """Return two outputs that depend on random numbers, and a draw with its own seed."""
    x = fn.external_source(name="x") * 1.0
    noise = fn.random.uniform(range=(0.0, 0.5))
    return x + noise, x + noise * fn.random.coin_flip(seed=9), fn.random.normal() + x


class Remembering(IndexDataset):
    """Returns the placeholder that it has made for an index before."""

    def __init__(self, length: int, proxy: Any) -> None:
        super().__init__(length, proxy)
        self.known: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        key = index % 10
        if key not in self.known:
            self.known[key] = super().__getitem__(key)
        return self.known[key]


class Encoded(IndexDataset):
    """Returns images."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(jpeg(index))


class Shuffled(IterableDataset[Any]):
    """Keeps placeholders of later batches in a buffer."""

    def __init__(self, proxy: Any) -> None:
        self.proxy = proxy

    def __iter__(self) -> Iterator[Any]:
        buffer = [self.proxy(sample(index)) for index in range(10)]
        for index in range(10, 64):
            yield buffer.pop(index % 10 % len(buffer))
            buffer.append(self.proxy(sample(index)))
        yield from buffer


def plain(batch: Any) -> Any:
    return [plain(part) for part in batch] if isinstance(batch, list | tuple) else batch.tolist()


def epochs(loader: DataLoader, count: int = 2) -> list[Any]:
    return [[plain(batch) for batch in loader] for _ in range(count)]


def loader_of(server: DALIServer, dataset: Any = None, **options: Any) -> DataLoader:
    dataset = IndexDataset(SAMPLES, server.proxy) if dataset is None else dataset
    return DataLoader(server, dataset, **{"batch_size": BATCH, "num_workers": 0, **options})


def processes_of(server: DALIServer) -> list[int]:
    host = server._life.host
    assert isinstance(host, HostGroup)
    return [each.pid for each in host.hosts]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    with DALIServer(noisy(), mode="thread") as server:
        return epochs(loader_of(server))


@pytest.mark.parametrize(
    ("count", "workers", "pool"),
    thorough_except(
        [(2, 0, 0), (2, 2, 0), (3, 1, 0), (2, 0, 2), (3, 0, 1), (2, 0, "auto")], (2, 2, 0), (3, 0, 1), (2, 0, "auto")
    ),
)
def test_bits_are_those_of_one_process(expected: list[Any], count: int, workers: int, pool: Any) -> None:
    with DALIServer(noisy(), num_processes=count, num_workers=pool) as server:
        assert epochs(loader_of(server, num_workers=workers)) == expected
        stats = server.stats()
        assert (stats.processes, stats.batches, stats.samples) == (count, 2 * SAMPLES // BATCH, 2 * SAMPLES)
        assert all(_batches(server)), "each process has a share"


def _batches(server: DALIServer) -> list[int]:
    return [client.statistics()["batches"] for client in server.consumer._clients]  # type: ignore[union-attr]


def test_outputs_of_a_sample_have_the_same_random_numbers() -> None:
    found = []
    for count in (1, 2, 3):
        with DALIServer(random_outputs(), num_processes=count) as server:
            found.append(epochs(loader_of(server, shuffle=True, generator=torch.Generator().manual_seed(2))))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("workers", [0, 1])
def test_samples_that_a_dataset_keeps_are_used_by_all_processes(workers: int) -> None:
    found = []
    for count in (1, 3):
        with DALIServer(random_outputs(), num_processes=count) as server:
            found.append(epochs(loader_of(server, Remembering(SAMPLES, server.proxy), num_workers=workers)))
    assert found[0] == found[1]


def test_samples_of_an_iterable_dataset_may_belong_to_later_batches() -> None:
    found = []
    for count in (1, 3):
        with DALIServer(noisy(), num_processes=count) as server:
            found.append(epochs(loader_of(server, Shuffled(server.proxy), num_workers=2)))
    assert found[0] == found[1]


def test_loaders_of_torch_get_their_batches() -> None:
    with DALIServer(affine(), num_processes=2) as server:
        loader = torch.utils.data.DataLoader(IndexDataset(24, server.proxy), batch_size=4, num_workers=2)
        values = [server.produce_data(values)[:, 0].tolist() for values, _ in loader]
    assert list(itertools.chain(*values)) == [3 * index + 7 for index in range(24)]


@pytest.mark.faults
@pytest.mark.parametrize(("number", "pool"), [(0, 0), (1, 0), (2, 2)])
def test_death_of_one_process_costs_no_batch(expected: list[Any], number: int, pool: int) -> None:
    with DALIServer(noisy(), num_processes=3, num_workers=pool, restart="on-failure") as server, soon():
        loader = loader_of(server, num_workers=0 if pool else 2)
        found: list[Any] = [[], []]
        for epoch in found:
            for batch in loader:
                epoch.append(plain(batch))
                if epoch is found[0] and len(epoch) == 5:
                    os.kill(processes_of(server)[number], signal.SIGKILL)
        assert found == expected
        assert server.losses.restarts == 1


@pytest.mark.parametrize("number", [0, 1])
def test_rank_notices_the_death_of_the_process_of_another_rank(number: int) -> None:
    set_ranks(number, 2, number, 2)
    try:
        with DALIServer(affine(), num_processes=2, restart="on-failure") as server, soon():
            loop = iter(loader_of(server))
            values = [next(loop)[0][0, 0].item()]
            os.kill(processes_of(server)[1 - number], signal.SIGKILL)
            values += [each[0, 0].item() for each, _ in loop]
            assert values == [3 * index + 7 for index in range(0, SAMPLES, BATCH)]
            assert server.losses.restarts == 1
            assert server.running
    finally:
        set_ranks(None)


@pytest.mark.faults
def test_death_of_one_process_is_an_error_without_restarts() -> None:
    with DALIServer(noisy(), num_processes=2) as server, soon():
        loop = iter(loader_of(server))
        next(loop)
        os.kill(processes_of(server)[1], signal.SIGKILL)
        with pytest.raises(ServerDiedError, match=rf"pid {processes_of(server)[1]}\) was killed by SIGKILL"):
            list(loop)
        assert not server.running
        first = psutil.Process(processes_of(server)[0])
    wait_until(lambda: not first.is_running(), "the end of the other process")


def test_checkpoint_resumes_with_another_number(expected: list[Any]) -> None:
    state, found = None, []
    for count, stop in ((2, 7), (1, 15), (3, SAMPLES)):
        with DALIServer(noisy(), num_processes=count) as server:
            loader = loader_of(server)
            if state is not None:
                loader.load_state_dict(state)
            for batch in loader:
                found.append(plain(batch))
                if len(found) == stop:
                    state = pickle.loads(pickle.dumps(loader.state_dict()))
                    break
    assert found == expected[0]


def test_removed_socket_of_a_process_restarts_the_server(expected: list[Any]) -> None:
    with DALIServer(noisy(), num_processes=2, restart="on-failure") as server, soon():
        loader = loader_of(server, num_workers=1)
        found = [[plain(batch) for batch in loader]]
        before, (_, second) = processes_of(server), server.endpoint.of_processes
        os.unlink(second.path)
        assert not server.running
        error = server.end_error()
        assert f"its socket {second.path} was removed while it ran" in str(error)
        found.append([plain(batch) for batch in loader])
        assert found == expected
        assert not {*before} & {*processes_of(server)}


def test_other_processes_use_a_handle() -> None:
    with DALIServer(affine(), num_processes=2) as server:
        handle = pickle.loads(pickle.dumps(server))
        values = [values[0, 0].item() for values, _ in loader_of(handle, IndexDataset(16, handle.proxy))]
        assert values == [3 * index + 7 for index in range(0, 16, BATCH)]


def test_ranks_have_processes_of_their_own() -> None:
    set_ranks(1, 2, 1, 2)
    try:
        with _SharedServer(affine(), num_processes="auto") as server:
            assert server.stats().processes_reason == "2 ranks use the server"
            list(loader_of(server))
            assert _batches(server) == [0, SAMPLES // BATCH]
    finally:
        set_ranks(None)


def test_server_of_one_rank_uses_all_its_processes() -> None:
    set_ranks(1, 2, 1, 2)
    try:
        assert DALIServer(affine(), num_processes="auto").num_processes == 1
        with DALIServer(affine(), num_processes=2) as server:
            list(loader_of(server))
            assert _batches(server) == [SAMPLES // BATCH // 2] * 2
    finally:
        set_ranks(None)


def test_one_pool_reads_for_all_processes() -> None:
    with DALIServer(sum_and_difference(), num_processes=2, num_workers=2) as server:
        supervisors = [
            child
            for child in psutil.Process().children()
            if child.pid not in processes_of(server) and len(child.children()) == 2
        ]
        assert len(supervisors) == 1


def test_monitors_see_one_server() -> None:
    with DALIServer(affine(), num_processes=2) as server:
        list(loader_of(server))
        servers = Servers(server.endpoint.path)
        try:
            (seen,) = servers.observations()
        finally:
            servers.close()
        assert (seen.pid, seen.total.processes, seen.total.batches) == (server.pid, 2, SAMPLES // BATCH)


def test_counters_are_those_of_one_process() -> None:
    found = []
    for count in (1, 3):
        with DALIServer(decoded(), num_processes=count) as server:
            list(loader_of(server, Encoded(SAMPLES, server.proxy)))
            stats = server.stats()
            stages = {stage: durations.count for stage, durations in stats.ranks[0].items()}
            operators = {name: (times.batches, times.cacheable) for name, times in stats.operators.items()}
            assert stats.ranks[0] == stats.latency
            found.append((stages, operators, stats.cacheable_bytes, stats.consumers, stats.workers, stats.cores))
    assert found[0] == found[1]
    assert found[0][0]["pipeline"] == SAMPLES // BATCH


def test_other_rank_has_its_durations_in_each_process() -> None:
    with DALIServer(affine(), num_processes=2) as server:
        code = "from tests.dali_proxy.host.test_group import loop_of_another_rank as loop; loop()"
        list(loader_of(server))
        with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, env=with_project()) as other:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(pickle.dumps(server))
            other.stdin.flush()
            assert other.stdout.readline() == b"taken\n"
            stats = server.stats()
            other.stdin.close()
        assert stats.ranks[0]["pipeline"].count == SAMPLES // BATCH
        assert {stats.ranks[3][stage].count for stage in ("queue", "pipeline")} == {SAMPLES // BATCH}


def loop_of_another_rank() -> None:
    set_ranks(3, 4, 3, 4)
    server = pickle.load(sys.stdin.buffer)
    list(loader_of(server))
    server.controller.pause()  # reports
    server.stats()  # the reports have arrived
    print("taken", flush=True)
    sys.stdin.buffer.read()


def test_processes_know_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    siblings: dict[int, tuple[int, ...]] = {}

    def start(pipeline: bytes, options: HostOptions, **arguments: Any) -> ProcessHost:
        found = ProcessHost(pipeline, options, **arguments)
        siblings[found.pid] = options.siblings
        return found

    monkeypatch.setattr("dali_proxy._host.group.ProcessHost", start)
    with DALIServer(affine(), num_processes=3) as server:
        pids = processes_of(server)
    assert {own: {own, *others} for own, others in siblings.items()} == {own: set(pids) for own in pids}


def test_trace_has_the_batches_of_all_processes(tmp_path: Path) -> None:
    with DALIServer(affine(), num_processes=2) as server:
        with server.trace(tmp_path / "trace.json"):
            list(loader_of(server))
        text = (tmp_path / "trace.json").read_text()
        assert all(f'"pid": {pid}' in text or f'"pid":{pid}' in text for pid in processes_of(server))


@pytest.mark.parametrize(
    ("pipeline", "options", "reason"),
    [
        (affine, {"mode": "thread"}, 'mode="thread"'),
        (affine, {"cache": "1MB"}, "the cache of decoded samples is in one process"),
        (affine, {"name": "several"}, "a server with a name"),
        ("counting", {}, "depends on earlier batches"),
        ("source", {}, "depends on earlier batches"),
    ],
)
def test_state_needs_one_process(pipeline: Any, options: dict[str, Any], reason: str) -> None:
    @pipeline_def(num_threads=2, device_id=None, batch_size=BATCH)
    def counting() -> Any:
        return fn.python_function(fn.external_source(name="x"), function=lambda x: x)

    @pipeline_def(num_threads=2, device_id=None, batch_size=BATCH)
    def source() -> Any:
        own = fn.external_source(source=lambda: [np.zeros(3, np.int32)] * BATCH)
        return fn.external_source(name="x") + own

    made = {"counting": counting, "source": source}.get(pipeline, pipeline)
    with pytest.raises(ArgumentMismatchError, match=reason):
        DALIServer(made(), num_processes=2, **options)
    set_ranks(0, 2, 0, 2)
    try:
        server = _SharedServer(made(), num_processes="auto", **options)
    finally:
        set_ranks(None)
    assert server.num_processes == 1
    assert reason in server._processes_reason
    assert ("in one process of a server" in server.pipeline.explain()) == ("depends" in reason)


@pytest.mark.parametrize("count", [0, -1, 1.5, "many", 65])
def test_number_of_processes_is_checked(count: Any) -> None:
    with pytest.raises(ArgumentValueError, match="num_processes must be"):
        DALIServer(affine(), num_processes=count)


def test_processes_divide_the_threads() -> None:
    with DALIServer(affine(num_threads=5), num_processes=2) as server:
        assert server.stats().threads == 4


def test_process_that_cannot_start_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(pipeline: bytes, options: HostOptions, **arguments: Any) -> ProcessHost:
        found = ProcessHost(pipeline, options, **arguments)
        if options.path == server.endpoint.path:  # the last one
            found.stop("the test kills it")
            raise ServerDiedError("the server didn't start")
        return found

    monkeypatch.setattr("dali_proxy._host.group.ProcessHost", start)
    with DALIServer(affine()):
        pass  # the process that forks the servers of tests runs from now on
    before = {child.pid for child in psutil.Process().children()}
    server = DALIServer(affine(), num_processes=3)
    with pytest.raises(ServerDiedError, match="didn't start"):
        server.start()
    assert not os.path.exists(os.path.dirname(server.endpoint.path))
    assert {child.pid for child in psutil.Process().children()} <= before


def test_first_process_that_ends_is_described_without_waiting_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with DALIServer(affine(), num_processes=3) as server:
        host = server._life.host
        assert isinstance(host, HostGroup)
        assert host.describe_exit(0.0) == ""
        last = host.hosts[-1]
        os.kill(last.pid, signal.SIGSTOP)
        last._control.close()  # the process ends, and the system has closed its sockets, but it still exists
        monkeypatch.setattr(ProcessHost, "describe_exit", lambda self, patience: f"{self.pid} ended")
        assert host.describe_exit() == f"{last.pid} ended"


def test_processes_stop_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Recorded(ProcessHost):
        def ask_to_stop(self) -> None:
            super().ask_to_stop()
            asked.append(self.pid)

        def stop(self, reason: str) -> None:
            assert set(asked) == set(pids), "a process whose batches don't end would keep the others running"
            super().stop(reason)

    monkeypatch.setattr("dali_proxy._host.group.ProcessHost", Recorded)
    with DALIServer(affine(), num_processes=3) as server:
        pids = processes_of(server)


def test_replaced_pipeline_keeps_the_processes() -> None:
    with DALIServer(noisy(), num_processes=2) as server:
        loader = loader_of(server)
        list(loader)
        server.replace(noisy(seed=6))
        assert server.stats().processes == 2
        assert len(list(loader)) == SAMPLES // BATCH
