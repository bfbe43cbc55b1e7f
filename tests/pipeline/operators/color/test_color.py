"""Brightness, contrast, hue, saturation and colour spaces compared with DALI.

DALI computes in float32, as we do, but in a different order: integers differ by at most 1, floats by a few units in
the last place of the largest intermediate. INT32 has more digits than float32: relative 1e-6 of the range.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.pipeline.operators.both import RAGGED, compare, refused_by_both, run_ours, sample_images

DTYPES = {"uint8": (0, 255), "int16": (-3000, 3000), "int32": (-(10**5), 10**5), "float32": (-0.5, 1.5)}
NAMES = {"uint8": "UINT8", "int16": "INT16", "int32": "INT32", "float32": "FLOAT", "float16": "FLOAT16"}
BRIGHTNESS = {"brightness": 1.3, "brightness_shift": -0.05}
CONTRAST = {"contrast": 0.7, "contrast_center": 30.0}
LINEAR: list[tuple[str, dict[str, Any]]] = [
    ("brightness", {}),
    ("brightness", BRIGHTNESS),
    ("contrast", {"contrast": 1.7}),
    ("contrast", CONTRAST),
    ("brightness_contrast", {"brightness": 0.5, "contrast": 1.2}),
    ("brightness_contrast", {**BRIGHTNESS, **CONTRAST}),
]
TWISTS: list[tuple[str, dict[str, Any]]] = [
    ("hue", {"hue": 47.0}),
    ("hue", {"hue": -400.0}),
    ("saturation", {"saturation": 0.3}),
    ("saturation", {"saturation": 2.5}),
    ("hsv", {}),
    ("hsv", {"hue": 120.0, "saturation": 0.8, "value": 1.4}),
    ("color_twist", {"contrast": 0.6}),
    ("color_twist", {"hue": 33.0, "saturation": 1.4, "brightness": 0.8, "contrast": 1.5}),
]


def tolerance(source: str, target: str) -> float:
    if target == "float16":
        return 4.0 if source != "float32" else 2e-3
    if target == "int32":
        return 2.0**31 * 1e-6
    if target == "float32":
        return {"float32": 2e-6, "uint8": 2e-4, "int16": 1e-2}.get(source, 2.0**30 * 1e-6)
    return 1.0


@pytest.mark.parity
@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize(("operator", "arguments"), LINEAR, ids=str)
def test_brightness_and_contrast(operator: str, arguments: dict[str, Any], source: str) -> None:
    feed = sample_images(*RAGGED, dtype=source, low=DTYPES[source][0], high=DTYPES[source][1])
    for target in (None, *DTYPES):
        chosen = dict(arguments)
        if target is not None:
            chosen["dtype"] = NAMES[target]
        compare(
            lambda fn, types, x, a=chosen: getattr(fn, operator)(x, **resolved(types, a)),
            feed,
            layouts=["HWC"],
            tolerance=tolerance(source, target or source),
        )


@pytest.mark.combinations
@pytest.mark.parity
@pytest.mark.parametrize("source", [*DTYPES, "float16"])
@pytest.mark.parametrize(("operator", "arguments"), TWISTS, ids=str)
def test_twists(operator: str, arguments: dict[str, Any], source: str) -> None:
    low, high = DTYPES.get(source, (0, 1))
    feed = sample_images(*RAGGED, dtype=source, low=low, high=high)
    for target in (None, *DTYPES, "float16"):
        chosen = dict(arguments)
        if target is not None:
            chosen["dtype"] = NAMES[target]
        result = target or ("uint8" if operator == "hsv" else source)
        # Steps of float16 near its maximum of 65504 are 32; int32 samples exceed this maximum.
        allowed = (
            64.0 if (source, result) in (("int32", "float16"), ("int16", "float16")) else tolerance(source, result)
        )
        compare(
            lambda fn, types, x, a=chosen: getattr(fn, operator)(x, **resolved(types, a)),
            feed,
            layouts=["HWC"],
            tolerance=allowed,
        )


def resolved(types: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: getattr(types, value) if name == "dtype" else value for name, value in arguments.items()}


@pytest.mark.parity
@pytest.mark.parametrize("layout", ["HWC", "FHWC", "DHWC", None])
@pytest.mark.parametrize("operator", ["brightness_contrast", "color_twist"])
def test_layouts_and_arguments_per_sample(operator: str, layout: str | None) -> None:
    shapes = [(2, 9, 8, 3)[-len(layout or "HWC") :], (3, 5, 6, 3)[-len(layout or "HWC") :]]
    values = [[np.float32(0.5), np.float32(1.25)], [np.float32(1.75), np.float32(0.8)]]
    compare(
        lambda fn, _, x, b, c: getattr(fn, operator)(x, brightness=b, contrast=c),
        sample_images(*shapes),
        *values,
        layouts=[layout],
        tolerance=1,
    )


@pytest.mark.parity
def test_angles_and_saturations_per_sample() -> None:
    values = [[np.float32(value) for value in row] for row in ((10, 90, 300), (0, 1, 2), (0.5, 1, 1.5))]
    compare(
        lambda fn, _, x, h, s, v: (
            fn.hue(x, hue=h), fn.saturation(x, saturation=s), fn.hsv(x, hue=h, saturation=s, value=v)
        ),
        sample_images(*RAGGED),
        *values,
        layouts=["HWC"],
        tolerance=1,
    )  # fmt: skip


@pytest.mark.parity
@pytest.mark.parametrize("arguments", [BRIGHTNESS, {"brightness": 0.5}])
def test_brightness_takes_any_channels_and_rounds_ties_away_from_zero(arguments: dict[str, Any]) -> None:
    for channels in (1, 4, 5):
        compare(lambda fn, _, x: fn.brightness(x, **arguments), sample_images((7, 9, channels)), tolerance=0)


def test_empty_images() -> None:
    for operator in ("brightness", "hue"):
        (output,) = run_ours(lambda fn, _, x, o=operator: getattr(fn, o)(x), [np.zeros((0, 4, 3), np.uint8)])
        assert output.samples[0].shape == (0, 4, 3)


@pytest.mark.parity
def test_bad_calls_are_refused() -> None:
    feed = sample_images((4, 5, 3))
    for operator in ("brightness", "hue"):
        refused_by_both(lambda fn, _, x, o=operator: getattr(fn, o)(x), feed, layouts=["CHW"], match="layout 'CHW'")
        wide = [feed[0].astype(np.int64)]
        refused_by_both(lambda fn, _, x, o=operator: getattr(fn, o)(x), wide, match="the samples must be one of")
        refused_by_both(
            lambda fn, types, x, o=operator: getattr(fn, o)(x, dtype=types.BOOL), feed, match="argument 'dtype'"
        )


def test_twists_refuse_images_that_are_not_rgb() -> None:
    with pytest.raises(RuntimeError, match="has 4 channels"):
        run_ours(lambda fn, _, x: fn.hue(x), sample_images((4, 5, 4)))


SPACES = ("RGB", "BGR", "GRAY", "YCbCr")


@pytest.mark.parity
@pytest.mark.parametrize("source", SPACES)
@pytest.mark.parametrize("target", SPACES)
def test_color_spaces(source: str, target: str) -> None:
    channels = 1 if source == "GRAY" else 3
    if source == target:  # DALI refuses this
        feed = sample_images((4, 5, channels))
        (output,) = run_ours(lambda fn, types, x: convert(fn, types, x, source, target), feed, layouts=["HWC"])
        assert np.array_equal(output.samples[0], feed[0])
        return
    for layout in ("HWC", "FHWC", "DHWC", "FDHWC"):
        shapes = [(2, 3, 17, 9, channels)[-len(layout) :], (1, 2, 8, 30, channels)[-len(layout) :]]
        exact = "YCbCr" not in (source, target) and target != "GRAY"
        compare(
            lambda fn, types, x: convert(fn, types, x, source, target),
            sample_images(*shapes),
            layouts=[layout],
            tolerance=0 if exact else 1,
        )


def convert(fn: Any, types: Any, data: Any, source: str, target: str) -> Any:
    return fn.color_space_conversion(data, image_type=getattr(types, source), output_type=getattr(types, target))


@pytest.mark.parity
def test_color_spaces_refuse_bad_calls() -> None:
    floats = sample_images((4, 5, 3), dtype="float32")
    refused_by_both(lambda fn, types, x: convert(fn, types, x, "RGB", "BGR"), floats, match="must be one of UINT8")
    grey = sample_images((4, 5, 1))
    refused_by_both(lambda fn, types, x: convert(fn, types, x, "RGB", "BGR"), grey, match="1 channels, but RGB has 3")
    colour = sample_images((4, 5, 3))
    refused_by_both(
        lambda fn, types, x: convert(fn, types, x, "RGB", "ANY_DATA"), colour, match="argument 'output_type' must be"
    )
