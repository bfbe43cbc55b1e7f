"""Decoders on the GPU with a cache: the same results as without one.

Without a GPU, host memory stands for its memory, and nvImageCodec's decoders for the CPU for the GPU's libraries; see
`tests.host_cupy`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._cache.value_cache import ValueCache, total_report
from dali_proxy.pipeline._codecs import missing_codec_reason
from dali_proxy.pipeline._operators.decoding import image
from pipeline import Pipeline, fn, types
from pipeline.errors import DeviceError, OperatorError
from tests.pipeline.compiler.cached_runs import BATCH, Run, Samples, check_equal
from tests.pipeline.operators.decoding.test_mixed_decoder import HostDecoder

pytestmark = [
    pytest.mark.skipif(missing_codec_reason() is not None, reason=str(missing_codec_reason())),
    pytest.mark.usefixtures("_decoder"),
]


_pipes: list[Pipeline] = []


@pytest.fixture
def _decoder(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if device == "host":
        monkeypatch.setattr(image, "ImageBatchDecoder", HostDecoder)
    yield
    while _pipes:
        _pipes.pop().close()


def encode(kind: str, pixels: Any, mode: str = "RGB") -> Any:
    file = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(file, kind)
    return np.frombuffer(file.getvalue(), np.uint8)


@pytest.fixture(scope="module")
def files() -> Samples:
    """Images of many formats and sizes: for the JPEG engine, for CUDA, and for cores."""
    numbers = np.random.default_rng(1)
    found = []
    for number in range(12):
        small = numbers.integers(0, 256, (5, 7, 3), np.uint8)
        pixels = cv2.resize(small, (270 + 8 * number, 300 - 9 * number))
        kind = ("JPEG", "PNG", "JPEG2000", "WEBP", "TIFF", "BMP")[number % 6]
        found.append(encode(kind, pixels))
    return [*found, encode("JPEG", cv2.resize(small, (90, 80)), "CMYK")]


class GpuRun:
    """A pipeline with a decoder on the GPU."""

    def __init__(
        self, describe: Any = None, *, cache: Any = 0, shared: ValueCache | None = None, **arguments: Any
    ) -> None:
        self.pipe = Pipeline(batch_size=BATCH, num_threads=2, device_id=0, seed=3, cache=cache)
        self.pipe._internals.cache = shared
        with self.pipe:
            images = fn.decoders.image(fn.external_source(name="data"), device="mixed", **arguments)
            outputs = images if describe is None else describe(images)
            self.pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
        self.pipe.build()
        _pipes.append(self.pipe)

    def epochs(self, samples: Samples, epochs: int = 3) -> list[Any]:
        """Return all results of shuffled epochs."""
        results = []
        for epoch in range(epochs):
            order = np.random.default_rng(epoch).permutation(len(samples)).tolist()
            for begin in range(0, len(order), BATCH):
                results += self.batch([samples[index] for index in order[begin : begin + BATCH]])
        return results

    def batch(self, samples: Samples) -> list[Any]:
        outputs = [each.as_cpu() for each in self.pipe.run(data=list(samples))]
        return [(each.layout(), [np.array(sample) for sample in each]) for each in outputs]

    @property
    def report(self) -> dict[str, Any]:
        executor = self.pipe._internals.executor
        assert executor is not None
        return dict(total_report(executor.caches))


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
def test_results_are_those_without_a_cache(describe: Any, arguments: Any, files: Samples) -> None:
    run = GpuRun(describe, cache_size=4, **arguments)
    check_equal(run.epochs(files), GpuRun(describe).epochs(files))
    epochs = 1 if arguments.get("cache_type") == "largest" else 2
    assert run.report["cache_hits"] == epochs * len(files)
    assert run.report["cache_misses"] == (3 - epochs) * len(files)


def test_images_of_one_size_have_the_bits_of_those_without_a_cache(files: Samples) -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (4, 200, 150, 3), np.uint8)
    samples = [encode(kind, each) for each in pixels for kind in ("JPEG", "PNG", "JPEG2000")]

    def describe(images: Any) -> Any:
        return images, fn.resize(images, size=(60, 40)), fn.crop_mirror_normalize(images, crop=(50, 50), std=[3.0])

    check_equal(GpuRun(describe, cache_size=4).epochs(samples), GpuRun(describe).epochs(samples))


@pytest.mark.parametrize(("kind", "dtype"), [("threshold", types.UINT8), ("largest", types.UINT16)])
def test_small_cache_keeps_its_bound_and_the_bits(dtype: Any, kind: str, files: Samples) -> None:
    run = GpuRun(cache_size=1, cache_type=kind, dtype=dtype)
    samples = [*files, *files[:5], *files[::-1]]
    check_equal(run.epochs(samples, 4), GpuRun(dtype=dtype).epochs(samples, 4))
    assert 0 < run.report["cache_bytes"] <= run.report["cache_limit"] == 1 << 20
    assert run.report["cache_hits"] > 0


def test_threshold_is_the_size_that_results_exceed(files: Samples) -> None:
    sizes = [sample.nbytes for _, samples in GpuRun().epochs(files, 1) for sample in samples]
    run = GpuRun(cache_size=4, cache_threshold=sorted(sizes)[5])
    run.epochs(files, 2)
    assert run.report["cache_values"] == run.report["cache_hits"] == len(files) - 6


def test_largest_results_are_kept(files: Samples) -> None:
    sizes = sorted([sample.nbytes for _, samples in GpuRun().epochs(files, 1) for sample in samples], reverse=True)
    fitting = int((np.cumsum(sizes) <= 1 << 20).sum())
    run = GpuRun(cache_size=1, cache_type="largest")
    run.epochs(files, 3)
    values = run.report["cache_values"]
    assert fitting - 1 <= values <= fitting < len(files)  # a value needs a few bytes more
    assert run.report["cache_bytes"] >= sum(sizes[:values])


def test_damaged_images_arent_kept_and_errors_are_those_without_a_cache(files: Samples) -> None:
    damaged = [np.frombuffer(b"\x89PNG\r\n\x1a\n" + bytes(40), np.uint8), files[0][:50]]
    batch = [files[1], damaged[0], files[2], damaged[1], files[3]]
    run, plain = GpuRun(cache_size=4, cache="10MB"), GpuRun()
    for first in (files[:5], batch, batch):
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
    check_equal(run.epochs(files), plain.epochs(files))
    assert run.report["cache_values"] <= 2 * len(files)


def test_images_that_depend_on_others_of_their_batch_arent_kept(
    files: Samples, device: str, monkeypatch: pytest.MonkeyPatch
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
    samples = files[:8]
    check_equal(run.batch([*samples[:4], *samples[:4]]), GpuRun().batch([*samples[:4], *samples[:4]]))
    assert run.report["cache_values"] == 0
    fails[0] = False
    run.batch(samples)
    assert run.report["cache_values"] == 8


def test_cores_images_are_kept_on_the_host(files: Samples) -> None:
    run = GpuRun(resized, cache="10MB")
    check_equal(run.epochs(files), GpuRun(resized).epochs(files))
    on_cores = run.report["cache_values"]
    assert 3 <= on_cores < len(files)
    assert run.report["cache_hits"] == 2 * on_cores


def test_pipelines_on_the_cpu_find_what_cores_decoded_for_a_gpu(files: Samples) -> None:
    shared = ValueCache(10 << 20)
    gpu, cpu = GpuRun(shared=shared, hw_decoder_load=0.3), Run(fn.decoders.image, shared=shared)
    gpu.epochs(files, 1)
    on_cores = shared.report()["cache_values"]
    check_equal(cpu.epochs(files, 1), Run(fn.decoders.image, 0).epochs(files, 1))
    assert shared.report()["cache_hits"] == on_cores >= 3
    cpu.pipe.close()


def test_decoders_with_equal_arguments_share_a_cache(files: Samples) -> None:
    one, same, other = (GpuRun(cache_size=size) for size in (4, 4, 5))
    check_equal(one.epochs(files, 1), same.epochs(files, 1))
    assert one.report == same.report
    assert one.report["cache_hits"] == len(files)
    other.epochs(files, 1)
    assert other.report["cache_hits"] == 0


def test_stream_waits_for_what_another_one_has_written(
    files: Samples, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device != "host":
        pytest.skip("needs a stream that records its waits")
    from tests.host_cupy import Event, Stream

    done, waited = [False], []
    monkeypatch.setattr(Event, "done", property(lambda self: done[0]))
    monkeypatch.setattr(Stream, "wait_event", lambda self, event: waited.append(event))
    run = GpuRun(cache_size=4)
    run.batch(files[:8])
    assert waited == []
    expected = GpuRun().batch(files[:8])
    check_equal(run.batch(files[:8]), expected)
    assert len(waited) == 1
    done[0] = True
    check_equal(run.batch(files[:8]), expected)
    assert len(waited) == 1


def test_memory_that_a_batch_reads_isnt_given_to_other_values(
    files: Samples, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if device != "host":
        pytest.skip("needs a stream whose work never ends")
    from tests.host_cupy import Event

    run = GpuRun(cache_size=1)
    run.batch(files[:2])
    executor: Any = run.pipe._internals.executor
    cached = executor.program.cached[0].cache
    before = cached.report()["cache_bytes"]
    monkeypatch.setattr(Event, "done", False)
    run.batch(files[:2])
    cached._memory._entries.clear()
    assert cached._memory._allocator.used > 0.9 * before
    monkeypatch.setattr(Event, "done", True)
    run.batch(files[4:5])  # the device releases what earlier batches have read
    run.batch(files[4:5])
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


def test_explanation_names_what_is_kept(files: Samples) -> None:
    text = GpuRun(cache_size=4, cache="10MB").pipe.explain()
    assert "fn.decoders.image" in text
    assert "only for samples that aren't in the cache" in text
    assert "cached: images that cores decode for fn.decoders.image" in text
    assert "With cache_size, it keeps results" in GpuRun(cache="10MB").pipe.explain()


def test_debug_says_what_the_cache_has_done(files: Samples, caplog: pytest.LogCaptureFixture) -> None:
    run = GpuRun(cache_size=4, cache_debug=True)
    run.batch(files[:3])
    run.pipe.close()
    assert "the cache of fn.decoders.image on GPU 0: {'hits': 0, 'misses': 3" in caplog.text
