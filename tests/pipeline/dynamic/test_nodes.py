"""Tests of the nodes for `torchdata.nodes`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import dynamic

tn = pytest.importorskip("torchdata.nodes")


def test_nodes_read_map_and_convert(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.jpg").write_bytes(bytes([number]) * 2)
    nodes = dynamic.pytorch.nodes
    files = sorted(map(str, tmp_path.glob("*.jpg")))
    reader = nodes.Reader(dynamic.readers.File, batch_size=2, files=files)
    torch_node = nodes.ToTorch(nodes.DictMapper(reader, lambda batch: batch + 1))
    loader = tn.Loader(torch_node)
    for _ in range(2):
        assert [data.tolist() for data, _ in loader] == [[[1, 1], [2, 2]], [[3, 3], [4, 4]]]
    assert reader.get_metadata()["epoch_size"] == 4
    torch_node.reset()
    next(torch_node)
    state = torch_node.state_dict()
    expected = [data.tolist() for data, _ in torch_node]
    torch_node.reset(state)
    assert [data.tolist() for data, _ in torch_node] == expected == [[[3, 3], [4, 4]]]
    wrong = nodes.Reader(dynamic.readers.File, batch_size=2, files=files, output_names=["data"])
    wrong.reset()
    with pytest.raises(ValueError, match="2 outputs, but 1 names"):
        next(wrong)


def test_stop_iteration_of_a_function_does_not_end_the_epoch(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(b"ab")
    nodes = dynamic.pytorch.nodes
    reader = nodes.Reader(dynamic.readers.File, batch_size=1, files=[str(tmp_path / "0.jpg")])
    mapped = nodes.DictMapper(reader, lambda batch: next(iter(())))
    mapped.reset()
    with pytest.raises(RuntimeError, match="raised by map_fn, which would end the epoch"):
        next(mapped)
