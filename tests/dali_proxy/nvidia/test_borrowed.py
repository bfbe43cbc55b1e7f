"""Pipelines of NVIDIA's package with our iterators, compared with NVIDIA's iterators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import DALIClassificationIterator, DALIGenericIterator, LastBatchPolicy
from pipeline.errors import PipelineError

dali = pytest.importorskip("nvidia.dali")


@dali.pipeline_def(num_threads=1, device_id=None)
def files(root: str, shard: int = 0, padded: bool = True) -> Any:
    data, labels = dali.fn.readers.file(
        file_root=root, name="Reader", shard_id=shard, num_shards=2, pad_last_batch=padded
    )
    return dali.fn.reinterpret(dali.fn.slice(data, 0, 16, axes=[0]), shape=[4, 4]), labels


@dali.pipeline_def(batch_size=3, num_threads=1, device_id=None)
def counted() -> Any:
    def batches() -> Any:
        for start in range(0, 9, 3):
            yield [np.full((2,), index, np.int32) for index in range(start, start + 3)]

    return dali.fn.external_source(source=batches, cycle="raise")


@pytest.mark.parametrize("policy", ["FILL", "DROP", "PARTIAL"])
@pytest.mark.parametrize("padded", [False, True])
def test_batches_are_those_of_its_own_iterator(jpeg_folder: Path, policy: str, padded: bool) -> None:
    plugin = pytest.importorskip("nvidia.dali.plugin.pytorch")

    def epochs(iterator: Any) -> list[Any]:
        found = [
            [(part["data"].tolist(), part["label"].tolist()) for part in batch] for _ in range(3) for batch in iterator
        ]
        return [len(iterator), *found]

    def pipelines() -> list[Any]:
        return [files(str(jpeg_folder), shard, padded, batch_size=5) for shard in range(2)]

    expected = plugin.DALIClassificationIterator(
        pipelines(), reader_name="Reader", auto_reset=True, last_batch_policy=getattr(plugin.LastBatchPolicy, policy)
    )
    ours = DALIClassificationIterator(
        pipelines(), reader_name="Reader", auto_reset=True, last_batch_policy=LastBatchPolicy[policy]
    )
    assert epochs(ours) == epochs(expected)


def test_epochs_end_with_the_data() -> None:
    iterator = DALIGenericIterator(counted(), ["x"])
    for _ in range(2):
        assert [batch[0]["x"][:, 0].tolist() for batch in iterator] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
        iterator.reset()


def test_tensors_stay_valid_while_the_pipeline_continues() -> None:
    batches = [batch[0]["x"] for batch in DALIGenericIterator(counted(), ["x"])]
    assert torch.stack(batches)[:, :, 0].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_errors_are_those_of_this_package(jpeg_folder: Path) -> None:
    with pytest.raises(PipelineError, match=r"no reader 'Other'.*'Reader'"):
        DALIClassificationIterator(files(str(jpeg_folder), batch_size=4), reader_name="Other")
    iterator = DALIClassificationIterator(files(str(jpeg_folder), batch_size=4), reader_name="Reader")
    with pytest.raises(PipelineError, match="no checkpoints"):
        iterator.checkpoints()

    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def damaged() -> Any:
        return dali.fn.decoders.image(dali.fn.external_source(source=lambda: [np.zeros(9, np.uint8)], batch=True))

    with pytest.raises(PipelineError, match="NVIDIA DALI: RuntimeError"):
        next(DALIGenericIterator(damaged(), ["x"]))
