"""Tests of transforms as objects: random numbers, choices, `Compose`, and graphs of them."""

from __future__ import annotations

import io
import pickle
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipeline import dynamic
from pipeline import torchvision as T
from pipeline.errors import ArgumentTypeError, ArgumentValueError, OperatorError

RNG = np.random.default_rng(0)
IMAGES = [RNG.integers(0, 256, (40 + n, 52 - n, 3), np.uint8) for n in range(3)]
PIL = Image.fromarray(IMAGES[0])
TENSOR = torch.from_numpy(IMAGES[0].copy()).permute(2, 0, 1)

PIPELINES: dict[str, list[Any]] = {
    "classification": [
        *(T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.PILToTensor()),
        *(T.ToDtype(torch.float32, scale=True), T.Normalize([0.5] * 3, [0.2] * 3)),
    ],
    "colors": [T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomGrayscale(0.5), T.GaussianBlur(3)],
    "crops": [
        T.Resize(30, max_size=36),
        T.RandomCrop(40, 4, pad_if_needed=True, fill=(1, 2, 3)),
        T.CenterCrop(50),
    ],
    "warps": [
        T.RandomRotation(20, expand=True),
        T.RandomAffine(9, (0.1, 0.1), (0.8, 1.2), 5),
        T.RandomPerspective(p=0.7),
    ],
    "values": [
        *(T.RandomInvert(), T.RandomPosterize(3), T.RandomSolarize(99), T.RandomAdjustSharpness(2)),
        *(T.RandomAutocontrast(), T.RandomEqualize(), T.RandomPhotometricDistort()),
    ],
    "sizes": [
        T.RandomZoomOut(),
        T.RandomShortestSize([20, 30], 40),
        T.RandomResize(20, 40),
        T.ScaleJitter((30, 40)),
        T.RandomVerticalFlip(),
    ],
    "erased": [
        T.ToTensor(),
        T.RandomErasing(0.7),
        T.RandomErasing(0.5, value="random"),
        T.GaussianNoise(),
        T.ToPILImage(),
    ],
    "choices": [
        T.RandomApply([T.ColorJitter(0.4), T.RandomRotation(10)]),
        T.RandomChoice([T.Pad(2), T.RandomApply([T.RandomCrop(30)], 0.5)], p=[1, 3]),
        T.RandomOrder([T.RandomRotation(30), T.ColorJitter(0.5), T.RandomInvert()]),
        T.Lambda(lambda x: dynamic.flip(x)),
    ],
    "windows": [
        T.ToDtype("float32", scale=True),
        T.RandomApply([T.RandomResizedCrop(20), T.RandomErasing(0.9, value="random")]),
        T.RandomOrder([T.GaussianNoise(), T.RandomResizedCrop(16)]),
    ],
    "AutoAugment": [T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)],
    "RandAugment": [T.RandAugment(fill=9)],
    "AugMix": [T.AugMix(fill=5)],
    "elastic": [T.ElasticTransform(90.0, (3.0, 2.0)), T.RandomChannelPermutation()],
    "TrivialAugmentWide": [T.Compose([T.TrivialAugmentWide()]), T.ToImage()],
    "several": [T.TenCrop(20), T.JPEG((20, 60)), T.RGB(), T.ConvertImageDtype()],
}


@pytest.mark.parametrize("name", PIPELINES)
def test_graph_has_the_bits_of_calls_image_by_image(name: str) -> None:
    compose = T.Compose(PIPELINES[name])
    with dynamic.trace(compose, batch_size=3, num_threads=1, seed=5) as pipe:
        outputs = pipe.run(inpt=IMAGES)
    for number, image in enumerate(IMAGES):
        with dynamic.random.SampleRNG(seed=5, sample=number):
            results = compose(dynamic.as_tensor(image, layout="HWC"))
        for output, result in zip(outputs, results if isinstance(results, tuple) else [results], strict=True):
            assert np.array_equal(output.at(number), result)


