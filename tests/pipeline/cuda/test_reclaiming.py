"""Allocation on a full GPU, with a stand-in for its memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy.pipeline._cuda import reclaiming as module
from dali_proxy.pipeline._cuda.reclaiming import reclaiming


class OutOfMemoryError(Exception):
    """As CuPy's pool raises it."""


class CudaRuntimeError(Exception):
    """As CuPy's runtime raises it."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class Gpu:
    """A GPU of 100 bytes, most of which the caching allocators of CuPy and torch hold unused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cupy_holds, self.torch_holds, self.calls = 30, 50, 0
        self.full: Exception = OutOfMemoryError()
        pool = SimpleNamespace(free_all_blocks=lambda: setattr(self, "cupy_holds", 0))
        cuda = SimpleNamespace(
            runtime=SimpleNamespace(CUDARuntimeError=CudaRuntimeError),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        )
        cupy = SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool)
        torch = SimpleNamespace(is_initialized=lambda: True, empty_cache=lambda: setattr(self, "torch_holds", 0))
        monkeypatch.setattr(module, "load_cupy", lambda: cupy)
        monkeypatch.setitem(module.sys.modules, "torch", SimpleNamespace(cuda=torch))

    def allocate(self, nbytes: int) -> str:
        self.calls += 1
        if nbytes > 100 - self.cupy_holds - self.torch_holds:
            raise self.full
        return f"{nbytes} bytes"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    return Gpu(monkeypatch)


@pytest.mark.parametrize("full", [OutOfMemoryError(), CudaRuntimeError(2)])
def test_memory_that_allocators_hold_unused_is_reclaimed(gpu: Gpu, full: Exception) -> None:
    gpu.full = full
    allocate: Any = reclaiming(gpu.allocate)
    assert allocate(20) == "20 bytes"
    assert (gpu.cupy_holds, gpu.torch_holds) == (30, 50)
    assert allocate(90) == "90 bytes"
    assert (gpu.cupy_holds, gpu.torch_holds) == (0, 0)


def test_memory_that_is_in_use_is_an_error(gpu: Gpu) -> None:
    with pytest.raises(OutOfMemoryError):
        reclaiming(gpu.allocate)(101)
    assert gpu.calls == 2


def test_other_errors_are_not_tried_again(gpu: Gpu) -> None:
    gpu.full = CudaRuntimeError(700)
    with pytest.raises(CudaRuntimeError):
        reclaiming(gpu.allocate)(90)
    assert (gpu.calls, gpu.torch_holds) == (1, 50)
