"""Whole scripts, as users write them: none of them may fail, hang or leave anything behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.environment import with_project
from tests.waiting import PATIENCE_S

EXAMPLE = """
import glob
import numpy as np
from pathlib import Path
from torch.utils.data import Dataset

import dali_proxy
from pipeline import pipeline_def, fn, types

class ImageDataset(Dataset):
    def __init__(self, images_dir, transform=None):
        self.images_dir = images_dir
        self.transform = transform
        self.image_ids = sorted(glob.glob("*/*.jpg", root_dir=images_dir))

    def __len__(self):
        return len(self.image_ids)

    def __getitem__(self, idx):
        image_path = Path(self.images_dir) / self.image_ids[idx]
        encoded_img = np.expand_dims(np.fromfile(image_path, dtype=np.uint8), axis=0)
        if self.transform is not None:
            return self.transform(encoded_img)
        return encoded_img

@pipeline_def
def image_pipe(img_hw=(32, 20)):
    encoded_images = fn.external_source(name="images", no_copy=True)
    decoded = fn.decoders.image(encoded_images, device="cpu", output_type=types.RGB)
    images = fn.resize(decoded, size=img_hw, interp_type=types.INTERP_LINEAR)
    return images
"""

WITH = """
with dali_proxy.DALIServer(image_pipe(batch_size=4, num_threads=2, device_id=None)) as dali_server:
    dataset = ImageDataset(FOLDER, transform=dali_server.proxy)
    dataloader = dali_proxy.DataLoader(dali_server, dataset, batch_size=4, num_workers=2, drop_last=True)
    for images in dataloader:
        print(f"Batch shape: {images.shape}")
"""

WITHOUT_WITH = """
dali_server = dali_proxy.DALIServer(image_pipe(batch_size=4, num_threads=2, device_id=None))
dataset = ImageDataset(FOLDER, transform=dali_server.proxy)
dataloader = dali_proxy.DataLoader(
    dali_server, dataset, batch_size=4, num_workers=2, persistent_workers=True
)
iterator = iter(dataloader)
images = next(iterator)
print(f"Batch shape: {images.shape}")
if "raise" in FOLDER:
    raise RuntimeError
"""

SPAWN = """
if __name__ == "__main__":
    with dali_proxy.DALIServer(image_pipe(batch_size=4, num_threads=2, device_id=None)) as dali_server:
        dataset = ImageDataset(FOLDER, transform=dali_server.proxy)
        dataloader = dali_proxy.DataLoader(
            dali_server, dataset, batch_size=4, num_workers=1, multiprocessing_context="spawn"
        )
        for images in dataloader:
            print(f"Batch shape: {images.shape}")
"""

ENDLESS = """
import torch
dali_server = dali_proxy.DALIServer(image_pipe(batch_size=4, num_threads=2, device_id=None))
dataset = ImageDataset(FOLDER, transform=dali_server.proxy)
dataloader = dali_proxy.DataLoader(dali_server, dataset, batch_size=4, num_workers=2)
while True:
    for number, images in enumerate(dataloader):
        if number == 2:
            print(dali_server.pid, flush=True)
"""


def script(tmp_path: Path, folder: Path, *parts: str) -> list[str]:
    """Write a script, and return the command that runs it."""
    path = tmp_path / "script.py"
    path.write_text("".join((EXAMPLE, f"FOLDER = {str(folder)!r}\n", *parts)))
    return [sys.executable, str(path)]


def environment() -> dict[str, str]:
    # torch says so where there are fewer processors than workers.
    return with_project(PYTHONWARNINGS="ignore:This DataLoader will create:UserWarning")


@pytest.mark.parametrize(
    ("part", "batches"), [(WITH, 6), (WITHOUT_WITH, 1), (SPAWN, 6)], ids=["with", "without-with", "spawn"]
)
def test_script(tmp_path: Path, jpeg_folder: Path, part: str, batches: int) -> None:
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
    assert run.stdout.splitlines() == ["Batch shape: torch.Size([4, 32, 20, 3])"] * batches
    assert not run.stderr


def test_script_that_is_interrupted(tmp_path: Path, jpeg_folder: Path) -> None:
    process = subprocess.Popen(
        script(tmp_path, jpeg_folder, ENDLESS),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that the signal reaches the workers, as Ctrl-C does
    )
    assert process.stdout is not None
    host = psutil.Process(int(process.stdout.readline()))
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert "KeyboardInterrupt" in errors
    psutil.wait_procs([host], timeout=PATIENCE_S)
    assert not host.is_running()
