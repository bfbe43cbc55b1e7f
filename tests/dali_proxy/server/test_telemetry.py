"""The statistics of a server."""

from __future__ import annotations

import json
import multiprocessing
import sys
import threading
from dataclasses import asdict, replace
from typing import Any

import pytest

from dali_proxy import DALIServer, DataLoader, OperatorTimes, ServerStats
from dali_proxy._common.latency import Latency
from dali_proxy._loader.batches import Cost
from dali_proxy._server.telemetry import LoopTimes, slowest_of
from tests.dali_proxy.indexed import IndexDataset, affine, sample
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("stats", "limit"),
    [
        (ServerStats(), ""),
        (ServerStats(seconds=10, batches=5, training=9.5, worker_wait=0.5, busy=3), "training"),
        (ServerStats(seconds=10, batches=5, training=1, worker_wait=7, result_wait=2, busy=9), "pipeline"),
        (ServerStats(seconds=10, batches=5, training=1, worker_wait=9, busy=3), "workers"),
        (ServerStats(seconds=10, batches=5, training=1, start_wait=9, busy=1), "training"),
        (ServerStats(seconds=15, batches=5, training=11, worker_wait=1, result_wait=3, busy=4), "pipeline"),
    ],
)
def test_limited_by(stats: ServerStats, limit: str) -> None:
    assert stats.limited_by == limit


def test_difference() -> None:
    earlier = ServerStats(seconds=1, batches=2, running=3, operators={"a": OperatorTimes(1, 0.5, 2.0)})
    later = ServerStats(
        seconds=4,
        batches=7,
        running=1,
        operators={"a": OperatorTimes(4, 1.5, 5.0), "b": OperatorTimes(1, 1.0, 1.0, "gpu")},
    )
    between = later - earlier
    assert (between.seconds, between.batches, between.running) == (3, 5, 1)
    assert between.operators == {"a": OperatorTimes(3, 1.0, 3.0), "b": OperatorTimes(1, 1.0, 1.0, "gpu")}


def test_report_names_the_bottleneck() -> None:
    stats = ServerStats(
        seconds=10, batches=500, samples=32_000, bytes_in=2_000_000, errors=3, training=9.5, worker_wait=0.5,
        operators={"resize": OperatorTimes(500, 1.5), "decoders.image": OperatorTimes(500, 4.0)},
    )  # fmt: skip
    text = str(stats)
    assert "500 batches of 32,000 samples in 10.0 s, 3,200 samples/s; 3 failed" in text
    assert "95% training, 5% waiting for workers" in text
    assert "limited by  training" in text
    assert text.index("decoders.image") < text.index("resize")  # the most expensive ones first


def test_long_names_are_wrapped() -> None:
    names = [f"fn.operator_{number} (train.py:{number})" for number in range(50)]
    operators = {name: OperatorTimes(10, number, number) for number, name in enumerate(names)}
    operators[" → ".join(names)] = OperatorTimes(10, 90.0, 91.0, "gpu")
    operators["x" * 300] = OperatorTimes(123_456, 234.0, 345.0)
    lines = str(ServerStats(operators=operators)).splitlines()
    assert max(map(len, lines)) <= 120
    assert "fn.operator_49 (train.py:49)" in lines[-43]
    assert "fn.operator_8 (train.py:8)" in lines[-2]
    assert lines[-1] == "     28.00 s   2%      28.00 s             8 others"
    assert any("time on the host; it runs on the GPU" in line for line in lines)


def test_counters_are_json() -> None:
    stats = ServerStats(seconds=4, batches=7, operators={"a": OperatorTimes(4, 1.5, 2.0, "mixed")})
    fields = json.loads(json.dumps(asdict(stats)))
    times = {"batches": 4, "seconds": 1.5, "wall": 2.0, "device": "mixed", "function": "", "cacheable": False}
    assert fields["operators"] == {"a": times}
    assert ServerStats.from_report(fields) == stats
    assert ServerStats.from_report({**fields, "of_another_release": 1}) == stats


def test_percentiles_of_the_time_between_two_reports() -> None:
    times = LoopTimes()
    for _ in range(2):
        times.leave(0.0, 0.001, is_first=False)
    before = ServerStats(latency={"wait": times.latency["wait"] + Latency()})
    times.leave(0.0, 5.0, is_first=True)  # isn't counted as waiting
    for _ in range(2):
        times.leave(0.125, 0.125, is_first=False, rank=3)
    now = ServerStats(latency={"wait": times.latency["wait"]}, ranks={3: {"wait": times.latency["wait"]}})
    recent = now - before
    assert (now.latency["wait"].count, recent.latency["wait"].count) == (4, 2)
    assert recent.latency["wait"].p50 == 0.25 > now.latency["wait"].p50
    assert recent.ranks == {3: {"wait": now.latency["wait"]}}
    assert "wait 977 us / 250.0 ms / 250.0 ms" in str(now).replace("\n            ", " ")


