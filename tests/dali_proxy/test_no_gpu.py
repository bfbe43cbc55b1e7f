"""Pipelines with a `device_id`, the default, on machines without a GPU."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from dali_proxy import DALIServer
from pipeline import Pipeline, fn
from tests.environment import with_project

SCRIPT = """
import sys
import warnings

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


warnings.filterwarnings("ignore", "device_id=0 has no effect")


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


def test_device_id_without_a_gpu_or_a_use_for_it_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with Pipeline(batch_size=1, num_threads=1, device_id=0) as pipe:
        pipe.set_outputs(fn.external_source(name="x"))
    with pytest.warns(RuntimeWarning, match="device_id=0 has no effect.*Pass device_id=None") as seen:
        server = DALIServer(pipe)
    server.stop()
    assert [warning.filename for warning in seen] == [__file__]
    pipe.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for device in ({}, {"device_id": None}):
            with Pipeline(batch_size=1, num_threads=1, **device) as pipe:
                pipe.set_outputs(fn.external_source(name="x"))
            pipe.build()
            pipe.close()
