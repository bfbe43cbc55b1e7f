"""Noise on the GPU: deterministic settings equal the CPU; random noise has the same moments and is reproducible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import RAGGED, run_ours, sample_images

pytestmark = pytest.mark.gpu

DTYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32")


def both(operator: str, feed: list[Any], layout: str | None = "HWC", **arguments: Any) -> tuple[Any, Any]:
    (cpu,) = run_ours(lambda fn, _, x: getattr(fn.noise, operator)(x, **arguments), feed, layouts=[layout])
    (gpu,) = run_ours(
        lambda fn, _, x: getattr(fn.noise, operator)(x.gpu(), **arguments).cpu(), feed, layouts=[layout], device_id=0
    )
    assert cpu.layout == gpu.layout
    return cpu.samples, gpu.samples


@pytest.mark.parametrize("dtype", DTYPES)
def test_settings_without_chance_equal_the_cpu(dtype: str) -> None:
    feed = sample_images(*RAGGED, dtype=dtype, high=100)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("gaussian", {"mean": 3.25, "stddev": 0.0}),
        ("shot", {"factor": 0.0}),
        ("salt_and_pepper", {"prob": 0.0}),
        ("salt_and_pepper", {"prob": 1.0, "salt_vs_pepper": 1.0}),
        ("salt_and_pepper", {"prob": 1.0, "salt_vs_pepper": 0.0, "pepper_val": 7.75, "per_channel": True}),
    ]
    for operator, arguments in cases:
        for ours, theirs in zip(*both(operator, feed, **arguments), strict=True):
            assert ours.dtype == theirs.dtype
            assert np.array_equal(ours, theirs), (operator, arguments)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("gaussian", {"mean": 4.0, "stddev": 11.0}),
        ("shot", {"factor": 30.0}),
        ("shot", {"factor": 3.0}),
        ("salt_and_pepper", {"prob": 0.2, "salt_vs_pepper": 0.3}),
        ("salt_and_pepper", {"prob": 0.2, "per_channel": True}),
    ],
)
def test_moments_are_those_of_the_cpu(operator: str, arguments: dict[str, Any]) -> None:
    feed = [np.full((120, 100, 3), 120, np.uint8), np.full((90, 130, 3), 60, np.uint8)]
    for ours, theirs in zip(*both(operator, feed, **arguments), strict=True):
        here, there = ours.astype(float), theirs.astype(float)
        assert abs(here.mean() - there.mean()) < 8 * here.std() / 100
        assert 0.94 < there.std() / here.std() < 1.06


def test_noise_repeats() -> None:
    feed = sample_images(*RAGGED)

    def graph(fn: Any, _: Any, x: Any) -> Any:
        return fn.noise.gaussian(x.gpu(), stddev=9.0).cpu()

    (first,), (again,) = (run_ours(graph, feed, layouts=["HWC"], device_id=0) for _ in range(2))
    assert all(np.array_equal(one, other) for one, other in zip(first.samples, again.samples, strict=True))


def test_channels_share_their_noise() -> None:
    feed = [np.full((40, 30, 3), 100, np.uint8)]
    for layout, axis in (("HWC", 2), ("CHW", 0), (None, 2)):
        _, (noisy_sample,) = both("salt_and_pepper", feed, layout, prob=0.5)
        assert (noisy_sample == noisy_sample.take([0], axis=axis)).all()
        assert len(np.unique(noisy_sample)) == 3
