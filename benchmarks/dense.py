"""Time chains on dense batches in GPU memory beside other libraries: ``python -m benchmarks.dense --help``.

All run in turn and in one process: dali-proxy, torchvision's transforms, eager and compiled, Kornia and Triton-Augment.
The table has the time of all kernels and copies of one batch on the GPU, and the elapsed time, with that of Python.

torchvision draws once for a batch; the others draw for each image. Kornia and Triton-Augment get float32 images from 0
to 1, torchvision and dali-proxy uint8; all but dali-proxy get planes (NCHW), and all return them. Contrast is relative
to the mean gray of an image in torchvision and Kornia, and to a constant in the others.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.gpu_time import gpu_milliseconds
from benchmarks.machine import describe_machine, describe_versions

#: Extent of the images, and of the crops.
SIZE, CROP = 256, 224
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Steps of each chain, in order. The last one of all is the normalization.
CHAINS = {
    "normalize": (),
    "crop, flip, normalize": ("crop", "flip"),
    "crop, flip, colors, normalize": ("crop", "flip", "colors"),
    "rotate, crop, flip, colors, normalize": ("rotate", "crop", "flip", "colors"),
}
#: Largest relative change of brightness, contrast and saturation, and largest angle in degrees.
JITTER, ANGLE = 0.4, 15.0
_PROFILED, _WARM_UP = 10, 20

Work = Callable[[], Any]


def ours(steps: tuple[str, ...], images: torch.Tensor) -> Work:
    """Return the work of dali-proxy on uint8 images of shape (N, H, W, C)."""
    from pipeline import fn, pipeline_def, types

    def uniform(low: float, high: float) -> Any:
        return fn.random.uniform(range=(low, high))

    @pipeline_def(batch_size=len(images), num_threads=4, device_id=0, seed=1)
    def chain() -> Any:
        x = fn.external_source(name="images", layout="HWC", device="gpu")
        if "rotate" in steps:
            x = fn.rotate(x, angle=uniform(-ANGLE, ANGLE), keep_size=True, fill_value=0)
        if "colors" in steps:
            factors = {name: uniform(1 - JITTER, 1 + JITTER) for name in ("brightness", "contrast", "saturation")}
            x = fn.color_twist(x, **factors)
        window: dict[str, Any] = {}
        if "crop" in steps:
            window |= {"crop": (CROP, CROP), "crop_pos_x": uniform(0, 1), "crop_pos_y": uniform(0, 1)}
        if "flip" in steps:
            window["mirror"] = fn.random.coin_flip()
        mean, deviation = ([255 * value for value in values] for values in (MEAN, DEVIATION))
        return fn.crop_mirror_normalize(x, dtype=types.FLOAT, output_layout="CHW", mean=mean, std=deviation, **window)

    pipe = chain()
    return lambda: pipe.run(images=images)[0]


def of_torchvision(steps: tuple[str, ...], images: torch.Tensor) -> Work:
    """Return the work of torchvision on uint8 images of shape (N, C, H, W)."""
    from torchvision.transforms import InterpolationMode, v2

    made = {
        "rotate": v2.RandomRotation(ANGLE, InterpolationMode.BILINEAR),
        "crop": v2.RandomCrop(CROP),
        "flip": v2.RandomHorizontalFlip(),
        "colors": v2.ColorJitter(JITTER, JITTER, JITTER),
    }
    chain = v2.Compose(
        [*(made[step] for step in steps), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)]
    )
    return lambda: chain(images)


def of_torchvision_compiled(steps: tuple[str, ...], images: torch.Tensor) -> Work:
    """Return the same work, compiled by torch."""
    compiled: Work = torch.compile(of_torchvision(steps, images), dynamic=True)
    return compiled


def of_kornia(steps: tuple[str, ...], images: torch.Tensor) -> Work:
    """Return the work of Kornia on float32 images of shape (N, C, H, W)."""
    import kornia.augmentation as augmentation

    made = {
        "rotate": augmentation.RandomRotation(ANGLE, p=1.0),
        "crop": augmentation.RandomCrop((CROP, CROP)),
        "flip": augmentation.RandomHorizontalFlip(),
        "colors": augmentation.ColorJitter(JITTER, JITTER, JITTER, p=1.0),
    }
    chain = torch.nn.Sequential(
        *(made[step] for step in steps), augmentation.Normalize(torch.tensor(MEAN), torch.tensor(DEVIATION))
    )
    return lambda: chain(images)


def of_triton_augment(steps: tuple[str, ...], images: torch.Tensor) -> Work:
    """Return the work of Triton-Augment on float32 images of shape (N, C, H, W)."""
    import triton_augment

    jitter = JITTER if "colors" in steps else 0.0
    chain = triton_augment.TritonFusedAugment(
        crop_size=CROP if "crop" in steps else None,
        horizontal_flip_p=0.5 if "flip" in steps else 0.0,
        degrees=ANGLE if "rotate" in steps else 0.0,
        brightness=jitter,
        contrast=jitter,
        saturation=jitter,
        mean=MEAN,
        std=DEVIATION,
    )
    return lambda: chain(images)


LIBRARIES = {
    "dali-proxy": ours,
    "torchvision": of_torchvision,
    "torchvision, compiled": of_torchvision_compiled,
    "Kornia": of_kornia,
    "Triton-Augment": of_triton_augment,
}


def contenders(steps: tuple[str, ...], batch: int) -> Iterator[tuple[str, Work]]:
    """Yield the name of each library that can be imported, and its work."""
    pixels = torch.randint(0, 256, (batch, SIZE, SIZE, 3), dtype=torch.uint8, device="cuda")
    planes = pixels.permute(0, 3, 1, 2).contiguous()
    for name, make in LIBRARIES.items():
        images = pixels if make is ours else planes if name.startswith("torchvision") else planes.float().div(255)
        try:
            work = make(steps, images)
            for _ in range(_WARM_UP):  # torch compiles again for some of the first numbers that it draws
                work()
        except Exception as error:  # noqa: BLE001 - the other libraries continue after any error
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            continue
        yield name, work


def elapsed(work: Work, seconds: float) -> float:
    """Return the milliseconds of one batch."""
    count, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        work()
        count += 1
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count * 1e3


def main() -> int:
    """Measure all libraries in turn, and print the medians of the rounds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dense", description=__doc__)
    parser.add_argument("--batch", type=int, default=64, help="images per batch (default: %(default)s)")
    parser.add_argument("--chains", nargs="+", choices=list(CHAINS), default=list(CHAINS), help="default: all")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each library (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.3, help="length of one (default: %(default)s)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("these batches are in GPU memory, but torch finds no GPU", file=sys.stderr)
        return 2
    print(describe_machine(), describe_versions())
    print("| chain | library | on the GPU, ms | elapsed, ms |\n| --- | --- | --- | --- |")
    for title in options.chains:
        entries = dict(contenders(CHAINS[title], options.batch))
        for work in entries.values():
            elapsed(work, options.seconds)
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in entries}
        for _ in range(options.rounds):
            for name, work in entries.items():
                times[name].append((gpu_milliseconds(work, _PROFILED), elapsed(work, options.seconds)))
        for name, rounds in times.items():
            kernels, wall = (statistics.median(column) for column in zip(*rounds, strict=True))
            print(f"| {title} | {name} | {kernels:.3f} | {wall:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
