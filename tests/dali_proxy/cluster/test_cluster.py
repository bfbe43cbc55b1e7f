"""Servers in a Ray cluster: a program runs the scenarios, and each test checks one outcome."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dali_proxy import DALIServer, DataLoader, RayCluster
from dali_proxy._cluster import server_pool
from dali_proxy._cluster.batch_pickle import FetchedTicket, dumps, loads
from dali_proxy._cluster.cluster_consumer import ClusterConsumer
from dali_proxy._cluster.server_pool import ServerPool
from dali_proxy._worker.placeholders import BatchRef
from dali_proxy._worker.tickets import Ticket
from dali_proxy.errors import BatchError, ServerDiedError
from dali_proxy.pipeline._ranks import Ranks
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentMismatchError, ArgumentTypeError, BuildError, GraphError
from tests.environment import ROOT, with_project

PROGRAM = Path(__file__).with_name("program.py")
HAS_RAY = importlib.util.find_spec("ray") is not None

Outcome = Callable[[str], dict[str, Any]]

pytestmark = pytest.mark.timeout(1200)  # one test waits for all scenarios, in which several nodes start
NEEDS_RAY = "DALI_PROXY_REQUIRE_CLUSTER" in os.environ  # `make test-cluster` sets it
with_ray = pytest.mark.skipif(not (HAS_RAY or NEEDS_RAY), reason="Ray isn't installed: run `make test-cluster`")


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def double() -> Any:
    return fn.external_source(name="value") * 2


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def with_reader(folder: str) -> Any:
    files, _ = fn.readers.file(file_root=folder)
    return fn.external_source(name="value"), files


class Stream(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


@pytest.fixture(scope="module")
def outcome(jpeg_folder: Path) -> Iterator[Outcome]:
    """Return a function that returns the outcome of a scenario."""
    # Killed servers leave their sockets here. The name is short, since Ray's sockets lie there, too.
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield run_scenarios(Path(name), jpeg_folder)


def run_scenarios(folder: Path, jpegs: Path) -> Outcome:
    (folder / "photos").symlink_to(jpegs)
    for document, name in (("tutorial.md", "photos.py"), ("howto/many-machines.md", "page.py")):
        text = (ROOT / "docs" / document).read_text(encoding="utf-8")
        block = re.search(r'^```python (?:title="photos.py"|notest="it needs Ray.*")\n(.*?)^```$', text, re.M | re.S)
        assert block is not None
        (folder / name).write_text(block[1], encoding="utf-8")
    environment = with_project(RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=str(folder), TMPDIR=str(folder))
    environment["PYTHONPATH"] += os.pathsep + str(folder)  # the nodes import photos.py
    run = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
    outcomes = json.loads(run.stdout.splitlines()[-1])

    def of(scenario: str) -> dict[str, Any]:
        found: dict[str, Any] = outcomes[scenario]
        assert "error" not in found, found["error"]
        return found

    return of


@with_ray
def test_batches_are_those_of_a_server_here(outcome: Outcome) -> None:
    found = outcome("same_bits")
    assert found["as_here"]
    assert found["servers"] == 2
    assert (found["batches"], found["samples"]) == (24, 96)
    assert "fn.decoders.image" in found["operators"]


@with_ray
def test_numbers_that_the_dataset_draws_depend_only_on_the_batch(outcome: Outcome) -> None:
    assert outcome("same_bits")["numbers_of_the_dataset"]


@with_ray
def test_lost_node_costs_no_batch_and_a_new_node_takes_part(outcome: Outcome) -> None:
    assert outcome("node_is_killed_and_another_joins") == {"lost": 1, "same_bits": True}


@with_ray
def test_process_that_exits_costs_no_batch(outcome: Outcome) -> None:
    assert outcome("process_exits") == {"lost": 1, "same_bits": True}


@with_ray
def test_sample_that_always_crashes_costs_only_its_batch(outcome: Outcome) -> None:
    found = outcome("sample_that_always_crashes")
    assert found["missing"] == [8, 9, 10, 11]
    assert found["message"].startswith("ServerDiedError: batch 2 of epoch 0 was lost 2 times")
    assert "8, 9, 10, 11" in found["message"]


@with_ray
def test_error_of_the_pipeline_names_operator_line_and_index(outcome: Outcome) -> None:
    found = outcome("errors")
    message, indices, line, traceback = found["pipeline"]
    assert message.startswith("fn.decoders.image failed for sample 1: not an image in a known format")
    assert indices == [9]
    assert "program.py" in line
    assert "in augment" in line
    assert "DecodeError" in traceback
    assert found["cause"] == "DecodeError"


@with_ray
def test_error_of_the_dataset_names_index_and_node(outcome: Outcome) -> None:
    found = outcome("errors")
    assert found["dataset"].startswith("Caught ValueError in DataLoader worker process 0, for dataset index 9, on node")
    assert "sample 9 is bad" in found["dataset"]
    assert found["next"] == [12, 13, 14, 15]


@with_ray
@pytest.mark.parametrize(
    ("on_error", "indices"),
    [
        ("raise", [[4, 5, 6, 7], [12, 13, 14, 15], [16, 17, 18, 19]]),
        ("skip", [[4, 5, 6, 7], [8, 10, 11], [12, 13, 14, 15]]),
        ("replace", [[4, 5, 6, 7], [8, 10, 10, 11], [12, 13, 14, 15]]),
    ],
)
def test_on_error_handles_bad_samples(outcome: Outcome, on_error: str, indices: list[list[int]]) -> None:
    assert outcome("errors")[on_error] == indices


@with_ray
def test_proxy_works_only_on_the_nodes(outcome: Outcome) -> None:
    assert "only in a dataset that dali_proxy.DataLoader reads there" in outcome("errors")["proxy"]


@with_ray
def test_epoch_resumes_in_the_cluster_and_here(outcome: Outcome) -> None:
    assert outcome("resumed") == {"in_cluster": True, "here": True, "batches": 7}


@with_ray
def test_policies_and_forms_are_those_of_a_server_here(outcome: Outcome) -> None:
    found = outcome("policies_and_forms")
    assert found["filled"] == [5] * 10
    assert found["single"] == [[3, 64, 64], [3, 64, 64]]
    assert found["unordered"]


@with_ray
def test_results_in_flight_are_bounded(outcome: Outcome) -> None:
    found = outcome("back_pressure")
    assert found["in_flight"] == [4, "in_flight_bytes"]
    assert found["read"] <= (3 + 4) * 4


@with_ray
def test_handler_that_raises_loses_no_batch(outcome: Outcome) -> None:
    assert outcome("interrupted_loop") == {"interrupts": True, "same_bits": True}


@with_ray
def test_stopped_server_is_an_error_in_the_loop(outcome: Outcome) -> None:
    assert outcome("server_is_stopped_in_a_loop")["message"].startswith("ServerClosedError: ")


@with_ray
def test_cluster_without_room_is_an_error_in_time(outcome: Outcome) -> None:
    found = outcome("cluster_without_room")
    assert "no server could be started in the Ray cluster within 1 s: a node with 64 CPU" in found["message"]
    assert found["seconds"] < 60


@with_ray
def test_script_of_the_documentation_runs(outcome: Outcome) -> None:
    assert outcome("page_runs")["images"][1:] == [3, 224, 224]


@with_ray
def test_workers_of_ray_train_get_the_same_batches(outcome: Outcome) -> None:
    found = outcome("ray_train")
    if "missing" in found and not NEEDS_RAY:
        pytest.skip(f"{found['missing']} isn't installed")
    assert found["same_bits"]


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("nodes", "ranks", "least"), [(1, 1, 8), (1, 4, 2), (7, 8, 6), (1, 8, 1), (3, 2, 12)])
def test_ranks_divide_the_cluster(
    nodes: int, ranks: int, least: int, at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes have 8 CPUs. If the ranks start one after the other, each sees what the earlier ones have taken."""
    monkeypatch.setattr(server_pool, "current_ranks", lambda: Ranks(0, ranks))
    total, taken, pools = {"CPU": 8.0 * nodes}, 0, []
    for _ in range(ranks):
        pool = ServerPool.__new__(ServerPool)
        pool._needs, pool._servers = {"CPU": 1.0, "GPU": 0}, []
        pools.append(pool)

    def look(pool: ServerPool, seen: int) -> int:
        idle = {"CPU": total["CPU"] - seen}
        pool._ray = SimpleNamespace(available_resources=lambda: idle, cluster_resources=lambda: total)
        return pool._room()

    for turn in range(20):
        seen = taken
        for pool in pools:
            room = look(pool, seen if at_once else taken)
            count = max(room, 1) if turn == 0 else room
            pool._servers += [object()] * count  # type: ignore[list-item]
            taken += count
        assert taken <= total["CPU"]
    numbers = [len(pool._servers) for pool in pools]
    assert min(numbers) >= least
    assert max(numbers) <= max(8 * nodes // ranks, 1)
    assert taken > total["CPU"] - ranks


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_missing_ray_is_an_error_with_advice() -> None:
    with pytest.raises(BuildError, match=r"pip install 'dali-proxy\[ray\]'"):
        DALIServer(double(), cluster=RayCluster()).start()


def test_iterable_dataset_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="use a map-style dataset"):
        DataLoader(DALIServer(double(), cluster=RayCluster()), Stream())


