"""Uploads: batches from any source reach the GPU unchanged, with and without pinned memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.pinned import PinnedMemory
from dali_proxy.pipeline._ipc.arena_reader import ArenaReader
from dali_proxy.pipeline._ipc.memory import SharedBlock
from pipeline import Pipeline, fn
from pipeline.tensors import TensorListCPU

pytestmark = pytest.mark.gpu

NBYTES = 8 << 20


def pin_now(memory: np.ndarray, on_pinned: Callable[[np.ndarray], None]) -> None:
    on_pinned(np.asarray(PinnedMemory(memory, 0)))


@pytest.fixture(params=["pinned", "pageable"])
def arena(request: pytest.FixtureRequest) -> Iterator[tuple[ArenaReader, np.ndarray]]:
    """The reader of an arena, and the array in its only segment."""
    reader = ArenaReader(pin=pin_now if request.param == "pinned" else None)
    with SharedBlock.create(NBYTES) as block:
        block.array[:] = np.random.default_rng(1).integers(0, 256, NBYTES, np.uint8)
        reader.attach(0, os.dup(block.fd), NBYTES)
        yield reader, block.array
        reader.close()


def uploaded(batches: list[Any], layout: str | None = None) -> list[list[np.ndarray]]:
    """Upload batches to the GPU and download them."""
    pipe = Pipeline(batch_size=len(batches[0]), num_threads=2, device_id=0, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(fn.external_source(name="x", layout=layout, no_copy=True).gpu())
    made = []
    for batch in batches:
        pipe.feed_input("x", batch)
        (output,) = pipe.run()
        made.append([np.asarray(sample) for sample in output.as_cpu()])
    pipe.close()
    return made


def test_samples_of_an_arena_arrive(arena: tuple[ArenaReader, np.ndarray]) -> None:
    reader, memory = arena
    rng = np.random.default_rng(2)
    batches, expected = [], []
    for _ in range(6):
        heights = rng.integers(0, 60, 40)
        offsets = np.cumsum(heights * 320 * 3 // 64 * 64 + 64) + rng.integers(0, 100) * 64
        rows = np.stack([np.zeros(40, np.int64), offsets, heights, np.full(40, 320), np.full(40, 3)], axis=1)
        batch = reader.batch(rows, np.uint8)
        batches.append(batch)
        expected.append([memory[row[1] : row[1] + row[2] * 960].reshape(row[2], 320, 3) for row in rows.tolist()])
    assert batches[0].pinned == (reader._pin is not None)
    for made, wanted in zip(uploaded(batches, "HWC"), expected, strict=True):
        for sample, same in zip(made, wanted, strict=True):
            np.testing.assert_array_equal(sample, same)


def test_samples_of_any_origin_arrive() -> None:
    rng = np.random.default_rng(3)
    dense = rng.integers(0, 256, (4, 50, 70, 3), np.uint8)
    ragged = [rng.random((size, 5)).astype(np.float32) for size in (3, 0, 700, 1)]
    strided = [np.asfortranarray(array) for array in ragged]
    scalars = np.arange(4, dtype=np.int64)
    for batch in (dense, dense[:, ::-1], scalars, TensorListCPU(ragged), TensorListCPU(strided)):
        (made,) = uploaded([batch])
        for sample, same in zip(made, batch.samples if isinstance(batch, TensorListCPU) else batch, strict=True):
            np.testing.assert_array_equal(sample, same)
