"""Keys of cached values: equal for equal results only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cache.keys import sample_keys
from dali_proxy.pipeline._compiler.cached_parts import cached_parts
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from pipeline import Pipeline, fn, types


def part_key(before: int = 0, **arguments: Any) -> bytes:
    """Return the key of a graph that resizes, with some operators before it."""
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        others = [fn.external_source(name=f"x{number}") for number in range(before)]
        images = fn.decoders.image(fn.external_source(name="images"))
        pipe.set_outputs(fn.resize(images, **arguments), *others)
    (part,) = cached_parts(pipe._internals.graph)
    return part.key


def test_part_has_one_key_wherever_it_is_in_a_graph() -> None:
    assert part_key(size=(10, 10)) == part_key(before=2, size=(10, 10))


@pytest.mark.parametrize(
    "arguments", [{"size": (10, 11)}, {"size": (10, 10), "interp_type": types.INTERP_NN}, {"resize_x": 10}]
)
def test_parts_with_other_arguments_have_other_keys(arguments: dict[str, Any]) -> None:
    assert part_key(size=(10, 10)) != part_key(**arguments)


def keys(*inputs: Any, part: bytes = b"part", seed: int = 1, layout: str = "") -> list[bytes]:
    pool = ThreadPool(2, "test")
    try:
        return sample_keys(part, [TensorListCPU(each, layout) for each in inputs], seed, pool)
    finally:
        pool.close()


SAMPLES = [np.arange(5, dtype=np.uint8), np.arange(9, dtype=np.uint8)]


def test_equal_samples_have_equal_keys() -> None:
    assert keys(SAMPLES) == keys([each.copy() for each in SAMPLES])
    assert len(set(keys(SAMPLES))) == 2


@pytest.mark.parametrize(
    "other",
    [
        keys(SAMPLES, part=b"other part"),
        keys(SAMPLES, seed=2),
        keys(SAMPLES, layout="X"),
        keys([each.view(np.int8) for each in SAMPLES]),
        keys(SAMPLES, SAMPLES),
        keys([each[:, None] for each in SAMPLES]),
        keys([each + 1 for each in SAMPLES]),
    ],
    ids=["part", "seed", "layout", "dtype", "inputs", "dimensions", "content"],
)
def test_samples_that_differ_in_anything_have_other_keys(other: list[bytes]) -> None:
    assert not set(keys(SAMPLES)) & set(other)


def test_shapes_of_equal_bytes_have_other_keys() -> None:
    assert not set(keys([np.zeros((2, 3))])) & set(keys([np.zeros((3, 2))]))


def test_arrays_with_strides_have_the_keys_of_their_elements() -> None:
    array = np.arange(12).reshape(3, 4)
    assert keys([array[:, ::2]]) == keys([array[:, ::2].copy()])
    assert keys([array[0, ::2]]) == keys([array[0, ::2].copy()])


def test_large_batches_have_the_keys_of_small_ones() -> None:
    large = [np.full(100_000, number, np.uint8) for number in range(20)]
    assert keys(large) == [key for sample in large for key in keys([sample])]
