"""Operators that users define from functions and from transforms of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from pipeline import Pipeline, fn, operator_def, types
from pipeline.errors import ArgumentTypeError, ArgumentValueError, OperatorError

IMAGES = [np.random.default_rng(i).integers(0, 255, (8, 6 + i, 3), np.uint8) for i in range(3)]
MASKS = [image[..., :1] // 100 for image in IMAGES]


def run(describe: Any, **arguments: Any) -> Any:
    with Pipeline(batch_size=3, num_threads=2, device_id=None, seed=3, **arguments) as pipe:
        images, masks = (fn.external_source(name=name, layout="HWC") for name in ("images", "masks"))
        pipe.set_outputs(images, masks, *describe(images, masks))
    outputs = pipe.run(images=IMAGES, masks=MASKS)[2:]
    pipe.close()
    return outputs


@operator_def
def scaled(image: Any, factor: Any, offset: int = 0) -> Any:
    """Scale an image."""
    return (image * factor + offset).astype(np.float32)


def test_arguments_are_inputs_or_constants() -> None:
    one, two = run(
        lambda images, masks: (
            scaled(images, offset=1, factor=fn.cast(fn.reductions.max(masks), dtype=types.INT32)),
            scaled(images, 2.0),
        )
    )
    assert (one.layout(), two.layout()) == ("HWC", "HWC")
    for image, mask, first, second in zip(IMAGES, MASKS, one, two, strict=True):
        assert np.array_equal(first.as_array(), image * np.float32(mask.max()) + 1)
        assert np.array_equal(second.as_array(), image * np.float32(2))


def test_operator_is_the_function_outside_of_a_pipeline() -> None:
    assert scaled(np.ones(2), 3, 1).tolist() == [4, 4]
    assert (scaled.__name__, scaled.__doc__) == ("scaled", "Scale an image.")
    assert repr(scaled) == "<operator scaled>"


def test_several_outputs_of_torch() -> None:
    @operator_def(framework="torch", num_outputs=2, output_layouts=["CHW"])
    def both(image: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return image.movedim(-1, 0), mask + 1

    @operator_def(batch_processing=True)
    def reversed_batch(images: list[Any]) -> list[Any]:
        return images[::-1]

    moved, added, last = run(lambda images, masks: (*both(images, masks), reversed_batch(images)))
    assert (moved.layout(), added.layout(), last.layout()) == ("CHW", "HWC", "HWC")
    assert np.array_equal(moved[1].as_array(), IMAGES[1].transpose(2, 0, 1))
    assert np.array_equal(added[2].as_array(), MASKS[2] + 1)
    assert np.array_equal(last[0].as_array(), IMAGES[2])


def test_errors_name_the_line_of_the_function() -> None:
    @operator_def
    def broken(image: Any) -> Any:
        return image["x"]

    with pytest.raises(OperatorError, match=r"sample 0: IndexError(?s:.*)raised at .*in broken: return image\[.x.\]"):
        run(lambda images, masks: (broken(images),))
    with pytest.raises(ArgumentValueError, match='must be "numpy" or "torch"'):
        operator_def(len, framework="jax")
    with pytest.raises(ArgumentTypeError, match="needs a function"):
        operator_def(3)  # type: ignore[call-overload]


class Flip:
    """Stands for a transform of Albumentations: it takes and returns samples by name, and has its own generator."""

    __module__ = "albumentations.core.composition"

    def set_random_seed(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def __call__(self, **samples: Any) -> dict[str, Any]:
        flips = self.random.random() < 0.5
        return {name: np.ascontiguousarray(sample[:, ::-1] if flips else sample) for name, sample in samples.items()}


@pytest.mark.parametrize("parallel", [False, True])
def test_transform_of_albumentations_is_seeded(parallel: bool) -> None:
    flipped = operator_def(Flip(), parallel=parallel)
    images, masks, again = run(lambda images, masks: (*flipped(image=images, mask=masks), flipped(images)))
    flips = [not np.array_equal(one.as_array(), two) for one, two in zip(images, IMAGES, strict=True)]
    SEEN.append(flips)
    assert SEEN[0] == flips
    for mask, before, flip in zip(masks, MASKS, flips, strict=True):
        assert np.array_equal(mask.as_array(), before[:, ::-1] if flip else before)
    assert (images.layout(), masks.layout(), again.layout()) == ("HWC", "HWC", "HWC")


SEEN: list[Any] = []  # flips of the runs with and without processes


def test_transform_of_torchvision() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2", reason="torchvision isn't installed")
    flipped = operator_def(v2.Compose([v2.RandomHorizontalFlip(p=1.0)]))
    boxes = np.float32([[0, 0, 2, 4]])
    images, masks, moved = run(
        lambda images, masks: flipped(images, mask=masks, boxes=fn.constant(fdata=boxes.ravel(), shape=[1, 4]))
    )
    for image, mask, box, before, other in zip(images, masks, moved, IMAGES, MASKS, strict=True):
        assert np.array_equal(image.as_array(), before[:, ::-1])
        assert np.array_equal(mask.as_array(), other[:, ::-1])
        assert box.as_array().tolist() == [[before.shape[1] - 2, 0, before.shape[1], 4]]


@pytest.mark.parametrize("batch_processing", [False, True])
def test_transform_of_kornia(batch_processing: bool) -> None:
    augmentation = pytest.importorskip("kornia.augmentation", reason="Kornia isn't installed")
    transform = augmentation.AugmentationSequential(
        augmentation.RandomHorizontalFlip(p=1.0), data_keys=["input", "mask"]
    )
    flipped = operator_def(transform, batch_processing=batch_processing)

    def describe(images: Any, masks: Any) -> Any:
        images, masks = (fn.crop(each, crop=(8, 6)) for each in (images, masks))
        return images, masks, *flipped(images, masks)

    before, other, images, masks = run(describe)
    assert np.array_equal(images.as_array(), before.as_array()[:, :, ::-1])
    assert np.array_equal(masks.as_array(), other.as_array()[:, :, ::-1])


def test_transform_of_albumentations_is_found() -> None:
    albumentations = pytest.importorskip("albumentations", reason="Albumentations isn't installed")
    cropped = operator_def(albumentations.Compose([albumentations.RandomCrop(4, 4)]))
    first, second = (run(lambda images, masks: cropped(image=images, mask=masks)) for _ in range(2))
    assert np.array_equal(first[0].as_array(), second[0].as_array())
    assert first[1].shape() == [(4, 4, 1)] * 3
