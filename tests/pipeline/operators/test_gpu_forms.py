"""GPU operators where the comparison with the CPU in tests/parity doesn't suffice. Without a GPU: `tests.host_cupy`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pipeline.errors import PipelineError
from tests import host_cupy
from tests.pipeline.kernels import emulator
from tests.pipeline.operators.both import Array, Output, run_ours

IMAGE = np.random.default_rng(0).integers(0, 255, (16, 22, 3)).astype(np.uint8)


@pytest.fixture(autouse=True, params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "gpu":
        yield
        return
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        yield


def run(name: str, *batches: list[Array], layouts: list[str | None] | None = None, **arguments: Any) -> Output:
    def graph(fn: Any, types: Any, *inputs: Any) -> Any:
        function = fn
        for part in name.split("."):
            function = getattr(function, part)
        return function(*(each.gpu() for each in inputs), **arguments).cpu()

    return run_ours(graph, *batches, layouts=layouts or [], device_id=0)[0]


def compressed(array: Array) -> Array:
    block = pytest.importorskip("lz4.block")
    return np.frombuffer(block.compress(array.tobytes(), store_size=False), np.uint8)


def test_blocks_are_inflated() -> None:
    parts = [IMAGE, np.tile(IMAGE[:8], (2, 1, 1)), np.full_like(IMAGE, 7)]  # the last one is a match on itself
    blocks = [compressed(part) for part in parts]
    output = run("decoders.inflate", blocks, shape=list(IMAGE.shape), layout="HWC")
    assert output.layout == "HWC"
    assert all(np.array_equal(*pair) for pair in zip(output.samples, parts, strict=True))
    sizes = [len(block) for block in blocks]
    sequence = run("decoders.inflate", [np.concatenate(blocks)], shape=[17, 22, 3], chunk_sizes=sizes).samples[0]
    assert np.array_equal(sequence[:, :16], parts)
    assert not sequence[:, 16:].any()


@pytest.mark.parametrize("damage", ["cut", "long", "match"])
def test_damaged_block_is_an_error(damage: str) -> None:
    block = {"cut": compressed(IMAGE)[:-5], "long": compressed(IMAGE), "match": np.array([0, 9, 9, 0], np.uint8)}[
        damage
    ]
    shape = [5] if damage == "long" else list(IMAGE.shape)
    with pytest.raises(PipelineError, match="for sample 1: a block isn't LZ4, or contains more than"):
        run("decoders.inflate", [compressed(np.zeros(2, np.uint8)), block], shape=shape)


def test_images_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = run("dump_image", [IMAGE], layouts=["HWC"], suffix="x")
    assert np.array_equal(np.array(Image.open("0-x-0.ppm")), IMAGE)
    assert np.array_equal(output.samples[0], IMAGE)


def test_jitter_takes_pixels_from_nearby() -> None:
    ramp = np.stack(np.mgrid[:30, :40], axis=2).astype(np.float32)
    moved = run("jitter", [ramp], layouts=["HWC"], nDegree=4, fill_value=np.nan).samples[0]
    shifts = (moved - ramp)[2:-2, 2:-2]
    assert set(np.unique(shifts)) == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert np.array_equal(run("jitter", [ramp], layouts=["HWC"], mask=0).samples[0], ramp)


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_grid_mask_erases_the_pixels_that_the_cpu_erases(angle: float) -> None:
    image = np.full((150, 70, 1), 255, np.uint8)
    for tile, ratio in ((3, 0.3), (7, 1 / 7), (10, 0.5), (49, 0.6), (60, 0.25)):
        options = {"tile": tile, "ratio": ratio, "angle": angle, "shift_x": 2.0, "shift_y": -11.0}
        expected = run_ours(lambda fn, types, x, options=options: fn.grid_mask(x, **options), [image], layouts=["HWC"])
        made = run("grid_mask", [image], layouts=["HWC"], **options)
        np.testing.assert_array_equal(made.samples[0], expected[0].samples[0])


def test_channels_beyond_four_are_separate_images() -> None:
    images = [np.concatenate([IMAGE, IMAGE[..., ::-1]], axis=2), IMAGE]
    output = run("experimental.dilate", images, layouts=["HWC"], mask_size=[3, 1])
    wide = [np.pad(image, ((0, 0), (1, 1), (0, 0))) for image in images]
    for sample, padded in zip(output.samples, wide, strict=True):
        assert np.array_equal(sample, np.maximum.reduce([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]]))


def test_debayering_by_gradients_is_refused() -> None:
    with pytest.raises(
        PipelineError, match=r"vng_ocv algorithm is not supported on GPU\. There are default_npp, bilinear_ocv,"
    ):
        run("debayer", [IMAGE[..., 0].copy()], layouts=["HW"], blue_position=[0, 0], algorithm="vng_ocv")


def test_long_transform_uses_device_memory() -> None:
    signal = np.sin(np.arange(9000) * 0.3).astype(np.float32)
    spectrum = run("spectrogram", [signal], window_length=8192, nfft=8192, center_windows=False).samples[0]
    window = 0.5 - 0.5 * np.cos(2 * np.pi / 8192 * (np.arange(8192) + 0.5))
    expected = np.abs(np.fft.rfft(signal[:8192] * window)) ** 2
    assert np.allclose(spectrum[:, 0], expected, atol=1e-5 * expected.max())


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("quality", [0.0, 50.0, 100.0])
def test_resampling_equals_the_cpu(antialias: bool, quality: float) -> None:
    """Filters of one batch differ, and those of the smallest scale don't fit into shared memory."""
    rng = np.random.default_rng(0)
    signals = [rng.uniform(-1, 1, (length, 2)).astype(np.float32) for length in (40, 300, 57, 33)]
    scales = [np.float32(scale) for scale in (0.3628, 1.0, 2.7, 0.02)]

    def graph(device: str) -> Any:
        def described(fn: Any, types: Any, data: Any, scale: Any) -> Any:
            placed = data.gpu() if device == "gpu" else data
            return fn.audio_resample(placed, scale=scale, quality=quality, antialias=antialias).cpu()

        return described

    here = run_ours(graph("cpu"), signals, scales)[0]
    there = run_ours(graph("gpu"), signals, scales, device_id=0)[0]
    for ours, theirs in zip(here.samples, there.samples, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6)
