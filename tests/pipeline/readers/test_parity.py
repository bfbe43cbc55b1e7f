"""The samples in each batch, compared with NVIDIA DALI."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.readers.data import reading, take, write_files

pytestmark = pytest.mark.parity


def dali_reading(files: list[str], batch_size: int, **arguments: Any) -> Any:
    from nvidia.dali import Pipeline, fn

    pipe = Pipeline(batch_size=batch_size, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(*fn.readers.file(files=files, name="r", **arguments))
    pipe.build()
    return pipe


@pytest.mark.parametrize("stick", [False, True], ids=["moving", "sticking"])
@pytest.mark.parametrize("pad", [False, True], ids=["unpadded", "padded"])
@pytest.mark.parametrize("entries", [4, 7, 12])
def test_batches_of_all_shards_over_three_epochs(entries: int, pad: bool, stick: bool, tmp_path: Path) -> None:
    files = write_files(tmp_path, entries)
    for shards, batch_size in itertools.product((1, 2, 3, 4), (1, 2, 3, 5)):
        for shard in range(shards):
            arguments = {
                "shard_id": shard,
                "num_shards": shards,
                "pad_last_batch": pad,
                "stick_to_shard": stick,
                "prefetch_queue_depth": 1 + shard,
            }
            theirs, ours = (make(files, batch_size, **arguments) for make in (dali_reading, reading))
            batches = 3 * -(-entries // shards // batch_size) + 4
            what = f"batch size {batch_size}, {arguments}"
            assert take(ours, batches) == take(theirs, batches), what
            assert ours.reader_meta("r") == theirs.reader_meta("r"), what
            ours.close()


@pytest.mark.parametrize("shuffle", ["random_shuffle", "shuffle_after_epoch"])
def test_shuffled_readers_report_the_same(shuffle: str, tmp_path: Path) -> None:
    files = write_files(tmp_path, 5)
    theirs, ours = (make(files, 2, **{shuffle: True}, num_shards=2) for make in (dali_reading, reading))
    assert ours.reader_meta() == theirs.reader_meta()
    assert ours.epoch_size() == theirs.epoch_size()
    ours.close()


def test_source_info_goes_with_samples(jpeg_folder: Path) -> None:
    """Source information follows the first inputs of decoders and other operators; labels have none."""
    import nvidia.dali

    import pipeline

    found = []
    for package in (nvidia.dali, pipeline):
        pipe = package.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with pipe:
            data, label = package.fn.readers.file(file_root=str(jpeg_folder))
            image = package.fn.decoders.image(data)
            small = package.fn.resize(image, size=[3, 3])
            nodes = (data, label, image, small, small + 1, label + 1, small.shape())
            pipe.set_outputs(*(package.fn.get_property(node, key="source_info") for node in nodes), small, label)
        pipe.build()
        outputs = pipe.run()
        texts = [[bytes(np.asarray(text)).decode() for text in output] for output in outputs[:-2]]
        found.append((texts, [[sample.source_info() for sample in output] for output in outputs[-2:]]))
        if package is pipeline:
            pipe.close()
    assert found[0] == found[1]
    assert found[1][1][0][0].endswith(".jpg")
