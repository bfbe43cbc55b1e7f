"""Graphs whose batches are recorded: changes of the compiler and the executor keep their bits and launches.

`python -m tests.pipeline.compiler.replay` writes the records again.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._graph.selecting import select
from dali_proxy.pipeline._imaging.native import compiled
from pipeline import Pipeline, auto_aug, fn, types
from tests import host_cupy

__all__ = ["GRAPHS", "RECORDS", "environment", "replay", "saved"]

RECORDS = Path(__file__).with_name("replay.json")

#: Sizes of the batches.
SIZES = (4, 4, 4, 4, 4, 4, 3, 1, 4, 4, 3, 4)
SIZE = (12, 10)
MEAN, STD = [120.0, 110.0, 100.0], [60.0, 61.0, 62.0]

Define = Callable[[Any], Any]


def uniform(low: float, high: float) -> Any:
    return fn.random.uniform(range=(low, high))


def crop(images: Any, size: tuple[int, int] = SIZE) -> Any:
    return fn.random_resized_crop(images, size=size, random_area=(0.2, 1.0))


def twist(images: Any) -> Any:
    return fn.color_twist(
        images, brightness=uniform(0.6, 1.4), contrast=uniform(0.6, 1.4), saturation=uniform(0.6, 1.4),
        hue=uniform(-20, 20),
    )  # fmt: skip


def normalize(images: Any, **options: Any) -> Any:
    options.setdefault("mirror", fn.random.coin_flip())
    options.setdefault("output_layout", "CHW")
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=MEAN, std=STD, **options)


def placed(data: Any, images: Any) -> Any:
    """Return data on the device of the images."""
    return data.gpu() if images.device == "gpu" else data


def resized(images: Any) -> Any:
    return normalize(fn.resize(images, size=SIZE))


def resized_shorter(images: Any) -> Any:
    return normalize(fn.resize(images, resize_shorter=14), crop=SIZE)


def imagenet(images: Any) -> Any:
    flipped = fn.flip(crop(images), horizontal=fn.random.coin_flip())
    return normalize(twist(flipped), mirror=0)


def blurred_view(images: Any) -> Any:
    return normalize(fn.gaussian_blur(twist(crop(images)), sigma=uniform(0.3, 0.9)))


def simclr(images: Any) -> Any:
    return blurred_view(images), blurred_view(images)


def dino(images: Any) -> Any:
    return blurred_view(images), blurred_view(images), *[normalize(twist(crop(images, (6, 6)))) for _ in range(4)]


def masked(images: Any) -> Any:
    angle, mirror = uniform(-15, 15), fn.random.coin_flip()
    masks = images[:, :, 0:1]
    turned = fn.resize(fn.rotate(images, angle=angle, keep_size=True, fill_value=0), size=SIZE)
    bright = fn.brightness_contrast(turned, brightness=uniform(0.8, 1.2), contrast=uniform(0.8, 1.2))
    nearest = types.INTERP_NN
    masks = fn.resize(
        fn.rotate(masks, angle=angle, keep_size=True, fill_value=0, interp_type=nearest),
        size=SIZE,
        interp_type=nearest,
    )
    return normalize(bright, mirror=mirror), fn.cast(fn.flip(masks, horizontal=mirror), dtype=types.INT64)


def pasted(images: Any) -> Any:
    position = {"paste_x": uniform(0, 1), "paste_y": uniform(0, 1)}
    return resized(fn.paste(twist(images), ratio=uniform(1, 2), fill_value=(124, 116, 104), **position))


def trivially_augmented(images: Any) -> Any:
    return normalize(auto_aug.trivial_augment.trivial_augment_wide(crop(images), shape=SIZE))


def randomly_augmented(images: Any) -> Any:
    return normalize(auto_aug.rand_augment.rand_augment(crop(images), n=2, m=9, shape=SIZE))


def auto_augmented(images: Any) -> Any:
    return normalize(auto_aug.auto_augment.auto_augment_image_net(crop(images), shape=SIZE))


def augmented_apart(images: Any) -> Any:
    """Two views, each with its own augmentations, and images of several sizes with others."""
    views = tuple(trivially_augmented(images) for _ in range(2))
    large = auto_aug.rand_augment.rand_augment(images, n=2, m=5)
    return *views, resized(large)


def numbers(images: Any) -> Any:
    drawn = placed(uniform(-1.0, 1.0), images) * 2 + 1
    listed = placed(fn.random.uniform(values=[1.0, 5.0], shape=9), images)
    return drawn, listed, fn.random.coin_flip(), fn.random.normal(shape=2), images


def detected(images: Any) -> Any:
    boxes = types.Constant(np.array([[0.1, 0.2, 0.5, 0.7]], np.float32))
    mirror = fn.random.coin_flip()
    window = fn.slice(images, fn.random.uniform(range=(0.0, 0.3), shape=2), [0.6, 0.7])
    flipped = fn.bb_flip(boxes + uniform(0, 0.1), ltrb=True, horizontal=mirror)
    return normalize(fn.resize(window, size=SIZE), mirror=mirror), placed(flipped, images)


def mixed(images: Any) -> Any:
    images = normalize(crop(images))
    others = fn.permute_batch(images, indices=fn.batch_permutation())
    weight = placed(uniform(0, 1), images)
    return images * weight + others * (1 - weight)


def repeated(images: Any) -> Any:
    """Constant arguments, so that launches are the same for all batches with images of one size."""
    flipped = fn.crop(fn.flip(fn.resize(images, size=SIZE), horizontal=1), crop=(4, 4), crop_pos_x=0.2)
    drawn = fn.random.uniform(range=(0.0, 9.0), shape=[3, 2], device=images.device) * 2 + 1
    return normalize(flipped, mirror=1), drawn, fn.normalize(flipped)


def repeated_behind_drawn(images: Any) -> Any:
    flipped = fn.flip(fn.resize(images, size=SIZE), horizontal=fn.random.coin_flip())
    normalized = fn.normalize(flipped)
    return normalized, fn.cast(normalized * 3, dtype=types.INT16), fn.crop(flipped, crop=(4, 4)), flipped * 2


def prepared(images: Any) -> Any:
    bright = fn.brightness(fn.resize(images, size=SIZE), brightness=uniform(0.5, 1.5))
    return fn.hsv(bright, hue=uniform(0, 90), saturation=uniform(0.5, 1.5)), bright


def branches(images: Any) -> Any:
    chosen = fn.random.uniform(values=[0.0, 1.0, 2.0])
    images, angle = fn.resize(images, size=SIZE), uniform(-30, 30)

    def inner() -> Any:
        return select(fn.random.coin_flip(), [lambda: fn.flip(images), lambda: fn.brightness(images, brightness=2)])

    turned = [lambda more=more: fn.rotate(images, angle=angle + more, keep_size=True) for more in (0.0, 90.0)]
    return normalize(select(chosen, [inner, *turned])), select(chosen, [lambda: angle, lambda: angle * 2, inner_number])


def inner_number() -> Any:
    return uniform(5, 6) + types.Constant(1.5)


def per_frame(images: Any) -> Any:
    clips = fn.stack(images, fn.flip(images), images)
    clips = fn.reinterpret(clips, layout="FHWC")
    angles = fn.per_frame(fn.random.uniform(range=(-30.0, 30.0), shape=3))
    turned = fn.rotate(clips, angle=angles, keep_size=True)
    moved = fn.warp_affine(clips, fn.transforms.scale(fn.transforms.rotation(angle=angles), scale=[0.5, 2]))
    return turned, moved, fn.gaussian_blur(clips, sigma=uniform(0.5, 1.0))


def constants(images: Any) -> Any:
    sizes = types.Constant(np.array([9, 7], np.float32)) + 1
    scale = placed(types.Constant(np.array([0.5, 1.5, 2.0], np.float32)), images)
    return fn.resize(images, size=sizes) * scale, images * 2 - types.Constant(np.array([1, 2, 3], np.int16))


def preserved(images: Any) -> Any:
    fn.flip(images, preserve=True)
    fn.random.uniform(preserve=True)
    return fn.cast(images, dtype=types.FLOAT)


GRAPHS: dict[str, Define] = {
    define.__name__: define
    for define in (
        resized, resized_shorter, imagenet, simclr, dino, masked, pasted, trivially_augmented, randomly_augmented,
        auto_augmented, augmented_apart, numbers, detected, mixed, repeated, repeated_behind_drawn, prepared, branches,
        per_frame, constants, preserved,
    )
}  # fmt: skip


def inputs(count: int, number: int) -> list[np.ndarray[Any, Any]]:
    """Return images: those of every third batch have different sizes."""
    rng = np.random.default_rng(number)
    sizes = [(20 + index, 31 - index) if number % 3 == 0 else (24, 22) for index in range(count)]
    return [rng.integers(0, 256, (*size, 3), np.uint8) for size in sizes]


def digest(outputs: Sequence[Any]) -> str:
    found = hashlib.blake2b(digest_size=6)
    for output in outputs:
        batch = output.as_cpu()
        found.update(f"{len(batch)} {batch.layout()}".encode())
        for sample in batch:
            array = np.ascontiguousarray(sample)
            found.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
    return found.hexdigest()


@contextmanager
def counted() -> Iterator[list[int]]:
    """Return two counters: launches, and copies of tables."""
    counts, issue = [0, 0], KernelContext._issue

    def noted(context: KernelContext, launches: Any, stream: Any) -> None:
        counts[0] += len(launches)
        counts[1] += 1
        issue(context, launches, stream)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelContext, "_issue", noted)
        yield counts


def replay(name: str, device: str) -> dict[str, Any]:
    """Run the batches of a graph, and return their record.

    Args:
        name: name of the graph.
        device: "cpu", or "gpu" for the stand-in of a GPU.
    """
    pipe = Pipeline(batch_size=max(SIZES), num_threads=2, device_id=0 if device == "gpu" else None, seed=7)
    with pipe:
        source = fn.external_source(name="images", layout="HWC")
        outputs = GRAPHS[name](source.gpu() if device == "gpu" else source)
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    hashes, launches, copies = [], [], []
    with counted() as counts:
        pipe.build()
        try:
            for number, size in enumerate(SIZES):
                counts[:] = 0, 0
                hashes.append(digest(pipe.run(images=inputs(size, number))))
                launches.append(counts[0])
                copies.append(counts[1])
        finally:
            pipe.close()
    return {"hashes": hashes, "launches": launches, "copies": copies}


def environment() -> str:
    """Return what the bits depend on beside the code: functions of NumPy have other roundings on other processors."""
    features = sorted(name for name, found in np._core._multiarray_umath.__cpu_features__.items() if found)  # type: ignore[attr-defined]
    known = hashlib.blake2b(" ".join(features).encode(), digest_size=4).hexdigest()
    return f"{platform.machine()} {known}, NumPy {np.__version__}, {'C' if compiled else 'Python'}"


def saved() -> dict[str, Any]:
    """Return the records of this version."""
    records: dict[str, Any] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return records


def main() -> None:
    """Write the records."""
    records = {}
    for device in ("cpu", "gpu"):
        for name in GRAPHS:
            with host_cupy.installed():
                records[f"{name} {device}"] = replay(name, device)
    lines = [f"  {json.dumps(name)}: {json.dumps(record)}" for name, record in records.items()]
    head = f"  {json.dumps('environment')}: {json.dumps(environment())}"
    RECORDS.write_text("{\n" + ",\n".join([head, *lines]) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
