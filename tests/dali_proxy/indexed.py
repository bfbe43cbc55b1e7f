"""Datasets and pipelines whose samples carry their index, so that tests detect swapped, lost or repeated samples.

They are in a separate module, so that spawned workers can import them.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from pipeline import Pipeline, fn, pipeline_def, types

SCALE, SHIFT = 3, 7


@pipeline_def(num_threads=2, device_id=None, batch_size=16)
def affine() -> Any:
    """Compute 3 x + 7: one input, one output."""
    return fn.external_source(name="x") * SCALE + SHIFT


@pipeline_def(num_threads=2, device_id=None, batch_size=16)
def sum_and_difference() -> Any:
    """Compute sum and difference: two inputs, two outputs."""
    a, b = fn.external_source(name="a"), fn.external_source(name="b")
    return a + b, a - b


@pipeline_def(num_threads=2, device_id=None, batch_size=16)
def decoded() -> Any:
    """Decode the images of `jpeg`."""
    return fn.decoders.image(fn.external_source(name="encoded"), device="cpu")


@pipeline_def(num_threads=2, device_id=None, batch_size=16, seed=5)
def noisy() -> Any:
    """Return the index and a random number."""
    x = fn.external_source(name="x")
    return x * 1.0 + fn.random.uniform(range=(0.0, 0.5))


@pipeline_def(num_threads=2, device_id=None, batch_size=16)
def declared() -> Any:
    """Use an input that declares its dtype and dimensions."""
    return fn.external_source(name="x", dtype=types.UINT8, ndim=1) + 0


def sample(index: int, width: int = 3) -> np.ndarray[Any, Any]:
    """Return the input of sample `index`: the index, `width` times."""
    return np.full(width, index, np.int32)


def jpeg(index: int) -> bytes:
    """Return a grey JPEG of brightness `index`."""
    file = io.BytesIO()
    Image.new("RGB", (16, 16), (index,) * 3).save(file, "JPEG", quality=95)
    return file.getvalue()


class IndexDataset(Dataset[Any]):
    """Returns pairs of the transformed sample and its index."""

    def __init__(self, length: int, transform: Any, width: int = 3) -> None:
        self.length = length
        self.transform = transform
        self.width = width

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.transform(sample(index, self.width)), index


class BatchedIndexDataset(IndexDataset):
    """Like `IndexDataset`, with `__getitems__`."""

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        return [self[index] for index in indices]


class DictDataset(IndexDataset):
    """Returns dictionaries with other values besides the placeholder."""

    def __getitem__(self, index: int) -> Any:
        image, index = super().__getitem__(index)
        return {"image": image, "label": index, "meta": {"name": f"sample {index}", "weights": torch.ones(2) * index}}


class TwoViewsDataset(IndexDataset):
    """Calls the transform twice for each sample."""

    def __getitem__(self, index: int) -> Any:
        return self.transform(sample(index)), self.transform(sample(index + 1000)), index


class TwoInputDataset(IndexDataset):
    """Samples for a pipeline of two inputs and two outputs."""

    def __getitem__(self, index: int) -> Any:
        total, difference = self.transform(a=sample(index), b=sample(1))
        return total, difference, index


class RaisingDataset(IndexDataset):
    """Raises for one index."""

    bad = 5

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            raise KeyError(f"sample {index} is bad")
        return super().__getitem__(index)


class JpegDataset(IndexDataset):
    """Samples for `decoded`: grey images whose brightness is their index; one is corrupt."""

    bad = 13

    def __getitem__(self, index: int) -> Any:
        return self.transform(b"no image" if index == self.bad else jpeg(index)), index


class IndexStream(IterableDataset[Any]):
    """An iterable dataset; the workers divide the indices among them."""

    def __init__(self, length: int, transform: Any) -> None:
        self.length = length
        self.transform = transform

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for index in range(first, self.length, step):
            yield self.transform(sample(index)), index


class WatchfulDataset(IndexDataset):
    """Returns whether `get_worker_info` has this dataset itself, and the dataset's attribute."""

    marked = 0

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        return self.transform(sample(index)), index, info is None or info.dataset is self, self.marked


def mark_dataset(worker_id: int) -> None:
    """Set an attribute of the worker's dataset; used as `worker_init_fn`."""
    info = get_worker_info()
    assert info is not None
    info.dataset.marked = 100 + worker_id  # type: ignore[attr-defined]


def keep_apart(samples: list[Any]) -> list[Any]:
    """Return the samples unchanged; used as collate function."""
    return samples


def affine_of(index: torch.Tensor | int) -> Any:
    """Return the value that `affine` computes for a sample's index."""
    return index * SCALE + SHIFT


def check_affine(images: torch.Tensor, indices: torch.Tensor, width: int = 3) -> list[int]:
    """Check that every sample of a batch matches its index, and return the indices."""
    assert isinstance(images, torch.Tensor)
    assert images.shape == (len(indices), width)
    assert torch.equal(images, affine_of(indices)[:, None].expand(-1, width).to(images.dtype))
    return [int(index) for index in indices]


def error_of(loop: Iterator[Any]) -> BaseException:
    """Return the error of a loop's next step, without its frames: they would keep the loop and its workers alive."""
    try:
        next(loop)
    except BaseException as error:  # noqa: BLE001
        return error.with_traceback(None)
    raise AssertionError("it raised nothing")


def make(name: str, **arguments: Any) -> Pipeline:
    """Create one of the pipelines above by name."""
    made: Pipeline = globals()[name](**arguments)
    return made