@pytest.mark.parametrize("name", ["classification", "erased", "choices"])
def test_pil_images_tensors_and_batches_are_transformed(name: str) -> None:
    compose = T.Compose(PIPELINES[name])
    for image in (PIL, TENSOR):
        assert isinstance(compose(image), torch.Tensor | Image.Image)
    fixed = T.Compose([*PIPELINES[name], T.Resize((8, 9)), T.ToImage()])
    assert fixed(TENSOR.expand(3, *TENSOR.shape)).shape == (3, 3, 8, 9)


def test_images_of_a_batch_have_their_own_random_numbers() -> None:
    flipped = T.RandomHorizontalFlip()(TENSOR.expand(40, *TENSOR.shape))
    mirrored = [bool((each == TENSOR.flip(-1)).all()) for each in flipped]
    assert 5 < sum(mirrored) < 35
    applied = T.RandomApply([T.RandomInvert(1.0)], 0.5)(TENSOR.expand(40, *TENSOR.shape))
    inverted = [bool((each == 255 - TENSOR).all()) for each in applied]
    assert 5 < sum(inverted) < 35
    assert all(same or bool((each == TENSOR).all()) for same, each in zip(inverted, applied, strict=True))


def test_seed_repeats_the_numbers() -> None:
    steps = [T.RandomCrop(20), T.ColorJitter(0.5)]
    first, second = (T.Compose(steps, seed=3) for _ in range(2))
    results = [first(TENSOR) for _ in range(3)]
    assert all(torch.equal(each, second(TENSOR)) for each in results)
    assert not torch.equal(results[0], results[1])


def test_random_crops_start_anywhere() -> None:
    positions = torch.arange(24, dtype=torch.uint8).reshape(1, 4, 6).expand(100, 1, 4, 6)
    assert set(T.RandomCrop((3, 4))(positions)[:, 0, 0, 0].tolist()) == {0, 1, 2, 6, 7, 8}
    with pytest.raises(RuntimeError, match="slice"):
        T.RandomCrop(9)(positions)


def test_choices_follow_their_probabilities() -> None:
    batch = torch.zeros(200, 1, 4, 4, dtype=torch.uint8)
    chosen = T.RandomChoice([T.RandomInvert(1.0), T.Lambda(lambda x: x)], p=[0.2, 0.8])(batch)
    assert 15 < int((chosen[:, 0, 0, 0] == 255).sum()) < 75
    last = T.RandomOrder([T.Lambda(lambda x: x * 0 + 1), T.Lambda(lambda x: x * 0 + 2)])(batch)
    assert 60 < int((last[:, 0, 0, 0] == 1).sum()) < 140


def test_erased_area_is_in_its_range() -> None:
    batch = torch.ones(50, 1, 40, 40)
    erased = 1 - T.RandomErasing(1.0, scale=(0.1, 0.2), ratio=(0.5, 2.0))(batch)
    areas = erased.sum((1, 2, 3)) / 1600
    assert float(areas.min()) > 0.08
    assert float(areas.max()) < 0.22


def test_encoded_images_are_decoded_in_compose() -> None:
    buffer = io.BytesIO()
    PIL.save(buffer, "PNG")
    compose = T.Compose([dynamic.decoders.image, T.RandomHorizontalFlip(1.0), T.PILToTensor()])
    assert torch.equal(compose(buffer.getvalue()), TENSOR.flip(-1))
    with pytest.raises(TypeError, match="decoders"):
        T.Compose([T.Resize(8)])(buffer.getvalue())


def test_pil_images_and_tensors_are_converted() -> None:
    assert torch.equal(T.Compose([T.PILToTensor()])(PIL), TENSOR)
    assert torch.equal(T.ToTensor()(PIL), TENSOR / 255)
    assert np.array_equal(np.asarray(T.Compose([T.Pad(0), T.ToPILImage()])(TENSOR)), IMAGES[0])
    assert [each.size for each in T.ToPILImage()(TENSOR.expand(2, *TENSOR.shape))] == [PIL.size] * 2
    assert [each.size for each in T.ToPILImage()([TENSOR, TENSOR[:, :9]])] == [PIL.size, (PIL.width, 9)]
    assert [each.shape for each in T.ToImage()([PIL, PIL.crop((0, 0, 7, 9))])] == [TENSOR.shape, (3, 9, 7)]
    with pytest.raises(TypeError, match="tensor"):
        T.Normalize([0.5], [0.5])(PIL)
    with pytest.raises(TypeError, match="ToTensor"):
        T.RandAugment()(TENSOR / 255)


