"""The engine and nvImageCodec together decode the same pixels as pillow, in the order of the batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._codecs import EncodedBatch, ImageBatchDecoder, missing_codec_reason, nvjpeg
from pipeline.types import BGR, GRAY, RGB
from tests.pipeline.codecs.test_nvimgcodec import Bytes, check_close, encode, sample_image, with_pillow

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(missing_codec_reason() is not None, reason=str(missing_codec_reason())),
]


class Decoding:
    """A decoder and a stream."""

    def __init__(self) -> None:
        self.cupy = pytest.importorskip("cupy")
        self.decoder = ImageBatchDecoder(0, num_threads=2)
        self.stream = self.cupy.cuda.Stream(non_blocking=True)

    def images(self, encoded: list[Bytes], **options: Any) -> tuple[list[Any], Any]:
        batch = self.decoder.decode(EncodedBatch.from_arrays(encoded), self.stream, **options)
        self.stream.synchronize()
        arrays = [None if array is None else array.get() for array in batch.arrays()]
        batch.release()
        return arrays, batch.failures


@pytest.fixture
def decoding() -> Iterator[Decoding]:
    made = Decoding()
    with made.decoder:
        yield made


def mixture() -> list[Bytes]:
    kinds: list[dict[str, Any]] = [
        {}, {"progressive": True}, {"subsampling": 0}, {"orientation": 6}, {"subsampling": 1},
        {"progressive": True, "subsampling": 1}, {"restart_marker_rows": 1},
    ]  # fmt: skip
    return [encode(sample_image(n, 64 + 13 * n, 150 - 7 * n), **kinds[n % len(kinds)]) for n in range(14)]


def test_mixtures_of_images(decoding: Decoding) -> None:
    made, failures = decoding.images(mixture())
    assert not failures
    for array, data in zip(made, mixture(), strict=True):
        check_close(array, with_pillow(data))


def test_gpu_without_an_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    bind = nvjpeg._bind

    class Library:
        """libnvjpeg, whose engine isn't there."""

        def __init__(self, library: Any) -> None:
            self._library = bind(library)

        def __getattr__(self, name: str) -> Any:
            return (lambda *arguments: 7) if name == "nvjpegCreateEx" else getattr(self._library, name)

    monkeypatch.setattr(nvjpeg, "_bind", Library)
    made = Decoding()
    with made.decoder:
        assert made.decoder._engine is None
        images, failures = made.images(mixture())
    assert not failures
    for array, data in zip(images, mixture(), strict=True):
        check_close(array, with_pillow(data))


def test_nvimgcodec_is_loaded_on_demand(decoding: Decoding) -> None:
    if decoding.decoder._engine is None:
        pytest.skip("needs a JPEG engine")
    decoding.images([encode(sample_image(1, 70, 90))])
    assert decoding.decoder._codec is None
    decoding.images([encode(sample_image(1, 70, 90), progressive=True)])
    assert decoding.decoder._codec is not None


def test_output_types(decoding: Decoding) -> None:
    data = encode(sample_image(1, 70, 90))
    for output_type, expected in ((BGR, with_pillow(data)[..., ::-1]), (GRAY, with_pillow(data, "L"))):
        (array,), _ = decoding.images([data], output_type=output_type)
        check_close(array, expected)


def test_red_green_and_blue(decoding: Decoding) -> None:
    data = [encode(sample_image(n, 64, 80), keep_rgb=n % 2 == 1, subsampling=0) for n in range(4)]
    made, failures = decoding.images(data)
    assert [failure.sample for failure in failures] == [1, 3]
    assert all("red, green and blue" in str(failure.error) for failure in failures)
    for array, one in zip(made[::2], data[::2], strict=True):
        check_close(array, with_pillow(one))


def test_regions(decoding: Decoding) -> None:
    encoded = mixture()
    regions = np.array([[3, 5, 33, 38] if n % 3 else [-1] * 4 for n in range(len(encoded))])
    made, _ = decoding.images(encoded, regions=regions)
    whole, _ = decoding.images(encoded)
    for n, (array, image_) in enumerate(zip(made, whole, strict=True)):
        check_close(array, image_[3:33, 5:38] if n % 3 else image_)


def test_bad_image_is_one_failure(decoding: Decoding) -> None:
    encoded = mixture()
    encoded[4] = encoded[4][:30].copy()
    encoded[5] = np.arange(50, dtype=np.uint8)
    made, failures = decoding.images(encoded)
    assert [failure.sample for failure in failures] == [4, 5]
    assert [n for n, array in enumerate(made) if array is None] == [4, 5]
    check_close(made[6], with_pillow(encoded[6]))


def test_images_that_the_engine_refuses_do_not_cost_others(decoding: Decoding) -> None:
    # The data that the header promises is missing: the engine fails for the whole batch, nvImageCodec for this image.
    encoded = mixture()
    bad = encoded[0].copy()
    scan = bytes(bad).index(b"\xff\xda")
    bad[scan + 20 : -2] = 0xFF
    encoded[0] = bad
    made, _ = decoding.images(encoded)
    check_close(made[2], with_pillow(encoded[2]))
    made, failures = decoding.images(mixture())
    assert not failures
    check_close(made[0], with_pillow(mixture()[0]))


def test_memory_is_reused(decoding: Decoding) -> None:
    decoding.images(mixture())
    pool = decoding.cupy.get_default_memory_pool()
    before = pool.total_bytes()
    for _ in range(20):
        decoding.images(mixture())
    assert pool.total_bytes() == before


def test_engine_is_not_used_if_chroma_is_interpolated(decoding: Decoding) -> None:
    with ImageBatchDecoder(0, num_threads=1, fancy_upsampling=True) as fancy:
        assert fancy._engine is None


@pytest.mark.parametrize("streams", [1, 3])
def test_threads_share_a_decoder(decoding: Decoding, streams: int) -> None:
    """The batches have many sizes and both types, and include images that the engine refuses."""
    errors: list[BaseException] = []
    shared = [decoding.cupy.cuda.Stream(non_blocking=True) for _ in range(streams)]

    def work(seed: int) -> None:
        try:
            stream = shared[seed // 100 % streams]
            # nvImageCodec decodes the images that need a rotation.
            data = [encode(sample_image(seed + n, 120, 140), orientation=1 + 5 * (n % 2)) for n in range(8)]
            bad = data[2].copy()
            scan = bytes(bad).index(b"\xff\xda")
            bad[scan + 20 : -2] = 0xFF
            for turn in range(20):
                some = [*data[: 3 + turn % 6], *([bad] if turn % 7 == 6 else [])]
                mode, kind = ("L", GRAY) if turn % 5 == 4 else ("RGB", RGB)
                batch = decoding.decoder.decode(EncodedBatch.from_arrays(some), stream, output_type=kind)
                stream.synchronize()
                for array, one in zip(batch.arrays(), some, strict=True):
                    if one is not bad:
                        check_close(array.get(), with_pillow(one, mode))
                batch.release()
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors
