"""Copies and pickles of loaders, and of their iterators and workers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import DALIGenericIterator, DALIServer, DataLoader
from pipeline import Pipeline, fn
from tests.dali_proxy.indexed import IndexDataset, check_affine

COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))]
IDS = ["copy", "deepcopy", "pickle"]


def indices(loader: Any) -> list[list[int]]:
    return [check_affine(*batch) for batch in loader]


@pytest.mark.combinations
@pytest.mark.parametrize("duplicate", COPIES, ids=IDS)
@pytest.mark.parametrize("workers", [{}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}])
def test_copy_of_a_loader_has_its_own_workers_and_position(
    workers: dict[str, Any], duplicate: Callable[[Any], Any], server: DALIServer
) -> None:
    loader = DataLoader(server, IndexDataset(8, server.proxy), 4, **workers)
    whole = [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert indices(loader) == whole
    iterator = iter(loader)
    assert check_affine(*next(iterator)) == whole[0]
    copied = duplicate(loader)
    assert copied.state_dict()["batches"] == 1
    assert check_affine(*next(iterator)) == whole[1]
    assert copied.state_dict()["batches"] == 1
    for _ in range(2):
        assert indices(copied) == whole
        assert indices(loader) == whole
    del iterator, copied


@pytest.mark.combinations
@pytest.mark.parametrize("duplicate", COPIES, ids=IDS)
@pytest.mark.parametrize("num_workers", [0, 1])
def test_iterator_and_workers_refuse_to_be_copied(
    num_workers: int, duplicate: Callable[[Any], Any], server: DALIServer
) -> None:
    iterator = iter(DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=num_workers))
    next(iterator)
    with pytest.raises(NotImplementedError, match="a LoaderIterator cannot be copied or pickled: it is connected"):
        duplicate(iterator)
    for worker in iterator._loop.workers:
        with pytest.raises(TypeError, match="is a process: it can't be copied or pickled"):
            duplicate(worker)
    assert indices(iterator) == [[4, 5, 6, 7]]


def test_iterator_of_pipelines_refuses_to_be_copied() -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.external_source(lambda: np.zeros((2, 1), np.float32)))
    iterator = DALIGenericIterator(pipe, ["x"])
    with pytest.raises(NotImplementedError, match="DALIGenericIterator cannot be copied"):
        copy.deepcopy(iterator)
    assert torch.equal(next(iterator)[0]["x"], torch.zeros(2, 1))
    pipe.close()
