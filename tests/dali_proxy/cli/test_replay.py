"""``dali-proxy replay``: the samples and images of a step."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from dali_proxy import distributed
from dali_proxy._cli import main

TRAIN = """
import numpy as np
import torch
import dali_proxy
from dali_proxy import fn, pipeline_def

@pipeline_def(batch_size=4, num_threads=1, device_id=None, seed=5)
def noisy():
    noise = fn.noise.gaussian(fn.external_source(name="image", layout="HWC"), stddev=9.0)
    crop = fn.random_resized_crop(noise, size=(8, 8), random_area=(0.5, 0.9))
    return fn.brightness(crop, brightness=fn.random.uniform(range=[0.9, 1.1]))

class Images:
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 14

    def __getitem__(self, index):
        return {"image": self.transform(np.full((8, 8, 3), 10 * index, np.uint8)), "index": index}

def make():
    server = dali_proxy.DALIServer(noisy(), mode="thread")
    order = torch.randperm(14, generator=torch.Generator().manual_seed(1))
    return dali_proxy.DataLoader(server, Images(server.proxy), batch_size=4, sampler=order)

def nothing():
    return 3
"""


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(["replay", *words])
    done = capsys.readouterr()
    return status, done.out + done.err


def test_step_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train_of_replay.py").write_text(TRAIN)
    order = torch.randperm(14, generator=torch.Generator().manual_seed(1)).tolist()
    monkeypatch.syspath_prepend(str(tmp_path))
    import train_of_replay

    loader = train_of_replay.make()
    with loader.dali_server:
        list(loader)
        for _ in loader:
            break
        torch.save({"model": {"weight": torch.zeros(3)}, "data": [loader.state_dict()]}, "state.pt")
    name = "train_of_replay:make"
    status, shown = run(capsys, name, "state.pt", "--step", "6")
    assert (status, shown.splitlines()[0]) == (0, f"epoch 1, batch 2, dataset indices {order[8:12]}")
    assert "batch['image']: (4, 8, 8, 3) uint8" in shown
    lines = shown.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("fn.random.uniform"))
    drawn = [line.strip().split(": ") for line in lines[begin + 1 : begin + 5]]
    assert [index for index, _ in drawn] == [str(index) for index in order[8:12]]
    assert all(0.9 <= float(number) <= 1.1 for _, number in drawn)
    assert any(line.startswith("fn.noise.gaussian") and "aren't shown" in line for line in lines)
    begin = next(number for number, line in enumerate(lines) if line.startswith("fn.random_resized_crop"))
    for index, line in zip(order[8:12], lines[begin + 1 : begin + 5], strict=True):
        found = re.fullmatch(
            rf"  {index}: anchor \(y, x\) \[(\d), (\d)\], shape \(height, width\) \[(\d), (\d)\]", line
        )
        assert found is not None, line
        y, x, height, width = map(int, found.groups())
        assert max(y + height, x + width) <= 8
        assert 0.4 < height * width / 64 < 1
    assert Image.open("replay.png").width > 4 * 8
    status, shown = run(capsys, name, "state.pt", "--output", "next.png")
    assert (status, shown.splitlines()[0]) == (0, f"epoch 1, batch 1, dataset indices {order[4:8]}")
    wrong = {
        ("--step", "2"): (1, "step 2 is in epoch 0, but the state in epoch 1: use one of that epoch"),
        ("--batch", "9"): (2, "replay: epoch 1 has no batch 9"),
        ("--rank", "1"): (2, "--rank and --world-size belong together"),
    }
    for words, (status, message) in wrong.items():
        found = run(capsys, name, "state.pt", *words)
        assert found[0] == status
        assert message in found[1]
    assert "returned a int, not a dali_proxy.DataLoader" in run(capsys, "train_of_replay:nothing", "state.pt")[1]
    torch.save({"model": 3}, "other.pt")
    assert run(capsys, name, "other.pt")[1].endswith("other.pt has no state of a dali_proxy.DataLoader\n")
    assert "can't read missing.pt" in run(capsys, name, "missing.pt")[1]


RANKS = """
import numpy as np
import torch
import dali_proxy
from dali_proxy import distributed, fn, pipeline_def
from torch.utils.data import DistributedSampler

@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def noisy():
    return fn.external_source(name="x") + fn.random.uniform(range=(0.0, 0.9))

class Numbers:
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 40

    def __getitem__(self, index):
        return self.transform(np.full(3, index, np.float32))

def make(seed=5, own=False):
    server = dali_proxy.DALIServer(noisy(seed=seed), mode="thread")
    dataset = Numbers(server.proxy)
    if own:
        return dali_proxy.DataLoader(server, dataset, batch_sampler=distributed.DistributedBatchSampler(dataset, 4))
    ranks = distributed.environment()
    sampler = DistributedSampler(dataset, ranks.world_size, ranks.rank, seed=3)
    return dali_proxy.DataLoader(server, dataset, batch_size=4, sampler=sampler)

def make_own():
    return make(own=True)

def make_unseeded():
    return make(seed=None)
"""


@pytest.mark.parametrize("name", ["make", "make_own"])
def test_batch_of_another_rank(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    module = "ranks_of_replay"
    (tmp_path / f"{module}.py").write_text(RANKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)
    train = importlib.import_module(module)
    seen: dict[int, list[list[float]]] = {}
    for rank in range(2):
        distributed.set_ranks(rank, 2)
        loader = getattr(train, name)()
        with loader.dali_server:
            list(loader)
            seen[rank] = []
            for batch in loader:
                if rank == 0 and not seen[0]:
                    torch.save(loader.state_dict(), "state.pt")
                seen[rank].append(batch[:, 0].tolist())
    distributed.set_ranks(None)
    assert seen[0] != seen[1]
    for variable in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(variable, "0")  # restored after the test
        monkeypatch.delenv(variable)
    for rank in (1, 0):
        arguments = ("state.pt", "--batch", "3", "--rank", str(rank), "--world-size", "2")
        status, shown = run(capsys, f"{module}:{name}", *arguments)
        assert status == 0, shown
        indices = [int(number) for number in seen[rank][3]]
        lines = shown.splitlines()
        assert lines[0] == f"epoch 1, batch 3, dataset indices {indices}"
        begin = next(number for number, line in enumerate(lines) if line.startswith("fn.random.uniform"))
        drawn = [float(line.split(": ")[1]) for line in lines[begin + 1 : begin + 5]]
        assert drawn == pytest.approx([number % 1 for number in seen[rank][3]], abs=1e-5)
    if name == "make":
        status, shown = run(capsys, f"{module}:make_unseeded", "state.pt", "--rank", "1", "--world-size", "2")
        assert status == 2
        assert "the pipeline has no seed" in shown
