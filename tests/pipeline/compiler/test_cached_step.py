"""Pipelines with a cache: the same results as without one."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from dali_proxy.pipeline._cache import value_cache
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._compiler.steps import cached_step
from dali_proxy.pipeline._compiler.steps.cached_step import CachedStep
from dali_proxy.pipeline._operators.geometry.resize import ResizeCpu
from pipeline import Pipeline, fn, types
from pipeline.errors import OperatorError
from tests.pipeline.compiler.cached_runs import BATCH, Run, Samples, check_equal, crops


@pytest.fixture(scope="module")
def large(encoded: Samples) -> Samples:
    """Images that are read where the cache keeps them: JPEGs of several sizes, one of which is turned, and a PNG."""
    pixels: list[Any] = [cv2.resize(cv2.imdecode(sample, cv2.IMREAD_COLOR), (400, 300)) for sample in encoded[:5]]
    pixels.append(cv2.resize(pixels[0], (320, 410)))
    files = [cv2.imencode(".jpg", image)[1].ravel() for image in pixels]
    exif = b"\xff\xe1\x00\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0"
    turned = np.frombuffer(files[5][:2].tobytes() + exif + files[5][2:].tobytes(), np.uint8)
    return [*files, turned, cv2.imencode(".png", pixels[1][:, :, :1])[1].ravel()]


def resized(data: Any) -> Any:
    small = fn.resize(fn.decoders.image(data), size=(40, 40))
    draws: dict[str, Any] = {"crop_pos_x": fn.random.uniform(range=(0, 1)), "mirror": fn.random.coin_flip()}
    return fn.crop_mirror_normalize(small, crop=(32, 32), dtype=types.FLOAT, std=[3.0], **draws)


def whole(data: Any) -> Any:
    return fn.decoders.image(data)


def resized_and_whole(data: Any) -> Any:
    images = fn.decoders.image(data)
    return fn.resize(images, size=(20, 30)), images, fn.random.uniform(range=(0, 1))


def two_sources(data: Any) -> Any:
    return fn.resize(fn.decoders.image(data), size=fn.external_source(name="size"))


@pytest.mark.combinations
@pytest.mark.parametrize("describe", [crops, resized, whole, resized_and_whole, two_sources])
@pytest.mark.parametrize("cache", ["100MB", "10KB", 3000])
def test_results_are_those_without_a_cache(describe: Any, cache: Any, encoded: Samples) -> None:
    run = Run(describe, cache)
    check_equal(run.epochs(encoded), Run(describe, 0).epochs(encoded))
    assert run.report["cache_bytes"] <= run.report["cache_limit"]
    assert (run.report["cache_hits"] == 2 * len(encoded)) == (cache == "100MB")


@pytest.mark.combinations
@pytest.mark.parametrize("cache", ["100MB", "1MB", 3000])
@pytest.mark.parametrize("describe", [crops, whole, resized_and_whole])
def test_large_images_have_the_bits_of_those_without_a_cache(describe: Any, cache: Any, large: Samples) -> None:
    run, samples = Run(describe, cache), [*large, *large[:4]]
    check_equal(run.epochs(samples), Run(describe, 0).epochs(samples))
    assert run.report["cache_bytes"] <= run.report["cache_limit"]


def test_decoder_writes_to_the_memory_of_the_cache(large: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[Any] = []
    monkeypatch.setattr(value_cache, "copy_ranges", lambda *arguments: copied.append(arguments))
    monkeypatch.setattr(cached_step, "copy_ranges", lambda *arguments: copied.append(arguments))
    run = Run(crops)
    check_equal(run.epochs(large), Run(crops, 0).epochs(large))
    assert run.report["cache_hits"] == 2 * len(large)
    assert copied == []


def views(data: Any) -> Any:
    return fn.reshape(fn.decoders.image(data), layout="CHW"), fn.random.uniform(range=(0, 1))


def overwrite(image: Any) -> Any:
    image[...] = 7
    return image[:2, :2]


def functions(data: Any) -> Any:
    images = fn.decoders.image(data)
    return fn.python_function(images, function=overwrite), fn.crop(images, crop=(200, 200))


@pytest.mark.parametrize("describe", [whole, views, functions])
def test_writing_to_large_results_does_not_change_the_cache(describe: Any, large: Samples) -> None:
    run, expected = Run(describe), Run(describe, 0).epochs(large, 3)
    for epoch in range(3):
        order = np.random.default_rng(epoch).permutation(len(large)).tolist()
        outputs = run.pipe.run(data=[large[index] for index in order])
        check_equal([(output.layout(), list(map(np.array, output))) for output in outputs], expected[: len(outputs)])
        del expected[: len(outputs)]
        for sample in outputs[0]:
            np.asarray(sample)[...] = 0


def test_operator_that_writes_to_its_input_fails_and_does_not_change_the_cache(
    large: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, plain = Run(crops), Run(crops, 0)
    original = ResizeCpu.run

    def writing(self: Any, state: Any, sample: int, inputs: Any, out: Any) -> Any:
        inputs[0][...] = 0
        return original(self, state, sample, inputs, out)

    for _ in range(2):  # images that are stored, and images that are found
        with monkeypatch.context() as patched:
            patched.setattr(ResizeCpu, "run", writing)
            assert "read-only" in str(failed(run, large))
        plain.batch(large)  # the next random numbers
        check_equal(run.batch(large), plain.batch(large))


def test_memory_of_evicted_images_is_not_reused_while_a_batch_has_them(
    large: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(crops)
    held: list[Any] = []
    original = CachedStep._value

    def keeping(self: Any, *arguments: Any) -> Any:
        held.append(original(self, *arguments))
        return held[-1]

    monkeypatch.setattr(CachedStep, "_value", keeping)
    cache = run.pipe._internals.cache
    assert cache is not None
    for _ in range(2):  # images that are stored, and images that are found
        run.batch(large)
        cache._memory._entries.clear()  # as if they were evicted
        gc.collect()
        assert run.report["cache_bytes"] >= sum(sample.nbytes for sample in held[-1].samples)
        held.clear()
        gc.collect()
        assert run.report["cache_bytes"] == 0


def test_images_that_fail_leave_no_memory(large: Samples) -> None:
    run = Run(crops)
    broken = np.frombuffer(large[0].tobytes()[:-5000], np.uint8)
    for _ in range(3):
        failed(run, [*large[:5], broken])
    gc.collect()  # the frames of the errors
    assert run.report["cache_bytes"] == 0


def test_nothing_is_decoded_twice(encoded: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    compute = CachedStep._compute

    def counted(step: CachedStep, batch: Any) -> None:
        sizes.append(batch.size)
        compute(step, batch)

    monkeypatch.setattr(CachedStep, "_compute", counted)
    Run(crops).epochs(encoded, 4)
    assert sum(sizes) == len(encoded)


def test_writing_to_results_does_not_change_the_cache(encoded: Samples) -> None:
    run = Run(whole)
    first = run.batch(encoded[:2])
    for _ in range(2):
        (output,) = run.pipe.run(data=list(encoded[:2]))
        for sample in output:
            np.asarray(sample)[...] = 0
    check_equal(run.batch(encoded[:2]), first)


def test_content_that_changes_is_decoded_again(encoded: Samples) -> None:
    run, plain = Run(crops), Run(crops, 0)
    sample = encoded[0].copy()
    for content in (encoded[0], encoded[1], encoded[0]):
        sample = np.resize(sample, len(content))
        sample[:] = content
        check_equal(run.batch([sample]), plain.batch([sample]))


def failed(run: Run, samples: Samples) -> OperatorError:
    with pytest.raises(OperatorError) as caught:
        run.batch(samples)
    return caught.value


@pytest.mark.parametrize("describe", [crops, resized])
def test_errors_name_their_samples_and_are_not_cached(describe: Any, encoded: Samples) -> None:
    run, plain = Run(describe), Run(describe, 0)
    check_equal(run.batch(encoded[:3]), plain.batch(encoded[:3]))
    broken = np.frombuffer(b"\xff\xd8 not a JPEG", np.uint8)
    samples = [encoded[0], encoded[4], broken, encoded[1], broken]
    for _ in range(2):
        error, right = failed(run, samples), failed(plain, samples)
        assert str(error) == str(right)
        assert [each.sample for each in error.failures] == [2, 4]
    check_equal(run.batch(encoded[:5]), plain.batch(encoded[:5]))


def test_error_behind_the_decoder_names_its_sample(encoded: Samples) -> None:
    def describe(data: Any) -> Any:
        return fn.resize(fn.crop(fn.decoders.image(data), crop=(200, 90)), size=(8, 8))

    run, plain = Run(describe), Run(describe, 0)
    fits = [len(sample) >= 200 for sample in Run(whole, 0).batch(encoded[:BATCH])[0][1]]
    good = next(sample for sample, fit in zip(encoded, fits, strict=False) if fit)
    check_equal(run.batch([good]), plain.batch([good]))
    samples = [good, *encoded[:4], good]
    assert str(failed(run, samples)) == str(failed(plain, samples))


def test_equal_samples_of_a_batch_are_stored_once(encoded: Samples) -> None:
    run = Run(crops)
    check_equal(run.batch([encoded[0]] * 4), Run(crops, 0).batch([encoded[0]] * 4))
    assert run.report["cache_values"] == 1


def test_samples_that_do_not_fit_together_raise_the_same_error(tmp_path: Path) -> None:
    files = []
    arrays: list[Any] = [np.zeros(3, np.uint8), np.zeros(3, np.float32), np.zeros((2, 2), np.uint8)]
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
        files.append(np.fromfile(tmp_path / f"{number}.npy", np.uint8))
    cache = ValueCache(1 << 20)
    for file in files:
        Run(fn.decoders.numpy, shared=cache).batch([file])
    for pair in (files[:2], files[::2]):
        cached, plain = Run(fn.decoders.numpy, shared=cache, num_threads=1), Run(fn.decoders.numpy, 0, num_threads=1)
        assert str(failed(cached, pair)) == str(failed(plain, pair))
    cache.close()


def test_pipelines_with_one_cache_use_the_values_of_each_other(encoded: Samples) -> None:
    cache = ValueCache(1 << 27)
    check_equal(Run(resized, shared=cache).epochs(encoded), Run(resized, 0).epochs(encoded))
    check_equal(Run(resized, shared=cache, batch_size=5).batch(encoded[:5]), Run(resized, 0).batch(encoded[:5]))
    check_equal(Run(crops, shared=cache).batch(encoded[:5]), Run(crops, 0).batch(encoded[:5]))
    report = cache.report()
    cache.close()
    assert report["cache_misses"] == len(encoded) + 5
    assert report["cache_hits"] == 2 * len(encoded) + 5


def test_deterministic_function_is_called_once_for_each_sample(encoded: Samples) -> None:
    calls: list[int] = []

    def invert(image: Any) -> Any:
        calls_of_test().append(image.size)
        return 255 - image

    def describe(data: Any) -> Any:
        inverted = fn.python_function(fn.decoders.image(data), function=invert, deterministic=True)
        return fn.random_resized_crop(inverted, size=(32, 32))

    calls_of_test = CallsOfTest(calls)
    found = Run(describe).epochs(encoded)
    assert len(calls) == len(encoded)
    check_equal(found, Run(describe, 0).epochs(encoded))


class CallsOfTest:
    """Returns a list that isn't part of what a function computes."""

    def __init__(self, calls: list[int]) -> None:
        self._calls = calls

    def __call__(self) -> list[int]:
        return self._calls

    def __reduce__(self) -> str:
        return "CallsOfTest"


