"""Time dynamic mode beside NVIDIA DALI's and torchvision's transforms: ``python -m benchmarks.dynamic --help``.

All run the same functions on batches of 64, in turn and in one process: SimCLR's augmentation, and ten operators on two
numbers per sample, whose time is that of the calls. The processor time counts if other programs run on the machine.

torchvision draws once for a tensor. So it augments each image alone, or, with other results, the whole batch alike.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
import torch.cuda.nvtx as nvtx

BATCH = 64


def simclr(ndd: Any, device: str) -> Callable[[], Any]:
    """Return SimCLR's augmentation of one batch of images of 375 x 500 pixels."""
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 255, (375, 500, 3), dtype=np.uint8) for _ in range(BATCH)]
    data = ndd.batch(images, layout="HWC", device=device).evaluate()

    def uniform(low: float, high: float) -> Any:
        return ndd.random.uniform(batch_size=BATCH, range=(low, high))

    def augment() -> Any:
        x = ndd.random_resized_crop(data, size=(224, 224))
        x = ndd.flip(x, horizontal=ndd.random.coin_flip(batch_size=BATCH))
        x = ndd.color_twist(
            x,
            brightness=uniform(0.6, 1.4),
            contrast=uniform(0.6, 1.4),
            saturation=uniform(0.6, 1.4),
            hue=uniform(-36.0, 36.0),
        )
        x = ndd.gaussian_blur(x, sigma=uniform(0.1, 2.0), window_size=23)
        return ndd.crop_mirror_normalize(x, mean=[124.0, 116.0, 104.0], std=[58.0, 57.0, 57.0], output_layout="CHW")

    return augment


def calls(ndd: Any, device: str) -> Callable[[], Any]:
    """Return ten operators on tiny samples."""
    data = ndd.batch(np.arange(2 * BATCH, dtype=np.int32).reshape(BATCH, 2), device=device).evaluate()

    def add() -> Any:
        x = data
        for _ in range(5):
            x = ndd.cast(x + 1, dtype=ndd.int32.type_id)
        return x

    return add


def transforms_of_torchvision(device: str) -> dict[str, Callable[[], Any]]:
    """Return SimCLR's augmentation by transforms of torchvision, for images in the memory of the device, by name."""
    from torchvision.transforms import v2

    augment = v2.Compose(
        [
            v2.RandomResizedCrop((224, 224), antialias=True),
            v2.RandomHorizontalFlip(),
            v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.GaussianBlur(23, (0.1, 2.0)),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    batch = torch.randint(0, 255, (BATCH, 3, 375, 500), dtype=torch.uint8, device="cuda" if device == "gpu" else "cpu")
    compiled = torch.compile(augment, dynamic=True)
    return {
        "each image": lambda: torch.stack([augment(image) for image in batch]),
        "batch alike": lambda: augment(batch),
        "batch alike, compiled": lambda: compiled(batch),
    }


WORK = {"SimCLR": simclr, "ten calls": calls}


def contenders(device: str) -> Iterator[tuple[str, Any, Any, Callable[[], Any]]]:
    """Yield the name, the module or None, the mode and the work of each measurement."""
    from pipeline import dynamic

    modules = {"dali-proxy": dynamic}
    try:
        if not torch.cuda.is_available():  # DALI marks ranges for profilers, which needs a driver
            nvtx.range_push = nvtx.range_pop = lambda *_: 0  # type: ignore[assignment]
        import nvidia.dali.experimental.dynamic as rival

        modules["NVIDIA DALI"] = rival
    except ImportError as error:
        print(f"no dynamic mode of NVIDIA DALI: {error}")
    for work, make in WORK.items():
        for name, module in modules.items():
            function = make(module, device)
            for mode in (module.EvalMode.eager, module.EvalMode.deferred):
                yield f"{work}, {name}, {mode.name}", module, mode, lambda made=function: made().evaluate()
    try:
        for name, transform in transforms_of_torchvision(device).items():
            yield f"SimCLR, torchvision, {name}", None, nullcontext(), transform
    except (ImportError, RuntimeError) as error:  # its operators need the version of torch that it was built for
        print(f"no transforms of torchvision: {error}")


def measure(mode: Any, function: Callable[[], Any], device: str, seconds: float) -> tuple[float, float]:
    """Return the processor time and the time of one batch, in milliseconds."""
    with mode:
        for _ in range(3):
            function()
        _wait(device)
        count, processor, begin = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() - begin < seconds:
            function()
            count += 1
        _wait(device)
        return (time.process_time() - processor) / count * 1e3, (time.perf_counter() - begin) / count * 1e3


def _wait(device: str) -> None:
    if device == "gpu":
        torch.cuda.synchronize()


def main() -> None:
    """Measure all contenders in turn, and print the medians of the rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dynamic", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    times: dict[str, list[tuple[float, float]]] = {}
    entries = list(contenders(options.device))
    for module in {id(module): module for _, module, _, _ in entries if module}.values():
        module.set_num_threads(options.threads)
    for _ in range(options.rounds):
        for name, _, mode, function in entries:
            times.setdefault(name, []).append(measure(mode, function, options.device, options.seconds))
    print("| a batch of 64 | processor time, ms | time, ms |\n| --- | --- | --- |")
    for name, results in times.items():
        processor, wall = (statistics.median(column) for column in zip(*results, strict=True))
        print(f"| {name} | {processor:.2f} | {wall:.2f} |")


if __name__ == "__main__":
    main()
