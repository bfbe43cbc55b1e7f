"""The compiled loops return the same as NumPy and OpenCV, and refuse unsupported arguments."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pytest

from dali_proxy.pipeline._audio import resampling
from dali_proxy.pipeline._imaging import convert, crop_mirror_normalize, native, resize, transform_channels
from dali_proxy.pipeline._imaging.filters import plan_taps

compiled = native.compiled
needs_compiled = pytest.mark.skipif(compiled is None, reason="the package was installed without a C compiler")


def test_module_is_built_where_there_is_a_compiler() -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    assert compiled is not None


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Disable the compiled loops."""
    for module in ("resample", "normalize"):
        monkeypatch.setattr(sys.modules[f"dali_proxy.pipeline._imaging.{module}"], "compiled", None)
    return monkeypatch


def sample_image(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, np.uint8)


SHAPES = [(37, 53, 3), (300, 411, 3), (64, 64, 1), (50, 40, 4), (41, 9, 2), (1, 1, 3), (200, 3, 3), (90, 70)]
SIZES = [(24, 31), (224, 224), (1, 1), (3, 100)]


@pytest.mark.combinations
@needs_compiled
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("interp", ["linear", "cubic", "lanczos3", "gaussian", "triangular"])
@pytest.mark.parametrize("planar", [False, True])
def test_resize_gives_the_same(shape: tuple[int, ...], interp: str, planar: bool, without: pytest.MonkeyPatch) -> None:
    image = sample_image(*shape)
    regions = [None, (0.3, 0.2, shape[0] - 0.4, shape[1] * 0.7), (shape[0], 0, -2.5, shape[1] + 3)]
    for size in SIZES:
        for region in regions:
            for antialias in (True, False):
                options = {"region": region, "interp": interp, "antialias": antialias, "planar": planar}
                expected = resize(image, size, **options)
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(sys.modules["dali_proxy.pipeline._imaging.resample"], "compiled", compiled)
                    made = resize(image, size, **options)
                assert made.shape == expected.shape
                # Weights have 15 bits: a sum next to a tie may round to the other side. Without antialiasing
                # many sums of these sizes are ties.
                difference = np.abs(made.astype(int) - expected)
                assert difference.max() <= 1
                assert (difference > 0).mean() < 0.02 or not antialias


@needs_compiled
def test_resize_reads_views_and_writes_views() -> None:
    image = sample_image(80, 90, 3)
    view = image[5:70, 11:60]
    room = np.zeros((33, 44, 3), np.uint8)
    out = room[1:31, 2:42]
    assert resize(view, (30, 40), out=out) is out
    np.testing.assert_array_equal(out, resize(view.copy(), (30, 40)))
    assert not room[0].any()
    assert not room[31:].any()
    assert not room[:, :2].any()
    assert not room[:, 42:].any()


@needs_compiled
@pytest.mark.parametrize("shape", [(37, 53, 3), (5, 7, 1), (8, 6, 4), (9, 4, 5)], ids=str)
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("planes_first", [False, True])
def test_normalize_gives_the_same(
    shape: tuple[int, int, int], mirror: bool, planes_first: bool, without: pytest.MonkeyPatch
) -> None:
    image = sample_image(*shape)
    if planes_first:
        image = np.ascontiguousarray(image.transpose(2, 0, 1)).transpose(1, 2, 0)
    scale, bias = np.linspace(0.01, 0.03, shape[2]).tolist(), np.linspace(-2.0, 1.0, shape[2]).tolist()
    window = (1, 2, shape[0] + 1, shape[1] - 3)
    made, expected = (np.empty((shape[2], *window[2:]), np.float32) for _ in range(2))
    options = {"window": window, "mirror": mirror, "scale": scale, "bias": bias, "fill": 7.0}
    crop_mirror_normalize(image, expected, **options)
    without.setattr(sys.modules["dali_proxy.pipeline._imaging.normalize"], "compiled", compiled)
    crop_mirror_normalize(image, made, **options)
    np.testing.assert_allclose(made, expected, atol=2e-6)


@needs_compiled
@pytest.mark.parametrize("interp", ["linear", "cubic"])
def test_strides_of_a_single_channel_are_ignored(interp: str) -> None:
    plane = sample_image(1, 80, 90).transpose(1, 2, 0)
    options = {"region": (40.0, 41.0, 60.0, 62.0), "interp": interp}
    np.testing.assert_array_equal(resize(plane, (30, 40), **options), resize(plane.copy(), (30, 40), **options))


@needs_compiled
def test_strides_of_a_single_column_are_ignored() -> None:
    assert compiled is not None
    column = sample_image(20, 2, 3)[:, ::2]
    made, expected = np.empty((2, 10, 5, 3), np.uint8)
    compiled.resample_linear(column, made, 0, 0, 20, 1, True)
    compiled.resample_linear(column.copy(), expected, 0, 0, 20, 1, True)
    np.testing.assert_array_equal(made, expected)


@needs_compiled
def test_weights_are_used_unchanged() -> None:
    assert compiled is not None
    image = sample_image(20, 20, 3)
    whole, less = np.empty((2, 10, 10, 3), np.uint8)
    _, _, first, weights = plan_taps(20, 10, 0.0, 20.0, "linear", True)
    compiled.resample(image, whole, first, weights, first, weights)
    compiled.resample(image, less, first, weights * np.float32(0.5), first, weights)
    assert np.abs(less - whole / 2).max() <= 1


