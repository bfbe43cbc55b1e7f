"""Images of a batch in one call: the same bits as one image after the other, one operation after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.rules.fused_images import ImageBatch
from dali_proxy.pipeline._imaging import crop_mirror_normalize, resize
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._kernels.samples import Samples

pytestmark = pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")

EXTENTS = [(60, 50), (37, 91), (224, 300), (5, 4), (1, 1), (130, 9)]


def sample_images(channels: int) -> list[np.ndarray]:
    numbers = np.random.default_rng(channels)
    return [numbers.integers(0, 256, (height, width, channels), np.uint8) for height, width in EXTENTS]


def batch_of(images: list[np.ndarray], **options: Any) -> ImageBatch:
    table = Samples.from_arrays(images)
    count, channels = len(images), images[0].shape[2]
    given: dict[str, Any] = {
        "regions": np.array([[0, 0, *image.shape[:2]] for image in images], np.float64),
        "size": (32, 40),
        "antialias": True,
        "mirror": np.arange(count) % 2 == 0,
        "scale": np.linspace(0.01, 0.03, channels, dtype=np.float32)[None],
        "bias": np.linspace(-2.0, 1.0, channels, dtype=np.float32)[None],
        **options,
    }
    return ImageBatch(table.pointers, table.shapes, table.strides, given.pop("regions"), **given)


def made(batch: ImageBatch) -> np.ndarray:
    assert batch.fits()
    out = np.full(batch.shape, np.nan, np.float32)
    batch.make(out, 0, 2)
    batch.make(out, 2, len(out))
    return out


def one_by_one(images: list[np.ndarray], regions: Any, size: tuple[int, int], **options: Any) -> np.ndarray:
    out = np.empty((len(images), images[0].shape[2], *size), np.float32)
    for number, (image, region) in enumerate(zip(images, regions, strict=True)):
        small = resize(image, size, region=tuple(region), antialias=options["antialias"], planar=True)
        scale, bias = (options[name][number % len(options[name])].tolist() for name in ("scale", "bias"))
        mirror = bool(options["mirror"][number])
        crop_mirror_normalize(small, out[number], mirror=mirror, scale=scale, bias=bias)
    return out


@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("size", [(32, 40), (224, 224), (17, 33), (1, 3), (100, 1)], ids=str)
@pytest.mark.parametrize("antialias", [True, False])
def test_batch_gives_the_bits_of_single_images(channels: int, size: tuple[int, int], antialias: bool) -> None:
    images = sample_images(channels)
    images = [image[: 7 * size[0], : 7 * size[1]] for image in images]  # the batch call can't shrink further
    heights, widths = (np.array([image.shape[axis] for image in images], float) for axis in (0, 1))
    regions = np.stack([heights * 0.1, widths * 0.3 - 1, heights * 0.9 + 1.5, widths], axis=1)
    regions[1] = regions[1][[2, 1, 0, 3]]  # flipped vertically
    numbers = np.random.default_rng(7)
    options = {
        "antialias": antialias,
        "mirror": np.array([True, False, False, True, True, False]),
        "scale": numbers.random((len(images), channels), np.float32),
        "bias": numbers.random((1, channels), np.float32).repeat(len(images), axis=0),
    }
    found = made(batch_of(images, regions=regions, size=size, **options))
    np.testing.assert_array_equal(found, one_by_one(images, regions, size, **options))


def test_rows_may_lie_apart() -> None:
    images = [image[::2, 1:] for image in sample_images(3) if image.shape[1] > 1]
    copies = [image.copy() for image in images]
    np.testing.assert_array_equal(made(batch_of(images)), made(batch_of(copies)))


@pytest.mark.parametrize(
    "options",
    [
        {"regions": np.tile([0.0, 0.0, 32 * 8.0, 40.0], (6, 1))},  # shrinks too much
        {"regions": np.tile([0.0, 0.0, 32.0, np.nan], (6, 1))},
        {"regions": np.tile([2.0**30, 0.0, 2.0**30 + 8, 40.0], (6, 1))},
        {"size": (0, 40)},
    ],
)
def test_extreme_sizes_are_refused(options: dict[str, Any]) -> None:
    assert not batch_of(sample_images(3), **options).fits()


def test_unsuitable_images_are_refused() -> None:
    images = sample_images(3)
    assert batch_of(images).fits()
    assert not batch_of([image[:, ::2] for image in images]).fits()
    assert not batch_of([image[:, :, ::-1] for image in images]).fits()
    assert not batch_of([image[:0] for image in images]).fits()
    assert not batch_of(sample_images(1)).fits()
    assert not batch_of(sample_images(5)).fits()
    assert not batch_of([*images[:-1], sample_images(4)[0]]).fits()


def test_arguments_that_do_not_fit_together_are_refused() -> None:
    assert compiled is not None
    image = sample_images(3)[0]
    table = np.array([[image.ctypes.data, *image.shape[:2], image.strides[0]]], np.int64)
    good: dict[str, Any] = {
        "table": table,
        "regions": np.array([[0.0, 0.0, 60.0, 50.0]]),
        "mirror": np.zeros(1, np.bool_),
        "gains": np.ones((1, 3), np.float32),
        "offsets": np.ones((1, 3), np.float32),
        "antialias": True,
        "out": np.empty((1, 3, 32, 40), np.float32),
        "begin": 0,
        "end": 1,
    }
    compiled.crop_resize_normalize(*good.values())
    wrong: list[dict[str, Any]] = [
        {"table": table[:0]},
        {"table": np.concatenate([table, table])},
        {"table": table * np.array([1, 0, 1, 1])},
        {"regions": good["regions"][:, :3].copy()},
        {"regions": good["regions"] + np.inf},
        {"gains": np.ones((1, 1), np.float32)},
        {"offsets": np.ones((2, 3), np.float32)},
        {"out": np.empty((1, 3, 32, 40))},
        {"out": np.empty((2, 3, 32, 40), np.float32)},
        {"out": np.empty((1, 5, 32, 40), np.float32)},
        {"out": np.empty((1, 3, 32), np.float32)},
        {"out": np.empty((1, 3, 2, 2), np.float32)},  # reduced to a 30th
        {"begin": -1},
        {"begin": 1, "end": 0},
        {"end": 2},
    ]
    for change in wrong:
        with pytest.raises(ValueError, match=r"don't fit|shrinks"):
            compiled.crop_resize_normalize(*{**good, **change}.values())
