"""The order of batches that dataset workers read at different speeds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dali_proxy import DALIServer, DataLoader, LastBatchPolicy
from tests.dali_proxy.indexed import IndexDataset, RaisingDataset, error_of, noisy
from tests.waiting import wait_until

BATCH = 4
AHEAD = 16 * BATCH  # samples that are read while one takes long; more than are requested at first


class HeldDataset(IndexDataset):
    """Reads one sample only after many others."""

    held = 2 * BATCH  # the size of results is known

    def __init__(self, length: int, transform: Any, reads: Path) -> None:
        super().__init__(length, transform)
        self.reads = reads

    def __getitem__(self, index: int) -> Any:
        if index == self.held:
            wait_until(lambda: self.reads.exists() and self.reads.stat().st_size >= AHEAD)
        with self.reads.open("ab") as file:
            file.write(b".")
        return super().__getitem__(index)


class BlockedDataset(IndexDataset):
    """Waits for a file before the first sample."""

    def __init__(self, length: int, transform: Any, go: Path) -> None:
        super().__init__(length, transform)
        self.go = go

    def __getitem__(self, index: int) -> Any:
        if index == 0:
            wait_until(self.go.exists)
        return super().__getitem__(index)


@pytest.fixture(scope="module")
def server() -> Iterator[DALIServer]:
    with DALIServer(noisy(), num_workers=2) as server:
        server.stats()  # connects this process
        yield server


def plain(loop: Any) -> list[tuple[Any, list[int]]]:
    return [(values.tolist(), indices.tolist()) for values, indices in loop]


def test_slow_sample_holds_up_only_its_own_batch(server: DALIServer, tmp_path: Path) -> None:
    expected = plain(DataLoader(server, IndexDataset(30 * BATCH, server.proxy), batch_size=BATCH))
    loader = DataLoader(server, HeldDataset(30 * BATCH, server.proxy, tmp_path / "reads"), batch_size=BATCH)
    assert plain(loader) == expected
    assert "because the loop waits" in server.stats().in_flight["loader"].reason


@pytest.mark.parametrize("policy", [*LastBatchPolicy])
def test_loader_without_order_resumes_with_the_batches_that_are_left(
    server: DALIServer, tmp_path: Path, policy: LastBatchPolicy
) -> None:
    options: dict[str, Any] = {"batch_size": BATCH, "last_batch_policy": policy}
    expected = plain(DataLoader(server, IndexDataset(30, server.proxy), **options))
    dataset = BlockedDataset(30, server.proxy, tmp_path / "go")
    loader = DataLoader(server, dataset, in_order=False, **options)
    loop = iter(loader)
    early = [plain([next(loop)])[0] for _ in range(3)]
    state = loader.state_dict()
    (tmp_path / "go").touch()
    late = plain(loop)
    assert expected[0] in late
    assert sorted(early + late) == expected
    assert (state["batches"], len(state["done"])) == (0, 3)
    for in_order in (True, False):
        again = DataLoader(server, dataset, in_order=in_order, **options)
        again.load_state_dict(state)
        assert sorted(plain(again)) == sorted(late)


def test_error_in_a_loop_without_order_costs_its_own_batch(server: DALIServer) -> None:
    dataset = RaisingDataset(24, server.proxy)
    loop = iter(DataLoader(server, dataset, batch_size=BATCH, in_order=False))
    found: list[list[int]] = []
    errors: list[Any] = []
    while len(found) + len(errors) < 6:
        try:
            found.append(next(loop)[1].tolist())
        except KeyError as raised:
            errors.append(raised)
    assert isinstance(error_of(loop), StopIteration)
    (error,) = errors
    assert error.dataset_index == dataset.bad
    assert sorted(index for batch in found for index in batch) == [index for index in range(24) if index // BATCH != 1]
    skipping = DataLoader(server, dataset, batch_size=BATCH, in_order=False, on_error="skip")
    with pytest.warns(RuntimeWarning, match="1 samples skipped"):
        assert sorted(index for _, batch in plain(skipping) for index in batch) == [0, 1, 2, 3, 4, *range(6, 24)]
