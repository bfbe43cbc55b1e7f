"""The log of the samples of each batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import DALIServer, DataLoader
from dali_proxy._loader.batches import NumberedIndices
from dali_proxy._loader.sample_log import SampleLog
from pipeline.errors import ArgumentTypeError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, RaisingDataset, noisy


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_batches_that_the_loop_gets_are_logged(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with DALIServer(noisy(), mode="thread") as server:
        order = torch.Generator()
        dataset = IndexDataset(10, server.proxy)
        loader = DataLoader(server, dataset, batch_size=4, shuffle=True, generator=order, sample_log=path)
        for epoch in range(2):
            got = [indices.tolist() for _, indices in loader]
            assert [each["indices"] for each in lines_of(path)[3 * epoch :]] == got
        assert [(each["epoch"], each["batch"], each["rank"]) for each in lines_of(path)[3:]] == [
            (1, number, 0) for number in range(3)
        ]
        loop = iter(DataLoader(server, RaisingDataset(12, server.proxy), batch_size=4, sample_log=path))
        next(loop)
        with pytest.raises(KeyError):
            next(loop)
        next(loop)
        assert [each["batch"] for each in lines_of(path)[6:]] == [0, 2]
        loader.replay(loader.state_dict(), 0)
        assert len(lines_of(path)) == 8
        with pytest.raises(ArgumentValueError, match=r"sample_log=.*is in a folder that doesn't exist"):
            DataLoader(server, IndexDataset(10, server.proxy), sample_log=tmp_path / "missing" / "log")
        with pytest.raises(ArgumentValueError, match=r"sample_log=.* is a folder"):
            DataLoader(server, IndexDataset(10, server.proxy), sample_log=tmp_path)
        with pytest.raises(ArgumentTypeError, match="sample_log must be a path, not int"):
            DataLoader(server, IndexDataset(10, server.proxy), sample_log=5)  # type: ignore[arg-type]


def test_indices_of_any_kind_are_logged(tmp_path: Path) -> None:
    log = SampleLog(str(tmp_path / "log"))
    kinds: list[Any] = [7, ["a", ("b", 1)], [np.int64(3)], torch.tensor([4, 5]), [Path("c")], None]
    for indices in kinds:
        log.add(NumberedIndices(0, 0, indices))
    assert [each["indices"] for each in lines_of(tmp_path / "log")] == [7, ["a", ["b", 1]], [3], [4, 5], ["c"], None]
