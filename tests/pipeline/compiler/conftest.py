"""Fixtures of the compiler's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dali_proxy.pipeline._executor.executor import Executor
from tests import host_cupy
from tests.pipeline.compiler.cached_runs import Samples
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


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each batch run alone, so that a test knows which batches run."""
    monkeypatch.setattr(Executor, "batches_to_merge", 0)