@needs_compiled
def test_weights_that_leave_the_image_are_refused() -> None:
    assert compiled is not None
    image, out = sample_image(20, 20, 3), np.empty((10, 10, 3), np.uint8)
    _, _, *taps = plan_taps(20, 10, 0.0, 20.0, "linear", True)
    compiled.resample(image, out, *taps, *taps)
    for wrong in (taps[0] + 1, taps[0] - 1, taps[0][:-1]):
        with pytest.raises(ValueError, match="don't fit"):
            compiled.resample(image, out, wrong, taps[1], *taps)
        with pytest.raises(ValueError, match="don't fit"):
            compiled.resample(image, out, *taps, wrong, taps[1])
    with pytest.raises(ValueError, match="don't fit"):
        compiled.resample(image, out[:, :9], *taps, *taps)


@needs_compiled
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (np.zeros((20, 20, 3), np.float32), np.zeros((10, 10, 3), np.uint8)),
        (np.zeros((20, 20, 3), np.uint8), np.zeros((10, 10, 3), np.float32)),
        (np.zeros((20, 20), np.uint8), np.zeros((10, 10), np.uint8)),
        (np.zeros((20, 20, 5), np.uint8), np.zeros((10, 10, 5), np.uint8)),
        (np.zeros((20, 20, 3), np.uint8), np.zeros((10, 10, 1), np.uint8)),
        (np.zeros((20, 40, 3), np.uint8)[:, ::2], np.zeros((10, 10, 3), np.uint8)),
    ],
)
def test_arrays_of_another_kind_are_refused(source: np.ndarray, target: np.ndarray) -> None:
    assert compiled is not None
    _, _, *taps = plan_taps(20, 10, 0.0, 20.0, "linear", True)
    with pytest.raises(ValueError, match="expected"):
        compiled.resample(source, target, *taps, *taps)


@needs_compiled
def test_result_that_does_not_fit_is_refused() -> None:
    assert compiled is not None
    values = np.ones(3, np.float32).tobytes()
    for shape in ((10, 10, 1), (10, 9, 3), (9, 10, 3)):
        with pytest.raises(ValueError, match="don't fit"):
            compiled.normalize(sample_image(10, 10, 3), np.empty(shape, np.float32), False, values, values)
    with pytest.raises(ValueError, match="don't fit"):
        compiled.normalize(sample_image(10, 10, 3), np.empty((10, 10, 3), np.float32).T, False, values, values)
    read_only = np.empty((3, 10, 10), np.float32)
    read_only.flags.writeable = False
    with pytest.raises((ValueError, BufferError), match=r"read-only|not writ"):
        compiled.normalize(sample_image(10, 10, 3), read_only.transpose(1, 2, 0), False, values, values)


def test_module_can_be_left_out() -> None:
    program = (
        "import os; os.environ['DALI_PROXY_NATIVE'] = '0'; "
        "from dali_proxy.pipeline._imaging import native; print(native.compiled)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=True)
    assert done.stdout.strip() == "None"


@needs_compiled
def test_map_of_colors_differs_by_rounding_only() -> None:
    rng = np.random.default_rng(5)
    image = rng.integers(0, 256, (61, 90, 3)).astype(np.uint8)
    matrix, offset = np.eye(3) + rng.normal(0, 0.5, (3, 3)), rng.normal(0, 40, 3)
    exact = np.clip(image.astype(np.float64) @ matrix.T + offset, 0, 255)
    for view in (slice(None), slice(None, None, -2)):
        made = transform_channels(image[view], matrix, offset, np.empty(image[view].shape, np.uint8))
        assert np.abs(made - exact[view]).max() < 0.5001
    with pytest.raises(ValueError, match="doesn't fit"):
        compiled.map_colors(image, np.zeros((2, 4), np.float32), image.copy())


@needs_compiled
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int16, np.float32])
@pytest.mark.parametrize("mirror", [False, True])
def test_normalize_gives_the_same_for_other_dtypes(dtype: type, mirror: bool, without: pytest.MonkeyPatch) -> None:
    image = sample_image(37, 53, 3).astype(dtype)
    options = {"mirror": mirror, "scale": [0.01, 0.02, 0.03], "bias": [-2.0, 0.5, 1.0]}
    made, expected = (np.empty((3, 37, 53), np.float32) for _ in range(2))
    crop_mirror_normalize(image, expected, **options)
    without.setattr(sys.modules["dali_proxy.pipeline._imaging.normalize"], "compiled", compiled)
    crop_mirror_normalize(image, made, **options)
    np.testing.assert_allclose(made, expected, atol=2e-6)


@needs_compiled
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(("scale", "quality"), [(1.0173, 50.0), (0.1234567, 20.0), (3.3333331, 90.0)])
def test_signals_are_resampled_the_same(
    channels: int, scale: float, quality: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal = np.random.default_rng(0).normal(size=(501, channels)).astype(np.float32)
    length = int(len(signal) * scale)
    made = resampling.resample(signal, scale, length, quality)
    monkeypatch.setattr(resampling, "compiled", None)
    np.testing.assert_allclose(made, resampling.resample(signal, scale, length, quality), atol=5e-6)


def test_floats_are_rounded_to_int32() -> None:
    values = [0.5, -0.5, 0.49999997, 2.5, 4194304.5, 8388609.0, 3e9, -3e9, np.inf, -np.inf, np.nan, 2147483520.0]
    rounded = convert(np.array(values, np.float32), np.int32)
    largest, smallest = 2**31 - 1, -(2**31)
    assert rounded.tolist() == [1, -1, 0, 3, 4194305, 8388609, largest, smallest, largest, smallest, 0, 2147483520]
