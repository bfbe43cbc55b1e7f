"""Operators that run as one expression on the GPU return the same pixels as the separate operators in sequence."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dali_proxy.pipeline._compiler.steps.step import OperatorStep, PixelStep
from pipeline import Pipeline, fn, types
from pipeline.errors import OperatorError
from tests.pipeline.codecs.test_nvimgcodec import encode, sample_image

pytestmark = pytest.mark.gpu

Bytes = npt.NDArray[np.uint8]
BATCH = 8


def files() -> list[Bytes]:
    """Return JPEGs for the engine, and other images: progressive, rotated, a PNG."""
    kinds: list[dict[str, Any]] = [{}, {"subsampling": 0}, {"progressive": True}, {"orientation": 6}, {"format": "PNG"}]
    return [encode(sample_image(n, 90 + 17 * n, 150 - 9 * n), **kinds[n % len(kinds)]) for n in range(BATCH)]


def decode_crop(encoded: Any) -> Any:
    images = fn.decoders.image_random_crop(encoded, device="mixed", seed=3)
    images = fn.resize(images, size=(48, 40))
    return fn.crop_mirror_normalize(
        images, mirror=fn.random.coin_flip(seed=4), mean=[120.0, 110, 100], std=[60.0, 61, 62]
    )


def decode_whole(encoded: Any) -> Any:
    images = fn.decoders.image(encoded, device="mixed")
    images = fn.resize(images, resize_shorter=64, interp_type=types.INTERP_CUBIC)
    return fn.crop_mirror_normalize(images, crop=(48, 50), dtype=types.FLOAT16, output_layout="HWC")


def decode_random(encoded: Any) -> Any:
    images = fn.decoders.image(encoded, device="mixed")
    images = fn.random_resized_crop(images, size=(31, 37), seed=5, dtype=types.FLOAT)
    return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(seed=6))


def decode_window(encoded: Any) -> Any:
    images = fn.decoders.image_crop(encoded, device="mixed", crop=(60, 50), crop_pos_x=0.3, output_type=types.GRAY)
    return fn.crop_mirror_normalize(fn.resize(images, size=(30, 30)), mean=[100.0], std=[50.0])


def uploaded(encoded: Any) -> Any:
    images = fn.decoders.image(encoded).gpu()
    images = fn.random_resized_crop(images, size=(31, 37), seed=5)
    return fn.crop_mirror_normalize(images, dtype=types.UINT8)


def run(define: Callable[[Any], Any], encoded: list[Bytes]) -> list[Bytes]:
    pipe = Pipeline(batch_size=len(encoded), num_threads=2, device_id=0)
    with pipe:
        pipe.set_outputs(define(fn.external_source(name="encoded", ndim=1, dtype=types.UINT8)))
    pipe.build()
    try:
        made = []
        for _ in range(3):
            (output,) = pipe.run(encoded=encoded)
            made += [np.array(sample) for sample in output.as_cpu()]
        return made
    finally:
        pipe.close()


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that lets later pipelines run operator by operator."""
    return lambda: monkeypatch.setattr(PixelStep, "_run", OperatorStep._run)


@pytest.mark.parametrize("define", [decode_crop, decode_whole, decode_random, decode_window, uploaded])
def test_pixels_of_chains_are_the_same(define: Callable[[Any], Any], apart: Callable[[], None]) -> None:
    together = run(define, files())
    apart()
    for one, other in zip(together, run(define, files()), strict=True):
        np.testing.assert_array_equal(one, other)


def test_images_that_the_kernel_refuses_are_decoded(apart: Callable[[], None]) -> None:
    def define(encoded: Any) -> Any:
        images = fn.decoders.image(encoded, output_type=types.ANY_DATA).gpu()
        return fn.crop_mirror_normalize(fn.resize(images, size=(20, 20)))

    buffer = io.BytesIO()
    Image.fromarray(np.dstack([sample_image(1, 40, 50), sample_image(2, 40, 50)[..., :1]])).save(buffer, "PNG")
    four = [np.frombuffer(buffer.getvalue(), np.uint8)] * 2
    made = run(define, four)
    assert made[0].shape == (4, 20, 20)
    apart()
    np.testing.assert_array_equal(made, run(define, four))


def test_errors_name_operator_and_sample() -> None:
    damaged = files()
    damaged[5] = damaged[5][:20].copy()
    with pytest.raises(OperatorError, match=r"decoders.image_random_crop failed for sample 5") as caught:
        run(decode_crop, damaged)
    assert [failure.sample for failure in caught.value.failures] == [5]

    def too_large(encoded: Any) -> Any:
        images = fn.resize(fn.decoders.image(encoded, device="mixed"), size=(20, 20))
        return fn.crop_mirror_normalize(images, crop=(21, 20))

    with pytest.raises(
        OperatorError, match=r"crop_mirror_normalize failed for sample 0: Slice can't be placed out of bounds"
    ):
        run(too_large, files())
