"""Tests of transforms on a GPU. Without one, host memory stands for its memory: see `tests.host_cupy`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pipeline import dynamic
from pipeline import torchvision as T
from tests import host_cupy
from tests.pipeline.kernels import emulator

IMAGE = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
GEOMETRY = [T.Resize(30), T.RandomHorizontalFlip(), T.RandomApply([T.RandomAffine(20)], 1.0), T.Pad(2), T.ToImage()]
COLORS = [
    T.ColorJitter(0.4, 0.4, 0.4, 0.1),
    T.RandomAdjustSharpness(2, 1.0),
    T.RandAugment(),
    T.RandomSolarize(99, 1.0),
]
MIXED = [T.ElasticTransform(90.0, 3.0), T.RandomChannelPermutation(), T.AugMix()]
VALUES = [T.RandomPosterize(3, 1.0), T.RandomAutocontrast(1.0), T.RandomOrder([T.RandomInvert(), T.CenterCrop(60)])]


@pytest.fixture
def stand_in() -> Iterator[None]:
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        yield


def check(steps: list[Any]) -> None:
    """Compare the results on both devices, within the rounding of the GPU's functions."""
    with dynamic.EvalContext(num_threads=1) as context:
        results = []
        for image in (IMAGE, dynamic.as_tensor(IMAGE, layout="HWC").gpu()):
            dynamic.random.set_seed(3)
            results.append(T.Compose(steps)(dynamic.as_tensor(image, layout="HWC")))
        cpu, gpu = results
        assert gpu.device.device_type == "gpu"
        assert np.abs(np.asarray(cpu).astype(float) - np.asarray(gpu.cpu())).max() <= 1
    context.close()


@pytest.mark.parametrize("steps", [GEOMETRY, MIXED[:1]])
def test_images_are_moved_as_on_the_cpu(stand_in: None, steps: list[Any]) -> None:
    check(steps)


def test_images_are_copied_to_the_gpu(stand_in: None) -> None:
    with dynamic.EvalContext(num_threads=1) as context:
        assert T.Resize(8, device="gpu")(dynamic.as_tensor(IMAGE, layout="HWC")).device.device_type == "gpu"
    context.close()


@pytest.mark.gpu
@pytest.mark.parametrize("steps", [GEOMETRY, COLORS, VALUES, MIXED])
def test_gpu_has_the_values_of_the_cpu(steps: list[Any]) -> None:
    check(steps)
