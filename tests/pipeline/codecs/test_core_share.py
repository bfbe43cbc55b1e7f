"""Idle cores decode some of the images of a batch beside the JPEG engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn
from pipeline._codecs import EncodedBatch, IdleCores, ImageBatchDecoder, images
from pipeline._codecs.core_share import CoreShare
from pipeline._concurrency.thread_pool import ThreadPool
from pipeline._imaging import jpeg_region
from pipeline._operators.decoding.image import MixedImageDecoder
from pipeline.types import BGR, GRAY, RGB
from tests import host_cupy
from tests.pipeline.codecs.test_headers import Bytes, jpeg
from tests.pipeline.kernels.emulator import COMPILER

pytestmark = pytest.mark.skipif(
    COMPILER is None or not jpeg_region._is_loaded(), reason="needs a C++ compiler and nvImageCodec"
)


class Engine:
    """Stands for the JPEG engine: decodes to RGB, on the calling thread."""

    is_busy = True

    def __init__(self, device_id: int, stream_priority: int) -> None:
        self.counts: list[int] = []

    def reserve(self, *arguments: Any) -> None: ...

    def decode(self, pointers: Any, lengths: Any, starts: Any, target: Any, output_type: Any, stream: Any) -> None:
        self.counts.append(len(pointers))
        if output_type == RGB:
            windows = np.concatenate([starts, target.shapes[:, :2]], axis=1)
            done = jpeg_region.decode_regions(pointers, lengths, windows, target.pointers, fancy_upsampling=False)
            assert done.all()

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(images, "_open_engine", Engine)
    monkeypatch.setattr(Engine, "is_busy", True)
    with host_cupy.installed():
        yield


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    with ThreadPool(3, "test") as pool:
        yield pool


def photographs(count: int) -> list[Bytes]:
    return [jpeg(90 + number, 70 + 2 * number) for number in range(count)]


def decode(files: list[Bytes], pool: ThreadPool | None, **options: Any) -> tuple[list[Any], int, list[Any]]:
    """Return the images, the number that the engine decoded, and what was kept for the GPU."""
    import cupy

    kept: list[Any] = []
    cores = None if pool is None else IdleCores(pool, kept.append)
    with ImageBatchDecoder(0, 1) as decoder:
        decoder._share.value = 0.4
        stream = cupy.cuda.Stream()
        batch = decoder.decode(EncodedBatch.from_arrays(files), stream, cores=cores, **options)
        assert not batch.failures
        pixels = [None if array is None else array.get() for array in batch.arrays()]
        engine: Any = decoder._engine
        batch.release()
        return pixels, engine.counts[0], kept


@pytest.mark.parametrize("windows", [False, True])
def test_images_of_cores_are_those_of_the_engine(pool: ThreadPool, windows: bool) -> None:
    files = photographs(20)
    regions = np.array([[2, 3, 40 + number, 50 + number] for number in range(20)]) if windows else None
    expected, all_of_them, nothing = decode(files, None, regions=regions)
    found, some, kept = decode(files, pool, regions=regions)
    assert (all_of_them, nothing) == (20, [])
    assert some == 12
    assert len(kept) == 1, "pinned memory lives until the GPU has copied it"
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_idle_engine_decodes_alone(pool: ThreadPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "is_busy", False)
    assert decode(photographs(20), pool)[1] == 20


@pytest.mark.parametrize("output_type", [BGR, GRAY])
def test_other_colors_are_for_the_engine(pool: ThreadPool, output_type: Any) -> None:
    assert decode(photographs(20), pool, output_type=output_type)[1] == 20


def test_images_before_one_of_another_kind_are_for_the_engine(pool: ThreadPool) -> None:
    files = photographs(20)
    files[16] = jpeg(80, 80, mode="L")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "decode", lambda self, pointers, *rest: self.counts.append(len(pointers)))
        assert decode(files, pool)[1] == 17


def test_images_that_cores_cannot_decode_are_for_other_decoders(
    pool: ThreadPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = photographs(20)
    others: list[list[int]] = []
    original = ImageBatchDecoder._decode_others

    def record(self: ImageBatchDecoder, encoded: Any, which: Any, *rest: Any) -> Any:
        others.append(which.tolist())
        with self._codec_lock:
            self._codec = self._codec or images.GpuDecoder(None, 1)
        return original(self, encoded, which, *rest)

    monkeypatch.setattr(ImageBatchDecoder, "_decode_others", record)
    tiny = np.array([[-1] * 4] * 18 + [[0, 0, 3, 3]] + [[-1] * 4])  # cores decline small windows
    decode(files, pool, regions=tiny)
    assert others == [[18]]


def test_share_follows_the_times() -> None:
    share = CoreShare()
    first = share.value
    for _ in range(30):
        share.learn(engine=1.0, cores=share.value / 0.2, on_core=1.0)  # cores decode a fifth in the engine's time
    assert 0.15 < share.value < 0.25
    assert share.count(256) == round(256 * share.value)
    for _ in range(10):
        share.learn(engine=1.0, cores=0.5, on_core=0.3)  # other programs need the cores
    assert share.value == first


@pytest.mark.parametrize(
    ("options", "decoding", "uses"),
    [({}, {}, True), ({"deterministic": True}, {}, False), ({}, {"hw_decoder_load": 1.0}, False)],
    ids=["default", "deterministic", "load of 1"],
)
def test_deterministic_pipelines_decode_without_cores(
    options: dict[str, Any], decoding: dict[str, Any], uses: bool
) -> None:
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=0, **options)
    with pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(name="encoded"), device="mixed", **decoding))
    pipe.build()
    (operator,) = [
        each for each in pipe._internals.runner.executor._operators.values() if isinstance(each, MixedImageDecoder)
    ]
    pipe.close()
    assert operator._uses_cores is uses
