"""An output that was one tensor never becomes a list without `ragged`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch.utils.data

from dali_proxy import BatchError, DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine, error_of

ODD = (6, 10)


class OddWidths(IndexDataset):
    """A dataset with two samples that are wider than the others."""

    def __getitem__(self, index: int) -> Any:
        width = 3 + (index in ODD)
        return self.transform(np.full(width, index, np.int32), sample_name=f"file {index}"), index


@pytest.mark.parametrize("num_workers", [0, 1])
def test_batch_of_several_shapes_after_dense_ones_is_an_error(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, OddWidths(12, server.proxy), batch_size=4, num_workers=num_workers)
    iterator = iter(loader)
    next(iterator)
    for index in ODD:
        error = error_of(iterator)
        assert isinstance(error, BatchError)
        assert error.dataset_indices == (index,)
        assert error.sample_names == (f"file {index}",)
        assert "output 0 of the pipeline" in str(error)
        assert "shape (3,). This batch has (4,)" in str(error)
        assert f"dataset index {index}, named file {index}" in str(error)
        assert 'ragged="list"' in str(error)
    with pytest.raises(StopIteration):
        next(iterator)


def test_samples_of_other_shapes_can_be_left_out(server: DALIServer) -> None:
    bad: list[BatchError] = []
    loader = DataLoader(server, OddWidths(12, server.proxy), batch_size=4, on_error=bad.append)
    assert [len(images) for images, _ in loader] == [4, 3, 3]
    assert [error.dataset_index for error in bad] == [*ODD]


def test_explicit_ragged_is_accepted(server: DALIServer) -> None:
    loader = DataLoader(server, OddWidths(8, server.proxy), batch_size=4, ragged="list")
    assert [type(images) is list for images, _ in loader] == [False, True]


def test_output_whose_first_batch_was_a_list_may_be_either(server: DALIServer) -> None:
    loader = DataLoader(server, OddWidths(12, server.proxy), sampler=[6, 7, 0, 1, 10, 11], batch_size=2)
    for _ in range(2):
        assert [type(images) is list for images, _ in loader] == [True, False, True]


def test_later_epochs_know_the_shapes_of_earlier_ones(server: DALIServer) -> None:
    order = [0, 1]
    loader = DataLoader(server, OddWidths(12, server.proxy), sampler=order, batch_size=2)
    list(loader)
    order[1] = 6
    with pytest.raises(BatchError, match="output 0"):
        list(loader)


class TwoShapes(IndexDataset):
    """From one output of a pipeline, create an output with one shape in every batch and one with several shapes."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.zeros(3, np.int32)), self.transform(np.zeros(1 + index % 4, np.int32)), index


def test_views_of_one_output_are_distinguished(server: DALIServer) -> None:
    for one, other, _ in DataLoader(server, TwoShapes(8, server.proxy), batch_size=4):
        assert one.shape == (4, 3)
        assert [len(each) for each in other] == [1, 2, 3, 4]


def test_produce_data_remembers_its_product() -> None:
    with DALIServer(affine(), mode="thread") as server:
        loader = torch.utils.data.DataLoader(OddWidths(8, server.proxy), batch_size=4)
        first, second = loader
        assert server.produce_data(first)[0].shape == (4, 3)
        with pytest.raises(BatchError, match=r"for sample 2 of the batch, named file 6"):
            server.produce_data(second)
        assert len(server.produce_data(second, ragged="list")[0]) == 4


class Squares(OddWidths):
    """A dataset of images without a resize."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.zeros((index + 1, index + 1), np.int32))


def test_images_that_become_a_list_are_a_warning_once(server: DALIServer) -> None:
    loader = DataLoader(server, Squares(8, server.proxy), batch_size=4)
    with pytest.warns(
        UserWarning, match=r"output 0 .* a list .* \(1, 1\), \(2, 2\), \(3, 3\) and 1 more.*resize"
    ) as seen:
        batches = [images for _ in range(2) for images in loader]
    assert all(isinstance(images, list) for images in batches)
    assert [warning.filename for warning in seen] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(DataLoader(server, Squares(4, server.proxy), batch_size=4, ragged="list"))
        list(DataLoader(server, OddWidths(12, server.proxy), batch_size=12))  # one dimension, as boxes
