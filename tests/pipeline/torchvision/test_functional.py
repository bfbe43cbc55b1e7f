"""Tests of transforms as functions. PIL and NumPy compute the expected values."""

from __future__ import annotations

import colorsys
import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageOps

from pipeline import dynamic
from pipeline import torchvision as T
from pipeline.errors import ArgumentTypeError, ArgumentValueError
from pipeline.torchvision import InterpolationMode
from pipeline.torchvision import functional as F

PIXELS = np.random.default_rng(0).integers(0, 256, (41, 56, 3), np.uint8)
PIL = Image.fromarray(PIXELS)
TENSOR = torch.from_numpy(PIXELS.copy()).permute(2, 0, 1)


def array(image: Any) -> Any:
    """Return an HWC array."""
    return np.asarray(image) if isinstance(image, Image.Image) else image.permute(1, 2, 0).numpy()


def both(function: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """Return the results for a PIL image and for a tensor, which must have the same type as the input."""
    results = [function(image, *args, **kwargs) for image in (PIL, TENSOR)]
    assert isinstance(results[0], Image.Image)
    assert isinstance(results[1], torch.Tensor)
    return [array(each) for each in results]


@pytest.mark.parametrize(
    ("size", "max_size", "expected"),
    [
        ([20, 30], None, (20, 30)),
        (20, None, (20, 27)),  # 27.3, truncated
        ([50], None, (50, 68)),
        (20, 24, (17, 24)),
        (None, 24, (17, 24)),
    ],
)
def test_resized_sides_are_truncated(size: Any, max_size: int | None, expected: tuple[int, int]) -> None:
    for result in both(F.resize, size, max_size=max_size):
        assert result.shape == (*expected, 3)


def test_resize_filters_as_pil_does() -> None:
    smooth = PIL.resize((8, 6)).resize((100, 80), Image.Resampling.BICUBIC)
    for code in ("BILINEAR", "BICUBIC", "LANCZOS", "NEAREST"):
        result = array(F.resize(smooth, [29, 37], InterpolationMode[code])).astype(int)
        difference = np.abs(result - array(smooth.resize((37, 29), Image.Resampling[code])))
        assert np.mean(difference > 1) <= (0.05 if code == "NEAREST" else 0)  # halves are rounded in other directions
    assert np.array_equal(array(F.resize(smooth, [29, 37], 0)), result)  # PIL's number


@pytest.mark.parametrize(("size", "start"), [(20, (10, 18)), ([21, 33], (10, 12)), ([38, 53], (2, 2))])
def test_center_crop_rounds_odd_margins_to_even_positions(size: Any, start: tuple[int, int]) -> None:
    height, width = (size, size) if isinstance(size, int) else size
    expected = PIXELS[start[0] : start[0] + height, start[1] : start[1] + width]
    for result in both(F.center_crop, size):
        assert np.array_equal(result, expected)


def test_windows_beyond_the_border_are_black() -> None:
    padded = np.pad(PIXELS, ((10, 20), (5, 30), (0, 0)))
    for result in both(F.crop, -10, -5, 71, 91):
        assert np.array_equal(result, padded)
    for result in both(F.center_crop, [44, 61]):
        assert np.array_equal(result, np.pad(PIXELS, ((1, 2), (2, 3), (0, 0))))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("edge", "edge"), ("reflect", "reflect"), ("symmetric", "symmetric"), ("constant", "constant")],
)
def test_padding_is_left_top_right_bottom(mode: str, expected: Any) -> None:
    for result in both(F.pad, [1, 2, 3, 4], padding_mode=mode):
        assert np.array_equal(result, np.pad(PIXELS, ((2, 4), (1, 3), (0, 0)), expected))
    for result in both(F.pad, [2, 3], fill=[9, 8, 7]):
        assert result.shape == (47, 60, 3)
        assert result[0, 0].tolist() == [9, 8, 7]


