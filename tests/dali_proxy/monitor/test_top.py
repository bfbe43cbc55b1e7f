"""``dali-proxy top``: running servers are found, and shown in a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dali_proxy import DALIServer, DataLoader
from dali_proxy._cli import main
from dali_proxy._common import folders
from dali_proxy._monitor.client import MonitorClient
from dali_proxy._monitor.discovery import find_sockets
from dali_proxy._monitor.observation import Observation
from dali_proxy._monitor.terminal import render
from dali_proxy._server.counters import OperatorTimes
from dali_proxy._server.telemetry import ServerStats
from dali_proxy._transport.protocol import Fetch, StatsRequest
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._ipc.errors import ChannelClosedError
from tests.dali_proxy.indexed import IndexDataset, affine
from tests.waiting import wait_until


def loop(server: DALIServer, samples: int = 40) -> None:
    for _ in DataLoader(server, IndexDataset(samples, server.proxy), batch_size=4):
        pass


def test_top_shows_what_a_server_and_its_loops_did(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with DALIServer(affine()) as server:
        loop(server)
        monkeypatch.setattr("dali_proxy._monitor.servers.find_sockets", lambda: [server.endpoint.path])
        monkeypatch.setenv("COLUMNS", "200")  # narrow terminals show less
        assert main(["top", "--once", "--json", "--interval", "0.1"]) == 0
        (report,) = json.loads(capsys.readouterr().out)
        assert report["pid"] == server.pid
        assert report["total"]["batches"] == 10
        expected = server.stats()
        for name in ("training", "worker_wait", "result_wait", "start_wait"):
            assert report["total"][name] == pytest.approx(getattr(expected, name))
        assert report["total"]["limited_by"] == expected.limited_by != ""
        assert report["total"]["latency"] == expected.to_dict()["latency"]
        assert [each["count"] for each in report["total"]["latency"].values()] == [10, 10, 10, 9, 10]
        assert report["total"]["slowest"] == expected.slowest
        assert set(expected.slowest) <= set(map(str, range(40)))

        def shows_rest() -> bool:
            assert main(["top", "--once", "--interval", "0.1"]) == 0
            shown = capsys.readouterr().out
            row = next(line for line in shown.splitlines() if line.startswith(f"{server.pid:7}"))
            assert "The" in shown
            return row.endswith(" -") and "Since the start: The" in shown

        wait_until(shows_rest)  # nothing happens in an interval any more


def test_servers_are_found_in_other_temporary_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DALIServer(affine(), mode="thread") as server:
        assert server.endpoint.path in find_sockets()
        monkeypatch.setattr(folders, "_parent_folder", lambda: str(tmp_path))
        assert server.endpoint.path in find_sockets()
    assert server.endpoint.path not in find_sockets()


@pytest.mark.parametrize("message", [Fetch(1, 0), StatsRequest(1, "trace"), StatsRequest(1, "secrets")])
def test_monitors_can_only_read_reports(message: Any) -> None:
    with DALIServer(affine(), mode="thread") as server:
        client = MonitorClient(server.endpoint.path)
        client._channel.send(message)
        farewell = client._channel.receive(timeout=60).message
        assert farewell.reason.startswith("it ended this connection: ")
        with pytest.raises(ChannelClosedError):
            client._channel.receive(timeout=60)
        client.close()
        loop(server)


def test_monitor_of_a_server_that_has_ended() -> None:
    with DALIServer(affine(), mode="thread") as server:
        client = MonitorClient(server.endpoint.path)
        assert client.stats().batches == 0
    wait_until(lambda: client.ended)
    with pytest.raises(ProxyError):
        client.stats()
    client.close()
    with pytest.raises(ProxyError):
        MonitorClient(server.endpoint.path)


def test_batch_that_comes_late_is_shown_later() -> None:
    with DALIServer(affine(), mode="thread") as server:
        client = MonitorClient(server.endpoint.path)
        for _ in range(2):
            with pytest.raises(ProxyError, match="doesn't answer"):
                client.request("samples", timeout=0.01)
        loop(server, 4)
        assert client.request("graph")["nodes"]
        report = client.request("samples")
        assert report["batch"] == {"epoch": 0, "number": 0, "samples": 4}
        with pytest.raises(ProxyError):
            client.request("samples", timeout=0.01)  # there is no newer batch
        client.close()


def test_report_of_a_server_in_a_terminal() -> None:
    before = ServerStats(seconds=10, batches=100, samples=3200)
    operators = {"fn.resize": OperatorTimes(30, 1.5, 1.8), "fn.crop": OperatorTimes(30, 0.5, 1.9)}
    later = ServerStats(
        seconds=12, batches=120, samples=3840, busy=2.0, waiting_results=5, errors=1, memory=300_000_000,
        training=0.5, worker_wait=0.1, result_wait=1.4, workers=4, operators=operators, last_error="Bad\nsample",
        threads=2, cores=8,
    )  # fmt: skip
    text = render([Observation(123, 99, "python train.py", later, later - before, 1.5)], 140)
    row = text.splitlines()[1].split()
    assert row == [
        *("123", "0:12", "320", "10.0", "5", "100%", "25%", "5%", "/", "70%", "150%", "300", "MB", "1", "pipeline"),
    ]
    assert "Processor time of operators: fn.resize 75%, fn.crop 25%" in text
    assert "Last error: Bad sample" in text
    assert "python train.py  (process 99, 4 workers)" in text
    assert "no running server" in render([])


def test_reason_for_the_number_of_workers_is_shown_once() -> None:
    reason = "1 worker instead of 0: the loop waits"
    times: dict[str, Any] = {
        "seconds": 9.0,
        "loop_batches": 50,
        "samples": 50,
        "batches": 50,
        "num_workers": 1,
        "training": 1.0,
    }
    for wait in (0.0, 8.0):  # with the second one, the advice has the reason
        stats = ServerStats(**times, worker_wait=wait, num_workers_reason=reason)
        text = " ".join(render([Observation(123, 99, "python train.py", stats, stats, 1.5)], 140).split())
        assert text.count(reason) == 1
        assert ("chooses the number of workers; it has 1 worker now: " in text) == (wait > 0)
        assert "(process 99, 1 worker)" in text


def test_use_of_the_cache_is_shown_in_a_terminal() -> None:
    used = ServerStats(seconds=9, cache_limit=8 << 30, cache_bytes=1 << 30, cache_hits=30, cache_misses=10)
    text = render([Observation(123, 99, "python train.py", used, used, 1.5)], 140)
    assert "75% of 40 samples came from the cache, which saved 0.0 s; 1.0 GB of 8.0 GB are in use." in text


def test_loops_of_several_ranks_are_shown_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with DALIServer(affine(), mode="thread") as server:
        loop(server)
        client = MonitorClient(server.endpoint.path)
        report = client.request("stats")
        (mine,) = report["loops"]
        late = {**mine, "rank": 1, "latency": [["wait", [[0, 9]]]], "slowest": [["7", 3.5]]}  # bucket 0: a second
        ranks = [*report["ranks"], (1, {"wait": {0: 9}})]
        monkeypatch.setattr(client, "request", lambda subject: {**report, "loops": [mine, late], "ranks": ranks})
        stats = client.stats()
        client.close()
    assert stats.ranks[1]["wait"].p50 == 1.0
    assert stats.latency["wait"].count == stats.ranks[0]["wait"].count + 9
    assert list(stats.ranks[0]) == ["dataset", "queue", "pipeline", "wait", "training"]
    assert stats.ranks[0]["pipeline"] == stats.latency["pipeline"]
    assert next(iter(stats.slowest.items())) == ("7", 3.5)
    assert "wait of rank 1 1.0 s / 1.0 s / 1.0 s" in " ".join(str(stats).split())


def test_control_characters_of_an_error_do_not_reach_the_terminal() -> None:
    stats = ServerStats(seconds=1.0, errors=1, last_error="a\x1b]0;owned\x07\x1b[2J\x9b31m\u202eb")
    text = render([Observation(123, 99, "python", stats, stats, 0.0)], 80)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "Last error: a ]0;owned [2J 31m b" in text


def test_long_command_lines_are_cut_without_line_breaks() -> None:
    stats = ServerStats(seconds=1.0)
    program = "python -c 'import sys\nprint(\x1b[31m)\n" + "pass\n" * 50 + "'"
    text = render([Observation(123, 99, program, stats, stats, 0.0)], 80)
    (line,) = [line for line in text.splitlines() if line.startswith("123  ")]
    assert line.startswith("123  python -c 'import sys print( [31m) pass pass")
    assert line.endswith("...  (process 99, 0 workers)")
    assert len(line) == 80