@pytest.mark.parametrize(
    ("create", "error"),
    [
        (lambda: T.Resize(0), ValueError),
        (lambda: T.Resize((1, 2, 3)), ValueError),
        (lambda: T.Resize(10.5), ValueError),
        (lambda: T.Resize(None), ValueError),
        (lambda: T.Resize((10, 20), max_size=30), ValueError),
        (lambda: T.Resize(10, interpolation=9), ValueError),
        (lambda: T.Resize(10, interpolation=T.InterpolationMode.HAMMING), NotImplementedError),
        (lambda: T.Resize(10, device="xpu"), ValueError),
        (lambda: T.CenterCrop("a"), TypeError),
        (lambda: T.CenterCrop(-1), ValueError),
        (lambda: T.RandomCrop(10, padding_mode="wrap"), ValueError),
        (lambda: T.RandomResizedCrop(10, scale=0.5), TypeError),
        (lambda: T.RandomResizedCrop(10, ratio=(2, 1)), ValueError),
        (lambda: T.RandomHorizontalFlip(1.5), ValueError),
        (lambda: T.ColorJitter(brightness=-1), ValueError),
        (lambda: T.ColorJitter(contrast=(1.5, 0.5)), ValueError),
        (lambda: T.ColorJitter(hue=0.6), ValueError),
        (lambda: T.GaussianBlur(4), ValueError),
        (lambda: T.GaussianBlur(3, (2, 1)), ValueError),
        (lambda: T.Grayscale(2), ValueError),
        (lambda: T.Normalize(0.5, 0.5), TypeError),
        (lambda: T.Normalize([0.5], [0.0]), ValueError),
        (lambda: T.Normalize([0.5], [0.5], inplace=True), NotImplementedError),
        (lambda: T.RandomRotation(-1), ValueError),
        (lambda: T.RandomAffine(1, translate=(2, 0)), ValueError),
        (lambda: T.RandomErasing(value="x"), ValueError),
        (lambda: T.RandomApply(None), TypeError),
        (lambda: T.RandomChoice([T.Pad(1)], p=[1, 2]), ValueError),
        (lambda: T.Compose(T.Pad(1)), TypeError),
        (lambda: T.Lambda(1), TypeError),
        (lambda: T.AutoAugment("mnist"), ValueError),
        (lambda: T.Pad(), TypeError),
    ],
)
def test_wrong_arguments_are_errors(create: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        create()


def line_of(text: str) -> int:
    """Return the number of the only line of this file that contains a text."""
    (found,) = (number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)
    return found


def test_errors_of_traced_transforms_name_their_line() -> None:
    five = T.Compose([T.Resize(8), T.Lambda(lambda x: 5)])  # makes five
    with pytest.raises(ArgumentTypeError, match="Compose returned int") as wrong:
        dynamic.trace(five)
    assert f"{__file__}:{line_of('# makes ' + 'five')} in" in str(wrong.value)
    normalize = T.Normalize([0, 0], [1, 1])  # two means
    with pytest.raises(ArgumentValueError, match="mean has 2 values for 3 channels") as wrong:
        dynamic.trace(T.Compose([normalize]))
    assert str(wrong.value).count("\n  at ") == 1
    assert f"{__file__}:{line_of('# two ' + 'means')} in" in str(wrong.value)


def test_warnings_of_traced_transforms_name_their_line() -> None:
    step = partial(dynamic.crop, crop=(2, 2), image_type=3)
    compose = T.Compose([step])  # warns
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", DeprecationWarning)
        for _ in range(2):
            dynamic.trace(compose)
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, line_of("# wa" + "rns"))], "once for a line"


def test_encoded_images_must_be_decoded_before_transforms() -> None:
    data = io.BytesIO()
    PIL.save(data, "JPEG")
    with (
        dynamic.trace(T.Compose([T.Resize(8)]), batch_size=1, num_threads=1) as pipe,
        pytest.raises(OperatorError, match="an encoded image, such as a JPEG, must be decoded first"),
    ):
        pipe.run(inpt=[np.frombuffer(data.getvalue(), np.uint8)])