def test_flips_and_several_crops() -> None:
    for horizontal, vertical in zip(both(F.horizontal_flip), both(F.vertical_flip), strict=True):
        assert np.array_equal(horizontal, PIXELS[:, ::-1])
        assert np.array_equal(vertical, PIXELS[::-1])
    crops = [array(each) for each in F.ten_crop(PIL, [20, 30])]
    expected = [PIXELS[:20, :30], PIXELS[:20, -30:], PIXELS[-20:, :30], PIXELS[-20:, -30:], PIXELS[10:30, 13:43]]
    assert all(np.array_equal(*pair) for pair in zip(crops[:5], expected, strict=True))
    assert np.array_equal(crops[5], PIXELS[:20, ::-1][:, :30])
    resized = both(F.resized_crop, 5, 6, 20, 30, 16)
    expected = both(lambda image: F.resize(F.crop(image, 5, 6, 20, 30), [16, 16]))
    assert all(np.array_equal(*pair) for pair in zip(resized, expected, strict=True))


@pytest.mark.parametrize("factor", [0.0, 0.4, 1.0, 1.7])
def test_enhancements_have_the_values_of_pil(factor: float) -> None:
    for function, enhancer, exact in (
        (F.adjust_brightness, ImageEnhance.Brightness, True),
        (F.adjust_contrast, ImageEnhance.Contrast, True),
        (F.adjust_sharpness, ImageEnhance.Sharpness, True),
        (F.adjust_saturation, ImageEnhance.Color, False),
    ):
        expected = array(enhancer(PIL).enhance(factor)).astype(int)
        on_pil, on_tensor = (np.abs(each - expected).max() for each in both(function, factor))
        assert on_pil <= (0 if exact else 1), function
        assert on_tensor <= 2, function
    floats = F.adjust_contrast(TENSOR / 255, factor)
    assert floats.dtype == torch.float32
    assert torch.allclose(floats, F.adjust_contrast(TENSOR, factor) / 255, atol=2 / 255)


def test_colors_change_and_alpha_stays() -> None:
    image = Image.fromarray(np.dstack([PIXELS, PIXELS[..., 0]]))
    for function, enhancer in (
        (F.adjust_brightness, ImageEnhance.Brightness),
        (F.adjust_contrast, ImageEnhance.Contrast),
        (F.adjust_sharpness, ImageEnhance.Sharpness),
        (F.adjust_saturation, ImageEnhance.Color),
    ):
        expected = array(enhancer(image).enhance(0.4)).astype(int)
        assert np.abs(array(function(image, 0.4)) - expected).max() <= 1, function
    assert np.array_equal(array(F.adjust_hue(image, 0.2))[..., :3], array(F.adjust_hue(PIL, 0.2)))


@pytest.mark.parametrize("shift", [-0.4, 0.1, 0.5])
def test_hues_rotate_in_hsv(shift: float) -> None:
    for result in both(F.adjust_hue, shift):
        for pixel, turned in zip(PIXELS[0], result[0], strict=True):
            hue, *rest = colorsys.rgb_to_hsv(*(pixel / 255))
            assert np.abs(np.array(colorsys.hsv_to_rgb((hue + shift) % 1, *rest)) * 255 - turned).max() <= 1.01


def test_values_are_inverted_posterized_and_solarized_as_in_pil() -> None:
    for function, expected, arguments in (
        (F.invert, ImageOps.invert(PIL), ()),
        (F.posterize, ImageOps.posterize(PIL, 3), (3,)),
        (F.solarize, ImageOps.solarize(PIL, 100), (100,)),
        (F.autocontrast, ImageOps.autocontrast(F.posterize(PIL, 2)), None),
    ):
        image = both(function, *arguments) if arguments is not None else [array(function(F.posterize(PIL, 2)))]
        for result in image:
            assert np.abs(result.astype(int) - array(expected)).max() <= (0 if arguments is not None else 1)


def test_gray_images() -> None:
    assert np.abs(array(F.rgb_to_grayscale(PIL)).astype(int) - array(PIL.convert("L"))).max() <= 1
    assert F.to_grayscale(PIL, 3).mode == "RGB"
    assert F.rgb_to_grayscale(PIL.convert("L"), 3).mode == "RGB"
    assert F.rgb_to_grayscale(TENSOR).shape == (1, 41, 56)


def test_rotations_are_counter_clockwise() -> None:
    for turns in range(4):
        for result in both(F.rotate, 90 * turns, expand=True):
            assert np.array_equal(result, np.rot90(PIXELS, turns))
    for result in both(F.rotate, 30, expand=True):
        assert result.shape[:2] == PIL.rotate(30, expand=True).size[::-1]
    corner = [0, 0]
    turned = array(F.rotate(PIL, 15, center=corner, fill=[1, 2, 3]))
    expected = array(PIL.rotate(15, center=(0, 0), fillcolor=(1, 2, 3)))
    assert np.mean(turned != expected) < 0.02


