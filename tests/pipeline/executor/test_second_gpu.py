"""A pipeline on a GPU that isn't the current device of the calling thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult
from dali_proxy.pipeline._rng import BatchKey
from pipeline import Pipeline, fn, types
from pipeline.tensors.cpu import TensorListCPU
from tests import host_cupy
from tests.pipeline.kernels.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

SECOND = 1


@pytest.fixture(autouse=True)
def gpus() -> Iterator[None]:
    with host_cupy.installed(devices=2):
        yield


def describe() -> tuple[Any, ...]:
    images = fn.external_source(name="images", layout="HWC")
    cut = fn.random_resized_crop(images.gpu(), size=(4, 5))
    turned = fn.flip(cut, horizontal=fn.random.coin_flip())
    return fn.brightness(turned, brightness_shift=0.5, dtype=types.FLOAT), images.gpu(), turned.cpu() + 1


def opened(device_id: int, prefetch: int = 2) -> Pipeline:
    pipe = Pipeline(4, 2, device_id, seed=5, prefetch_queue_depth=prefetch)
    with pipe:
        pipe.set_outputs(*describe())
    pipe.build()
    return pipe


def batch(number: int) -> list[Any]:
    rng = np.random.default_rng(number)
    return [rng.integers(0, 255, (6 + sample, 7, 3), np.uint8) for sample in range(3)]


@pytest.mark.parametrize("prefetch", [1, 3])
def test_results_are_those_of_the_first_gpu(prefetch: int) -> None:
    results: dict[int, list[Any]] = {}
    for device_id in (0, SECOND):
        pipe = opened(device_id, prefetch)
        for number in range(6):
            pipe.feed_input("images", batch(number), layout="HWC")
            outputs = pipe.run()
            assert [getattr(output, "device_id", lambda: None)() for output in outputs] == [device_id, device_id, None]
            results.setdefault(device_id, []).append([output.as_cpu().as_array() for output in outputs[::2]])
        pipe.close()
    for first, second in zip(results[0], results[SECOND], strict=True):
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, other)


def test_callback_runs_with_the_gpu_as_the_current_device() -> None:
    import cupy

    found: list[tuple[int, Any]] = []
    pipe = opened(SECOND)
    executor = pipe._internals.runner.executor

    def done(result: BatchResult) -> None:
        found.append((cupy.cuda.Device().id, result.error))

    for number in range(4):
        executor.submit(BatchRequest(3, {"images": TensorListCPU(batch(number), "HWC")}, BatchKey(0, number)), done)
    pipe.close()
    assert found == [(SECOND, None)] * 4