def test_slowest_samples_are_kept() -> None:
    times = LoopTimes()
    for index in range(100):
        times.note_cost(Cost(1.0, 0, 0, str(index % 50), (index * 37) % 101))
    assert list(slowest_of(times.slowest).values()) == [*range(100, 92, -1)]
    assert len(times.slowest) <= 16


def test_sample_with_a_long_name_keeps_its_longest_time() -> None:
    times = LoopTimes()
    for seconds in (5.0, 1.0, 3.0):
        times.note_cost(Cost(1.0, 0, 0, f"7 ({'folder/' * 30}7.jpg)", seconds))
    assert list(times.slowest.values()) == [5.0]


def test_first_batches_do_not_count_as_waiting() -> None:
    times = LoopTimes()
    times.leave(2.0, 1.0, is_first=True)
    times.leave(0.25, 0.5, is_first=False)
    assert (times.start_wait, times.worker_wait, times.result_wait) == (3.0, 0.25, 0.5)


def test_ring_wait_is_a_deprecated_name() -> None:
    with pytest.warns(DeprecationWarning, match="use arena_wait") as caught:
        assert ServerStats(arena_wait=2.5).ring_wait == 2.5
    assert caught[0].filename == __file__


OPERATORS = {"fn.rotate": OperatorTimes(5, 6.0, 7.0), "fn.crop": OperatorTimes(5, 4.0, 7.5)}


def test_report_and_advice_have_the_same_share_of_the_time() -> None:
    """A server may be idle before and after the loop."""
    stats = ServerStats(batches=9, seconds=100.0, result_wait=10.0, busy=9.0, occupancy=20.0, depth=3, cores=8)
    assert "executor    busy 90% of the time, 2.0 of 3 batches at once" in str(stats)
    assert "it is busy 90% of the time" in stats.advice
    assert replace(stats, result_wait=0.0).busy_share == pytest.approx(0.09)  # without a loop
    assert replace(stats, busy=11.0).busy_share == 1.0


IDLE = {"observed": 9, "cores_idle": 50}


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({}, ["Nothing is measured yet"]),
        ({"training": 9.8, "worker_wait": 0.2}, ["training itself", "2%"]),
        (
            {"worker_wait": 9, "busy": 3, "workers": 2},
            ["waits 90%", "only 30%", "Raise num_workers, up to the number of cores (8)"],
        ),
        ({"worker_wait": 9, "busy": 3, "workers": 0}, ["Raise num_workers, up to the number of cores (8)"]),
        ({"worker_wait": 9, "busy": 3, "workers": 8}, ["as many workers as cores (8)"]),
        ({"worker_wait": 9, "busy": 3, "workers": 2, "arena_wait": 9}, ["raise arena_bytes_limit"]),
        (
            {"worker_wait": 9, "busy": 3, "workers": 2, "observed": 9, "cores_other": 60, "cores_idle": 1},
            ["other programs use 6.7 of 8 cores"],
        ),
        (
            {"worker_wait": 9, "busy": 3, "workers": 2, "observed": 9, "cores_other": 3, "cores_idle": 1},
            ["All 8 cores are in use", "move work"],
        ),
        (
            {"worker_wait": 9, "busy": 3, "num_workers": 8, "observed": 9, "cores_idle": 50},
            ["Raise num_workers (8 now)"],
        ),
        (
            {"worker_wait": 9, "busy": 3, "num_workers": 8, "worker_elapsed": 72, "worker_processor": 7, **IDLE},
            ["The workers wait 90% of their time", "raise num_workers (8 now), also beyond the 8 cores"],
        ),
        ({"worker_wait": 9, "busy": 3, "loop_batches": 5}, ["pass num_workers=1 or more"]),
        ({"worker_wait": 0.1, "start_wait": 5, "worker_starts": 3}, ["5.0 s for the first", "persistent_workers=True"]),
        (
            {"result_wait": 9, "busy": 9},
            ["busy 90%", "fn.rotate takes 60% of its processor time", "Raise num_threads", "2 now, 8 cores"],
        ),
        ({"result_wait": 9, "busy": 9, "seconds": 1000}, ["busy 90% of the time"]),  # idle before and after the loop
        ({"result_wait": 9, "busy": 9, "threads": 8}, ["All 8 cores are in use"]),
        (
            {"result_wait": 9, "busy": 9, "threads": 8, "observed": 9, "cores_idle": 50},
            ["as many threads as cores (8), but some wait"],
        ),
        (
            {"result_wait": 9, "busy": 9, "observed": 9, "cores_other": 60},
            ["fn.rotate takes 60%", "other programs use 6.7 of 8 cores"],
        ),
        (
            {"result_wait": 9, "busy": 9, "operators": {**OPERATORS, "fn.read": OperatorTimes(5, 1.0, 19.0)}, **IDLE},
            ["fn.rotate takes 55%", "fn.read mostly waits", "raise num_threads (2 now)"],
        ),
        (
            {"result_wait": 9, "busy": 9, "operators": {"f": OperatorTimes(5, 1.0, 9.0, function="thread")}, **IDLE},
            ["holds the GIL: pass parallel=True"],
        ),
        (
            {"result_wait": 9, "busy": 9, "operators": {"f": OperatorTimes(5, 9.0, 9.5, function="thread")}},
            ["One thread at a time", "parallel=True"],
        ),
        (
            {"result_wait": 9, "busy": 9, "operators": {"f": OperatorTimes(5, 1.0, 9.0, function="processes")}, **IDLE},
            ["raise py_num_workers"],
        ),
        (
            {"result_wait": 9, "busy": 9, "operators": {"fn.blur": OperatorTimes(5, 1.0, 1.0, "gpu")}},
            ["larger batches"],
        ),
    ],
)
def test_advice_names_the_bottleneck_and_the_remedy(changes: dict[str, Any], parts: list[str]) -> None:
    base = ServerStats(seconds=10, batches=5 if changes else 0, threads=2, cores=8, operators=OPERATORS)
    changes = {"training": 1.0, **changes} if changes else {}
    stats = replace(base, **changes)
    assert all(part in stats.advice for part in parts), stats.advice
    assert " ".join(stats.advice.split()) in " ".join(str(stats).split())
    assert stats.to_dict()["advice"] == stats.advice


