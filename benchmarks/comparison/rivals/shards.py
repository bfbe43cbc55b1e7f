"""Loaders with a storage format of their own, or of others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from benchmarks.comparison.job import Job
from benchmarks.comparison.jobs.shards import Shards
from benchmarks.comparison.rival import Batch, Cores, Rival, Stream, finished, repeat, stack


class OfShards(Rival):
    """A loader that reads a storage format in workers, each of which makes whole batches."""

    form: str

    def does(self, job: Job) -> bool:
        return isinstance(job, Shards)

    def prepare(self, job: Job) -> None:
        assert isinstance(job, Shards)
        job.written(self.form, partial(self.write, job))

    def write(self, job: Shards, folder: Path) -> None:
        """Write all samples."""
        raise NotImplementedError

    def batches(self, job: Shards, folder: Path, cores: Cores) -> Iterable[Batch]:
        """Return the loader of an epoch."""
        raise NotImplementedError

    def stream(self, job: Job, cores: Cores) -> Stream:
        assert isinstance(job, Shards)
        folder = job.written(self.form, partial(self.write, job))
        yield from finished(repeat(self.batches(job, folder, cores)), job)


class WebDataset(OfShards):
    """``wds.WebDataset`` and ``wds.WebLoader``; batches are made in the workers."""

    name = "webdataset"
    title = "`WebDataset(...).map(...).batched(...)`, `WebLoader(batch_size=None)`: tar archives"
    packages = ("webdataset",)
    modules = ("webdataset",)

    def prepare(self, job: Job) -> None:
        assert isinstance(job, Shards)
        job.archives()

    def stream(self, job: Job, cores: Cores) -> Stream:
        import webdataset

        assert isinstance(job, Shards)
        dataset = (
            webdataset.WebDataset(job.archives(), shardshuffle=False)
            .to_tuple("jpg", "label")
            .map(partial(_from_bytes, job))
            .batched(job.batch_size, collation_fn=stack)
        )
        loader = webdataset.WebLoader(dataset, batch_size=None, num_workers=cores.workers, persistent_workers=True)
        yield from finished(repeat(loader), job)


class LitData(OfShards):
    """``litdata.optimize``, then ``StreamingDataset`` and ``StreamingDataLoader``."""

    name = "litdata"
    title = "`optimize`, `StreamingDataset(transform=...)`, `StreamingDataLoader`: its own chunks"
    packages = ("litdata",)
    modules = ("litdata",)
    form = "litdata"

    def write(self, job: Shards, folder: Path) -> None:
        import litdata

        litdata.optimize(
            partial(_record, job),
            list(range(job.length)),
            str(folder),
            chunk_bytes="16MB",
            num_workers=1,
            verbose=False,
        )

    def batches(self, job: Shards, folder: Path, cores: Cores) -> Iterable[Batch]:
        import litdata

        dataset = litdata.StreamingDataset(str(folder), shuffle=False, transform=partial(_from_dict, job))
        return litdata.StreamingDataLoader(
            dataset, batch_size=job.batch_size, num_workers=cores.workers, collate_fn=stack, persistent_workers=True
        )


class Mosaic(OfShards):
    """``MDSWriter``, then ``StreamingDataset`` in torch's DataLoader."""

    name = "mosaicml-streaming"
    title = "`MDSWriter`, `StreamingDataset`, torch's `DataLoader`: its own shards"
    packages = ("mosaicml-streaming",)
    modules = ("streaming",)
    form = "mds"

    def write(self, job: Shards, folder: Path) -> None:
        from streaming import MDSWriter

        with MDSWriter(out=str(folder), columns={"jpg": "bytes", "label": "ndarray:int32"}, size_limit=1 << 24) as file:
            for encoded, label in job.records():
                file.write({"jpg": encoded.tobytes(), "label": label})

    def batches(self, job: Shards, folder: Path, cores: Cores) -> Iterable[Batch]:
        import streaming

        streaming.base.util.clean_stale_shared_memory()

        class Dataset(streaming.StreamingDataset):
            def __getitem__(self, at: int) -> Any:
                return _from_dict(job, super().__getitem__(at))

        dataset = Dataset(local=str(folder), remote=None, shuffle=False, batch_size=job.batch_size)
        return DataLoader(
            dataset,
            batch_size=job.batch_size,
            num_workers=cores.workers,
            collate_fn=stack,
            persistent_workers=True,
            multiprocessing_context="fork",
        )


