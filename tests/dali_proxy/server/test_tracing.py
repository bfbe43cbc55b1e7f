"""Traces of all processes of a server."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dali_proxy import DALIServer, DataLoader
from dali_proxy._host import host_trace
from tests.dali_proxy.indexed import IndexDataset, affine


def traced_loop(path: Path, server: DALIServer, workers: int) -> list[dict[str, Any]]:
    """Trace a loop of ten batches and return the events of the file."""
    loader = DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=workers)
    with server.trace(path):
        for _ in loader:
            pass
    events: list[dict[str, Any]] = json.loads(path.read_text())["traceEvents"]
    return events


def test_trace_follows_batches_through_all_processes_on_one_clock(tmp_path: Path) -> None:
    with DALIServer(affine()) as server:
        events = traced_loop(tmp_path / "trace.json", server, 2)
        server_pid = server.pid
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        assert sorted(names.values()) == ["server", "training", "worker 0", "worker 1"]
        assert names[os.getpid()] == "training"
        assert names[server_pid] == "server"
    of_batch = [event for event in events if event.get("args", {}).get("key") == "0.7"]
    begins = {event["name"]: event["ts"] for event in of_batch if event["ph"] in "Xb"}
    steps = [name for name in begins if "arithmetic" in name]
    path = ["read samples", "queued", "in the executor", steps[-1], "training"]
    assert all(begins[a] <= begins[b] for a, b in pairwise(path)), begins
    flow = [(event["ph"], names[event["pid"]]) for event in events if event.get("id") == "0.7" and event["ph"] in "stf"]
    assert flow[0] == ("s", "worker 1")
    assert flow[-1] == ("f", "training")


def test_trace_can_be_repeated_and_covers_its_block_only(tmp_path: Path) -> None:
    with DALIServer(affine(), mode="thread") as server:
        for name in ("first.json", "second.json"):
            events = traced_loop(tmp_path / name, server, 0)
            loops = {event["args"]["batch"] for event in events if event["name"] == "training"}
            assert loops == set(range(10))
            assert sum(event["name"] == "in the executor" and event["ph"] == "b" for event in events) == 10
        assert server.loop_times.trace is None


def test_long_trace_arrives_in_several_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_trace, "_AT_ONCE", 8)
    with DALIServer(affine(), mode="thread") as server:
        events = traced_loop(tmp_path / "trace.json", server, 0)
    for name in ("read samples", "queued", "in the executor", "finished", "arithmetic"):
        found = [event["args"]["key"] for event in events if name in event["name"] and event["ph"] in "Xb"]
        assert set(found) == {f"0.{number}" for number in range(10)}, name
        assert len(found) == 10 or name == "arithmetic"


def test_full_disk_is_an_error_that_names_the_file() -> None:
    with DALIServer(affine(), mode="thread") as server:
        with pytest.raises(OSError, match="No space left on device: '/dev/full'"), server.trace("/dev/full"):
            pass
        assert server.loop_times.trace is None


def test_file_that_cannot_be_written_is_an_error_before_the_block(tmp_path: Path) -> None:
    with (
        DALIServer(affine(), mode="thread") as server,
        pytest.raises(OSError, match="missing"),
        server.trace(tmp_path / "missing" / "trace.json"),
    ):
        pytest.fail("the block must not run")


def test_trace_of_a_server_that_died_is_written(tmp_path: Path) -> None:
    begin = time.perf_counter()
    with DALIServer(affine()) as server, server.trace(tmp_path / "trace.json"):
        for _ in DataLoader(server, IndexDataset(8, server.proxy), batch_size=4):
            pass
        os.kill(server.pid or 0, 9)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["name"] == "training"]
    assert spans
    assert max(event["ts"] + event["dur"] for event in spans) < (time.perf_counter() - begin) * 1e6