def test_edited_function_is_called_again(encoded: Samples) -> None:
    cache = ValueCache(1 << 27)

    def described(factor: int) -> Callable[[Any], Any]:
        def describe(data: Any) -> Any:
            images = fn.decoders.image(data)
            return fn.python_function(images, function=lambda image: image // factor, deterministic=True)

        return describe

    for factor in (2, 3, 2):
        check_equal(
            Run(described(factor), shared=cache).batch(encoded[:4]), Run(described(factor), 0).batch(encoded[:4])
        )
    assert (cache.report()["cache_hits"], cache.report()["cache_misses"]) == (4, 8)
    cache.close()


def test_times_of_operators_are_measured(encoded: Samples) -> None:
    run = Run(resized)
    run.epochs(encoded, 2)
    times = {each.name: each for each in run.pipe._internals.runner.executor.statistics.operators()}
    assert times["fn.decoders.image"].seconds > 0
    assert times["fn.decoders.image"].batches == times["fn.resize"].batches == 2 * len(encoded) // BATCH
    assert run.report["cache_seconds_saved"] > 0


def test_invalid_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="Pipeline: cache must be a number of bytes, such as \"4G\", not 'many'"):
        Pipeline(batch_size=1, num_threads=1, device_id=None, cache="many")


def test_values_in_a_folder_serve_the_next_process(encoded: Samples, tmp_path: Path) -> None:
    cache = {"memory": "1MB", "folder": str(tmp_path / "cache"), "disk": "100MB"}
    for describe in (resized, resized_and_whole):
        expected = Run(describe, 0).epochs(encoded, 1)
        for loaded in (False, True):
            run = Run(describe, cache)
            check_equal(run.epochs(encoded, 1), expected)
            report = run.report
            run.pipe.close()
            assert (report["cache_misses"], report["cache_loaded"]) == ((0, 24) if loaded else (24, 0))