def test_affine_maps_translate_shear_and_scale() -> None:
    for result in both(F.affine, 0, [3, -2], 1.0, 0.0):
        assert np.array_equal(result[:-2, 3:], PIXELS[2:, :-3])
    # The inverse map: a point moves against the shear, then is halved.
    slope = np.tan(np.radians(20))
    matrix = (0.5, 0.5 * slope, 0.0, 0.0, 0.5, 0.0)
    expected = array(PIL.transform(PIL.size, Image.Transform.AFFINE, matrix))
    assert np.mean(array(F.affine(PIL, 0, [0, 0], 2.0, [20.0, 0.0], center=[0, 0])) != expected) < 0.02


def test_perspective_moves_points() -> None:
    start = [[0, 0], [55, 0], [55, 40], [0, 40]]
    same = both(F.perspective, start, start, InterpolationMode.NEAREST)
    assert all(np.array_equal(each, PIXELS) for each in same)
    moved = [[x + 4, y + 3] for x, y in start]
    for result in both(F.perspective, start, moved, InterpolationMode.NEAREST):
        assert np.array_equal(result[3:, 4:], PIXELS[:-3, :-4])
    coefficients = [1.0, 0.0, -4.0, 0.0, 1.0, -3.0, 0.0, 0.0]
    assert np.array_equal(array(F.perspective(PIL, None, None, 0, coefficients=coefficients)), result)


def test_types_are_scaled() -> None:
    floats = F.to_dtype(TENSOR, torch.float32, True)
    assert torch.equal(floats, TENSOR * np.float32(1 / 255))
    assert torch.equal(F.to_dtype(floats, torch.uint8, True), TENSOR)
    assert torch.equal(F.to_dtype(TENSOR, "int16", True), TENSOR.short() * 128)
    assert torch.equal(F.to_tensor(PIL), TENSOR / 255)
    assert torch.equal(F.to_tensor(PIXELS), TENSOR / 255)
    assert torch.equal(F.pil_to_tensor(PIL), TENSOR)
    assert torch.equal(F.to_image(PIXELS), TENSOR)
    assert np.array_equal(array(F.to_pil_image(TENSOR)), PIXELS)
    assert np.array_equal(array(F.to_pil_image(TENSOR / 255)), PIXELS)


def test_normalized_channels() -> None:
    mean, std = torch.tensor([100.0, 110.0, 120.0]), torch.tensor([50.0, 60.0, 70.0])
    expected = (TENSOR - mean[:, None, None]) / std[:, None, None]
    assert torch.allclose(F.normalize(TENSOR, mean.tolist(), std.tolist()), expected, atol=1e-6)
    assert torch.allclose(F.normalize(TENSOR.double(), [1.0], [2.0]).float(), (TENSOR - 1.0) / 2.0)


def test_blur_keeps_constant_images_and_orders_axes() -> None:
    bar = torch.zeros(1, 21, 21)
    bar[:, 10, 10] = 1.0
    wide = F.gaussian_blur(bar, [9, 1], [2.0, 1.0])  # x, y
    assert wide[0, 10].count_nonzero() == 9
    assert wide[0, :, 10].count_nonzero() == 1
    assert torch.allclose(wide.sum(), torch.tensor(1.0))


def test_results_have_the_kind_of_their_inputs() -> None:
    several = TENSOR.expand(2, 3, *TENSOR.shape)
    assert F.resize(several, [8, 9]).shape == (2, 3, 3, 8, 9)
    assert [each.size for each in F.resize([PIL, PIL], [8, 9])] == [(9, 8)] * 2
    assert F.resize(PIL.convert("RGBA"), [8, 9]).mode == "RGBA"
    assert F.resize(PIL.convert("L"), [8, 9]).mode == "L"
    tensor = F.resize(dynamic.as_tensor(PIXELS), [8, 9])
    assert isinstance(tensor, dynamic.Tensor)
    assert tensor.shape == (8, 9, 3)
    assert F.resize(dynamic.as_batch([PIXELS, PIXELS[:20]], layout="HWC"), 8).shape == [(8, 10, 3), (8, 22, 3)]
    with dynamic.EvalMode.deferred:
        assert np.array_equal(F.horizontal_flip(dynamic.as_tensor(PIXELS, layout="HWC")), PIXELS[:, ::-1])
    assert (
        F.get_dimensions(PIL) == F.get_dimensions(TENSOR) == F.get_dimensions(dynamic.as_tensor(PIXELS)) == [3, 41, 56]
    )
    assert F.get_size(several) == [41, 56]
    assert F.get_image_size(PIL) == [56, 41]


