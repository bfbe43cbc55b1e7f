"""The demo from beginning to end, and its messages."""

from __future__ import annotations

import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from dali_proxy._demo.compare import Comparison
from dali_proxy._demo.data import has_photographs, write_crops
from dali_proxy._demo.settings import Settings, Summary
from dali_proxy._demo.steps import Steps
from dali_proxy._demo.train import Training
from dali_proxy._doctor import gpu_problem

LIMITS = {
    "training": "the training itself; loading kept up with it",
    "pipeline": "the pipeline, which decodes and augments the images",
    "workers": "the dataset's workers, which read the files",
}


def run_demo(settings: Settings | None = None) -> Summary:
    """Run the demo and print its progress.

    Raises:
        FileNotFoundError: It found too few photographs, or the folder for the image is missing.
        ValueError: The device's name is unknown, or the device can't be used.
    """
    settings = settings or Settings()
    if not settings.picture.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder for the image {settings.picture} doesn't exist")
    begin = time.perf_counter()
    steps = Steps(settings, _device_id(settings.device))
    with _image_folder(settings) as folder:
        classes = sum(path.is_dir() for path in (folder / "train").iterdir())
        print(f"\n1. Training: find the photograph, out of {classes}, from which a crop was cut.")
        network, training, limited_by = steps.train(folder / "train")
        print(_limit(training, limited_by))

        print("\n2. Held-out crops, from a band in each photograph that no training crop touches.")
        score = steps.judge(network, folder / "held_out")
        print(f"   {score:.1%} classified correctly; guessing would reach {1 / classes:.1%}.")

        print(f"\n3. Throughput compared with torch's DataLoader and pillow, {settings.rounds} rounds in turn.")
        comparison = steps.compare(folder / "train")
        print(_rates(comparison))

        steps.draw(folder / "train")
        print(f"\n4. One augmented batch, as input of the network: {settings.picture}")
    seconds = time.perf_counter() - begin
    print(f"\nDone in {seconds:.0f} s.")
    return Summary(score, 1 / classes, training, limited_by, comparison, settings.picture, seconds)


def _device_id(name: str) -> int | None:
    if name == "cpu":
        print("Device: the CPU.")
        return None
    if name == "auto":
        problem = gpu_problem()
        print("Device: cuda:0." if problem is None else f"Device: the CPU ({problem}).")
        return 0 if problem is None else None
    kind, _, number = name.partition(":")
    if kind != "cuda" or not number.isdigit():
        raise ValueError(f"unknown device {name!r}: use auto, cpu or cuda:0")
    problem = gpu_problem(int(number))
    if problem is not None:
        raise ValueError(f"{name} can't be used: {problem}")
    print(f"Device: {name}.")
    return int(number)


@contextmanager
def _image_folder(settings: Settings) -> Iterator[Path]:
    """Yield a folder with ``train/`` and ``held_out/``; a temporary folder is removed at the end."""
    if settings.data is not None:
        if not (settings.data / "train").is_dir():
            _write(settings.data, settings)
        print(f"Images: {settings.data}")
        yield settings.data
    elif settings.keep:
        folder = Path(tempfile.mkdtemp(prefix="dali-proxy-demo-"))
        _write(folder, settings)
        yield folder
        print(f"\nThe images stay in {folder}")
    else:
        # Choose the name before the folder exists, so that Ctrl-C at any moment leaves no folder.
        folder = Path(tempfile.gettempdir()) / f"dali-proxy-demo-{secrets.token_hex(8)}"
        try:
            folder.mkdir(mode=0o700)
            _write(folder, settings)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _write(folder: Path, settings: Settings) -> None:
    crops = settings.crops
    if not has_photographs():
        print("Images: drawings. For photographs, install scikit-image: pip install scikit-image")
    total = crops.photographs * (crops.train_per_photograph + crops.held_out_per_photograph)
    for _ in tqdm(write_crops(folder, crops), "writing JPEGs", total, unit="image", disable=settings.quiet or None):
        pass


def _limit(training: Training, limited_by: str) -> str:
    total = training.waiting + training.computing
    share = training.waiting / total if total else 0.0
    return (
        f"   {training.images:,} images in {total:.1f} s: waited for images {share:.0%} of the time, computed"
        f" {1 - share:.0%}.\n   What limited the speed: {LIMITS.get(limited_by, 'unknown (the run was too short)')}."
    )


def _rates(comparison: Comparison) -> str:
    low, high = min(comparison.ratios), max(comparison.ratios)
    return (
        f"   dali_proxy                {_spread(comparison.ours)}\n"
        f"   torch DataLoader, pillow  {_spread(comparison.plain)}\n"
        f"   dali_proxy did {comparison.median_ratio:.2f} times as many ({low:.2f} to {high:.2f})."
    )


def _spread(rates: tuple[float, ...]) -> str:
    return f"{statistics.median(rates):7,.0f} images/s  ({min(rates):,.0f} to {max(rates):,.0f})"
