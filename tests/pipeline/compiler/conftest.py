"""Fixtures of the compiler's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._operators.decoding import image
from tests import host_cupy
from tests.pipeline.compiler.cached_runs import Samples
from tests.pipeline.compiler.gpu_cached_runs import encode, pipes
from tests.pipeline.kernels import emulator


@pytest.fixture(scope="session")
def encoded(jpeg_folder: Path) -> Samples:
    """The content of small JPEGs."""
    return [np.fromfile(path, np.uint8) for path in sorted(jpeg_folder.rglob("*.jpg"))]


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "gpu":
        yield "gpu"
        return
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        yield "host"


@pytest.fixture(scope="session")
def image_files() -> Samples:
    """Images of many formats and sizes: for the JPEG engine, for CUDA, and for cores."""
    numbers = np.random.default_rng(1)
    found = []
    for number in range(12):
        small = numbers.integers(0, 256, (5, 7, 3), np.uint8)
        pixels = cv2.resize(small, (270 + 8 * number, 300 - 9 * number))
        kind = ("JPEG", "PNG", "JPEG2000", "WEBP", "TIFF", "BMP")[number % 6]
        found.append(encode(kind, pixels))
    return [*found, encode("JPEG", cv2.resize(small, (90, 80)), "CMYK")]


@pytest.fixture
def image_decoder(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the CPU stand for the GPU's decoder of images, if there is no GPU, and close the pipelines of the test."""
    if device == "host":
        from tests.pipeline.operators.decoding.test_mixed_decoder import HostDecoder  # which draws many images

        monkeypatch.setattr(image, "ImageBatchDecoder", HostDecoder)
    yield
    while pipes:
        pipes.pop().close()


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each batch run alone, so that a test knows which batches run."""
    monkeypatch.setattr(Executor, "batches_to_merge", 0)