class _Profiler:
    """Records the ranges that a profiler would see, as NVTX's functions do."""

    def __init__(self) -> None:
        self.open: dict[int, list[str]] = {}
        self.closed: list[str] = []

    def push_range(self, message: str, domain: str) -> None:
        assert domain == "dali_proxy"
        self.open.setdefault(threading.get_ident(), []).append(message)

    def pop_range(self, domain: str) -> None:
        self.closed.append(self.open[threading.get_ident()].pop())


def test_ranges_are_marked_for_a_profiler_that_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = _Profiler()
    monkeypatch.setitem(sys.modules, "nvtx", profiler)  # type: ignore[arg-type]
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/opt/nvidia/libToolsInjection64.so")
    with DALIServer(affine(), mode="thread") as server:
        for _ in DataLoader(server, IndexDataset(8, server.proxy), batch_size=4):
            pass
    assert not any(profiler.open.values())
    assert sum("arithmetic" in name for name in profiler.closed) == 4  # two operators, two batches
    assert profiler.closed.count("wait for a batch") == 3  # the last one ends the epoch


def test_no_ranges_are_marked_without_a_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)  # importing it would be an error
    monkeypatch.delenv("NVTX_INJECTION64_PATH", raising=False)
    with DALIServer(affine(), mode="thread") as server:
        assert server.loop_times.trace is None


def test_latency_includes_the_batches_of_processes_that_have_disconnected() -> None:
    def loop() -> None:
        for _ in DataLoader(server, IndexDataset(8, server.proxy), batch_size=4):
            pass

    with DALIServer(affine()) as server:
        child = multiprocessing.get_context("fork").Process(target=loop)
        child.start()
        child.join()
        wait_until(lambda: server.stats().consumers == 1)
        latency = server.stats().latency
        assert (child.exitcode, latency["queue"].count, latency["pipeline"].count) == (0, 2, 2)


def test_metrics_of_a_server() -> None:
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    server = DALIServer(affine(), mode="thread")
    registry.register(server.metrics(job="test"))
    assert registry.get_sample_value("dali_proxy_up", {"job": "test"}) == 0
    with server:
        for _ in DataLoader(server, IndexDataset(8, server.proxy), batch_size=4):
            pass
        stats = server.stats()
        samples = [each for family in registry.collect() for each in family.samples]
    metrics = {(each.name, *each.labels.values()): each.value for each in samples}
    assert metrics["dali_proxy_up", "test"] == 1
    assert metrics["dali_proxy_samples_total", "test"] == 8
    assert metrics["dali_proxy_training_seconds_total", "test"] == stats.training
    assert metrics["dali_proxy_memory_bytes", "test"] > 1e6
    assert metrics["dali_proxy_limited_by", "test", stats.limited_by] == 1
    assert metrics["dali_proxy_batch_seconds", "test", "wait", "0.95"] == stats.latency["wait"].p95 > 0
    assert stats.ranks == {0: stats.latency}
    assert metrics["dali_proxy_rank_batch_seconds", "0", "test", "queue", "0.99"] == stats.latency["queue"].p99 > 0
    assert any(key[0] == "dali_proxy_operator_seconds_total" and "arithmetic" in key[2] for key in metrics)


class Named(IndexDataset):
    """Gives its samples names."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(sample(index), sample_name=f"photos/{index}.jpg")


def test_slowest_samples_have_the_names_that_the_dataset_gives() -> None:
    with DALIServer(affine(), mode="thread") as server:
        for _ in DataLoader(server, Named(8, server.proxy), batch_size=4, num_workers=0):
            pass
        slowest = server.stats().slowest
    assert slowest
    assert set(slowest) <= {f"{index} (photos/{index}.jpg)" for index in range(8)}
