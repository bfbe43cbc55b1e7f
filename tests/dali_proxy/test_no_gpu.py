"""Pipelines with a `device_id`, the default, on machines without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import with_project

SCRIPT = """
import sys

import numpy as np

import dali_proxy
from pipeline import errors, fn, pipeline_def


@pipeline_def(batch_size=2, num_threads=1)
def described(on_gpu):
    data = fn.external_source(name="data")
    return data.gpu() if on_gpu else data + 1


class Twos:
    def __init__(self, transform):
        self.transform = transform

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.transform(np.float32(index))


def run(mode, **device):
    for on_gpu in (False, True):
        try:
            if mode == "pipeline":
                pipe = described(on_gpu, **device)
                pipe.build()
                print(pipe.run(data=np.float32([[0], [1]]))[0].as_array().ravel().tolist())
                pipe.close()
                continue
            with dali_proxy.DALIServer(described(on_gpu, **device), mode=mode) as server:
                print(*(batch.tolist() for batch in dali_proxy.DataLoader(server, Twos(server.proxy), batch_size=2)))
        except errors.DeviceError as error:
            print(str(error).partition(",")[0])


run("process")
run("thread", device_id=0)
for device in ({}, {"device_id": 0}):
    run("pipeline", **device)
"""


@pytest.mark.parametrize("cupy", ["there", "missing"])
def test_device_id_needs_a_gpu_only_for_operators_on_it(cupy: str, tmp_path: Path) -> None:
    """Without such operators, CUDA isn't called, not even at the end."""
    (tmp_path / "script.py").write_text(SCRIPT)
    if cupy == "missing":
        (tmp_path / "cupy.py").write_text("raise ModuleNotFoundError(\"No module named 'cupy'\", name='cupy')\n")
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=with_project(CUDA_VISIBLE_DEVICES=""),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.stdout.splitlines() == ["[1.0, 2.0]", "copy_to_gpu needs a GPU"] * 4, done.stderr
    assert done.stderr == ""
