"""The scripts of the specification, as they are written there, run by `dali-proxy run` on real pictures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from tests.clips import COUNT, KINDS, encode, needs_nvdec
from tests.environment import ROOT, with_project

SCRIPTS = ROOT / "tests" / "seeds"

#: What a script says about devices, and what it says where there is no GPU.
ON_THE_CPU = (
    ("device_id=0", "device_id=None"),
    ('device="mixed"', 'device="cpu"'),
    ('device="gpu"', 'device="cpu"'),
    ("labels.gpu()", "labels"),
    ("data.cuda(non_blocking=True)", "data"),
    ('torch.device("cuda", 0)', 'torch.device("cpu")'),
)


def run(folder: Path, script: str, device: str) -> list[str]:
    """Run one of the scripts in `folder`, and return the lines that it printed."""
    text = (SCRIPTS / script).read_text()
    if device == "cpu":
        for theirs, ours in ON_THE_CPU:
            text = text.replace(theirs, ours)
    (folder / script).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "dali_proxy", "run", script],
        cwd=folder,
        env=with_project(),
        capture_output=True,
        text=True,
        timeout=290,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path, jpeg_folder: Path) -> Path:
    """Where a script finds its pictures: classes/NAME/*.jpg, and the same ones in images/*.jpeg."""
    shutil.copytree(jpeg_folder, tmp_path / "classes")
    (tmp_path / "images").mkdir()
    for number, path in enumerate(sorted(jpeg_folder.rglob("*.jpg"))[:10]):
        shutil.copy(path, tmp_path / "images" / f"{number}.jpeg")
    return tmp_path


videos = pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=[pytest.mark.gpu, needs_nvdec])])
devices = pytest.mark.parametrize("device", ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
pytestmark = pytest.mark.timeout(300)


@devices
def test_decode_loop(folder: Path, device: str) -> None:
    expected = []
    for path in (folder / "images").iterdir():
        with Image.open(path) as picture:
            where = "cpu" if device == "cpu" else "cuda:0"
            expected.append(f"torch.Size([{picture.height}, {picture.width}, 3]) {where}")
    assert run(folder, "decode_loop.py", device) == expected


@devices
def test_proxy_example(folder: Path, device: str) -> None:
    assert run(folder, "proxy_example.py", device) == ["Batch shape: torch.Size([4, 320, 200, 3])"] * 2


@devices
def test_classification(folder: Path, device: str) -> None:
    assert run(folder, "classification.py", device) == [
        "epoch 0: 5 batches",
        "epoch 1: 5 batches",
        "validated: [8, 8, 8]",
        "Training iterations per epoch: 5",
    ]


@devices
def test_sequences(folder: Path, device: str) -> None:
    for clip, count in (("a", 5), ("b", 4)):  # 3 and 2 sequences of 3 frames
        (folder / "frames" / clip).mkdir(parents=True)
        for number, path in enumerate(sorted((folder / "images").iterdir())[:count]):
            with Image.open(path) as picture:
                picture.resize((96, 64)).save(folder / "frames" / clip / f"{number:03}.png")
    lines = run(folder, "sequences.py", device)
    shapes = [(2, 3, 3, 32, 48), (2, 3, 3, 32, 48), (1, 3, 3, 32, 48)]
    expected = [f"{epoch} {i} {shape} torch.float32" for epoch in range(2) for i, shape in enumerate(shapes)]
    assert lines == [*expected, "5"]


@videos
def test_video_superres(tmp_path: Path, device: str) -> None:
    (tmp_path / "train").mkdir()
    for name in ("h264.mp4", "vp9.webm"):
        encode(tmp_path / "train" / name, KINDS[name], size=(144, 192))  # NVDEC's VP9 needs 128 by 128
    count = 2 * (COUNT // 7)
    shapes = [(4, 3, 7, 32, 48)] * (count // 4) + [(count % 4, 3, 7, 32, 48)]
    expected = [f"{epoch} {i} {shape} torch.float32" for epoch in range(2) for i, shape in enumerate(shapes)]
    assert run(tmp_path, "video_superres.py", device) == [*expected, "loss falls: True", str(count)]
