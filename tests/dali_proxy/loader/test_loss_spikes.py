"""`loss_spikes`: steps whose loss is far above the usual, and the samples of their batches."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import DALIServer, DataLoader, loss_spikes
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, noisy

EPOCHS, BATCHES = 3, 50


def usual(count: int = EPOCHS * BATCHES, seed: int = 1) -> np.ndarray[Any, Any]:
    """Return losses that fall slowly, with noise."""
    return np.linspace(3.0, 2.0, count) + np.random.default_rng(seed).normal(0, 0.05, count)


def line(epoch: int, batch: int, indices: Any, rank: int = 0) -> str:
    return json.dumps({"epoch": epoch, "batch": batch, "rank": rank, "indices": indices}) + "\n"


def log(path: Path, batches: Iterable[tuple[int, int]], ranks: int = 1) -> Path:
    """Write a log in which each sample has an index of its own in all epochs, for each rank."""
    lines = (line(*batch, [1000 * batch[0] + batch[1], -rank], rank) for batch in batches for rank in range(ranks))
    path.write_text("".join(lines))
    return path


def epochs(count: int = EPOCHS) -> list[tuple[int, int]]:
    return [(epoch, batch) for epoch in range(count) for batch in range(BATCHES)]


def reference(losses: list[float], window: int) -> list[float]:
    """Return the scores by the definition."""
    scores = []
    for number, loss in enumerate(losses):
        before = [each for each in losses[:number] if math.isfinite(each)][-window:]
        median = np.median(before) if before else 0.0
        distances = np.abs(np.array(before) - median)
        spread = 1.4826 * np.median(distances) if len(before) > 1 else 1.0
        scores.append(math.inf if not math.isfinite(loss) else float((loss - median) / spread))
    return scores


@pytest.mark.parametrize("window", [10, 40, 1000])
def test_scores_are_those_of_the_definition(tmp_path: Path, window: int) -> None:
    losses = np.random.default_rng(2).normal(2.0, 0.1, len(epochs()))
    losses[[30, 90, 91]] = 9.0, math.nan, 2.9
    expected = reference(losses.tolist(), window)
    path = log(tmp_path / "log", epochs())
    found = loss_spikes(losses, path, window=window, threshold=1.0)
    assert [spike.step for spike in found] == [n for n in range(10, len(losses)) if expected[n] > 1]
    assert len(found) > 3
    for spike in found:
        assert spike.step is not None
        assert spike.score == pytest.approx(expected[spike.step])


def test_spikes_have_the_samples_of_each_rank(tmp_path: Path) -> None:
    losses = usual()
    losses[[70, 120]] = 9.0
    path = log(tmp_path / "log", epochs(), ranks=2)
    for kind in (losses, losses.tolist(), torch.tensor(losses), [torch.tensor(each) for each in losses]):
        found = loss_spikes(kind, path)
        assert [(spike.step, spike.epoch, spike.batch) for spike in found] == [(70, 1, 20), (120, 2, 20)]
        assert found[0].indices == {0: (1020, 0), 1: (1020, -1)}
    assert found[0].median == pytest.approx(np.median(losses[:70]))
    assert {index: [spike.step for spike in spikes] for index, spikes in found.recurring.items()} == {
        0: [70, 120],
        -1: [70, 120],
    }
    shown = str(found)
    assert "step 70: epoch 1, batch 20: loss 9, median before 2." in shown
    assert "\n  rank 1: 1020, -1\n" in shown
    assert "dataset indices in several spikes: 0 (2 times), -1 (2 times)\n" in shown
    assert shown.endswith("--rank 0 --world-size 2")
    assert str(loss_spikes(usual(), path)) == "no spikes"
    assert not loss_spikes([], path)


def test_losses_that_are_not_finite_are_spikes(tmp_path: Path) -> None:
    losses = usual()
    losses[[0, 60, 61]] = math.nan, math.inf, -math.inf
    losses[62:] = math.nan  # the training has diverged
    found = loss_spikes(losses, log(tmp_path / "log", epochs()))
    assert [spike.step for spike in found] == [0, *range(60, len(losses))]
    assert all(spike.score == math.inf for spike in found)
    assert math.isnan(found[0].median)
    assert "step 0: epoch 0, batch 0: loss nan\n" in str(found)
    assert "look at the highest one" in str(loss_spikes([math.nan], tmp_path / "log"))


def test_constant_losses(tmp_path: Path) -> None:
    path = log(tmp_path / "log", epochs())
    assert not loss_spikes(np.full(100, 0.5), path)
    jump = np.full(100, 0.5)
    jump[50] = 0.6
    assert [spike.step for spike in loss_spikes(jump, path)] == [50]
    mostly = np.full(100, 0.5)  # the median absolute deviation is 0
    mostly[::10] = 0.6
    assert {round(spike.score, 2) for spike in loss_spikes(mostly, path)} == {7.98}  # 1 / (0.1 * 1.2533)


def test_losses_of_some_steps(tmp_path: Path) -> None:
    losses = dict(enumerate(usual()))
    losses[100] = 9.0
    path = log(tmp_path / "log", epochs())
    for every in (1, 5):
        some = {step: losses[step] for step in sorted(losses, reverse=True) if step % every == 0}
        assert [(spike.epoch, spike.batch) for spike in loss_spikes(some, path)] == [(2, 0)]
    batches = {batch: losses[step] for step, batch in enumerate(epochs())}
    (spike,) = loss_spikes(batches, path)
    assert (spike.step, spike.epoch, spike.batch, spike.indices) == (None, 2, 0, {0: (2000, 0)})
    assert str(spike).startswith("epoch 2, batch 0: loss 9,")


def test_resumed_training(tmp_path: Path) -> None:
    losses = usual()
    losses[70] = 9.0
    path = tmp_path / "log"
    # The first run had smaller batches, the second one ended in its second epoch, after the checkpoint.
    runs = [[(0, 0), *((0, number) for number in range(1, 80)), (1, 0)], epochs()[:75], epochs()[60:]]
    lines = [line(*batch, [f"run {run}, {batch}"]) for run, batches in enumerate(runs) for batch in batches]
    path.write_text("".join(lines))
    (spike,) = loss_spikes(losses, path)
    assert (spike.step, spike.epoch, spike.batch) == (70, 1, 20)
    assert spike.indices == {0: ("run 2, (1, 20)",)}


def test_logs_of_several_nodes(tmp_path: Path) -> None:
    losses = usual()
    losses[70] = 9.0
    paths = [tmp_path / "0", tmp_path / "1"]
    for rank, path in enumerate(paths):
        path.write_text("".join(line(*batch, [[rank, batch[1]]], rank) for batch in epochs()))
    (spike,) = loss_spikes(losses, paths)
    assert spike.indices == {0: ((0, 20),), 1: ((1, 20),)}


def test_log_that_begins_later_needs_batches(tmp_path: Path) -> None:
    path = log(tmp_path / "log", epochs()[60:])
    losses = dict(zip(epochs()[60:], usual(90), strict=True))
    losses[2, 10] = 9.0
    assert [(spike.epoch, spike.batch) for spike in loss_spikes(losses, path)] == [(2, 10)]
    with pytest.raises(ArgumentMismatchError, match=r"begins with batch 10 of epoch 1.*\{\(epoch, batch\): loss\}"):
        loss_spikes(usual(90), path)
    path.write_text("".join(line(0, batch, [batch]) for batch in (0, 2, 1, 3)))
    with pytest.raises(ArgumentMismatchError, match="it is out of order"):
        loss_spikes([1.0, math.nan], path)
    (spike,) = loss_spikes({(0, 2): math.nan}, path)
    assert spike.indices == {0: (2,)}


def test_wrong_arguments(tmp_path: Path) -> None:
    path = log(tmp_path / "log", epochs())
    wrong: list[tuple[Any, type[Exception], str]] = [
        (usual(151), ArgumentValueError, r"step 150 isn't in the sample log \(.*log\), which has 150 steps"),
        ({-1: 3.0}, ArgumentValueError, "step -1 isn't in the sample log"),
        ({(0, 50): 3.0}, ArgumentValueError, "batch 50 of epoch 0 isn't in the sample log"),
        ({(0, 1): 3.0, 7: 2.0}, ArgumentTypeError, "the keys of losses must be steps"),
        ({1.5: 3.0}, ArgumentTypeError, "the keys of losses must be steps"),
        ({"a": 3.0}, ArgumentTypeError, "the keys of losses must be steps"),
        (3.0, ArgumentTypeError, "losses must be numbers or a mapping, not a float"),
        ("abc", ArgumentTypeError, "losses must be numbers or a mapping, not a str"),
        (np.zeros((3, 2)), ArgumentTypeError, "each loss must be a number"),
        ([None], ArgumentTypeError, "each loss must be a number"),
    ]
    for losses, error, message in wrong:
        with pytest.raises(error, match=message):
            loss_spikes(losses, path)
    with pytest.raises(ArgumentValueError, match="window must be 10 or more, not 3"):
        loss_spikes([], path, window=3)
    with pytest.raises(ArgumentValueError, match="threshold must be more than 0, not 0"):
        loss_spikes([], path, threshold=0)
    path.write_text(line(0, 0, [1]) + '{"epoch": 0, "ba')
    with pytest.raises(ArgumentValueError, match="log, line 2: not a line of a sample log"):
        loss_spikes([1.0], path)
    with pytest.raises(FileNotFoundError):
        loss_spikes([1.0], tmp_path / "missing")


def test_spike_of_a_loop_leads_to_its_batch(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    losses: list[float] = []
    seen: list[Any] = []
    states = []
    with DALIServer(noisy(), mode="thread") as server:
        dataset = IndexDataset(60, server.proxy)
        order = torch.Generator().manual_seed(1)
        loader = DataLoader(server, dataset, batch_size=4, shuffle=True, generator=order, sample_log=path)
        for _ in range(2):
            states.append(loader.state_dict())
            for batch in loader:
                seen.append(batch)
                losses.append(1000.0 if len(losses) >= 15 and 17 in batch[1] else 1.0 + batch[1].float().mean().item())
        (spike,) = loss_spikes(losses, path)
        assert spike.step is not None
        assert spike.indices == {0: tuple(seen[spike.step][1].tolist())}
        assert 17 in spike.indices[0]
        replayed = loader.replay(states[spike.epoch], spike.batch)
        assert replayed.epoch == spike.epoch
        assert all(torch.equal(*pair) for pair in zip(replayed.data, seen[spike.step], strict=True))
