"""`dali_proxy.distributed`: the share of a rank."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from dali_proxy import DALIServer, DataLoader, distributed
from dali_proxy._common.core_budget import Shares, processes_sharing
from dali_proxy.distributed import _owner, environment, set_ranks, shared_server
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._ranks import Ranks
from pipeline import Pipeline, fn
from pipeline.errors import MissingSizeError
from tests.dali_proxy.indexed import IndexDataset, IndexStream, affine, sample
from tests.environment import with_project
from tests.preloaded import run_python


@pytest.fixture(autouse=True)
def _own_ranks() -> Iterator[None]:
    yield
    set_ranks(None)


def test_processes_of_eight_ranks_share_the_cores(tmp_path: Path) -> None:
    set_ranks(5, 8, 5, 8)
    here = environment(allowed=range(128), cgroup_limit=1024, sysfs=tmp_path)
    assert (here.core_budget, here.num_workers, here.num_threads) == (16, 4, 11)
    assert here.shard == {"shard_id": 5, "num_shards": 8, "pad_last_batch": True}
    limited = environment(allowed=range(128), cgroup_limit=12, sysfs=tmp_path)
    assert (limited.core_budget, limited.num_workers, limited.num_threads) == (1, 1, 1)


@pytest.mark.parametrize(
    ("gpu_nodes", "visible", "cores"),
    [
        ([0, 0, 1, 1], 4, range(8, 16)),  # each node has enough cores for its ranks
        ([1, 1, 1, 1], 4, range(16)),  # the ranks need more cores than node 1 has
        ([1, 1, 1, 1], 1, range(8, 16)),  # the launcher has hidden the other GPUs
    ],
)
def test_cores_are_near_the_gpu_if_there_are_enough_for_its_neighbours(
    gpu_nodes: list[int], visible: int, cores: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node, listed in ((0, "0-7"), (1, "8-15")):
        (tmp_path / f"devices/system/node/node{node}").mkdir(parents=True)
        (tmp_path / f"devices/system/node/node{node}/cpulist").write_text(listed)
    for number, node in enumerate(gpu_nodes):
        (tmp_path / f"bus/pci/devices/{number}").mkdir(parents=True)
        (tmp_path / f"bus/pci/devices/{number}/numa_node").write_text(str(node))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    monkeypatch.setattr(distributed, "_gpu", lambda rank: (rank, str(rank)))
    set_ranks(2, 4, 2, 4)
    here = environment(allowed=range(16), cgroup_limit=16, sysfs=tmp_path)
    assert (here.device_id, here.cores, here.core_budget) == (2, tuple(cores), 4)


def test_cores_that_slurm_bound_to_a_task_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = Ranks(1, 4, 1, 4)
    monkeypatch.setenv("SLURM_STEP_NUM_TASKS", "4")
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "16")
    assert [processes_sharing(ranks, cores) for cores in (16, 64)] == [1, 4]


def test_bound_process_and_its_children_run_on_their_cores(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    program = (
        "import os, subprocess, sys\n"
        "from dali_proxy.distributed import environment\n"
        f"environment(allowed=[{core}]).bind()\n"
        "print(sorted(os.sched_getaffinity(0)))\n"
        "command = 'import os; print(sorted(os.sched_getaffinity(0)))'\n"
        "print(subprocess.run([sys.executable, '-Sc', command], capture_output=True, text=True).stdout)\n"
    )
    done = run_python("-c", program, cwd=tmp_path, env=with_project())
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [f"[{core}]"] * 2


def test_too_many_workers_of_all_ranks_are_warned_of() -> None:
    cores = len(os.sched_getaffinity(0))
    set_ranks(0, cores, 0, cores)
    server = DALIServer(affine())
    with pytest.warns(UserWarning, match=r"every rank has a share of .*num_workers=dali_proxy\.distributed"):
        DataLoader(server, IndexDataset(4, server.proxy), num_workers=cores + 1)


def test_numbers_of_workers_and_threads_are_the_share_of_the_rank_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaders() -> list[int]:
        with Pipeline(batch_size=4, device_id=None) as pipe:
            pipe.set_outputs(fn.external_source(name="x"))
        server = DALIServer(pipe)
        assert DALIServer(lambda x: x).pipeline.num_threads == server.pipeline.num_threads
        datasets = IndexDataset(4, server.proxy), IndexStream(4, server.proxy)
        numbers = [DataLoader(server, each).num_workers for each in datasets]
        return [server.pipeline.num_threads, *numbers, DataLoader(server, datasets[0], num_workers=0).num_workers]

    with pytest.raises(MissingSizeError):
        loaders()
    for name, number in {"RANK": 1, "WORLD_SIZE": 2, "LOCAL_RANK": 1, "LOCAL_WORLD_SIZE": 2}.items():
        monkeypatch.setenv(name, str(number))
    share = Shares.of_rank()
    assert loaders() == [share.num_threads, share.num_workers, 0, 0]


def test_ranks_without_a_local_rank_0_get_an_error_that_names_their_machine() -> None:
    with pytest.raises(ProxyError, match=f"no local rank 0 has started a server on {socket.gethostname()}"):
        _owner([], Ranks(1, 2, 1, 2, "set_ranks"))


def test_shared_server_takes_a_function() -> None:
    with shared_server(lambda x: x + 1, batch_size=4, num_threads=1, num_workers=1, timeout=60) as server:
        loader = DataLoader(server, IndexDataset(4, server.proxy), batch_size=4)
        ((values, _),) = loader
    assert server.pipeline.num_threads == 1
    assert values.tolist() == [(sample(index, 3) + 1).tolist() for index in range(4)]
