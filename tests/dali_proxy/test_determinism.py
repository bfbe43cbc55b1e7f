"""With a seed, results are bit-identical, whichever thread or process computes them, and in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from dali_proxy import DALIServer, DataLoader
from pipeline import fn, pipeline_def

SAMPLES, BATCH, EPOCHS = 22, 4, 2


@pipeline_def(device_id=None, batch_size=8)
def augmented() -> Any:
    """Draw a window, a flip, a factor and a number for each pixel."""
    x, y = fn.random.uniform(range=(0.0, 1.0)), fn.random.uniform(range=(0.0, 1.0))
    images = fn.crop(fn.external_source(name="x", layout="HWC"), crop=(8, 8), crop_pos_x=x, crop_pos_y=y)
    images = fn.flip(images, horizontal=fn.random.coin_flip())
    images = images * fn.random.uniform(range=(0.5, 1.0))
    return fn.noise.gaussian(images, stddev=2.0)


class TwoImages(Dataset[Any]):
    """Two views of an image that consists of its index and a ramp; a few images take more time than others."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Any:
        size = 200 if index % 5 == 0 else 12  # so that batches overtake each other
        image = (np.arange(size * size * 3).reshape(size, size, 3) + index).astype(np.uint8)
        return self.transform(image), self.transform(image), index


def epochs(
    mode: Any, num_workers: int, seed: int = 5, num_threads: int = 2, count: int = EPOCHS, **options: Any
) -> list[torch.Tensor]:
    """Return all outputs of `count` epochs of a loader, epoch by epoch."""
    deterministic = options.pop("deterministic", False)
    pipe = augmented(seed=seed, num_threads=num_threads)
    order = torch.Generator().manual_seed(3)
    with DALIServer(pipe, deterministic, mode=mode) as server:
        loader = DataLoader(
            server,
            TwoImages(server.proxy),
            batch_size=BATCH,
            shuffle=True,
            generator=order,
            num_workers=num_workers,
            **options,
        )
        made = []
        for _ in range(count):
            batches = list(loader)
            made.append(torch.cat([torch.stack([first, second], 1) for first, second, _ in batches]))
            indices = torch.cat([each for *_, each in batches])
            assert sorted(indices.tolist()) == list(range(SAMPLES))
            made[-1] = made[-1][indices.argsort()]
        return made


@pytest.fixture(scope="module")
def expected() -> list[torch.Tensor]:
    """Return the outputs of one process with one thread."""
    return epochs("thread", 0, num_threads=1)


@pytest.mark.parametrize(
    ("mode", "num_workers", "options"),
    [
        ("process", 0, {"num_threads": 3}),
        ("process", 2, {"deterministic": True}),
        ("process", 4, {"prefetch_factor": 1}),
        ("process", 1, {"multiprocessing_context": "spawn", "count": 1}),
        ("thread", 2, {}),
    ],
    ids=str,
)
def test_bits_repeat_with_the_seed(expected: list[torch.Tensor], mode: str, num_workers: int, options: Any) -> None:
    for made, wanted in zip(epochs(mode, num_workers, **options), expected, strict=False):
        assert torch.equal(made, wanted)


def test_random_bits_differ_with_epoch_view_and_seed(expected: list[torch.Tensor]) -> None:
    first, second = expected
    assert not (first == second).all(dim=(2, 3, 4)).any(), "epochs"
    assert not (first[:, 0] == first[:, 1]).all(dim=(1, 2, 3)).any(), "views"
    other, _ = epochs("thread", 0, seed=6)
    assert not (first == other).all(dim=(2, 3, 4)).any(), "seeds"


def order_of(made: Sequence[torch.Tensor]) -> list[float]:
    return [float(each.sum()) for each in made]


def test_results_without_a_seed_differ() -> None:
    first, second = (epochs("thread", 0, seed=-1) for _ in range(2))
    assert order_of(first) != order_of(second)
