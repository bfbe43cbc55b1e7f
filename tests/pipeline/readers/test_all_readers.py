"""Readers of all formats distribute, pad, shuffle and resume as `readers.file`, which other tests compare with DALI."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._declaration.registry import lookup
from pipeline import Pipeline, fn
from pipeline.tfrecord import FixedLenFeature, int64
from tests.pipeline.readers.wire import datum, example, image_record, tensor, tensors, write_recordio, write_tfrecord

lmdb = pytest.importorskip("lmdb")
soundfile = pytest.importorskip("soundfile")
fits = pytest.importorskip("astropy.io.fits")

COUNT = 10
#: By reader: arguments for the data set, and the output whose samples are numbers from 0 to 9.
DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    "file": lambda root: {"files": [str(root / f"{number}.npy") for number in range(COUNT)]},
    "numpy": lambda root: {"files": [str(root / f"{number}.npy") for number in range(COUNT)]},
    "caffe": lambda root: {"path": str(root / "caffe")},
    "caffe2": lambda root: {"path": str(root / "caffe2")},
    "mxnet": lambda root: {"path": [str(root / "a.rec")], "index_path": [str(root / "a.idx")]},
    "tfrecord": lambda root: {
        "path": [str(root / "b.tfrecord"), str(root / "c.tfrecord")],
        "index_path": [str(root / "b.idx"), str(root / "c.idx")],
        "features": {"number": FixedLenFeature((), int64, -1)},
    },
    "nemo_asr": lambda root: {"manifest_filepaths": [str(root / "sounds.json")], "read_idxs": True},
    "fits": lambda root: {"files": [str(root / f"{number}.fits") for number in range(COUNT)]},
    "coco": lambda root: {
        "file_root": str(root),
        "annotations_file": str(root / "annotations.json"),
        "image_ids": True,
    },
}
RECORDS = ("caffe", "caffe2", "mxnet", "tfrecord")
ARGUMENTS: list[dict[str, Any]] = [
    {"num_shards": 3, "shard_id": 1},
    {"num_shards": 3, "shard_id": 2, "pad_last_batch": True},
    {"num_shards": 3, "shard_id": 2, "stick_to_shard": True},
    {"random_shuffle": True, "initial_fill": 3, "num_shards": 2, "pad_last_batch": True},
    {"shuffle_after_epoch": True, "num_shards": 2, "shard_id": 1},
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readers")
    for number in range(COUNT):
        np.save(folder / f"{number}.npy", np.array([number]))
        fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.array([number], np.int32))]).writeto(
            folder / f"{number}.fits"
        )
    values = {
        "caffe": [datum(b"image", number) for number in range(COUNT)],
        "caffe2": [tensors(tensor(b"image"), tensor([number])) for number in range(COUNT)],
    }
    for name, entries in values.items():
        with lmdb.open(str(folder / name), map_size=1 << 20) as database, database.begin(write=True) as transaction:
            for number, value in enumerate(entries):
                transaction.put(b"%08d" % number, value)
    write_recordio(folder / "a.rec", [image_record(float(number), b"image") for number in range(COUNT)])
    examples = [example({"number": [number]}) for number in range(COUNT)]
    write_tfrecord(folder / "b.tfrecord", examples[:4])
    write_tfrecord(folder / "c.tfrecord", examples[4:])
    soundfile.write(folder / "a.wav", np.zeros(99), 8000)
    sound = json.dumps({"audio_filepath": str(folder / "a.wav"), "duration": 1.0, "text": ""})
    (folder / "sounds.json").write_text("\n".join([sound] * COUNT))
    images = [{"id": number, "file_name": f"{number}.npy", "width": 1, "height": 1} for number in range(COUNT)]
    (folder / "annotations.json").write_text(json.dumps({"images": images, "categories": [], "annotations": []}))
    return folder


def reading(reader: str, root: Path, arguments: dict[str, Any], checkpoint: bytes | None = None) -> Pipeline:
    operator = attrgetter("experimental.readers.fits" if reader == "fits" else f"readers.{reader}")(fn)
    with Pipeline(
        batch_size=3, num_threads=2, device_id=None, seed=5, enable_checkpointing=True, checkpoint=checkpoint
    ) as pipe:
        made = operator(name="r", **DATA[reader](root), **arguments)
        outputs = made.values() if isinstance(made, dict) else made if isinstance(made, list | tuple) else [made]
        pipe.set_outputs(list(outputs)[-1])
    return pipe


def take(pipe: Pipeline, batches: int) -> list[list[int]]:
    return [[int(np.asarray(sample).item()) for sample in pipe.run()[0]] for _ in range(batches)]


@pytest.mark.parametrize("reader", [name for name in DATA if name != "file"])
def test_readers_share_orders_and_checkpoints(reader: str, root: Path) -> None:
    schema = lookup("experimental.readers.fits" if reader == "fits" else f"readers.{reader}")
    for arguments in ARGUMENTS:
        if not arguments.keys() <= {argument.name for argument in schema.arguments}:
            continue
        if reader in ("mxnet", "tfrecord") and "shuffle_after_epoch" in arguments:
            continue  # which shuffles files, not records
        # A buffer draws from records in their order, but from shuffled lists of files.
        other = "tfrecord" if reader in RECORDS and "random_shuffle" in arguments else "file"
        pipes = [reading(name, root, arguments) for name in (other, reader)]
        expected, found = (take(pipe, 3) for pipe in pipes)
        checkpoint = pipes[1].checkpoint()
        expected, found = (numbers + take(pipe, 6) for numbers, pipe in zip((expected, found), pipes, strict=True))
        assert found == expected, arguments
        assert pipes[0].reader_meta("r") == pipes[1].reader_meta("r")
        pipes.append(reading(reader, root, arguments, checkpoint))
        assert take(pipes[2], 6) == expected[3:], arguments
        for pipe in pipes:
            pipe.close()
