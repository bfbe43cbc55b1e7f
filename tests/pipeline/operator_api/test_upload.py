"""Small uploads: batches of any shapes reach the stand-in for a GPU unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn
from tests import host_cupy
from tests.pipeline.kernels import emulator

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        yield


def rows(*counts: int, width: tuple[int, ...] = (4,), dtype: Any = np.float32) -> list[Any]:
    return [RNG.integers(0, 100, (count, *width)).astype(dtype) for count in counts]


@pytest.mark.parametrize(
    "samples",
    [
        rows(3, 0, 5),
        rows(0, 0, 0),
        rows(2, 2, 2),
        rows(1, 3, 7, width=(), dtype=np.uint8),
        rows(1, 3, 7, width=(2, 3), dtype=np.float64),
        [each.T for each in rows(2, 3, 4)],
        [np.float32(number) for number in range(3)],
    ],
    ids=["boxes", "empty", "one shape", "bytes", "three dimensions", "strides", "numbers"],
)
def test_small_samples_arrive(samples: list[Any]) -> None:
    pipe = Pipeline(batch_size=3, num_threads=1, device_id=0)
    with pipe:
        pipe.set_outputs(fn.external_source(source=lambda: samples).gpu())
    pipe.build()
    (output,) = pipe.run()
    assert len(output) == len(samples)
    for index, sample in enumerate(samples):
        found = np.asarray(output.as_cpu().at(index))
        assert found.dtype == sample.dtype
        np.testing.assert_array_equal(found, sample)
    pipe.close()


@pytest.mark.parametrize(("last", "count"), [(7, 1), (20_000, 3)], ids=["small", "large"])
def test_small_batches_share_a_copy(last: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    batches = [rows(3, 0, 5), rows(2, 2, 2, dtype=np.int64), rows(1, 3, last)]
    copies: list[int] = []
    copy = cupy.cuda.runtime.memcpyAsync

    def count_copies(target: int, source: int, nbytes: int, *options: Any) -> None:
        copies.append(nbytes)
        copy(target, source, nbytes, *options)

    monkeypatch.setattr(cupy.cuda.runtime, "memcpyAsync", count_copies)
    pipe = Pipeline(batch_size=3, num_threads=1, device_id=0, exec_pipelined=False)
    with pipe:
        pipe.set_outputs(*[fn.external_source(source=[each]).gpu() for each in batches])
    pipe.build()
    outputs = pipe.run()
    assert len(copies) == count
    for output, samples in zip(outputs, batches, strict=True):
        for index, sample in enumerate(samples):
            np.testing.assert_array_equal(np.asarray(output.as_cpu().at(index)), sample, strict=True)
    pipe.close()
