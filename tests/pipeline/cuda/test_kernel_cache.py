"""Kernels are compiled without CuPy's cache on the disk if it can't be used."""

from __future__ import annotations

import errno
import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dali_proxy.pipeline._cuda import compiler, kernel_cache

VARIABLES = ("CUPY_CACHE_DIR", "CUPY_CACHE_IN_MEMORY")


@pytest.fixture(autouse=True)
def unset_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_cache.guard_disk_cache.cache_clear()
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # restored afterwards
        monkeypatch.delenv(name)


@pytest.mark.parametrize("home", ["/dev/null", "/proc"])
def test_folder_that_cannot_be_written_is_not_used(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", home)
    with pytest.warns(RuntimeWarning, match=rf"cache isn't used \({home}/.cupy/kernel_cache\)"):
        kernel_cache.guard_disk_cache()
    assert os.environ["CUPY_CACHE_IN_MEMORY"] == "1"
    assert os.path.isdir(os.environ["CUPY_CACHE_DIR"])


def test_folder_that_can_be_written_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    kernel_cache.guard_disk_cache()
    assert not set(VARIABLES) & os.environ.keys()
    assert list((tmp_path / ".cupy" / "kernel_cache").iterdir()) == []


def test_kernel_is_compiled_though_the_disk_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_module(**_: Any) -> Any:
        if os.environ.get("CUPY_CACHE_IN_MEMORY") != "1":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return SimpleNamespace(get_function=lambda name: name)

    cuda = SimpleNamespace(Device=lambda _: nullcontext(), compiler=SimpleNamespace(CompileException=ZeroDivisionError))
    monkeypatch.setattr(compiler, "load_cupy", lambda: SimpleNamespace(RawModule=compile_module, cuda=cuda))
    monkeypatch.setattr(compiler, "cuda_call", lambda _: nullcontext())
    monkeypatch.setattr(compiler, "_kernels", {})
    with pytest.warns(RuntimeWarning, match="No space left"):
        assert compiler.get_kernel("strided_copy.cu", "kernel", (), 0).launch == "kernel"