def test_pipeline_whose_data_depends_on_order_is_refused(jpeg_folder: Path) -> None:
    with pytest.raises(ArgumentMismatchError, match="depends on earlier batches"):
        DALIServer(with_reader(str(jpeg_folder)), cluster=RayCluster())


@pytest.mark.parametrize(
    "options",
    [
        {"servers": 0},
        {"num_cpus": 0},
        {"num_gpus": 2},
        {"resources": ["a"]},
        {"in_flight_bytes": 0},
        {"start_timeout": 0},
    ],
)
def test_wrong_options_are_errors(options: dict[str, Any]) -> None:
    with pytest.raises(GraphError, match=f"RayCluster: {next(iter(options))} must be"):
        RayCluster(**options)


def test_wrong_cluster_is_an_error() -> None:
    with pytest.raises(ArgumentTypeError, match="cluster must be a RayCluster, not str"):
        DALIServer(double(), cluster="auto")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.bfloat16, torch.bool])
def test_large_tensors_travel_outside_of_the_pickle(dtype: torch.dtype) -> None:
    large = (torch.arange(60_000) % 2).to(dtype).reshape(3, -1)
    data, buffers = dumps([large, large[:, :2], torch.empty(0, 4)], lambda ticket: ())
    for buffer in buffers:
        buffer.flags.writeable = False  # as Ray returns them
    loaded = loads(data, buffers)
    assert len(data) < 2000
    assert all(
        torch.equal(one, other) for one, other in zip(loaded, [large, large[:, :2], torch.empty(0, 4)], strict=True)
    )
    assert loaded[0].data_ptr() == buffers[0].__array_interface__["data"][0]