@pytest.mark.parametrize(
    ("function", "arguments", "error"),
    [
        (F.resize, (PIXELS, 8), TypeError),
        (F.resize, (TENSOR[0], 8), TypeError),
        (F.resize, (None, 8), TypeError),
        (F.resize, (TENSOR[None][:0], 8), ValueError),
        (F.resize, (PIL.convert("P"), 8), ValueError),
        (F.resize, (PIL, 8, InterpolationMode.BOX), NotImplementedError),
        (F.resize, (PIL, [8, 9], InterpolationMode.BILINEAR, 10), ValueError),
        (F.resize, (PIL, None), ValueError),
        (F.pad, (PIL, [1, 2, 3]), ValueError),
        (F.pad, (PIL, -1), ValueError),
        (F.pad, (PIL, 1, [1, 2]), ValueError),
        (F.adjust_hue, (PIL, 0.6), ValueError),
        (F.adjust_brightness, (PIL, -1), ValueError),
        (F.posterize, (TENSOR / 255, 3), TypeError),
        (F.normalize, (PIL, [0.5], [0.5]), TypeError),
        (F.normalize, (TENSOR, [0.5, 0.5], [0.5]), ValueError),
        (F.normalize, (TENSOR, [0.5], [0.5], True), NotImplementedError),
        (F.pil_to_tensor, (TENSOR,), TypeError),
        (F.to_pil_image, (TENSOR[None],), ValueError),
        (F.perspective, (PIL, None, None), TypeError),
        (F.five_crop, (PIL, 42), RuntimeError),
    ],
)
def test_wrong_arguments_are_errors(function: Any, arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        function(*arguments)


def test_wrong_devices_are_errors() -> None:
    with pytest.raises(ValueError, match="xpu"):
        F.resize(PIL, 8, device="xpu")


@pytest.mark.parametrize("fill", [0, 77])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_displaced_pixels_are_those_of_grid_sample(mode: str, fill: int) -> None:
    height, width = TENSOR.shape[1:]
    displacement = torch.rand(1, height, width, 2, generator=torch.Generator().manual_seed(0)) * 0.4 - 0.2
    rows, columns = ((torch.arange(extent) + 0.5) / extent * 2 - 1 for extent in (height, width))
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), dim=-1) + displacement
    layers = torch.cat([TENSOR.float(), torch.ones(1, height, width)])[None]
    sampled = torch.nn.functional.grid_sample(layers, grid, mode=mode, align_corners=False)[0]
    expected = array(sampled[:3] + (1 - sampled[3]) * fill).round()
    for result in both(F.elastic, displacement, InterpolationMode(mode), fill):
        assert np.abs(result - expected).max() <= 1


def cut_out() -> Image.Image:
    """Return a black square on white that is transparent."""
    image = Image.new("RGBA", (120, 120), (255, 255, 255, 0))
    image.paste((0, 0, 0, 255), (31, 31, 90, 90))
    return image


def difference(ours: Any, reference: Image.Image, border: int = 0) -> int:
    found = np.abs(np.asarray(ours).astype(int) - np.asarray(reference))
    return int(found[border : len(found) - border, border : found.shape[1] - border].max())


def test_inks_are_converted_as_in_pil() -> None:
    cmyk = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 4), dtype=np.uint8), "CMYK")
    assert difference(T.RGB()(cmyk), cmyk.convert("RGB")) == 0
    assert difference(T.Grayscale()(cmyk), cmyk.convert("L")) <= 1
    assert T.Grayscale(3)([cmyk, cmyk])[1].mode == "RGB"
    flipped = F.horizontal_flip(cmyk)
    assert flipped.mode == "CMYK"
    assert difference(flipped, cmyk.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) == 0
    assert difference(F.resize(cmyk, (20, 25)), cmyk.resize((25, 20), Image.Resampling.BILINEAR), 2) <= 1
    for change in (
        lambda: F.adjust_brightness(cmyk, 1.5),
        lambda: F.invert(cmyk),
        lambda: F.equalize(cmyk),
        lambda: F.posterize(cmyk, 3),
        lambda: F.solarize(cmyk, 100),
        lambda: F.autocontrast(cmyk),
        lambda: F.jpeg(cmyk, 50),
    ):
        with pytest.raises(ArgumentTypeError, match=r"CMYK can't be changed: convert it first, with RGB\(\)"):
            change()