class HuggingFace(OfShards):
    """A dataset in Arrow files with ``with_transform``, in torch's DataLoader."""

    name = "hf-datasets"
    title = "`load_from_disk(...).with_transform(...)`, torch's `DataLoader`: Arrow files"
    packages = ("datasets",)
    modules = ("datasets",)
    form = "arrow"

    def write(self, job: Shards, folder: Path) -> None:
        import datasets

        def rows() -> Iterator[dict[str, Any]]:
            for encoded, label in job.records():
                yield {"jpg": encoded.tobytes(), "label": label.tolist()}

        datasets.Dataset.from_generator(rows, cache_dir=str(folder / "cache")).save_to_disk(str(folder / "data"))

    def batches(self, job: Shards, folder: Path, cores: Cores) -> Iterable[Batch]:
        import datasets

        dataset = datasets.load_from_disk(str(folder / "data")).with_transform(partial(_from_columns, job))
        return DataLoader(
            dataset,
            batch_size=job.batch_size,
            num_workers=cores.workers,
            collate_fn=_stack_column,
            persistent_workers=True,
        )


class ArrayRecord(OfShards):
    """Grain over ArrayRecord files, in worker processes."""

    name = "grain-array-record"
    title = "`ArrayRecordDataSource`, `MapDataset`, `mp_prefetch`: ArrayRecord files"
    packages = ("grain", "array-record")
    modules = ("grain", "array_record")
    form = "array-record"

    def write(self, job: Shards, folder: Path) -> None:
        from array_record.python.array_record_module import ArrayRecordWriter

        writer = ArrayRecordWriter(str(folder / "data.array_record"), "group_size:1")
        for encoded, label in job.records():
            writer.write(label.tobytes() + encoded.tobytes())
        writer.close()

    def batches(self, job: Shards, folder: Path, cores: Cores) -> Iterable[Batch]:
        import grain

        source = grain.sources.ArrayRecordDataSource([str(folder / "data.array_record")])
        options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
        dataset: Any = grain.MapDataset.source(source).map(partial(_from_record, job)).batch(job.batch_size)
        workers = grain.MultiprocessingOptions(num_workers=cores.workers)
        return _Swapped(dataset.to_iter_dataset(options).mp_prefetch(workers))


class RayData(OfShards):
    """``read_parquet``, ``map_batches`` in Ray's processes, ``iter_torch_batches``."""

    name = "ray-data"
    title = "`read_parquet`, `map_batches`, `iter_torch_batches`: Parquet files"
    packages = ("ray",)
    modules = ("ray.data",)
    form = "parquet"

    def write(self, job: Shards, folder: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        records = list(job.records())
        part = -(-len(records) // 8)
        for number in range(8):
            some = records[number * part : (number + 1) * part]
            columns = {"jpg": [one.tobytes() for one, _ in some], "label": [one.tolist() for _, one in some]}
            parquet.write_table(pyarrow.table(columns), folder / f"{number}.parquet", compression="none")

    def stream(self, job: Job, cores: Cores) -> Stream:
        import ray

        assert isinstance(job, Shards)
        folder = job.written(self.form, partial(self.write, job))
        ray.init(num_cpus=cores.workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
        try:
            ray.data.DataContext.get_current().enable_progress_bars = False
            dataset = ray.data.read_parquet(str(folder)).map_batches(
                partial(_map_batch, job), batch_size=job.batch_size
            )
            yield from finished(_of_ray(dataset, job.batch_size), job)
        finally:
            ray.shutdown()


def _of_ray(dataset: Any, batch_size: int) -> Iterator[Batch]:
    while True:
        for batch in dataset.iter_torch_batches(batch_size=batch_size):
            yield batch["index"], (batch["image"],)


def _map_batch(job: Shards, batch: dict[str, Any]) -> dict[str, Any]:
    pairs = zip(batch["jpg"], batch["label"], strict=True)
    loaded = [job.load(np.frombuffer(encoded, np.uint8), np.asarray(label)) for encoded, label in pairs]
    return {"image": np.stack([image for (image,), _ in loaded]), "index": np.array([index for _, index in loaded])}


class _Swapped:
    """Batches of Grain, with the indices first."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Batch]:
        for outputs, indices in self._batches:
            yield indices, outputs


def _record(job: Shards, index: int) -> dict[str, Any]:
    return {"jpg": job.stored(index)[0].tobytes(), "label": job.label(index)}


def _from_bytes(job: Shards, sample: tuple[bytes, bytes]) -> Any:
    return job.load(np.frombuffer(sample[0], np.uint8), np.frombuffer(sample[1], np.int32))


def _from_dict(job: Shards, sample: dict[str, Any]) -> Any:
    return job.load(np.frombuffer(sample["jpg"], np.uint8), np.asarray(sample["label"]))


def _from_columns(job: Shards, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    pairs = zip(columns["jpg"], columns["label"], strict=True)
    return {"sample": [job.load(np.frombuffer(encoded, np.uint8), np.array(label)) for encoded, label in pairs]}


def _from_record(job: Shards, record: bytes) -> Any:
    return job.load(np.frombuffer(record, np.uint8, offset=24), np.frombuffer(record, np.int32, count=6))


def _stack_column(rows: list[dict[str, Any]]) -> Batch:
    return stack(row["sample"] for row in rows)