def test_ticket_travels_with_its_outputs() -> None:
    outputs = (torch.ones(2, 3), [torch.zeros(1), torch.zeros(2)])
    (ref,) = loads(*dumps([BatchRef(Ticket(b"server", 1, 2, 2), 0)], lambda ticket: outputs))
    pool: Any = None
    first, second = ClusterConsumer(pool, (False, False)).outputs(ref.ticket)
    assert torch.equal(first, outputs[0])
    assert [len(each) for each in second] == [1, 2]


def test_ticket_travels_with_its_error_and_the_causes() -> None:
    def fail(ticket: Ticket) -> tuple[Any, ...]:
        raise BatchError("fn.resize failed", dataset_indices=(7,)) from ValueError("too small")

    (ref,) = loads(*dumps([BatchRef(Ticket(b"server", 1, 2, 2), 0)], fail))
    assert isinstance(ref.ticket, FetchedTicket)
    pool: Any = None
    with pytest.raises(BatchError, match=r"fn\.resize failed") as caught:
        ClusterConsumer(pool, (False,)).outputs(ref.ticket)
    assert caught.value.dataset_indices == (7,)
    assert isinstance(caught.value.__cause__, ValueError)


def test_lost_results_are_an_error_of_the_whole_batch() -> None:
    def fail(ticket: Ticket) -> tuple[Any, ...]:
        raise ServerDiedError("the server is gone")

    with pytest.raises(ServerDiedError):
        dumps([BatchRef(Ticket(b"server", 1, 2, 2), 0)], fail)
