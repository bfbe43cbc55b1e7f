"""Checks of the machine: limits, the driver and CUDA."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from dali_proxy._doctor import gpu, limits
from tests.environment import ROOT

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("version", "supports", "has_node", "status", "said"),
    [
        ("580.65.06", 13000, True, "ok", "580.65.06, for CUDA up to 13.0"),
        ("580.65.06", None, True, "warning", "580.65.06 is loaded, but its library libcuda.so.1 is missing here"),
        ("580.65.06", 13000, False, "warning", "580.65.06 is loaded, but its device files are missing here"),
        ("", None, False, "optional", "there is no NVIDIA driver: pipelines run on the CPU"),
    ],
)
def test_driver(version: str, supports: int | None, has_node: bool, status: str, said: str) -> None:
    check = gpu.driver(version, supports, has_node)
    assert (check.status, check.detail) == (status, said)
    assert bool(check.advice) == (status != "ok")


@pytest.mark.parametrize(
    ("torch_cuda", "supports", "cupy", "status", "said"),
    [
        ("13.0", 13010, [13], "ok", "13.0 (torch)"),
        ("12.8", 13000, [12], "ok", "12.8 (torch)"),
        ("13.0", 12080, [13], "warning", "torch needs CUDA 13.0, but the driver supports 12.8 at most"),
        ("12.8", 13000, [13], "warning", "torch is for CUDA 12.8, but CuPy for CUDA 13"),
        ("12.8", 13000, [12, 13], "warning", "several CuPy packages are installed, which break each other"),
        ("", None, [], "optional", "torch was built without CUDA"),
    ],
)
def test_cuda(torch_cuda: str, supports: int | None, cupy: list[int], status: str, said: str) -> None:
    check = gpu.cuda(torch_cuda, supports, cupy)
    assert (check.status, check.detail) == (status, said)
    assert bool(check.advice) == (status != "ok")


def test_small_limits_have_advice(tmp_path: Path) -> None:
    assert limits.file_descriptors(1024, 524288).status == "ok"
    assert limits.file_descriptors(1024, INFINITE).status == "ok"
    assert "--ulimit nofile" in limits.file_descriptors(1024, 1024).advice
    assert limits.locked_memory(INFINITE).status == "ok"
    assert "InfiniBand" in limits.locked_memory(8 << 20).advice
    assert limits.shared_memory(tmp_path / "nowhere").status == "warning"


def test_small_shared_memory_has_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_LEAST_SHM", 1 << 60)
    check = limits.shared_memory(tmp_path)
    assert check.status == "warning"
    assert "--shm-size" in check.advice


def test_fork_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.forking("fork").status == "ok"
    assert '__name__ == "__main__"' in limits.forking("forkserver").advice
    monkeypatch.setattr(limits, "_compute", lambda: exec("raise SystemExit(3)"))
    check = limits.forking("fork")
    assert check.status == "warning"
    assert "forkserver" in check.advice


@pytest.mark.skipif(not (ROOT / "dali_proxy").exists(), reason="installed with its packages, not a checkout")
def test_missing_packages_are_reported_without_a_traceback() -> None:
    alone = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-S", "-m", "dali_proxy", "doctor"], env=alone, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert not run.stderr
    assert re.search(r"^missing +torch +not installed\n +-> pip install torch$", run.stdout, re.MULTILINE)
