"""Batches of images that run on the GPU, or on its stand-in, and stay in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline import Pipeline, fn

__all__ = ["images", "run_batches"]


def run_batches(
    define: Callable[[Any], Any], batches: list[list[Any]], *, on_gpu: bool = True, depth: int = 1
) -> list[list[Any]]:
    """Run batches of images, and return the samples of all outputs of each batch."""
    pipe = Pipeline(batch_size=8, num_threads=1, device_id=0 if on_gpu else None, seed=3, prefetch_queue_depth=depth)
    with pipe:
        images = fn.external_source(source=iter(batches), layout="HWC", batch=True)
        outputs = define(images.gpu() if on_gpu else images)
        pipe.set_outputs(*outputs)
    pipe.build()
    held, results = [], []
    try:
        for _ in batches:
            held.append(pipe.run())  # keeps the memory, so that later batches have other addresses
            results.append([np.asarray(each.as_cpu().at(index)) for each in held[-1] for index in range(len(each))])
    finally:
        pipe.close()
    return results


def images(count: int, size: tuple[int, int] = (6, 5)) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    return [[rng.integers(0, 255, (*size, 3), np.uint8) for _ in range(3)] for _ in range(count)]
