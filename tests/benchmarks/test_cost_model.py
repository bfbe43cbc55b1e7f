"""The cost model: its simulation obeys its bounds, its check reads measurements, and its page shows its predictions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cost_model
from benchmarks.cost_model import Costs, Site, bottleneck, cluster, local, simulate
from benchmarks.session import RESULTS
from tests.environment import ROOT


@pytest.mark.parametrize(
    ("servers", "in_flight", "take", "rate"),
    [
        (4, 12, 0.01, 40.0),  # the servers are the bottleneck
        (40, 120, 0.01, 100.0),  # the loop is
        (40, 5, 0.001, 48.8),  # the batches in flight are: each takes 0.1 s, and the loop 0.0005 s of them on average
    ],
)
def test_simulation_without_variation_reaches_the_bound(servers: int, in_flight: int, take: float, rate: float) -> None:
    assert simulate(servers, in_flight, 0.1, take, 1e-3) == pytest.approx(rate, rel=0.03)


def test_simulation_never_exceeds_the_bounds() -> None:
    costs = replace(Costs(), result=Costs.result / 4)
    for gpus, nodes in ((1, 1), (8, 1), (8, 4), (64, 16), (1024, 512)):
        bounds = cluster(costs, Site(), gpus, nodes)
        assert 0.5 < cost_model.simulated(costs, Site(), gpus, nodes) / bottleneck(bounds)[1] < 1.03


def test_cores_are_the_bottleneck_without_loader_nodes() -> None:
    assert bottleneck(local(Costs(), Site(cores_per_gpu=4), 8)) == ("cores of training nodes", pytest.approx(13_559, 1))
    assert bottleneck(local(Costs(), Site(), 8))[0] == "GPUs"


def test_nodes_without_a_server_for_each_rank_load_nothing() -> None:
    assert bottleneck(cluster(Costs(), Site(), 1024, 1)) == ("servers per rank", 0.0)


def test_check_predicts_from_the_measurement_of_one(tmp_path: Path) -> None:
    def part(samples: int, cpu: float, **others: Any) -> dict[str, Any]:
        return {"samples": samples, "seconds": 1.0, "cpu_seconds": cpu, "machine_cpu_seconds": 2.0, **others}

    document = {
        "date": "2026-11-23",
        "machine": {"processor": "a processor", "cores": 2},
        "ranks": {"1": [part(100, 2.0)], "2": [part(50, 1.0), part(40, 1.0)]},
        "nodes": [part(100, 0.5, nodes=1, job="waits"), part(90, 0.5, nodes=2, job="waits")],
    }
    assert cost_model.predict_check(document) == {
        "ranks": [(1, 100, 100), (2, 100, 90)],
        "nodes, waits": [(1, 100, 100), (2, 100, 90)],
    }

    pytest.importorskip("matplotlib")
    cost_model.plot_check(document, tmp_path / "check.png")
    cost_model.plot(Costs(), Site(), tmp_path / "plot.png")
    assert {path.read_bytes()[:4] for path in tmp_path.iterdir()} == {b"\x89PNG"}


def test_page_shows_the_predictions() -> None:
    """docs/scaling.md has the tables that `python -m benchmarks.cost_model` prints."""
    page = (ROOT / "docs" / "scaling.md").read_text(encoding="utf-8").splitlines()
    name = next(line for line in page if "-scale.json" in line).split("`")[1]
    document = json.loads((RESULTS / Path(name).name).read_text(encoding="utf-8"))
    rows = [*cost_model.tables(Costs(), Site()), *cost_model.check_table(document)]
    assert not [row for row in rows if row not in page]
