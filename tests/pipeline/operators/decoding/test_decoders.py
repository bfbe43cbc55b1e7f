"""Decoders, peek_image_shape and io.file.read.

JPEG (not CMYK) and lossless formats are exact. Colour conversions to YCbCr and grey, CMYK, and dtypes that scale
values may round to the other neighbour: 1, or 1 part in 255 of the dtype's range in float32 precision.
"""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._operators.decoding.image_batches import encoded_batch
from pipeline.errors import OperatorError, PipelineError
from pipeline.tensors.cpu import TensorListCPU
from tests.pipeline.imaging.images import encodings, pillow, smooth, with_orientation
from tests.pipeline.operators.both import Array, compare, refused_by_both, run_ours

ENCODED = {name: np.frombuffer(data, np.uint8) for name, data in encodings().items()}
COMMON = ("jpeg 420", "jpeg 444", "jpeg progressive", "jpeg gray", "png rgb", "png rgba", "png gray", "webp lossy")


def encoded(*names: str) -> list[Array]:
    return [ENCODED[name] for name in names or COMMON]


@pytest.mark.parity
@pytest.mark.parametrize("output_type", ["RGB", "BGR"])
def test_common_formats_are_equal(output_type: str) -> None:
    compare(lambda fn, types, x: fn.decoders.image(x, output_type=getattr(types, output_type)), encoded())


@pytest.mark.parity
@pytest.mark.parametrize("output_type", ["GRAY", "YCbCr"])
def test_color_conversions(output_type: str) -> None:
    compare(lambda fn, types, x: fn.decoders.image(x, output_type=getattr(types, output_type)), encoded(), tolerance=1)


@pytest.mark.parity
def test_channels_are_kept_with_any_data() -> None:
    names = [name for name in COMMON if name != "jpeg gray"]  # DALI 2.4 writes out of bounds and may crash
    compare(lambda fn, types, x: fn.decoders.image(x, output_type=types.ANY_DATA), encoded(*names))


def test_gray_jpeg_is_kept_with_any_data() -> None:
    (kept, gray) = run_ours(
        lambda fn, types, x: tuple(fn.decoders.image(x, output_type=kind) for kind in (types.ANY_DATA, types.GRAY)),
        encoded("jpeg gray"),
    )
    assert kept.samples[0].shape == (30, 40, 1)
    assert np.array_equal(kept.samples[0], gray.samples[0])


@pytest.mark.parity
@pytest.mark.parametrize("dtype", ["UINT8", "INT8", "UINT16", "INT16", "INT32", "UINT32", "FLOAT"])
def test_dtypes_scale_to_their_range(dtype: str) -> None:
    tolerance = {"INT32": 300.0, "UINT32": 600.0, "FLOAT": 1e-6}.get(dtype, 1.0 if dtype != "UINT8" else 0.0)
    compare(
        lambda fn, types, x: fn.decoders.image(x, dtype=getattr(types, dtype)),
        encoded("jpeg 420", "png rgb"),
        tolerance=tolerance,
    )


@pytest.mark.parity
@pytest.mark.parametrize("adjust", [True, False])
def test_orientations(adjust: bool) -> None:
    feed = [np.frombuffer(with_orientation(smooth(), "JPEG", value), np.uint8) for value in range(1, 9)]
    compare(
        lambda fn, _, x: (
            fn.decoders.image(x, adjust_orientation=adjust),
            fn.peek_image_shape(x, adjust_orientation=adjust),
        ),
        feed,
    )


@pytest.mark.parity
@pytest.mark.parametrize("image_type", ["RGB", "GRAY", "ANY_DATA", "YCbCr"])
def test_peeked_shapes(image_type: str) -> None:
    compare(lambda fn, types, x: fn.peek_image_shape(x, image_type=getattr(types, image_type)), encoded())
    compare(lambda fn, types, x: fn.peek_image_shape(x, dtype=types.FLOAT), encoded())


