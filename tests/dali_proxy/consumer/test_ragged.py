"""Outputs whose samples differ in shape: lists, nested tensors, padded tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dali_proxy import DALIServer, DataLoader
from dali_proxy._consumer.ragged import formed
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentTypeError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, affine, affine_of

shapes = st.integers(1, 3).flatmap(
    lambda ndim: st.lists(st.lists(st.integers(0, 4), min_size=ndim, max_size=ndim), min_size=2, max_size=5)
)


def is_ragged(sizes: list[list[int]]) -> bool:
    return any(size != sizes[0] for size in sizes)


@given(shapes.filter(is_ragged), st.sampled_from([torch.uint8, torch.float32, torch.int64, torch.bool]))
@settings(deadline=None)
def test_forms(sizes: list[list[int]], dtype: torch.dtype) -> None:
    samples = [torch.randint(0, 100, size).to(dtype) for size in sizes]
    assert formed(samples, "list") is samples
    nested = formed(samples, "nested")
    assert nested.is_nested
    assert nested.dtype == dtype
    for one, other in zip(nested.unbind(), samples, strict=True):
        assert torch.equal(one, other)
    padded = formed(samples, "pad")
    assert padded.shape == (len(samples), *np.max(sizes, axis=0))
    assert padded.dtype == dtype
    for row, sample in zip(padded, samples, strict=True):
        inside = torch.zeros(row.shape, dtype=torch.bool)
        inside[tuple(slice(length) for length in sample.shape)] = True
        assert torch.equal(row[inside], sample.reshape(-1))
        assert not row[~inside].any()


def test_layouts_of_nested_tensors() -> None:
    one_dimension = formed([torch.ones(2, 3), torch.ones(5, 3)], "nested")
    assert one_dimension.layout == torch.jagged
    assert torch.nested.to_padded_tensor(one_dimension, 0.0).shape == (2, 5, 3)
    two = [torch.ones(2, 3), torch.ones(5, 4)]
    assert formed(two, "nested").layout == torch.strided
    with pytest.raises(ArgumentTypeError, match=r"torch\.uint16 .* cast in the pipeline"):
        formed([each.to(torch.uint16) for each in two], "nested")
    assert formed([each.to(torch.uint16) for each in two], "pad").dtype == torch.uint16


class Growing(IndexDataset):
    """Sample i has i + 1 numbers; the samples of the last batch have one."""

    def __getitem__(self, index: int) -> Any:
        width = index + 1 if index < 8 else 1
        return self.transform(np.full(width, index, np.int32)), index


@pytest.mark.combinations
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("ragged", ["list", "nested", "pad"])
def test_loader(server: DALIServer, ragged: Any, num_workers: int) -> None:
    loader = DataLoader(server, Growing(12, server.proxy), batch_size=4, num_workers=num_workers, ragged=ragged)
    *first, (dense, _) = list(loader)
    for images, indices in first:
        if ragged == "pad":
            assert images.shape == (4, int(indices[-1]) + 1)
        samples = images.unbind() if ragged == "nested" else images
        for sample, index in zip(samples, indices.tolist(), strict=True):
            assert sample[: index + 1].tolist() == [affine_of(index)] * (index + 1)
            assert not sample[index + 1 :].any()
    assert not dense.is_nested
    assert dense.shape == (4, 1)
    assert dense.flatten().tolist() == [affine_of(index) for index in range(8, 12)]


def test_memory_is_returned_immediately(serve: Callable[..., DALIServer]) -> None:
    server = serve(affine())
    held = [images for _ in range(10) for images, _ in DataLoader(server, Growing(8, server.proxy), 8, ragged="nested")]
    assert all(each.is_nested for each in held)
    assert server.stats().waiting_results == 0


@pipeline_def(num_threads=1, device_id=None, batch_size=8)
def with_shapes() -> Any:
    x = fn.external_source(name="x")
    return x + 1, fn.shapes(x)


def test_shapes_beside_padded_outputs(serve: Callable[..., DALIServer]) -> None:
    server = serve(with_shapes())

    class Both(Growing):
        def __getitem__(self, index: int) -> Any:
            (padded, shape), _ = super().__getitem__(index)
            return padded, shape

    for padded, sizes in DataLoader(server, Both(8, server.proxy), batch_size=4, ragged="pad"):
        assert (padded != 0).sum(dim=1).tolist() == sizes.flatten().tolist()


def test_produce_data(server: DALIServer) -> None:
    plain = torch.utils.data.DataLoader(Growing(4, server.proxy), batch_size=4)
    batch = next(iter(plain))
    nested, _ = server.produce_data(batch, ragged="nested")
    assert server.produce_data(batch, ragged="nested")[0] is nested
    images, _ = server.produce_data(batch)
    assert isinstance(images, list)
    assert server.produce_data(batch, ragged="pad")[0].shape == (4, 4)
    with pytest.raises(ArgumentValueError, match="ragged must be"):
        server.produce_data(batch, ragged="jagged")  # type: ignore[arg-type]
    with pytest.raises(ArgumentValueError, match="ragged must be"):
        DataLoader(server, Growing(4, server.proxy), ragged="")  # type: ignore[arg-type]
