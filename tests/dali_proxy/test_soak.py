"""Short versions of `make soak`, and the documented limit of shared memory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine
from tests.environment import ROOT, with_project
from tests.preloaded import run_python
from tests.soak import slow_consumer


def test_faults_while_two_loaders_train() -> None:
    options = ("--seconds=3", "--every=0.4", "--restarts=1", "--seed=31", "--workers=1")
    run = run_python("-m", "tests.soak", *options, cwd=ROOT, env=with_project(), timeout=170)
    assert run.returncode == 0, run.stderr[-10_000:]
    counts = {what: int(count) for count, what in re.findall(r"^ *(\d+) (.*)$", run.stdout, re.MULTILINE)}
    assert counts["batches checked"] > 0
    assert counts["restarts of the server"] > 0


def test_memory_does_not_grow_with_a_slow_consumer() -> None:
    slow_consumer(200, pause=0.002)


def shared_memory(pid: int | None) -> int:
    """Return the bytes of the memfds that a process has mapped, each counted once."""
    sizes: dict[str, int] = {}
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        addresses, _, _, _, inode, *name = line.split()
        if name and name[0].startswith("/memfd:"):
            begin, _, end = addresses.partition("-")
            sizes[inode] = sizes.get(inode, 0) + int(end, 16) - int(begin, 16)
    return sum(sizes.values())


def test_shared_memory_is_bounded_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    more = 20 << 20  # for batches that are so small that more of them are in flight
    monkeypatch.setattr("dali_proxy._loader.flight._NBYTES", more)
    width, batch_size, workers, prefetch, kept, arena = 25_000, 8, 2, 3, 4, 1 << 20
    results = inputs = width * 4 * batch_size  # 800 kB
    with DALIServer(affine(), arena_bytes=arena) as server:
        dataset = IndexDataset(400, server.proxy, width)
        loader = DataLoader(server, dataset, batch_size, num_workers=workers, prefetch_factor=prefetch)
        most, held = 0, []
        for images, indices in loader:
            check_affine(images, indices, width)
            held = [*held[-kept + 1 :], images]
            most = max(most, shared_memory(server.pid))
    arenas = workers * max(arena, 2 * 3 * inputs)
    batches = workers * prefetch + server.pipeline.prefetch_queue_depth + 1 + kept
    assert most <= arenas + batches * (results + 4096) + (1 << 16) + more
    assert most > results * (kept + 1)  # the measurement works