def test_rgb_drops_alpha_of_pil_images_only() -> None:
    image = cut_out()
    assert difference(T.RGB()(image), image.convert("RGB")) == 0
    assert T.RGB()(torch.zeros(4, 5, 6)).shape == (4, 5, 6)


@pytest.mark.parametrize("mode", ["BILINEAR", "BICUBIC", "LANCZOS"])
def test_colors_are_weighted_by_alpha_in_resizes_of_pil_images(mode: str) -> None:
    image = cut_out()
    ours = F.resize(image, (50, 50), InterpolationMode[mode])
    background = Image.new("RGBA", (50, 50), (0, 0, 0, 255))
    shown = [Image.alpha_composite(background, each) for each in (ours, image.resize((50, 50), Image.Resampling[mode]))]
    assert difference(*shown) <= 2
    crop = T.RandomResizedCrop(50, scale=(1, 1), ratio=(1, 1))(image)
    assert np.asarray(crop)[..., :3][np.asarray(crop)[..., 3] > 0].max() == 0


@pytest.mark.parametrize("antialias", [True, False, None])
def test_pil_images_are_resized_with_antialiasing(antialias: bool | None) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8))
    ours = F.resize(noise, (30, 40), antialias=antialias)
    assert difference(ours, noise.resize((40, 30), Image.Resampling.BILINEAR), 1) <= 1
    tensor = torch.from_numpy(np.asarray(noise).transpose(2, 0, 1).copy())
    same = torch.equal(F.resize(tensor, [30, 40], antialias=False), F.pil_to_tensor(ours))
    assert not same


@pytest.mark.parametrize("narrow", [torch.uint8, torch.int32, torch.int16])
def test_integers_of_64_bits_are_scaled(narrow: torch.dtype) -> None:
    bits = 63 - {torch.uint8: 8, torch.int32: 31, torch.int16: 15}[narrow]
    values = torch.tensor([[[0, 1, 100]]], dtype=narrow)
    wide = F.to_dtype(values, torch.int64, scale=True)
    assert wide.dtype == torch.int64
    assert torch.equal(wide, values.long() << bits)
    assert torch.equal(F.to_dtype(wide, narrow, scale=True), values)


@pytest.mark.parametrize("shape", [(3, 1, 5), (3, 5, 1), (3, 2, 2), (1, 1, 1)])
def test_sharpness_keeps_images_without_inner_pixels(shape: tuple[int, ...]) -> None:
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    assert torch.equal(F.adjust_sharpness(image, 2.0), image)


def test_gray_images_are_compressed() -> None:
    gray = Image.fromarray(np.random.default_rng(0).integers(0, 256, (6, 7), dtype=np.uint8)).resize((56, 48))
    file = io.BytesIO()
    gray.save(file, "JPEG", quality=40)
    assert difference(F.jpeg(gray, 40), Image.open(file)) <= 1
    assert F.jpeg(torch.zeros(1, 8, 9, dtype=torch.uint8), 40).shape == (1, 8, 9)


def test_nearest_exact_is_nearest() -> None:
    image = torch.randint(0, 256, (3, 9, 11), dtype=torch.uint8)
    ours = F.resize(image, [5, 20], InterpolationMode.NEAREST_EXACT)
    expected = torch.nn.functional.interpolate(image[None], (5, 20), mode="nearest-exact")[0]
    assert torch.equal(ours, expected)


def test_advice_for_images_of_16_bits_keeps_their_values() -> None:
    image = Image.fromarray(np.full((4, 4), 40_000, np.uint16))
    with pytest.raises(ArgumentValueError, match=r"'I;16' are not supported: pass a tensor"):
        T.ToTensor()(image)
    tensor = T.ToTensor()(torch.from_numpy(np.array(image))[None])
    assert tensor.unique().tolist() == pytest.approx([40_000 / 65_535])
