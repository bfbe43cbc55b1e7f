from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.pipeline.kernels import emulator
from tests.pipeline.kernels.runners import GpuRunner, HostRunner, require_gpu


@cache
def _gpu_runner() -> GpuRunner:
    return GpuRunner()


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def runner(request: pytest.FixtureRequest) -> Any:
    """Return an object that runs the kernels: compiled for the host, or on the GPU."""
    if request.param == "gpu":
        require_gpu()
        return _gpu_runner()
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    return HostRunner()