def test_traced_inputs_may_be_tensors_of_torch() -> None:
    flip = T.Compose([T.RandomHorizontalFlip(1.0)], layout="CHW")
    with dynamic.trace(flip, batch_size=1, num_threads=1) as pipe:
        assert np.array_equal(pipe.run(inpt=[TENSOR])[0].at(0), TENSOR.flip(-1))
    with dynamic.trace(T.Resize((5, 6)), batch_size=1, num_threads=1) as pipe:  # without Compose
        assert pipe.run(inpt=[IMAGES[0]])[0].at(0).shape == (5, 6, 3)


def test_transforms_can_be_pickled() -> None:
    compose = T.Compose([*PIPELINES["crops"], T.AutoAugment(), T.RandomApply([T.RGB()])], seed=1)
    assert np.array_equal(pickle.loads(pickle.dumps(compose))(PIL), compose(PIL))
    assert pickle.loads(pickle.dumps(T.functional.resize)) is T.functional.resize


def test_transforms_show_their_arguments() -> None:
    assert repr(T.Compose(transforms=[T.CenterCrop(3), T.RandomApply(transforms=[T.RGB()], p=0.2)])) == (
        "Compose(\n    CenterCrop(size=3)\n    RandomApply([RGB()])\n)"
    )
    assert T.ColorJitter(0.4).brightness == 0.4


def test_mixture_stays_between_black_and_white() -> None:
    mixed = T.AugMix(severity=10, mixture_width=2, chain_depth=1, fill=255)(TENSOR.expand(8, *TENSOR.shape))
    assert len({bytes(each.numpy()) for each in mixed}) == 8
    black = T.AugMix(all_ops=False, chain_depth=2)(torch.zeros(6, 3, 9, 9, dtype=torch.uint8))
    assert not [each for each in black if not (each == each[0, 0, 0]).all()]


def test_channels_are_permuted_for_each_image() -> None:
    images = torch.arange(3, dtype=torch.uint8).view(3, 1, 1).expand(40, 3, 4, 5)
    permuted = T.RandomChannelPermutation()(images)
    orders = {tuple(each[:, 0, 0].tolist()) for each in permuted}
    assert 3 < len(orders) <= 6
    assert all(sorted(order) == [0, 1, 2] for order in orders)


def test_magnitude_outside_its_bins_is_an_error() -> None:
    with pytest.raises(ValueError, match="magnitude must be from 0 to num_magnitude_bins - 1 = 30, got 99"):
        T.RandAugment(magnitude=99)


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        (lambda: T.RandomAffine(0, translate=(0, 0.1)), (40, 50)),
        (lambda: T.RandomAffine((5, 5), translate=(0, 0)), (40, 50)),
        (lambda: T.RandomErasing(1.0, scale=(0.1, 0.1), ratio=(1, 1)), (40, 50)),
        (lambda: T.RandomZoomOut(side_range=(2, 2), p=1.0), (80, 100)),
        (lambda: T.ScaleJitter((30, 30), (0.5, 0.5)), (12, 15)),
        (
            lambda: T.RandomPhotometricDistort((1, 1), (1.2, 1.2), (1, 1), (0, 0), p=1.0),
            (40, 50),
        ),
    ],
)
def test_ranges_may_be_one_value(create: Any, expected: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    made = create()(Image.fromarray(image))
    assert made.size[::-1] == expected
    with dynamic.trace(T.Compose([create()]), batch_size=2, num_threads=1, seed=1) as pipe:
        (images,) = pipe.run(inpt=[image] * 2)
    assert images.at(1).shape[:2] == expected


def test_translation_along_one_axis_keeps_the_other() -> None:
    image = torch.zeros(1, 20, 20, dtype=torch.uint8)
    image[:, :, 7] = 200
    moved = T.RandomAffine(0, translate=(0, 0.3))(image.expand(8, 1, 20, 20))
    assert not moved[..., [6, 8]].any()
    assert moved[..., 7].any()
