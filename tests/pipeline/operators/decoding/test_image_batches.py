"""Decoding of whole batches on the CPU: the same pixels as one image at a time, and errors of each sample."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._imaging import decode, jpeg_region
from dali_proxy.pipeline._operators.decoding import image_batches
from pipeline import Pipeline, errors, fn, types
from tests.pipeline.imaging.images import encodings, pillow, smooth, with_orientation
from tests.pipeline.operators.both import Array

TURNED = [with_orientation(smooth(), "JPEG", orientation) for orientation in range(1, 9)]
ENCODED = [np.frombuffer(data, np.uint8) for data in (*encodings().values(), *TURNED)]
WINDOW = {"rel_start": (0.1, 0.2), "rel_shape": (0.6, 0.5)}
DECODERS = {
    "full": lambda x, **options: fn.decoders.image(x, **options),
    "random": lambda x, **options: fn.decoders.image_random_crop(x, seed=3, **options),
    "crop": lambda x, **options: fn.decoders.image_crop(x, crop=(2, 2), crop_pos_x=0.7, **options),
    "slice": lambda x, **options: fn.decoders.image_slice(x, **WINDOW, **options),
}
CUTS = {
    "full": lambda image: image,
    "random": lambda image: fn.slice(image, *fn.random_crop_generator(image.shape(), seed=3), axes=(0, 1)),
    "crop": lambda image: fn.crop(image, crop=(2, 2), crop_pos_x=0.7),
    "slice": lambda image: fn.slice(image, **WINDOW, axes=(1, 0)),
}


def run(images: list[Array], graph: Callable[[Any], Any]) -> list[Array]:
    with Pipeline(batch_size=len(images), num_threads=3, device_id=None) as pipe:
        pipe.set_outputs(graph(fn.external_source(name="images")))
    try:
        pipe.feed_input("images", images)
        (made,) = pipe.run()
        return [np.array(sample) for sample in made]
    finally:
        pipe.close()


def decoded(decoder: str, images: list[Array], **options: Any) -> list[Array]:
    return run(images, lambda encoded: DECODERS[decoder](encoded, **options))


@pytest.mark.combinations
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output_type": types.GRAY},
        {"output_type": types.ANY_DATA},
        {"dtype": types.FLOAT},
        {"use_fast_idct": True},
        {"adjust_orientation": False},
    ],
    ids=lambda options: next(iter(options), "usual"),
)
def test_windows_of_a_batch_equal_those_of_single_images(decoder: str, options: dict[str, Any]) -> None:
    given = {"fast_idct" if name == "use_fast_idct" else name: value for name, value in options.items()}
    single = [decode(image, **{**given, "dtype": np.float32} if "dtype" in given else given) for image in ENCODED]
    expected = run(single, CUTS[decoder])
    for one, other in zip(decoded(decoder, ENCODED, **options), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("number", [1, 20])
def test_windows_of_one_size_equal_those_of_whole_images(number: int) -> None:
    images = [np.frombuffer(pillow(smooth(90, 120, seed=seed), "JPEG"), np.uint8) for seed in range(number)]
    position = {"crop": (40, 50), "crop_pos_x": 0.3}
    expected = run(images, lambda x: fn.crop(fn.decoders.image(x), **position))
    for one, other in zip(run(images, lambda x: fn.decoders.image_crop(x, **position)), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("width", [2**31 - 1, 2**24, 40_000])
@pytest.mark.parametrize("decoder", ["full", "random"])
def test_absurd_size_is_the_error_of_its_sample(decoder: str, width: int) -> None:
    png = bytearray(encodings()["png rgb"])
    png[16:24] = struct.pack(">II", width, width)
    with pytest.raises(errors.OperatorError, match="for sample 1: ") as caught:
        decoded(decoder, [ENCODED[0], np.frombuffer(png, np.uint8), ENCODED[0]])
    assert [failure.sample for failure in caught.value.failures] == [1]


@pytest.mark.parametrize("decoder", DECODERS)
def test_errors_name_all_samples_that_fail(decoder: str) -> None:
    good, text = ENCODED[0], np.frombuffer(b"not an image", np.uint8)
    cut = np.frombuffer(encodings()["jpeg 420"][:-40], np.uint8)
    images = [good] * 17 + [text, good, cut]
    with pytest.raises(errors.OperatorError, match=r"for sample 17: .*1 more sample ") as caught:
        decoded(decoder, images)
    assert [failure.sample for failure in caught.value.failures] == [17, 19]


def test_memory_of_implausible_size_is_not_allocated_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    images = ENCODED[:5]
    expected = decoded("full", images)
    monkeypatch.setattr(image_batches, "_MOST_BYTES", 100)
    for one, other in zip(decoded("full", images), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_image_above_the_limit_is_refused_before_its_window_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [np.frombuffer(pillow(smooth(90, 120), "JPEG"), np.uint8)] * 2
    monkeypatch.setenv("DALI_PROXY_MAX_SAMPLE_BYTES", "30000")
    with pytest.raises(errors.OperatorError, match="30000"):
        decoded("slice", images)


def test_windows_without_the_package_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [np.frombuffer(pillow(smooth(90, 120), "JPEG"), np.uint8)] * 9
    expected = decoded("random", images)
    monkeypatch.setattr(jpeg_region, "_is_loaded", lambda: False)
    for one, other in zip(decoded("random", images), expected, strict=True):
        np.testing.assert_array_equal(one, other)
