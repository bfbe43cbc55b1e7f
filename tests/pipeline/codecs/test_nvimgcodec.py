"""The decoder against pillow, on the GPU and on the host with nvImageCodec's CPU decoders."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dali_proxy.pipeline._codecs import DecodedBatch, GpuDecoder, missing_codec_reason
from pipeline.errors import DeviceError, PipelineError
from pipeline.types import BGR, GRAY, RGB, YCbCr

pytestmark = pytest.mark.skipif(missing_codec_reason() is not None, reason=str(missing_codec_reason()))


Bytes = npt.NDArray[np.uint8]


def sample_image(seed: int, height: int, width: int) -> npt.NDArray[np.uint8]:
    """Return smooth noise of little colour: decoders may differ in how they upsample chroma."""
    rng = np.random.default_rng(seed)
    shape = (height // 24 + 2, width // 24 + 2)
    small = rng.integers(30, 220, (*shape, 1)) + rng.integers(-30, 31, (*shape, 3))
    smooth = Image.fromarray(small.clip(0, 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(smooth)


def encode(pixels: npt.NDArray[np.uint8], orientation: int = 1, **options: Any) -> npt.NDArray[np.uint8]:
    exif = Image.Exif()
    exif[0x112] = orientation
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, **{"format": "JPEG", "quality": 92, "exif": exif, **options})
    return np.frombuffer(buffer.getvalue(), np.uint8)


def with_pillow(data: npt.NDArray[np.uint8], mode: str = "RGB") -> npt.NDArray[np.uint8]:
    from PIL import ImageOps

    decoded = ImageOps.exif_transpose(Image.open(io.BytesIO(data.tobytes())))
    return np.atleast_3d(np.asarray(decoded.convert(mode)))


class Decoding:
    """A decoder, its stream, and its images as NumPy arrays."""

    def __init__(self, device_id: int | None) -> None:
        self.decoder = GpuDecoder(device_id, num_threads=2)
        self.stream = None
        if device_id is not None:
            import cupy

            self.stream = cupy.cuda.Stream(non_blocking=True)

    def decode(self, encoded: list[npt.NDArray[np.uint8]], **options: Any) -> DecodedBatch:
        return self.decoder.decode(encoded, self.stream, **options)

    def images(self, batch: DecodedBatch) -> list[Any]:
        if self.stream is None:
            return [None if array is None else np.array(array) for array in batch.arrays()]
        self.stream.synchronize()
        return [None if array is None else array.get() for array in batch.arrays()]


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)])
def decoding(request: pytest.FixtureRequest) -> Iterator[Decoding]:
    if request.param == "gpu" and not pytest.importorskip("cupy").cuda.is_available():
        pytest.skip("needs a CUDA device")
    made = Decoding(0 if request.param == "gpu" else None)
    with made.decoder:
        yield made


def check_close(actual: Any, expected: npt.NDArray[np.uint8], mean: float = 1.5, worst: int = 40) -> None:
    assert actual.shape == expected.shape
    difference = np.abs(actual.astype(int) - expected)
    assert difference.mean() <= mean, f"mean difference {difference.mean():.2f}, worst {difference.max()}"
    assert difference.max() <= worst, f"mean difference {difference.mean():.2f}, worst {difference.max()}"


def test_ragged_batch_of_several_kinds(decoding: Decoding) -> None:
    sizes = [(64, 80), (97, 51), (240, 320), (33, 200)]
    kinds = [{}, {"progressive": True}, {"subsampling": 0}, {"subsampling": 1}]
    encoded = [encode(sample_image(i, *size), **kind) for i, (size, kind) in enumerate(zip(sizes, kinds, strict=True))]
    batch = decoding.decode(encoded)
    assert batch.failures == ()
    for data, decoded in zip(encoded, decoding.images(batch), strict=True):
        check_close(decoded, with_pillow(data))


@pytest.mark.parametrize(("output_type", "mode"), [(RGB, "RGB"), (BGR, "RGB"), (GRAY, "L")])
def test_output_types(decoding: Decoding, output_type: Any, mode: str) -> None:
    encoded = [encode(sample_image(1, 70, 90)), encode(sample_image(2, 40, 30)[..., 0])]
    for data, decoded in zip(encoded, decoding.images(decoding.decode(encoded, output_type=output_type)), strict=True):
        expected = with_pillow(data, mode)
        check_close(decoded, expected[..., ::-1] if output_type == BGR else expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_and_regions(decoding: Decoding, orientation: int) -> None:
    data = encode(sample_image(orientation, 64, 96), orientation)
    region = (10, 7, 42, 55)
    whole, part = decoding.images(decoding.decode([data, data], regions=[None, region]))
    expected = with_pillow(data)
    check_close(whole, expected)
    check_close(part, expected[10:42, 7:55])
    (raw,) = decoding.images(decoding.decode([data], use_exif=False))
    assert raw.shape == (64, 96, 3)


def test_failures_belong_to_their_samples(decoding: Decoding) -> None:
    good = encode(sample_image(3, 48, 48))
    broken = [good[:25], np.zeros(64, np.uint8), np.zeros(0, np.uint8), good.astype(np.float32)]
    batch = decoding.decode([good, *broken, good], regions=[None] * 5 + [(0, 0, 49, 20)])
    assert [failure.sample for failure in batch.failures] == [1, 2, 3, 4, 5]
    assert "00 00 00 00" in str(batch.failures[1].error)
    assert "float32" in str(batch.failures[3].error)
    assert "(0, 0, 49, 20)" in str(batch.failures[4].error)
    decoded = decoding.images(batch)
    check_close(decoded[0], with_pillow(good))
    assert decoded[1:] == [None] * 5
    assert batch.samples.shapes[1].tolist() == [0, 0, 3]


@pytest.mark.parametrize("at", [slice(22, 26), slice(26, 30), slice(38, 40)])  # in the header: tiles, components
def test_header_that_divides_by_zero_is_a_failure(decoding: Decoding, at: slice) -> None:
    """nvImageCodec 0.9 ends the process."""
    data = encode(sample_image(5, 40, 40), format="JPEG2000").copy()
    header = data[data.tobytes().index(b"\xff\x4f\xff\x51") + 2 :]
    header[at] = 0
    (failure,) = decoding.decode([data]).failures
    assert "damaged JPEG 2000" in str(failure.error)


def test_batch_of_failures_only(decoding: Decoding) -> None:
    batch = decoding.decode([np.zeros(10, np.uint8)] * 3)
    assert len(batch.failures) == 3
    assert len(batch.samples) == 3


def test_released_memory_is_reused_and_pixels_stay_right(decoding: Decoding) -> None:
    addresses: list[set[int]] = []
    for round_ in range(4):
        encoded = [encode(sample_image(10 * round_ + i, 64, 64 + 16 * i)) for i in range(4 - round_ % 2)]
        batch = decoding.decode(encoded)
        addresses.append(set(batch.samples.pointers.tolist()))
        for data, decoded in zip(encoded, decoding.images(batch), strict=True):
            check_close(decoded, with_pillow(data))
        batch.release()
        batch.release()
    assert addresses[2] & addresses[3]


def test_batches_in_flight_do_not_share_memory(decoding: Decoding) -> None:
    first, second = encode(sample_image(20, 50, 60)), encode(sample_image(21, 50, 60))
    batches = [decoding.decode([data]) for data in (first, second)]
    for data, batch in zip((first, second), batches, strict=True):
        check_close(decoding.images(batch)[0], with_pillow(data))


def test_misuse_is_an_error(decoding: Decoding) -> None:
    good = encode(sample_image(4, 32, 32))
    with pytest.raises(PipelineError, match="YCbCr"):
        decoding.decode([good], output_type=YCbCr)
    with pytest.raises(PipelineError, match="2 regions for 1"):
        decoding.decode([good], regions=[None, None])
    decoding.decoder.close()
    with pytest.raises(PipelineError, match="closed"):
        decoding.decode([good])


def test_missing_device_is_one_clear_error() -> None:
    with pytest.raises(DeviceError, match="device"):
        GpuDecoder(99, num_threads=1)


@pytest.mark.gpu
def test_decoding_and_resizing_on_a_stream_without_waiting() -> None:
    """Decode and resize ten batches in a row on one stream, and read them back once at the end."""
    cupy = pytest.importorskip("cupy")
    if not cupy.cuda.is_available():
        pytest.skip("needs a CUDA device")
    from dali_proxy.pipeline._cuda.context import KernelContext
    from dali_proxy.pipeline._kernels import Samples
    from tests.pipeline.kernels.runners import cropped_resized_normalized

    encoded = [[encode(sample_image(100 + 8 * b + i, 120 + 8 * i, 160)) for i in range(8)] for b in range(10)]
    stream, targets = cupy.cuda.Stream(non_blocking=True), []
    with KernelContext(0) as context, GpuDecoder(0, num_threads=2) as decoder:
        for batch_bytes in encoded:
            batch = decoder.decode(batch_bytes, stream)
            with stream:
                targets.append(cupy.empty((8, 3, 60, 80), cupy.float32))
            target = Samples.dense(targets[-1])
            context.run(cropped_resized_normalized(batch.samples, target, scale=1 / 255), stream)
            batch.release()
        stream.synchronize()
        for batch_bytes, target in zip(encoded, targets, strict=True):
            for data, out in zip(batch_bytes, target.get(), strict=True):
                full = Image.fromarray(with_pillow(data)).resize((80, 60), Image.Resampling.BILINEAR)
                check_close(np.round(out.transpose(1, 2, 0) * 255), np.asarray(full), mean=1.5, worst=30)
