"""Automatic augmentation on the GPU and the CPU: the random choices are the same, and rounding differs by 1.

Warps and saturation sum in float32 in a different order. Two operations in a row, of which the second may enhance what
the first one rounded, differ by more in a few pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._graph.selecting import select
from pipeline import Pipeline, fn
from pipeline.auto_aug import augmentations, auto_augment, core, rand_augment, trivial_augment
from tests.pipeline.imaging.images import smooth

pytestmark = pytest.mark.gpu

IMAGES = [smooth(30 + number, 41 - number, seed=number) for number in range(12)]
NAMES = sorted(name for name, each in vars(augmentations).items() if isinstance(each, core.Augmentation))


def run(describe: Any, device: str, feed: Any = IMAGES, layout: str = "HWC") -> list[Any]:
    with Pipeline(batch_size=len(feed), num_threads=2, device_id=0, seed=5) as pipe:
        x = fn.external_source(name="x", layout=layout)
        # A copy instead of the upload, because random numbers depend on the index of an operator in the graph.
        pipe.set_outputs(describe(x.gpu() if device == "gpu" else fn.copy(x)))
    try:
        made = [pipe.run(x=feed)[0].as_cpu() for _ in range(2)]
        return [np.array(batch.at(number)) for batch in made for number in range(len(batch))]
    finally:
        pipe.close()


def largest(describe: Any, **options: Any) -> list[int]:
    """Return the largest difference of each sample."""
    pairs = zip(run(describe, "gpu", **options), run(describe, "cpu", **options), strict=True)
    return [int(np.abs(there.astype(int) - here.astype(int)).max()) for there, here in pairs]


@pytest.mark.parametrize("layout", ["HWC", "FHWC"])
@pytest.mark.parametrize("name", NAMES)
def test_augmentations_run(name: str, layout: str) -> None:
    extra = {"shape": (30, 40)} if name in ("translate_x", "translate_y") else {}
    feed = IMAGES if layout == "HWC" else [np.stack([image, 255 - image // 2]) for image in IMAGES]

    def describe(x: Any) -> Any:
        return getattr(augmentations, name)(x, magnitude_bin=5, num_magnitude_bins=7, **extra)

    assert max(largest(describe, feed=feed, layout=layout)) <= 1


@pytest.mark.parametrize("scheme", ["rand", "wide", "auto"])
def test_schemes(scheme: str) -> None:
    def describe(x: Any) -> Any:
        if scheme == "rand":
            return rand_augment.rand_augment(x, 2, 17)
        if scheme == "wide":
            return trivial_augment.trivial_augment_wide(x)
        return auto_augment.auto_augment(x)

    found = largest(describe)
    if scheme == "wide":
        assert max(found) <= 1
    else:
        assert np.median(found) <= 2


@pytest.mark.parametrize("border", ["reflect_101", "reflect_1001", "wrap", "clamp", "constant"])
def test_filter(border: str) -> None:
    window = np.random.default_rng(1).normal(0, 0.3, (3, 5)).astype(np.float32)
    for mode in ("same", "valid"):
        assert max(largest(lambda x: fn.filter(x, window, border=border, mode=mode, anchor=[2, 0]))) <= 1  # noqa: B023


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_equalize(layout: str) -> None:
    feed = IMAGES if layout == "HWC" else [image.transpose(2, 0, 1).copy() for image in IMAGES]
    assert max(largest(lambda x: fn.equalize(fn.flip(x)), feed=feed, layout=layout)) == 0


def test_branches_in_branches() -> None:
    def describe(x: Any) -> Any:
        outer = fn.random.uniform(values=[0.0, 1.0, 2.0], seed=3)
        inner = fn.random.coin_flip(seed=4)
        return select(
            outer,
            [
                lambda: fn.flip(x),
                lambda: x,
                lambda: select(inner, [lambda: fn.flip(x, vertical=1), lambda: fn.brightness(x, brightness=0.5)]),
            ],
        )

    assert max(largest(describe)) == 0


def test_branches_on_both_devices_in_one_graph() -> None:
    def describe(x: Any) -> Any:
        which = fn.random.uniform(values=[0.0, 1.0, 2.0], seed=3)
        host = fn.flip(fn.external_source(source=lambda: IMAGES, layout="HWC"))
        return select(which, [lambda: fn.flip(x), lambda: host, lambda: x])

    assert max(largest(describe)) == 0
