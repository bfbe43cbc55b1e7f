"""Batches that workers send."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch

from dali_proxy._loader.batches import CollatedBatch, NumberedIndices, Packed

NUMBERED = NumberedIndices(1, 2, [3, 4])


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6).reshape(2, 3),
        torch.tensor(2.5),
        torch.arange(6.0).reshape(2, 3).T,
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.zeros(0, 4),
    ],
    ids=str,
)
def test_tensors_arrive_unchanged(tensor: torch.Tensor) -> None:
    arrived = pickle.loads(ForkingPickler.dumps(Packed(CollatedBatch(NUMBERED, {"it": tensor}))))
    assert isinstance(arrived, CollatedBatch)
    assert arrived.numbered == NUMBERED
    copy = arrived.data["it"]
    assert (type(copy), copy.dtype, copy.shape) == (type(tensor), tensor.dtype, tensor.shape)
    assert torch.equal(copy, tensor)
    copy.zero_()  # it is writable