@pytest.mark.parity
def test_bytes_come_in_any_shape() -> None:
    """The example of the proxy feeds samples of shape (1, N)."""
    data = ENCODED["jpeg 420"]
    for feed in (data[None], data[:, None], data.view(np.int8)):
        compare(lambda fn, _, x: fn.decoders.image(x), [feed, feed])


def test_dense_batch_of_bytes() -> None:
    data = ENCODED["jpeg 420"]
    (ours,) = run_ours(lambda fn, _, x: fn.decoders.image(x), np.stack([data, data]))
    assert ours.layout == "HWC"
    assert ours.samples[0].shape == smooth().shape


@pytest.mark.parity
@pytest.mark.parametrize(
    "bad", [np.zeros(0, np.uint8), np.arange(200, dtype=np.uint8), ENCODED["jpeg 420"][:60], ENCODED["jpeg 420"][:500]]
)
def test_bad_images_are_refused_by_name(bad: Array) -> None:
    good = ENCODED["png rgb"]
    error = refused_by_both(lambda fn, _, x: fn.decoders.image(x), [good, bad, good], match="for sample 1")
    assert isinstance(error, OperatorError)
    assert [failure.sample for failure in error.failures] == [1]


def test_failures_are_all_named_and_the_next_batch_arrives() -> None:
    import pipeline
    from pipeline import fn

    good, bad = ENCODED["jpeg 420"], np.frombuffer(b"dog/1.jpg", np.uint8)
    with pipeline.Pipeline(batch_size=4, num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.resize(fn.decoders.image(fn.external_source(name="x")), size=[8, 8]))
    with pytest.raises(OperatorError, match=r"known format: 9 bytes that begin with b'dog/1.jpg'") as caught:
        pipe.run(x=[bad, good, good, bad])
    assert [failure.sample for failure in caught.value.failures] == [0, 3]
    (made,) = pipe.run(x=[good] * 4)
    assert made.shape() == [(8, 8, 3)] * 4
    pipe.close()


@pytest.mark.parametrize("operator", ["decoders.image", "decoders.image_random_crop", "peek_image_shape"])
@pytest.mark.parametrize("shape", [(6, 8, 3), (6, 8)])
def test_decoded_pixels_are_an_error_that_says_what_to_pass(operator: str, shape: tuple[int, ...]) -> None:
    import pipeline
    from pipeline import fn

    good = ENCODED["jpeg 420"]
    with pipeline.Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(attrgetter(operator)(fn)(fn.external_source(name="x")))
    with pytest.raises(OperatorError, match=r"sample 0.*uint8 of shape \(6, 8.*path\.read_bytes\(\)"):
        pipe.run(x=[np.zeros(shape, np.uint8)] * 2)
    assert len(pipe.run(x=[good[None], good[:, None]])[0]) == 2  # rows and columns of bytes are accepted
    pipe.close()


def test_decoded_pixels_in_a_batch_for_the_gpu_are_named() -> None:
    with pytest.raises(OperatorError, match="decoded pixels") as caught:
        encoded_batch(TensorListCPU([np.zeros((1, 5), np.uint8), np.zeros((4, 5), np.uint8)], ""))
    assert [failure.sample for failure in caught.value.failures] == [1]
    with pytest.raises(OperatorError, match=r"an array of float32 of shape \(5,\)"):
        encoded_batch(TensorListCPU([np.zeros(5, np.float32)], ""))


@pytest.mark.parity
@pytest.mark.parametrize("dtype", [8, 10])  # FLOAT16, FLOAT64
def test_other_dtypes_are_refused(dtype: int) -> None:
    refused_by_both(lambda fn, _, x: fn.decoders.image(x, dtype=dtype), encoded(), match="'dtype' must be one of")


@pytest.mark.parity
def test_file_read(tmp_path: Path) -> None:
    names = ["a.bin", "straße.bin", "c d.bin"]
    for index, name in enumerate(names):
        (tmp_path / name).write_bytes(bytes(range(10 + index)))
    paths = [np.frombuffer(str(tmp_path / name).encode(), np.uint8) for name in names]
    paths[2] = np.append(paths[2], np.uint8(0))
    compare(lambda fn, _, x: fn.io.file.read(x), paths)
    compare(lambda fn, _, x: fn.io.file.read(x), [path.view(np.int8) for path in paths])


