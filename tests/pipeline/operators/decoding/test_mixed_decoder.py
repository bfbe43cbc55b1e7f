"""Decoders with device="mixed" compared with the CPU's, in all formats.

Without a GPU, nvImageCodec's decoders for the CPU stand for the GPU's libraries, and host memory for its memory: see
`tests.host_cupy`.

The GPU repeats chroma where the CPU interpolates it, and JPEGs' other pixels may differ by 3. Files of 16 bits, and
colours converted to grey, may be rounded to the other neighbour. All other pixels are equal.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._codecs import EncodedBatch, GpuDecoder, missing_codec_reason
from dali_proxy.pipeline._operators.decoding import image
from pipeline import Pipeline, fn
from pipeline.errors import OperatorError
from pipeline.types import FLOAT, GRAY, UINT8, UINT16
from tests import host_cupy
from tests.pipeline.imaging.images import encodings, smooth, with_orientation
from tests.pipeline.kernels import emulator
from tests.pipeline.operators.both import Array, run_ours

pytestmark = pytest.mark.skipif(missing_codec_reason() is not None, reason=str(missing_codec_reason()))

ENCODED = {name: np.frombuffer(data, np.uint8) for name, data in encodings().items()}
SUBSAMPLED = ("jpeg 420", "jpeg 422", "jpeg 440", "jpeg 411", "jpeg progressive")
#: JPEGs that only the CPU decodes.
FOR_CPU = ("jpeg rgb", "jpeg cmyk", "jpeg cmyk, not adobe", "jpeg ycck")


class HostDecoder:
    """Stands for the decoder of a GPU."""

    priorities: ClassVar[list[int]] = []

    def __init__(
        self, device_id: int, num_threads: int, hw_load: float, *, fancy_upsampling: bool, stream_priority: int
    ) -> None:
        self.priorities.append(stream_priority)
        self._codec = GpuDecoder(None, num_threads, fancy_upsampling=fancy_upsampling)

    def reserve(self, batches: int, batch_size: int, output_type: Any) -> None:
        pass

    def decode(self, encoded: EncodedBatch, stream: Any, **options: Any) -> Any:
        return self._codec.decode(encoded.arrays, headers=encoded.headers, **options)

    def close(self) -> None:
        self._codec.close()


@pytest.fixture(params=["host", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "gpu":
        yield
        return
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    monkeypatch.setattr(image, "ImageBatchDecoder", HostDecoder)
    with host_cupy.installed():
        yield


def on_both(feed: list[Array], operator: str = "image", **arguments: Any) -> Iterator[tuple[Array, Array]]:
    """Return the images of the CPU and of the GPU."""
    cpu, gpu = (
        run_ours(
            lambda fn, _, x, d=device: getattr(fn.decoders, operator)(x, device=d, **arguments), feed, device_id=0
        )[0].samples
        for device in ("cpu", "mixed")
    )
    return zip(cpu, gpu, strict=True)


def test_streams_have_the_priority_of_the_pipeline() -> None:
    if image.ImageBatchDecoder is not HostDecoder:
        pytest.skip("needs a decoder that tells its priority")
    HostDecoder.priorities.clear()
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=0, default_cuda_stream_priority=-1)
    with pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(name="encoded"), device="mixed"))
    pipe.build()
    pipe.close()
    assert HostDecoder.priorities == [-1]


@pytest.mark.parametrize("output_type", ["RGB", "BGR", "GRAY", "YCbCr", "ANY_DATA"])
def test_formats(output_type: str) -> None:
    from pipeline import types

    both = on_both([*ENCODED.values()], output_type=getattr(types, output_type))
    for name, (cpu, gpu) in zip(ENCODED, both, strict=True):
        assert gpu.shape == cpu.shape, name
        difference = np.abs(gpu.astype(int) - cpu)
        largest, mean = 1.0, 0.5
        if name in FOR_CPU or output_type in ("YCbCr", "ANY_DATA"):
            largest, mean = 0, 0
        elif name in SUBSAMPLED and output_type != "GRAY":
            largest, mean = 48, 9
        elif name.startswith("jpeg "):
            largest, mean = 3, 1
        assert difference.max() <= largest, f"{name}: {difference.max()}"
        assert difference.mean() <= mean, f"{name}: {difference.mean():.2f}"


@pytest.mark.parametrize("dtype", [FLOAT, UINT16])
def test_other_dtypes_keep_the_values_of_the_file(dtype: Any) -> None:
    names = ("png 16 rgb", "jpeg 444", "tiff 16 rgb", "ppm 16", "jpeg rgb", "tiff float rgb", "jpeg2000 16 gray")
    for name, (cpu, gpu) in zip(names, on_both([ENCODED[name] for name in names], dtype=dtype), strict=True):
        difference = np.abs(gpu.astype(np.float64) - cpu).max()
        scale = 1.0 if dtype == FLOAT else np.iinfo(cpu.dtype).max
        assert difference <= (3.01 / 255 * scale if name == "jpeg 444" else 0), name


@pytest.mark.parametrize("dtype", [UINT8, UINT16])
def test_batches_that_only_the_cpu_decodes(dtype: Any) -> None:
    for cpu, gpu in on_both([ENCODED[name] for name in FOR_CPU], dtype=dtype):
        np.testing.assert_array_equal(cpu, gpu)


def test_indices_of_a_palette() -> None:
    names = ("png palette", "bmp palette", "jpeg 444", "png palette 4 bits", "png rgb")
    feed = [ENCODED[name] for name in names]
    for name, (cpu, gpu) in zip(names, on_both(feed, output_type=GRAY, palette_indices=True), strict=True):
        assert np.abs(gpu.astype(int) - cpu).max() <= (3 if name == "jpeg 444" else 0), name
        if "palette" in name:
            assert np.array_equal(gpu[..., 0], np.asarray(Image.open(io.BytesIO(ENCODED[name].tobytes()))))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("adjust", [True, False])
def test_orientations_and_windows(kind: str, adjust: bool) -> None:
    options = {"subsampling": 0} if kind == "JPEG" else {}
    feed = [
        *(np.frombuffer(with_orientation(smooth(), kind, value, **options), np.uint8) for value in range(1, 9)),
        ENCODED["jpeg cmyk"],
    ]
    windows: dict[str, dict[str, Any]] = {
        "image": {},
        "image_crop": {"crop": (11, 13), "crop_pos_x": 0.9, "crop_pos_y": 0.2},
        "image_slice": {"rel_start": (0.25, 0.5), "rel_shape": (0.5, 0.25), "axis_names": "HW"},
        "image_random_crop": {"seed": 3},
    }
    for operator, arguments in windows.items():
        for cpu, gpu in on_both(feed, operator, adjust_orientation=adjust, **arguments):
            assert gpu.shape == cpu.shape
            assert np.abs(gpu.astype(int) - cpu).max() <= (3 if kind == "JPEG" else 0)


def test_bad_images_are_named_with_the_reasons_of_the_cpu() -> None:
    good, noise = ENCODED["png rgb"], np.arange(200, dtype=np.uint8)
    bad = [good, noise, ENCODED["jpeg 420"][:-50], np.zeros(0, np.uint8), ENCODED["jpeg cmyk"][:400]]
    with pytest.raises(OperatorError) as caught:
        run_ours(lambda fn, _, x: fn.decoders.image(x, device="mixed"), bad, device_id=0)
    assert [failure.sample for failure in caught.value.failures] == [1, 2, 3, 4]
    assert "not an image" in str(caught.value.failures[0].error)
    assert "truncated" in str(caught.value.failures[1].error)


def test_batches_are_released_after_their_images() -> None:
    """The images of the libraries and those of the CPU are a batch; its memory is reused when it has no readers."""
    import pipeline
    from pipeline import fn

    kinds = [ENCODED[name] for name in ("png rgb", "jpeg rgb", "bmp rgb", "jpeg cmyk")]
    with pipeline.Pipeline(batch_size=4, num_threads=1, device_id=0) as pipe:
        pipe.set_outputs(fn.decoders.image(fn.external_source(name="x"), device="mixed"))
    outputs = [pipe.run(x=kinds[turn:] + kinds[:turn])[0] for turn in range(4)]
    expected = [output.as_cpu().at(0) for output in outputs]
    for turn, output in enumerate(outputs):
        assert np.array_equal(output.as_cpu().at(0), expected[turn])
        assert np.array_equal(output.as_cpu().at((-turn) % 4), expected[0])
    pipe.close()
