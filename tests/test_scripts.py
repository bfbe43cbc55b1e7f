"""Typical scripts for DALI, in `tests/scripts/`: `dali-proxy run` and NVIDIA DALI run them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.clips import COUNT, KINDS, encode, needs_nvdec
from tests.environment import ROOT, with_project
from tests.preloaded import run_python

Run = Callable[..., list[str]]

SCRIPTS = ROOT / "tests" / "scripts"
OURS = ("-m", "dali_proxy", "run")

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Way:
    """A way to run a script.

    Attributes:
        before: Python's arguments before the script's path.
        device: device type of the outputs.
        flags: the script's arguments.
        environment: environment variables.
    """

    before: tuple[str, ...]
    device: str
    flags: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


cpu = pytest.param(Way(OURS, "cpu", ("--cpu",)), id="cpu")
#: A script for a GPU, on a machine without one.
moved = pytest.param(Way((*OURS, "--device", "cpu"), "cpu", (), {"CUDA_VISIBLE_DEVICES": ""}), id="moved-to-cpu")
gpu = pytest.param(Way(OURS, "cuda"), id="gpu", marks=pytest.mark.gpu)
decoding_gpu = pytest.param(Way(OURS, "cuda"), id="gpu", marks=[pytest.mark.gpu, needs_nvdec])
dali = pytest.param(Way((), "cpu", ("--cpu",)), id="nvidia-dali", marks=pytest.mark.parity)


@pytest.fixture
def run(tmp_path: Path, way: Way) -> Run:
    """Return a function that runs a script and returns its printed lines."""

    def run_script(name: str, *arguments: str) -> list[str]:
        command = (*way.before, str(SCRIPTS / name), *arguments, *way.flags)
        done = run_python(*command, cwd=tmp_path, env=with_project(**way.environment))
        assert done.returncode == 0, done.stderr
        assert ("is declared for a GPU" in done.stderr) == ("--device" in way.before)
        return done.stdout.splitlines()

    return run_script


@pytest.fixture
def photographs(tmp_path: Path, jpeg_folder: Path) -> list[Path]:
    """Create ten files, images/*.jpeg."""
    (tmp_path / "images").mkdir()
    return [
        Path(shutil.copy(path, tmp_path / "images" / f"{'x' * number}.jpeg"))
        for number, path in enumerate(sorted(jpeg_folder.rglob("*.jpg"))[:10], 1)
    ]


@pytest.mark.parametrize("way", [cpu, moved, dali, gpu])
def test_mean_colors(run: Run, photographs: list[Path], way: Way) -> None:
    lines = run("mean_colors.py", "images")
    assert len(lines) == len(photographs)
    for line, path in zip(lines, photographs, strict=True):
        with Image.open(path) as photograph:
            colors = np.asarray(photograph.convert("RGB")).mean(axis=(0, 1))
            said, color = line.removesuffix(")").split(", rgb(")
            assert said == f"{path.name}: {photograph.height} x {photograph.width} on {way.device}"
        np.testing.assert_allclose(np.array(color.split(", "), int), colors, atol=2)  # decoders differ slightly


@pytest.mark.parametrize("way", [cpu, moved, gpu])
def test_captions(run: Run, photographs: list[Path], way: Way) -> None:
    lengths = [len(path.name) for path in photographs]
    batches = [
        f"with workers, batch {number}: (3, 48, 64, 3) {way.device} {lengths[3 * number : 3 * number + 3]}"
        for number in range(3)
    ]
    assert run("captions.py", "images") == ["files: 10", *batches, "here, batches of [3, 3, 3, 1]"]


@pytest.mark.parametrize("way", [cpu, moved, dali, gpu])
def test_classes(run: Run, jpeg_folder: Path) -> None:
    assert run("classes.py", str(jpeg_folder)) == [
        *["batches of [5, 5, 5, 5, 4]"] * 3,
        "learns: True",
        "batches of an epoch: 5",
        *["validated of each class: [8, 8, 8]"] * 2,
    ]


@pytest.mark.parametrize("way", [cpu, dali, gpu])
def test_frame_folders(run: Run, tmp_path: Path, photographs: list[Path]) -> None:
    for clip, count in (("a", 5), ("b", 4)):  # 3 and 2 sequences of 3 frames
        (tmp_path / "frames" / clip).mkdir(parents=True)
        for number, path in enumerate(photographs[:count]):
            with Image.open(path) as photograph:
                photograph.resize((96, 64)).save(tmp_path / "frames" / clip / f"{number:03}.png")
    batches = [f"epoch {epoch}: ({size}, 3, 3, 24, 40) torch.float32" for epoch in range(2) for size in (2, 2, 1)]
    assert run("frame_folders.py", "frames") == ["5 sequences", *batches]


@pytest.mark.parametrize("way", [cpu, moved, decoding_gpu])
def test_middle_frames(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for name in ("h264.mp4", "vp9.webm"):
        encode(tmp_path / "train" / name, KINDS[name], size=(144, 192))  # NVDEC needs at least 128 by 128 for VP9
    count = 2 * (COUNT // 5)
    sizes = [4] * (count // 4) + [count % 4] * (count % 4 > 0)
    steps = [
        f"epoch {epoch}, step {step}: ({size}, 3, 5, 40, 56) torch.float32"
        for epoch in range(2)
        for step, size in enumerate(sizes)
    ]
    assert run("middle_frames.py", ".") == [f"{count} clips", *steps, "learns: True"]


@pytest.mark.parametrize("way", [moved, dali, gpu])
def test_training(run: Run, jpeg_folder: Path) -> None:
    assert run("training.py", str(jpeg_folder), "--epochs", "2") == [
        "epoch 0: 24 photographs in 5 batches",
        "epoch 1: 24 photographs in 5 batches",
        "validated: 24, better than chance: True",
    ]


@pytest.mark.parametrize("way", [moved, dali, gpu])
def test_classes_of_operators(run: Run, jpeg_folder: Path) -> None:
    mirrored = "[[[3, 4, 5], [0, 1, 2]]]"
    assert run("classes_of_operators.py", str(jpeg_folder)) == ["(4, 3, 20, 20)", f"{mirrored} {mirrored}"]
