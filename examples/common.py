"""Code that all examples share: options, the default images, measuring, the contact sheet."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import dali_proxy
from dali_proxy._demo.data import Crops, write_crops
from dali_proxy._doctor import gpu_problem

MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)

LIMITS = {
    "training": "training (loading keeps up with it)",
    "pipeline": "pipeline (decoding and augmentation)",
    "workers": "workers (reading in the dataset)",
}


def make_parser(
    doc: str | None, *, epochs: int, batch_size: int = 32, image_size: int | None = 96, workers: bool = True
) -> argparse.ArgumentParser:
    """Make a parser with the options of every example; `doc` is the docstring of the example."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="your data; by default the example makes some")
    parser.add_argument("--device", default="auto", type=choose_device, help="auto, cpu, cuda:0, ... (%(default)s)")
    parser.add_argument("--epochs", default=epochs, type=positive, help="(%(default)s)")
    parser.add_argument("--batch-size", default=batch_size, type=positive, help="(%(default)s)")
    if image_size is not None:
        parser.add_argument(
            "--image-size", default=image_size, type=positive, help="input of the network (%(default)s)"
        )
    if workers:
        parser.add_argument("--num-workers", default=2, type=int, help="processes of the dataset (%(default)s)")
    parser.add_argument("--num-threads", default=2, type=positive, help="threads of the pipeline (%(default)s)")
    parser.add_argument("--learning-rate", default=3e-3, type=float, help="(%(default)s)")
    parser.add_argument("--seed", default=0, type=int, help="of network, order and augmentation (%(default)s)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="save one augmented batch as an image")
    return parser


def positive(word: str) -> int:
    """Read a number of 1 or more."""
    if not word.isdecimal() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"{word!r} isn't an integer of 1 or more")
    return int(word)


def choose_device(name: str) -> torch.device:
    """Find a device by name; "auto" is the first GPU if it can be used, otherwise the CPU."""
    if name == "auto":
        name = "cpu" if gpu_problem() else "cuda:0"
    kind, _, number = name.partition(":")
    if name != "cpu" and (kind != "cuda" or not (number or "0").isdigit()):
        raise argparse.ArgumentTypeError(f"{name!r} isn't one of auto, cpu, cuda:0, cuda:1, ...")
    return torch.device("cpu") if name == "cpu" else torch.device("cuda", int(number or 0))


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line, and configure torch accordingly."""
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    if options.device.type == "cpu":
        # Training on the CPU shares the cores with the pipeline: torch threads that wait for a core slow both down.
        torch.set_num_threads(max(1, torch.get_num_threads() - options.num_threads // 2))
    return options


def pipeline_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of pipelines that decode images, from the options of the command line."""
    return {
        "decoder": "cpu" if options.device.type == "cpu" else "mixed",  # mixed: bytes on the CPU, images on the GPU
        "size": options.image_size,
        **placement(options),
    }


def placement(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of every pipeline: batches, threads, device, seed."""
    return {
        "batch_size": options.batch_size,
        "num_threads": options.num_threads,
        "device_id": options.device.index,  # None for the CPU
        "seed": options.seed,
    }


def loader_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of every loader. Persistent workers aren't started again in each epoch."""
    return {
        "batch_size": options.batch_size,
        "num_workers": options.num_workers,
        "persistent_workers": options.num_workers > 0,
    }


@contextmanager
def class_folders(data: Path | None) -> Iterator[tuple[Path, Path]]:
    """Yield the folders for training and validation, each with one folder of JPEGs per class.

    They are `train` and `val` of the user's folder. Without such a folder, JPEGs are cut from a few photographs, into a
    temporary folder: the class is the photograph, and validation uses regions that training doesn't.
    """
    if data is not None:
        yield data / "train", data / "val"
        return
    with temporary_folder() as folder:
        crops = Crops(photographs=6, train_per_photograph=32, held_out_per_photograph=10)
        total = crops.photographs * (crops.train_per_photograph + crops.held_out_per_photograph)
        for _ in tqdm(write_crops(folder, crops), "writing JPEGs", total, unit="image", disable=None):
            pass
        yield folder / "train", folder / "held_out"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder that is removed when the example ends."""
    with tempfile.TemporaryDirectory(prefix="dali-proxy-example-") as name:
        yield Path(name)


class Meter:
    """The progress bar of a training run, and its measurements.

    Args:
        epochs: how often the loader is iterated.
        steps: batches in one epoch; None if that isn't known.
        bar: whether to show the bar.
    """

    def __init__(self, epochs: int, steps: int | None, *, bar: bool = True) -> None:
        self.bar = tqdm(total=steps and epochs * steps, desc="training", unit="batch", disable=None if bar else True)
        self.losses: list[torch.Tensor] = []
        self.samples = 0
        self.begin = 0.0
        self.seconds = 0.0

    def follow(self, loader: Iterable[Any]) -> Iterator[Any]:
        """Iterate over one epoch's batches."""
        for batch in loader:
            self.start()
            yield batch
            self.bar.update()

    def start(self) -> None:
        """Start the clock, at the first batch: processes start before it. Later calls do nothing."""
        self.begin = self.begin or time.perf_counter()

    def add(self, loss: torch.Tensor, samples: int) -> None:
        """Record one step. The loss stays on the GPU: reading it would wait for the GPU at every step."""
        self.losses.append(loss.detach())
        self.samples += samples if len(self.losses) > 1 else 0

    def close(self) -> None:
        """End the training."""
        self.losses = [loss.cpu() for loss in self.losses]  # waits for the GPU
        self.seconds = time.perf_counter() - self.begin
        self.bar.close()

    def report(self, stats: dali_proxy.ServerStats | None, **figures: str) -> None:
        """Print the measurements; losses are means over the first and the last tenth of the steps.

        Args:
            stats: the server's statistics; None without a server.
            **figures: additional lines.
        """
        tenth = -(-len(self.losses) // 10)
        before, after = (torch.stack(part).mean() for part in (self.losses[:tenth], self.losses[-tenth:]))
        print(f"samples/s   {self.samples / self.seconds:,.0f}")
        print(f"loss        {before:.4f} -> {after:.4f}")
        for name, figure in figures.items():
            print(f"{name:11} {figure}")
        if stats is None:
            return
        total = max(stats.training + stats.worker_wait + stats.result_wait, 1e-9)
        print(
            f"waited      {stats.worker_wait / total:.0%} for workers, {stats.result_wait / total:.0%} for the pipeline"
        )
        print(f"limited by  {LIMITS.get(stats.limited_by, 'unknown (the run was too short)')}")


def save_picture(path: Path, images: Any, **parts: Any) -> None:
    """Save the normalised images of a batch as a grid; `parts` are arguments of `dali_proxy.show`."""
    dali_proxy.show(images, mean=MEAN, std=STD, path=path, **parts)
    print(f"saved       {path}")
