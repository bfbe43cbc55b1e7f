"""Each example as a script: it ends well, prints its figures, and the loss falls."""

from __future__ import annotations

import importlib.util
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

import cv2
import numpy as np
import pytest
from PIL import Image

import dali_proxy
from tests.clips import needs_nvdec
from tests.environment import ROOT, with_project
from tests.preloaded import run_in_turn, run_python
from tests.thorough import thorough_except

EXAMPLES = ROOT / "examples"

# Less than each does by default, and enough to see that it learns: the arguments, and what its score must reach.
RUNS: dict[str, tuple[str, float]] = {
    "imagenet": ("--epochs 2 --batch-size 16 --image-size 64 --precision float32", 0.3),
    "segmentation": ("--epochs 2 --image-size 64", 0.05),
    "detection": ("--epochs 2 --image-size 64", 0.15),
    "ssd": ("--epochs 3 --image-size 64", 0.15),
    "speech": ("--epochs 2", 0.5),
    "vision_language": ("--samples 160", 0.35),
    "robots": ("--epochs 2 --image-size 32", 0.3),
    "resume": ("--epochs 2 --batch-size 16 --image-size 64", 0.3),
    "contrastive": ("--epochs 2 --image-size 64", 0.4),
    "huggingface": ("--epochs 2 --image-size 64", 0.3),
    "webdataset_shards": ("--epochs 2 --image-size 64", 0.3),
    "webloader": ("--epochs 2 --image-size 64", 0.3),
    "lightning_trainer": ("--epochs 2 --image-size 64", 0.3),
    "accelerate_loop": ("--epochs 2 --image-size 64", 0.3),
    "hf_trainer": ("--epochs 2 --image-size 64", 0.3),
    "ignite_engine": ("--epochs 2 --image-size 64", 0.3),
}
#: The server's statistics say what limits the speed of the others. It doesn't see the loops of other loaders.
WITHOUT_STATISTICS = {"ssd", "webloader", "accelerate_loop", "hf_trainer"}
#: Examples whose framework writes the checkpoint, with the module that takes seconds to import.
FRAMEWORKS = {"accelerate_loop": "accelerate", "hf_trainer": "transformers.trainer"}
#: The optional packages that examples import.
NEEDS = {
    "robots": ("pyarrow",),
    "huggingface": ("datasets",),
    "webdataset_shards": ("webdataset",),
    "webloader": ("webdataset",),
    "lightning_trainer": ("lightning",),
    "accelerate_loop": ("accelerate",),
    "hf_trainer": ("accelerate", "transformers"),
    "ignite_engine": ("ignite",),
}
# They take 5 to 15 seconds each, six times as long where others have the machine, and some tests run three.
pytestmark = pytest.mark.timeout(300)
SCORE = re.compile(r"^(?:accuracy|IoU|recall) +([\d.]+)%", re.MULTILINE)


def start_all(name: str, *calls: tuple[str, ...]) -> list[CompletedProcess[str]]:
    """Run an example with the arguments of each call, one after the other."""
    missing = [package for package in NEEDS.get(name, ()) if importlib.util.find_spec(package) is None]
    if missing:
        pytest.skip(f"examples/{name}.py needs {' and '.join(missing)}: pip install 'dali-proxy[examples]'")
    environment = with_project(OMP_NUM_THREADS="1")
    environment.pop("DALI_EXTRA_PATH", None)  # the same images everywhere
    programs = [(str(EXAMPLES / f"{name}.py"), *arguments) for arguments in calls]
    slow = FRAMEWORKS.get(name, "")
    return run_in_turn(programs, after_import=slow, cwd=ROOT, env=environment, forks_servers=True)


def start(name: str, *arguments: str) -> CompletedProcess[str]:
    (ended,) = start_all(name, arguments)
    return ended


def run(name: str, *arguments: str) -> str:
    return run_all(name, arguments)[0]


def run_all(name: str, *calls: tuple[str, ...]) -> list[str]:
    for ended in (found := start_all(name, *calls)):
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return [ended.stdout for ended in found]


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, Path]]:
    """What an example says with the arguments of RUNS, and the image that it saves."""

    @cache
    def run_and_remember(name: str) -> tuple[str, Path]:
        folder = tmp_path_factory.mktemp(name)
        picture, options = folder / "batch.png", ("--device", "cpu", *RUNS[name][0].split())
        calls = [(*options, "--picture", str(picture))]
        if name in FRAMEWORKS:
            checkpoint = ("--checkpoint", str(folder / "run"))
            calls = [(*options, *checkpoint, "--stop-after", "8"), (*calls[0], *checkpoint)]  # in the second epoch
        return run_all(name, *calls)[-1], picture

    return run_and_remember


