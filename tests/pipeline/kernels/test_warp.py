"""Warps of ragged batches by the kernel, compared with those of single samples on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging.warp import warp_affine
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._kernels.warp import plan_warp_affine
from pipeline.errors import PipelineError


@pytest.mark.combinations
@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize(("source", "target"), [("uint8", "uint8"), ("uint8", "float32"), ("int16", "int16")])
@pytest.mark.parametrize("fill", [None, 9.0])
@pytest.mark.parametrize("nearest", [False, True])
def test_warps(runner: Any, ndim: int, source: str, target: str, fill: float | None, nearest: bool) -> None:
    rng = np.random.default_rng(ndim)
    src = [rng.integers(0, 200, (*rng.integers(4, 12, ndim), 3)).astype(source)[::-1] for _ in range(3)]
    dst = [np.zeros((*rng.integers(4, 12, ndim), 3), target) for _ in src]
    matrices = rng.normal(size=(3, ndim, ndim + 1))
    matrices[..., -1] += 4
    runner.warp_affine(src, dst, matrices=matrices, nearest=nearest, fill=fill)
    tolerance = 0.0 if nearest else 1 if target != "float32" else 2e-2
    for image, out, matrix in zip(src, dst, matrices, strict=True):
        expected = warp_affine(image, matrix, out.shape[:-1], nearest=nearest, fill=fill, dtype=target)
        assert np.abs(out.astype(float) - expected.astype(float)).max() <= tolerance


def test_arrays_that_do_not_fit_are_an_error() -> None:
    src = Samples.from_arrays([np.zeros((4, 5, 3))])
    with pytest.raises(PipelineError, match="can't be warped"):
        plan_warp_affine(src, src, np.zeros((1, 3, 4)))
    with pytest.raises(PipelineError, match="same channels"):
        plan_warp_affine(src, Samples.from_arrays([np.zeros((4, 5, 1))]), np.zeros((1, 2, 3)))
    empty = Samples.from_arrays([np.zeros((0, 5, 3))])
    with pytest.raises(PipelineError, match="sample 0 is empty"):
        plan_warp_affine(empty, src, np.zeros((1, 2, 3)))
    samples = Samples.concatenate([empty, src])
    launch = plan_warp_affine(samples, samples, np.zeros((2, 2, 3)))  # the result of an empty image is empty
    assert launch is not None
    assert launch.tables[0]["count"].tolist() == [0, 60]
