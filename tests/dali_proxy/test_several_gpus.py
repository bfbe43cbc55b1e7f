"""Two GPUs in one machine: an iterator on each, servers on the second, and devices that aren't mixed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dali_proxy
from dali_proxy import DALIClassificationIterator, DALIGenericIterator, LastBatchPolicy
from pipeline import Pipeline, fn, pipeline_def

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]

BATCH = 4


@pytest.fixture(scope="module")
def files(jpeg_folder: Path) -> list[str]:
    return sorted(str(path) for path in jpeg_folder.rglob("*.jpg"))


@pipeline_def(batch_size=BATCH, num_threads=2, seed=5)
def read(files: list[str], shard: int, shards: int) -> Any:
    encoded, labels = fn.readers.file(
        files=files, labels=list(range(len(files))), shard_id=shard, num_shards=shards, name="Reader"
    )
    images = fn.resize(fn.decoders.image(encoded, device="mixed"), size=(32, 32))
    return fn.crop_mirror_normalize(images), labels.gpu()


def pipelines(files: list[str]) -> list[Pipeline]:
    return [read(files, device, 2, device_id=device) for device in (0, 1)]


@pytest.mark.parametrize("policy", list(LastBatchPolicy))
def test_iterator_over_a_pipeline_on_each_gpu(files: list[str], policy: LastBatchPolicy) -> None:
    pipes = pipelines(files)
    iterator = DALIClassificationIterator(pipes, reader_name="Reader", last_batch_policy=policy, auto_reset=True)
    for _ in range(2):
        seen = []
        for batches in iterator:
            assert [batch["data"].device.index for batch in batches] == [0, 1]
            assert [batch["label"].device.index for batch in batches] == [0, 1]
            seen += [label for batch in batches for label in batch["label"].flatten().tolist()]
        if policy == LastBatchPolicy.PARTIAL:
            assert sorted(seen) == list(range(len(files)))
        else:
            assert set(seen) <= set(range(len(files)))
    for pipe in pipes:
        pipe.close()


def test_gpus_together_yield_the_batches_of_one(files: list[str]) -> None:
    one = read(files, 0, 1, device_id=0)
    alone = {
        int(label): image.cpu()
        for (batch,) in DALIGenericIterator(one, ["images", "labels"], reader_name="Reader")
        for image, label in zip(batch["images"], batch["labels"].flatten(), strict=True)
    }
    pipes = pipelines(files)
    for batches in DALIGenericIterator(pipes, ["images", "labels"], reader_name="Reader"):
        for batch in batches:
            for image, label in zip(batch["images"].cpu(), batch["labels"].flatten().tolist(), strict=True):
                torch.testing.assert_close(image, alone[label], rtol=0, atol=0)
    for pipe in (one, *pipes):
        pipe.close()


class Encoded(torch.utils.data.Dataset[Any]):
    def __init__(self, files: list[str], transform: Any) -> None:
        self.files, self.transform = files, transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        return self.transform(np.fromfile(self.files[index], np.uint8)), index


@pipeline_def(batch_size=BATCH, num_threads=2, seed=5)
def decode() -> Any:
    images = fn.decoders.image(fn.external_source(name="encoded", no_copy=True), device="mixed")
    return fn.crop_mirror_normalize(fn.resize(images, size=(32, 32)))


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_servers_side_by_side(files: list[str], mode: str) -> None:
    made: list[dict[int, Any]] = [{}, {}]
    with (
        dali_proxy.DALIServer(decode(device_id=0), mode=mode) as first,
        dali_proxy.DALIServer(decode(device_id=1), mode=mode) as second,
    ):
        loaders = [
            dali_proxy.DataLoader(server, Encoded(files, server.proxy), batch_size=BATCH, num_workers=2)
            for server in (first, second)
        ]
        for batches in zip(*loaders, strict=True):
            for device, (images, indices) in enumerate(batches):
                assert images.device.index == device
                made[device] |= {index: image.cpu() for image, index in zip(images, indices.tolist(), strict=True)}
    assert made[0].keys() == made[1].keys() == set(range(len(files)))
    for index, image in made[0].items():
        torch.testing.assert_close(image, made[1][index], rtol=0, atol=0)


@pytest.mark.parametrize("first", [0, 1])
def test_visible_devices_in_another_order(files: list[str], first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order changed after CUDA was initialized here, so the server numbers the GPUs differently."""
    found = [torch.cuda.get_device_properties(device).uuid for device in (0, 1)]
    order = (first, 1 - first)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(f"GPU-{found[device]}" for device in order))
    with dali_proxy.DALIServer(decode(device_id=0)) as server:
        loader = dali_proxy.DataLoader(server, Encoded(files, server.proxy), batch_size=BATCH, num_workers=2)
        made = list(loader)
    assert {images.device.index for images, _ in made} == {first}
    assert [index for _, indices in made for index in indices.tolist()] == list(range(len(files)))
