"""Complete scripts, as users write them, must not fail, hang or leave anything behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.environment import with_project
from tests.thorough import thorough_except
from tests.waiting import PATIENCE_S

EXAMPLE = """
from pathlib import Path

import numpy as np
import torch

import dali_proxy
from pipeline import fn, pipeline_def

class Photographs(torch.utils.data.Dataset):
    def __init__(self, proxy):
        self.paths = sorted(Path(FOLDER).glob("*/*.jpg"))
        self.proxy = proxy

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, number):
        return self.proxy(np.fromfile(self.paths[number], np.uint8))

@pipeline_def(batch_size=4, num_threads=2, device_id=None)
def small():
    return fn.resize(fn.decoders.image(fn.external_source(name="jpegs")), size=(32, 20))
"""

WITH = """
with dali_proxy.DALIServer(small()) as server:
    for images in dali_proxy.DataLoader(server, Photographs(server.proxy), batch_size=4, num_workers=2):
        print(tuple(images.shape))
"""

WITHOUT_WITH = """
server = dali_proxy.DALIServer(small())
loader = dali_proxy.DataLoader(
    server, Photographs(server.proxy), batch_size=4, num_workers=2, persistent_workers=True
)
iterator = iter(loader)
print(tuple(next(iterator).shape))
"""

SPAWN = """
if __name__ == "__main__":
    with dali_proxy.DALIServer(small()) as server:
        loader = dali_proxy.DataLoader(
            server, Photographs(server.proxy), batch_size=4, num_workers=1, multiprocessing_context="spawn"
        )
        for images in loader:
            print(tuple(images.shape))
"""

ENDLESS = """
server = dali_proxy.DALIServer(small())
loader = dali_proxy.DataLoader(server, Photographs(server.proxy), batch_size=4, num_workers=2)
while True:
    for number, images in enumerate(loader):
        if number == 2:
            print(server.pid, flush=True)
"""


def script(tmp_path: Path, folder: Path, *parts: str) -> list[str]:
    """Write a script and return the command that runs it."""
    path = tmp_path / "script.py"
    path.write_text("".join((EXAMPLE, f"FOLDER = {str(folder)!r}\n", *parts)))
    return [sys.executable, str(path)]


def environment() -> dict[str, str]:
    # torch prints this warning on machines with fewer processors than workers.
    return with_project(PYTHONWARNINGS="ignore:This DataLoader will create:UserWarning")


@pytest.mark.parametrize(
    ("part", "batches"),
    thorough_except([(WITH, 6), (WITHOUT_WITH, 1), (SPAWN, 6)], (WITH, 6), (WITHOUT_WITH, 1)),
    ids=["with", "without-with", "spawn"],
)
def test_script_ends_well(tmp_path: Path, jpeg_folder: Path, part: str, batches: int) -> None:
    run = subprocess.run(
        script(tmp_path, jpeg_folder, part),
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["(4, 32, 20, 3)"] * batches
    assert not run.stderr


def test_script_that_is_interrupted(tmp_path: Path, jpeg_folder: Path) -> None:
    process = subprocess.Popen(
        script(tmp_path, jpeg_folder, ENDLESS),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the signal reaches the workers, like Ctrl-C
    )
    assert process.stdout is not None
    host = psutil.Process(int(process.stdout.readline()))
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert "KeyboardInterrupt" in errors
    psutil.wait_procs([host], timeout=PATIENCE_S)
    assert not host.is_running()