def losses(said: str) -> tuple[float, float]:
    found = re.search(r"^loss +([\d.]+) -> ([\d.]+)$", said, re.MULTILINE)
    assert found, said
    return float(found[1]), float(found[2])


@pytest.fixture
def segmentation(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the example, imported as Python does when it is run."""
    monkeypatch.syspath_prepend(EXAMPLES)
    import segmentation

    return segmentation


def test_examples_are_all_run_and_listed() -> None:
    helpers = {"boxes", "common", "networks", "scenes"}
    names = {*RUNS, "imagenet_ddp", "video_superres", "ray_train_workers"}  # the last one: test_ray_train.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} - helpers == names
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in names if f" examples/{name}.py" not in listed] == []


@pytest.mark.parametrize("name", RUNS)
def test_example_learns_and_prints_its_measurements(name: str, run_once: Callable[[str], tuple[str, Path]]) -> None:
    """Those of FRAMEWORKS run in two parts: the second continues with the network that the first has saved."""
    said, picture = run_once(name)
    before, after = losses(said)
    assert max(before, after) < 1.2 if name in FRAMEWORKS else after < before
    assert re.search(r"^samples/s +[\d,]*[1-9]", said, re.MULTILINE), said
    limit = re.search(r"^limited by  (training|pipeline|workers) \(", said, re.MULTILINE)
    assert (limit is None) == (name in WITHOUT_STATISTICS), said
    score = SCORE.search(said)
    assert score, said
    assert float(score[1]) / 100 >= RUNS[name][1], said
    with Image.open(picture) as sheet:
        assert np.asarray(sheet).std() > 20


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=[pytest.mark.gpu, needs_nvdec])])
def test_video_superres_beats_bicubic_enlargement(device: str, tmp_path: Path) -> None:
    """It has no server, so it doesn't say what limits its speed."""
    picture = tmp_path / "superres.png"
    said = run("video_superres", "--device", device, "--picture", str(picture), "--epochs=1")
    before, after = losses(said)
    assert after < before
    ratios = re.search(r"^PSNR +([\d.]+) dB, bicubic ([\d.]+) dB$", said, re.MULTILINE)
    assert ratios, said
    assert float(ratios[1]) > float(ratios[2]) + 0.3
    with Image.open(picture) as sheet:
        assert sheet.width == 3 * 196 + 4  # input, output, truth
        assert np.asarray(sheet).std() > 20


def run_ranks(count: int, *arguments: str, name: str = "imagenet_ddp") -> str:
    """Run an example with the variables that torchrun sets. Return what rank 0 prints."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserved.getsockname()[1])}
    sizes = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "OMP_NUM_THREADS": "1"}

    def rank(number: int) -> CompletedProcess[str]:
        environment = with_project(RANK=str(number), LOCAL_RANK=str(number), **sizes, **address)
        environment.pop("DALI_EXTRA_PATH", None)
        program = str(EXAMPLES / f"{name}.py")
        return run_python(program, "--device", "cpu", *arguments, cwd=ROOT, env=environment, forks_servers=True)

    with ThreadPoolExecutor(count) as pool:
        ended = list(pool.map(rank, range(count)))
    for each in ended:
        assert each.returncode == 0, f"{each.stdout}\n{each.stderr}"
    return ended[0].stdout


def test_distributed_training_resumes_with_another_number_of_ranks(jpeg_folder: Path, tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / split).symlink_to(jpeg_folder)
    options = ("--data", str(tmp_path), "--checkpoint", str(tmp_path / "training.pt"), "--epochs", "1")
    options += ("--batch-size", "2", "--image-size", "32")
    assert "stopped     after step 2" in run_ranks(3, *options, "--stop-after", "2")
    said = run_ranks(2, *options, "--shared-server")  # the state of servers for each rank
    assert "ranks       2 with a shared server" in said
    assert re.search(r"^accuracy .* of 24 \(guessing: 33.3%\)$", said, re.MULTILINE), said  # each image once


@pytest.mark.thorough
def test_packed_batches_train_on_two_ranks() -> None:
    said = run_ranks(2, "--epochs", "2", "--samples", "64", "--num-workers", "1", name="vision_language")
    before, after = losses(said)
    assert after < before
    assert re.search(r"^padding +\d+\.\d%, heaviest rank 1\.0\d\d of the mean$", said, re.MULTILINE), said


def test_invalid_number_is_an_error_of_one_line() -> None:
    ended = start("video_superres", "--epochs", "0")
    assert ended.returncode == 2
    assert ended.stderr.endswith("error: argument --epochs: '0' isn't an integer of 1 or more\n")


@pytest.mark.thorough
def test_seed_gives_the_same_losses_with_fewer_workers_and_threads(
    run_once: Callable[[str], tuple[str, Path]],
) -> None:
    first, _ = run_once("imagenet")
    again = run("imagenet", "--device", "cpu", "--num-workers", "1", "--num-threads", "1", *RUNS["imagenet"][0].split())
    assert losses(first) == losses(again)


def test_training_resumes_as_if_it_had_not_stopped(run_once: Callable[[str], tuple[str, Path]], tmp_path: Path) -> None:
    whole, _ = run_once("resume")
    options = ("--device", "cpu", *RUNS["resume"][0].split(), "--checkpoint", str(tmp_path / "training.pt"))
    # The first one stops in the second epoch.
    stopped, resumed = run_all("resume", (*options, "--stop-after", "14"), (*options, "--num-workers", "1"))
    assert "stopped     after batch 14" in stopped
    assert "resumed     after batch 14" in resumed
    assert losses(resumed) == losses(whole)


def test_images_of_the_user(jpeg_folder: Path, tmp_path: Path) -> None:
    for split in ("train", "val"):
        (tmp_path / split).symlink_to(jpeg_folder)
    said = run(
        "imagenet",
        "--device",
        "cpu",
        "--data",
        str(tmp_path),
        "--epochs",
        "1",
        "--batch-size",
        "8",
        "--image-size",
        "64",
    )
    assert re.search(r"^accuracy .* of 24 \(guessing: 33.3%\)$", said, re.MULTILINE), said


@pytest.mark.parametrize("name", thorough_except(["detection", "ssd"], "detection"))
def test_annotations_of_the_user(name: str, dali_extra: Path | None, tmp_path: Path) -> None:
    if dali_extra is None:
        pytest.skip("needs DALI_extra")
    for split in ("train", "val"):
        (tmp_path / split).symlink_to(dali_extra / "db" / "coco")
    options = ["--data", str(tmp_path), "--epochs", "1", "--image-size", "64", "--picture", str(tmp_path / "b.png")]
    said = run(name, "--device", "cpu", *options)
    assert "on 61 images" in said


@pytest.mark.gpu
@pytest.mark.parametrize("name", RUNS)
def test_examples_run_on_a_gpu(name: str, tmp_path: Path) -> None:
    before, after = losses(run(name, "--device", "cuda:0", "--picture", str(tmp_path / "batch.png")))
    assert after < before


def test_image_and_mask_get_the_same_crop(segmentation: ModuleType, tmp_path: Path) -> None:
    """Images that show their own masks: what is white must be what is masked, wherever it was cut and mirrored."""
    random = np.random.default_rng(5)
    for kind in ("images", "masks"):
        (tmp_path / kind).mkdir()
    for number in range(8):
        mask = np.zeros((random.integers(150, 250), random.integers(150, 250)), np.uint8)
        for _ in range(6):
            x, y, radius = random.integers(0, (mask.shape[1], mask.shape[0], 50)).tolist()
            cv2.circle(mask, (x, y), radius, 1, thickness=-1)
        Image.fromarray(mask * 255).convert("RGB").save(tmp_path / "images" / f"{number}.jpg", quality=95)
        Image.fromarray(mask).save(tmp_path / "masks" / f"{number}.png")

    size = 128
    pipe = segmentation.training_pipe(decoder="cpu", size=size, batch_size=8, num_threads=2, device_id=None, seed=1)
    with dali_proxy.DALIServer(pipe) as server:
        dataset = segmentation.Pairs(tmp_path, transform=server.proxy)
        loader = dali_proxy.DataLoader(server, dataset, batch_size=8)
        epochs = [next(iter(loader)) for _ in range(2)]
    for images, masks in epochs:
        assert masks.shape == (8, size, size, 1)
        white = (images[:, 0] * segmentation.common.STD[0] + segmentation.common.MEAN[0] > 127).numpy()
        agree = (white == (masks[..., 0].numpy() == 1)).mean(axis=(1, 2))
        assert agree.min() > 0.97, agree
    assert not np.array_equal(epochs[0][1], epochs[1][1]), "every epoch crops anew"
