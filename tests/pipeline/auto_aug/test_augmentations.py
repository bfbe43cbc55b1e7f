"""Each augmentation, with each sign, against NVIDIA DALI's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.auto_aug import augmentations, core
from pipeline.errors import ArgumentTypeError, ArgumentValueError, OperatorError
from tests.pipeline.auto_aug.sides import check_same, run
from tests.pipeline.imaging.images import smooth

BINS = 7
IMAGES = [smooth(30, 41), smooth(33, 20), smooth(25, 25, seed=3) // 2 + 40, smooth(16, 50, seed=4)]
BIN = [np.array(number, np.int32) for number in (0, 2, 5, 6)]
SIGN = [np.array(number, np.int32) for number in (1, 0, 1, 0)]
NAMES = sorted(name for name, each in vars(augmentations).items() if isinstance(each, core.Augmentation))


@pytest.mark.parity
@pytest.mark.parametrize("name", NAMES)
def test_augmentations_are_those_of_dali(name: str) -> None:
    def graph(auto_aug: Any, types: Any, data: Any, chosen: Any, sign: Any, layout: str = "HWC") -> Any:
        strength = auto_aug.core.signed_bin(chosen, sign)
        extra = {"shape": (30, 40)} if name in ("translate_x", "translate_y") else {}
        operation = getattr(auto_aug.augmentations, name)
        if layout == "nearest":
            extra.update(fill_value=None, interp_type=types.INTERP_NN)
        return operation(data, magnitude_bin=strength, num_magnitude_bins=BINS, **extra)

    # Warps: without this, a shift of 1e-5 of a pixel changes rounded values by 1.
    check_same(graph, IMAGES, BIN, SIGN, tolerance=1)
    check_same(lambda *args: graph(*args, layout="nearest"), IMAGES, BIN, SIGN, tolerance=1)
    clips = [np.stack([image, 255 - image // 3]) for image in IMAGES]
    check_same(graph, clips, BIN, SIGN, layout="FHWC", tolerance=1)


@pytest.mark.parity
@pytest.mark.parametrize("magnitude", [0, 0.4, 0.5, 1, 1.5, 2.5, 7.6, 8, 110])
def test_parameters_are_those_of_dali(magnitude: float) -> None:
    theirs = pytest.importorskip("nvidia.dali.auto_aug.augmentations")
    for name in (
        "poster_mask_uint8",
        "sharpness_kernel",
        "sharpness_kernel_shifted",
        "shift_enhance_range",
        "solarize_add_shift",
        "warp_x_param",
        "warp_y_param",
    ):
        ours, other = np.asarray(getattr(augmentations, name)(magnitude)), np.asarray(getattr(theirs, name)(magnitude))
        assert ours.shape == other.shape, name
        assert np.allclose(ours, other, rtol=1e-5, atol=1e-6), name
        assert name.startswith(("warp", "shift")) or ours.dtype == other.dtype


def test_magnitude_for_all_samples() -> None:
    def fixed(auto_aug: Any, types: Any, data: Any) -> Any:
        return auto_aug.augmentations.solarize(data, magnitude_bin=3, num_magnitude_bins=5)

    for image, made in zip(IMAGES, run("pipeline", fixed, IMAGES), strict=True):
        assert np.array_equal(made, np.where(image < 64, image, 255 - image))


def test_signs_are_drawn_by_default() -> None:
    def drawn(auto_aug: Any, types: Any, data: Any) -> Any:
        return auto_aug.augmentations.brightness(data, magnitude_bin=1, num_magnitude_bins=2)

    made = run("pipeline", drawn, [np.full((1, 1, 1), 100, np.uint8)] * 200)
    values, counts = np.unique([each.item() for each in made], return_counts=True)
    assert values.tolist() == [10, 190]
    assert 60 < counts[0] < 140  # 5.7 standard deviations


def test_user_defined_operations() -> None:
    calls: list[Any] = []

    @core.augmentation(mag_range=np.array([1.0, 5.0, 9.0]), mag_to_param=lambda magnitude: np.array([magnitude, 0.5]))
    def mine(data: Any, parameter: Any, shift: int, unused: int = 3) -> Any:
        calls.append((shift, unused))
        return data * parameter[0] + shift

    def graph(auto_aug: Any, types: Any, data: Any) -> Any:
        return mine(data, magnitude_bin=1, num_magnitude_bins=3, shift=2, elsewhere=4)

    (made,) = run("pipeline", graph, [np.full((1, 1, 1), 3, np.uint8)])
    assert made.item() == 17
    assert calls == [(2, 3)]
    with pytest.raises(ArgumentValueError, match="needs the named arguments shift"):
        mine(None, magnitude_bin=1, num_magnitude_bins=3)
    with pytest.raises(ArgumentValueError, match="has 3 magnitudes"):
        mine(None, magnitude_bin=1, num_magnitude_bins=4, shift=2)
    with pytest.raises(ArgumentValueError, match="needs 'num_magnitude_bins'"):
        mine(None, magnitude_bin=1, shift=2)
    with pytest.raises(ArgumentValueError, match="not one of the 3 bins"):
        mine(None, magnitude_bin=3, num_magnitude_bins=3, shift=2)
    with pytest.raises(ArgumentTypeError, match="takes two"):
        core.augmentation(lambda data: data)


def test_user_defined_operations_may_choose_by_sample() -> None:
    @core.augmentation(mag_range=(0, 4))
    def clipped(data: Any, parameter: Any) -> Any:
        if parameter > 2.0:
            data = data // np.uint8(2)
        return data

    def graph(auto_aug: Any, types: Any, data: Any, chosen: Any) -> Any:
        return clipped(data, magnitude_bin=chosen, num_magnitude_bins=5)

    bins = [np.array(number, np.int32) for number in (0, 2, 3, 4)]
    for image, number, made in zip(IMAGES, (0, 2, 3, 4), run("pipeline", graph, IMAGES, bins), strict=True):
        assert np.array_equal(made, image // 2 if number > 2 else image)


def test_invalid_bins_are_errors_when_the_batch_runs() -> None:
    def graph(auto_aug: Any, types: Any, data: Any, chosen: Any) -> Any:
        return auto_aug.augmentations.solarize(data, magnitude_bin=chosen, num_magnitude_bins=3)

    with pytest.raises(OperatorError, match="must be between 0 and 2"):
        run("pipeline", graph, IMAGES, BIN)


def test_colors_need_three_channels() -> None:
    def graph(auto_aug: Any, types: Any, data: Any) -> Any:
        return auto_aug.augmentations.contrast(data, magnitude_bin=1, num_magnitude_bins=3)

    with pytest.raises(OperatorError, match="needs 1 or 3 channels"):
        run("pipeline", graph, [np.zeros((4, 4, 2), np.uint8)])
