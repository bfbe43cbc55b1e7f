"""Decoders on the GPU with a cache: the same results as without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._codecs import missing_codec_reason
from pipeline import fn, types
from pipeline.errors import DeviceError, OperatorError
from tests.pipeline.compiler.cached_runs import Run, Samples, check_equal
from tests.pipeline.compiler.gpu_cached_runs import GpuRun, encode
from tests.pipeline.operators.decoding.test_mixed_decoder import HostDecoder

pytestmark = [
    pytest.mark.skipif(missing_codec_reason() is not None, reason=str(missing_codec_reason())),
    pytest.mark.usefixtures("image_decoder"),
]


def resized(images: Any) -> Any:
    return fn.resize(images, size=(40, 40))


def images_and_floats(images: Any) -> Any:
    return images, fn.cast(images, dtype=types.FLOAT)


@pytest.mark.parametrize(
    ("describe", "arguments"),
    [
        (resized, {}),
        (None, {"cache_batch_copy": False}),
        (None, {"cache_type": "largest"}),
        (images_and_floats, {"cache_type": "threshold"}),
    ],
)
def test_results_are_those_without_a_cache(describe: Any, arguments: Any, image_files: Samples) -> None:
    run = GpuRun(describe, cache_size=4, **arguments)
    check_equal(run.epochs(image_files), GpuRun(describe).epochs(image_files))
    epochs = 1 if arguments.get("cache_type") == "largest" else 2
    assert run.report["cache_hits"] == epochs * len(image_files)
    assert run.report["cache_misses"] == (3 - epochs) * len(image_files)


def test_images_of_one_size_have_the_bits_of_those_without_a_cache(image_files: Samples) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (4, 200, 150, 3), np.uint8)
    samples = [encode(kind, each) for each in pixels for kind in ("JPEG", "PNG", "JPEG2000")]

    def describe(images: Any) -> Any:
        return images, fn.resize(images, size=(60, 40)), fn.crop_mirror_normalize(images, crop=(50, 50), std=[3.0])

    check_equal(GpuRun(describe, cache_size=4).epochs(samples), GpuRun(describe).epochs(samples))


@pytest.mark.parametrize(("kind", "dtype"), [("threshold", types.UINT8), ("largest", types.UINT16)])
def test_small_cache_keeps_its_bound_and_the_bits(dtype: Any, kind: str, image_files: Samples) -> None:
    run = GpuRun(cache_size=1, cache_type=kind, dtype=dtype)
    samples = [*image_files, *image_files[:5], *image_files[::-1]]
    check_equal(run.epochs(samples, 4), GpuRun(dtype=dtype).epochs(samples, 4))
    assert 0 < run.report["cache_bytes"] <= run.report["cache_limit"] == 1 << 20
    assert run.report["cache_hits"] > 0


def test_threshold_is_the_size_that_results_exceed(image_files: Samples) -> None:
    sizes = [sample.nbytes for _, samples in GpuRun().epochs(image_files, 1) for sample in samples]
    run = GpuRun(cache_size=4, cache_threshold=sorted(sizes)[5])
    run.epochs(image_files, 2)
    assert run.report["cache_values"] == run.report["cache_hits"] == len(image_files) - 6


def test_largest_results_are_kept(image_files: Samples) -> None:
    sizes = sorted(
        [sample.nbytes for _, samples in GpuRun().epochs(image_files, 1) for sample in samples], reverse=True
    )
    fitting = int((np.cumsum(sizes) <= 1 << 20).sum())
    run = GpuRun(cache_size=1, cache_type="largest")
    run.epochs(image_files, 3)
    values = run.report["cache_values"]
    assert fitting - 1 <= values <= fitting < len(image_files)  # a value needs a few bytes more
    assert run.report["cache_bytes"] >= sum(sizes[:values])


def test_damaged_images_arent_kept_and_errors_are_those_without_a_cache(image_files: Samples) -> None:
    damaged = [np.frombuffer(b"\x89PNG\r\n\x1a\n" + bytes(40), np.uint8), image_files[0][:50]]
    batch = [image_files[1], damaged[0], image_files[2], damaged[1], image_files[3]]
    run, plain = GpuRun(cache_size=4, cache="10MB"), GpuRun()
    for first in (image_files[:5], batch, batch):
        raised: list[Any] = []
        for each in (run, plain):
            try:
                raised.append(each.batch(first))
            except OperatorError as error:
                raised.append((str(error), [failure.sample for failure in error.failures]))
        if first is batch:
            assert raised[0] == raised[1]
            assert raised[0][1] == [1, 3]
        else:
            check_equal(*raised)
    check_equal(run.epochs(image_files), plain.epochs(image_files))
    assert run.report["cache_values"] <= 2 * len(image_files)


def test_images_that_depend_on_others_of_their_batch_arent_kept(
    image_files: Samples, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device != "host":
        pytest.skip("needs an engine that fails")
    usual, fails = HostDecoder.decode, [True]

    def decode(self: Any, *arguments: Any, **options: Any) -> Any:
        decoded = usual(self, *arguments, **options)
        decoded.is_repeatable = not fails[0]
        return decoded

    monkeypatch.setattr(HostDecoder, "decode", decode)
    run = GpuRun(cache_size=4)
    samples = image_files[:8]
    check_equal(run.batch([*samples[:4], *samples[:4]]), GpuRun().batch([*samples[:4], *samples[:4]]))
    assert run.report["cache_values"] == 0
    fails[0] = False
    run.batch(samples)
    assert run.report["cache_values"] == 8


def test_cores_images_are_kept_on_the_host(image_files: Samples) -> None:
    run = GpuRun(resized, cache="10MB")
    check_equal(run.epochs(image_files), GpuRun(resized).epochs(image_files))
    on_cores = run.report["cache_values"]
    assert 3 <= on_cores < len(image_files)
    assert run.report["cache_hits"] == 2 * on_cores


def test_pipelines_on_the_cpu_find_what_cores_decoded_for_a_gpu(image_files: Samples) -> None:
    shared = ValueCache(10 << 20)
    gpu, cpu = GpuRun(shared=shared, hw_decoder_load=0.3), Run(fn.decoders.image, shared=shared)
    gpu.epochs(image_files, 1)
    on_cores = shared.report()["cache_values"]
    check_equal(cpu.epochs(image_files, 1), Run(fn.decoders.image, 0).epochs(image_files, 1))
    assert shared.report()["cache_hits"] == on_cores >= 3
    cpu.pipe.close()


def test_decoders_with_equal_arguments_share_a_cache(image_files: Samples) -> None:
    one, same, other = (GpuRun(cache_size=size) for size in (4, 4, 5))
    check_equal(one.epochs(image_files, 1), same.epochs(image_files, 1))
    assert one.report == same.report
    assert one.report["cache_hits"] == len(image_files)
    other.epochs(image_files, 1)
    assert other.report["cache_hits"] == 0


def test_stream_waits_for_what_another_one_has_written(
    image_files: Samples, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device != "host":
        pytest.skip("needs a stream that records its waits")
    from tests.host_cupy import Event, Stream

    done, waited = [False], []
    monkeypatch.setattr(Event, "done", property(lambda self: done[0]))
    monkeypatch.setattr(Stream, "wait_event", lambda self, event: waited.append(event))
    run = GpuRun(cache_size=4)
    run.batch(image_files[:8])
    assert waited == []
    expected = GpuRun().batch(image_files[:8])
    check_equal(run.batch(image_files[:8]), expected)
    assert len(waited) == 1
    done[0] = True
    check_equal(run.batch(image_files[:8]), expected)
    assert len(waited) == 1


def test_memory_that_a_batch_reads_isnt_given_to_other_values(
    image_files: Samples, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device != "host":
        pytest.skip("needs a stream whose work never ends")
    from tests.host_cupy import Event

    run = GpuRun(cache_size=1)
    run.batch(image_files[:2])
    executor: Any = run.pipe._internals.executor
    cached = executor.program.cached[0].cache
    before = cached.report()["cache_bytes"]
    monkeypatch.setattr(Event, "done", False)
    run.batch(image_files[:2])
    cached._memory._entries.clear()
    assert cached._memory._allocator.used > 0.9 * before
    monkeypatch.setattr(Event, "done", True)
    run.batch(image_files[4:5])  # the device releases what earlier batches have read
    run.batch(image_files[4:5])
    assert cached._memory._allocator.used < before


def test_gpu_without_room_is_an_error_of_the_build(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    if device == "host":

        def fail(nbytes: int) -> int:
            raise cupy.cuda.runtime.CUDARuntimeError(2, "cudaErrorMemoryAllocation: out of memory")

        monkeypatch.setattr(cupy.cuda.runtime, "malloc", fail)
    with pytest.raises(DeviceError, match=r"GPU 0 has no room for a cache of 9000000 MB \(cache_size\): \d+ of its"):
        GpuRun(cache_size=9_000_000)


@pytest.mark.parametrize("arguments", [{"cache_size": -1}, {"cache_size": 1, "cache_threshold": -5}])
def test_invalid_sizes_are_errors(arguments: Any) -> None:
    with pytest.raises(ValueError, match=r"fn.decoders.image: cache_size and cache_threshold must not be negative"):
        GpuRun(**arguments)


def test_unknown_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="cache_type"):
        GpuRun(cache_size=1, cache_type="smallest")


def test_explanation_names_what_is_kept(image_files: Samples) -> None:
    text = GpuRun(cache_size=4, cache="10MB").pipe.explain()
    assert "fn.decoders.image" in text
    assert "only for samples that aren't in the cache" in text
    assert "cached: images that cores decode for fn.decoders.image" in text
    assert "With cache_size, it keeps results" in GpuRun(cache="10MB").pipe.explain()


def test_debug_says_what_the_cache_has_done(image_files: Samples, caplog: pytest.LogCaptureFixture) -> None:
    run = GpuRun(cache_size=4, cache_debug=True)
    run.batch(image_files[:3])
    run.pipe.close()
    assert "the cache of fn.decoders.image on GPU 0: {'hits': 0, 'misses': 3" in caplog.text
