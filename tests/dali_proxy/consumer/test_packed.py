"""Packed outputs: one tensor for all samples, over their memory if it is adjacent."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import torch

from dali_proxy._consumer.packed import packed
from dali_proxy.pipeline._bulk.buffer_pool import Lease, lent_array
from pipeline.errors import ArgumentValueError


def test_batches_and_samples_are_joined_in_order() -> None:
    dense, ragged, single = torch.arange(8.0).reshape(2, 2, 2), [torch.ones(1, 2), torch.zeros(3, 2)], torch.ones(2, 2)
    made = packed([dense, ragged, single], [True, True, False])
    assert made.tolist() == torch.cat([dense.reshape(4, 2), *ragged, single]).tolist()
    assert packed([dense], [True]).data_ptr() == dense.data_ptr()


def test_adjacent_samples_are_not_copied_and_keep_their_memory() -> None:
    ended: list[bool] = []
    memory = lent_array(np.arange(96, dtype=np.uint8), Lease(lambda: ended.append(True)))
    samples = [
        torch.from_numpy(np.ndarray((rows, 4), np.int32, buffer=memory, offset=16 * first))
        for first, rows in ((0, 1), (1, 3), (4, 2))
    ]
    made = packed([samples], [True])
    assert made.data_ptr() == samples[0].data_ptr()
    assert made.tolist() == np.arange(96, dtype=np.uint8).view(np.int32).reshape(6, 4).tolist()
    reference = weakref.ref(made)
    del samples, memory
    gc.collect()
    assert not ended
    assert reference() is made
    del made
    gc.collect()
    assert ended


def test_views_of_one_tensor_are_not_copied() -> None:
    whole = torch.arange(12.0).reshape(6, 2)
    made = packed([[whole[:2], whole[2:3], whole[3:]]], [True])
    assert made.data_ptr() == whole.data_ptr()
    assert torch.equal(made, whole)
    assert torch.equal(packed([[whole[3:], whole[:2]]], [True]), torch.cat([whole[3:], whole[:2]]))


def test_different_samples_are_errors() -> None:
    with pytest.raises(ArgumentValueError, match=r"can't be packed .* shapes are \(1, 2\), \(1, 3\)"):
        packed([[torch.ones(1, 2), torch.ones(1, 3)]], [True])
    with pytest.raises(ArgumentValueError, match="can't be packed along"):
        packed([[torch.ones(1, 2), torch.ones(1, 2, dtype=torch.int32)]], [True])
    with pytest.raises(ArgumentValueError, match="numbers can't be packed"):
        packed([torch.ones(3)], [True])