@pytest.mark.parametrize("extension", [".jpg", ".png", ".webp"])
def test_windows_of_whole_images_have_the_bits_of_decoded_windows(extension: str, encoded: Samples) -> None:
    def decoded(data: Any) -> Any:
        position = fn.random.uniform(range=(0, 1), seed=4)
        return (
            fn.decoders.image_random_crop(data, seed=7),
            fn.decoders.image_crop(data, crop=(40, 30), crop_pos_x=position),
            fn.decoders.image_slice(data, start=(5, 9), end=(61, 70), axes=(0, 1)),
        )

    def cropped(data: Any) -> Any:
        images, position = fn.decoders.image(data), fn.random.uniform(range=(0, 1), seed=4)
        anchor, shape = fn.random_crop_generator(fn.peek_image_shape(data), seed=7)
        return (
            fn.slice(images, anchor, shape, axes=(0, 1)),
            fn.crop(images, crop=(40, 30), crop_pos_x=position),
            fn.slice(images, start=(5, 9), end=(61, 70), axes=(0, 1)),
        )

    pixels: list[Any] = [cv2.imdecode(sample, cv2.IMREAD_COLOR) for sample in encoded[:BATCH]]
    samples = [cv2.imencode(extension, image)[1].ravel() for image in pixels] if extension != ".jpg" else encoded
    run = Run(cropped)
    check_equal(run.epochs(samples), Run(decoded, 0).epochs(samples))
    assert run.report["cache_hits"] == 2 * len(samples)


def test_gpu_operators_read_cached_samples(encoded: Samples, device: str) -> None:
    def describe(data: Any) -> Any:
        small = fn.resize(fn.decoders.image(data, device="cpu"), resize_shorter=40)
        return fn.crop_mirror_normalize(small.gpu(), crop=(32, 32), crop_pos_x=fn.random.uniform(range=(0, 1)))

    def samples_of(cache: int) -> list[Any]:
        run = Run(describe, cache, device_id=0)
        return [
            np.array(sample)
            for _ in range(3)
            for output in run.pipe.run(data=list(encoded[:BATCH]))
            for sample in output.as_cpu()
        ]

    for found, expected in zip(samples_of(1 << 20), samples_of(0), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)
