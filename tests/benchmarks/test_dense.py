"""Chains on dense batches beside other libraries: what can be tested without a GPU, and the program with one."""

from __future__ import annotations

from subprocess import CompletedProcess

import pytest
import torch

from benchmarks import dense
from benchmarks.gpu_time import gpu_milliseconds
from tests.environment import ROOT, with_project
from tests.preloaded import run_python


def _run(*arguments: str) -> CompletedProcess[str]:
    return run_python("-m", "benchmarks.dense", *arguments, cwd=ROOT, env=with_project())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_line() -> None:
    ended = _run()
    assert (ended.returncode, ended.stderr) == (2, "these batches are in GPU memory, but torch finds no GPU\n")


def test_unknown_chains_are_an_error() -> None:
    ended = _run("--chains", "solarize")
    assert ended.returncode == 2
    assert "invalid choice: 'solarize'" in ended.stderr


@pytest.mark.gpu
def test_our_kernels_are_measured() -> None:
    images = torch.randint(0, 256, (4, dense.SIZE, dense.SIZE, 3), dtype=torch.uint8, device="cuda")
    work = dense.ours(("crop", "flip", "colors"), images)
    result = torch.from_dlpack(work()[0])
    assert (result.shape, result.dtype) == ((3, dense.CROP, dense.CROP), torch.float32)
    assert 0 < gpu_milliseconds(work, 10) < dense.elapsed(work, 0.1) * 100