@pytest.mark.parity
def test_file_read_names_missing_files(tmp_path: Path) -> None:
    missing = np.frombuffer(str(tmp_path / "missing.jpg").encode(), np.uint8)
    refused_by_both(lambda fn, _, x: fn.io.file.read(x), [missing], match=r"missing\.jpg.*No such file")
    folder = np.frombuffer(str(tmp_path).encode(), np.uint8)
    refused_by_both(lambda fn, _, x: fn.io.file.read(x), [folder], match="directory")
    refused_by_both(lambda fn, _, x: fn.io.file.read(x), [missing.astype(np.int32)], match="must be an array of uint8")
    refused_by_both(lambda fn, _, x: fn.io.file.read(x), [np.zeros(0, np.uint8)], match="path of the file is empty")


def test_empty_file_gives_an_empty_sample(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (made,) = run_ours(lambda fn, _, x: fn.io.file.read(x), [np.frombuffer(str(tmp_path / "empty").encode(), np.uint8)])
    assert made.samples[0].shape == (0,)


@pytest.mark.parity
def test_files_become_batches(tmp_path: Path) -> None:
    """From files to network input, with random arguments."""
    paths = []
    for index in range(3):
        (tmp_path / f"{index}.jpg").write_bytes(pillow(smooth(40 + 7 * index, 60 - 9 * index, seed=index), "JPEG"))
        paths.append(np.frombuffer(str(tmp_path / f"{index}.jpg").encode(), np.uint8))

    def graph(fn: Any, types: Any, x: Any, mirror: Any) -> Any:
        images = fn.decoders.image(fn.io.file.read(x), output_type=types.RGB)
        images = fn.resize(images, resize_shorter=32)
        return fn.crop_mirror_normalize(images, crop=[28, 28], mirror=mirror, mean=[128.0] * 3, std=[64.0] * 3)

    # Resized pixels may differ by 1.
    compare(graph, paths, [np.int32(value) for value in (0, 1, 1)], tolerance=1 / 64 + 1e-6)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("cpu", "decoders.image"),
        ("cpu", "decoders.image_crop"),
        pytest.param("mixed", "decoders.image", marks=pytest.mark.gpu),
    ],
)
def test_image_above_the_limit_is_refused(device: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def graph(fn: Any, types: Any, x: Any) -> Any:
        crop = {"crop": (4, 4)} if name == "decoders.image_crop" else {}
        return attrgetter(name)(fn)(x, device=device, **crop)

    images = encoded("jpeg 444")
    options = {"device_id": None if device == "cpu" else 0}
    (output,) = run_ours(lambda fn, types, x: fn.peek_image_shape(x), images)
    size = int(np.prod(output.samples[0]))
    monkeypatch.setenv("DALI_MAX_IMAGE_SIZE", str(size))
    run_ours(graph, images, **options)
    monkeypatch.setenv("DALI_MAX_IMAGE_SIZE", str(size - 1))
    with pytest.raises(OperatorError, match=rf"has {size} bytes, more than DALI_MAX_IMAGE_SIZE \({size - 1}\) allows"):
        run_ours(graph, images, **options)
    monkeypatch.setenv("DALI_MAX_IMAGE_SIZE", "4x")
    with pytest.raises(PipelineError, match="DALI_MAX_IMAGE_SIZE must be a number of bytes, such as \"4G\", not '4x'"):
        run_ours(graph, images, **options)


def test_window_outside_of_the_image_is_refused() -> None:
    with pytest.raises(
        OperatorError, match=r"The cropping window \[.*0\.\.9999\] is not valid for image dimensions \["
    ):
        run_ours(lambda fn, types, x: fn.decoders.image_slice(x, start=[0], end=[9999], axes=[1]), encoded("jpeg 444"))
