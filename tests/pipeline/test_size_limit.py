"""Files that claim, or decompress to, absurd sizes are refused before memory is allocated for them."""

from __future__ import annotations

import io
import json
import os
import struct
import tarfile
import wave
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image, PngImagePlugin

from dali_proxy.pipeline._imaging import peek
from pipeline import Pipeline, fn, tfrecord
from pipeline.errors import OperatorError, PipelineError
from tests.pipeline.readers.wire import example, image_record, write_recordio, write_tfrecord

LIMIT = "DALI_PROXY_MAX_SAMPLE_BYTES"
HUGE = 5 << 30  # more than the default limit


def run(build: Callable[[], Any]) -> Any:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    try:
        with pipe:
            outputs = build()
            pipe.set_outputs(*(outputs if isinstance(outputs, list | tuple) else (outputs,)))
        return pipe.run()
    finally:
        pipe.close()


def feed(*samples: bytes) -> Any:
    return fn.external_source(lambda: [np.frombuffer(sample, np.uint8) for sample in samples], batch=True)


def decode(content: bytes, decoder: Callable[..., Any] = fn.decoders.image, **arguments: Any) -> Any:
    """Decode a batch whose second sample is `content`."""
    good = simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8)) if decoder is fn.decoders.image else content
    return run(lambda: decoder(feed(good, content), **arguments))


def png(width: int, height: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def jpeg() -> bytes:
    content = bytearray(simplejpeg.encode_jpeg(np.zeros((8, 8, 3), np.uint8)))
    at = content.index(b"\xff\xc0") + 5
    content[at : at + 4] = struct.pack(">HH", 65500, 65500)
    return bytes(content)


def tiff() -> bytes:
    entries = [(256, 4, 200000), (257, 4, 200000), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 3)]
    directory = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries)
    return struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + directory + bytes(100)


def bmp() -> bytes:
    return (
        b"BM"
        + struct.pack("<IHHI", 1000, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, 60000, 60000, 1, 24, *[0] * 6)
        + b"x"
    )


@pytest.mark.parametrize("content", [png(200_000, 200_000), jpeg(), tiff(), bmp()], ids=["png", "jpeg", "tiff", "bmp"])
def test_image_with_an_absurd_size_names_operator_sample_and_limit(content: bytes) -> None:
    with pytest.raises(OperatorError, match=rf"(?s)decoders\.image.*sample 1.*pixels has \d+ bytes, more than {LIMIT}"):
        decode(content)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP", "JPEG2000", "BMP", "GIF", "PPM"])
def test_image_above_a_limit_that_was_set_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    Image.new("RGB", (70, 60)).save(file, kind)
    monkeypatch.setenv(LIMIT, str(70 * 60 * 3))
    decode(file.getvalue())
    monkeypatch.setenv(LIMIT, "12K")
    with pytest.raises(OperatorError, match=rf"60 x 70 pixels has 12600 bytes, more than {LIMIT} \(12288\) allows"):
        decode(file.getvalue())


@pytest.mark.parametrize("late", [False, True], ids=["before the pixels", "after the pixels"])
def test_header_of_a_png_is_read_without_its_pixels(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    exif, file = Image.Exif(), io.BytesIO()
    exif[274] = 6
    Image.new("RGB", (30, 20)).save(file, "PNG", exif=exif)
    content = file.getvalue()
    if late:
        at = content.index(b"eXIf") - 4
        chunk = content[at : at + 12 + int.from_bytes(content[at : at + 4], "big")]
        content = content.replace(chunk, b"")
        content = content[:-12] + chunk + content[-12:]
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", None)
    assert peek(content).shape == (30, 20, 3)


def test_large_image_is_decoded_though_pillow_would_refuse_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, "GIF")
    (images,) = decode(file.getvalue())
    assert images.at(1).shape == (20, 30, 3)


def test_decompressed_data_is_limited() -> None:
    pytest.importorskip("lz4")
    with pytest.raises(
        OperatorError, match=rf"(?s)inflate.*decompressed data has 1000000000000 bytes, more than {LIMIT}"
    ):
        decode(b"\x10a", fn.decoders.inflate, shape=[1_000_000, 1_000_000])


def sound(rate: int, frames: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setnchannels(1)
        target.setsampwidth(1)
        target.setframerate(rate)
        target.writeframes(bytes(frames))
    return file.getvalue()


def test_audio_whose_rate_is_absurdly_low_is_refused() -> None:
    pytest.importorskip("soundfile")
    with pytest.raises(OperatorError, match=rf"decoded audio has \d+ bytes, more than {LIMIT}"):
        decode(sound(1, 50_000), lambda data, **_: fn.decoders.audio(data, sample_rate=48000)[0])


def test_audio_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("soundfile")
    monkeypatch.setenv(LIMIT, "10K")
    with pytest.raises(OperatorError, match=rf"decoded audio has 12000 bytes, more than {LIMIT}"):
        decode(sound(8000, 3000), lambda data: fn.decoders.audio(data)[0])


def test_video_above_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", 10)
        stream.width, stream.height = 64, 48
        for _ in range(5):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8))))
        container.mux(stream.encode())
    monkeypatch.setenv(LIMIT, str(64 * 48 * 3 * 4))
    with pytest.raises(OperatorError, match=rf"decoded video has 46080 bytes, more than {LIMIT}"):
        decode((tmp_path / "a.mp4").read_bytes(), fn.decoders.video)
    with pytest.raises(PipelineError, match=rf"decoded video has 46080 bytes, more than {LIMIT}"):
        run(lambda: fn.readers.video(filenames=[str(tmp_path / "a.mp4")], sequence_length=5, device="cpu"))


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1, -1)", "(4294967296, 4294967296, 4294967296)"])
def test_array_with_an_absurd_shape_is_refused(shape: str) -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content = b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + b"x"
    with pytest.raises(OperatorError, match=r"(?s)decoders\.numpy.*(does not match the actual size|not a NumPy file)"):
        decode(content, fn.decoders.numpy)


def large(path: Path, start: bytes = b"") -> str:
    """Create a sparse file that claims more than the limit."""
    path.write_bytes(start)
    with open(path, "r+b") as file:
        file.truncate(HUGE)
    return str(path)


def test_file_above_the_limit_is_refused(tmp_path: Path) -> None:
    path = large(tmp_path / "a.bin")
    with pytest.raises(PipelineError, match=rf"a\.bin' has {HUGE} bytes, more than {LIMIT}"):
        run(lambda: fn.readers.file(files=[path])[0])
    with pytest.raises(PipelineError, match=rf"a\.bin' has {HUGE} bytes, more than {LIMIT}"):
        run(lambda: fn.io.file.read(feed(path.encode(), path.encode())))


NAMED_PIPES: dict[str, Callable[[str], Any]] = {
    "file": lambda path: fn.readers.file(files=[path])[0],
    "mxnet": lambda path: fn.readers.mxnet(path=[path])[0],
    "webdataset": lambda path: fn.readers.webdataset(paths=[path], ext=["jpg"]),
    "numpy": lambda path: fn.readers.numpy(files=[path]),
    "video": lambda path: fn.readers.video(filenames=[path], sequence_length=2),
    "caffe": lambda path: fn.readers.caffe(path=os.path.dirname(path))[0],
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("reader", NAMED_PIPES)
def test_named_pipe_is_not_waited_for(reader: str, tmp_path: Path) -> None:
    for needs, package in (("video", "av"), ("caffe", "lmdb")):
        if reader == needs:
            pytest.importorskip(package)
    path = tmp_path / "data.mdb"
    os.mkfifo(path)
    with pytest.raises(PipelineError, match=r"data\.mdb'.* isn't a regular file"):
        run(lambda: NAMED_PIPES[reader](str(path)))


def test_region_above_the_limit_is_refused(tmp_path: Path) -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({HUGE - 128},), }}".encode().ljust(117) + b"\n"
    path = large(tmp_path / "a.npy", b"\x93NUMPY\1\0" + struct.pack("<H", 118) + header)
    with pytest.raises(PipelineError, match=rf"readers\.numpy.*a\.npy' has \d+ bytes, more than {LIMIT}"):
        run(lambda: fn.readers.numpy(files=[path], roi_start=[0], roi_end=[HUGE - 200]))


def test_record_with_an_absurd_length_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write_tfrecord(path, [example({"x": [1]})])
    features = {"x": tfrecord.FixedLenFeature((), tfrecord.int64, 0)}
    (tmp_path / "a.idx").write_text(f"0 {HUGE}\n")
    large(tmp_path / "large", path.read_bytes())

    def read(data: str, **index: Any) -> Any:
        return run(lambda: fn.readers.tfrecord(path=[str(tmp_path / data)], features=features, **index)["x"])

    with pytest.raises(PipelineError, match=rf"large at index 0 has {HUGE} bytes, more than {LIMIT}"):
        read("large", index_path=[str(tmp_path / "a.idx")])
    path.write_bytes(struct.pack("<Q", 1 << 62) + bytes(100))
    with pytest.raises(PipelineError, match="it ends within the record"):
        read("a.tfrecord")
    write_recordio(tmp_path / "a.rec", [image_record(0, b"x")])
    (tmp_path / "a.rec").write_bytes(struct.pack("<II", 0xCED7230A, (1 << 29) - 1) + bytes(20))
    with pytest.raises(PipelineError, match="bytes"):
        run(lambda: fn.readers.mxnet(path=[str(tmp_path / "a.rec")])[0])


def test_archive_with_an_absurd_member_is_refused(tmp_path: Path) -> None:
    member = tarfile.TarInfo("0.jpg")
    member.size = 1 << 50
    (tmp_path / "a.tar").write_bytes(member.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(PipelineError, match=rf"a\.tar:512:0\.jpg has {1 << 50} bytes, more than {LIMIT}|can't read"):
        run(lambda: fn.readers.webdataset(paths=[str(tmp_path / "a.tar")], ext=["jpg"]))
    extended = tarfile.TarInfo("0.jpg")
    extended.type, extended.size = tarfile.XHDTYPE, 1 << 60
    (tmp_path / "b.tar").write_bytes(extended.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(PipelineError, match=r"can't read the archive .*b\.tar"):
        run(lambda: fn.readers.webdataset(paths=[str(tmp_path / "b.tar")], ext=["jpg"]))


@pytest.mark.parametrize("entry", ["jpg 512 99999999999999", f"jpg {10**30} 5", "jpg -5 2", "jpg 512 -1"])
def test_index_of_an_archive_must_stay_inside(entry: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("0.jpg"))
    (tmp_path / "a.idx").write_text(f"v1.1 1\n{entry}\n")
    with pytest.raises(PipelineError, match=r"isn't an index of an archive: it lists|ends within|more than"):
        run(
            lambda: fn.readers.webdataset(
                paths=[str(tmp_path / "a.tar")], index_paths=[str(tmp_path / "a.idx")], ext=["jpg"]
            )
        )


@pytest.mark.filterwarnings("ignore:File may have been truncated")
def test_fits_image_with_an_absurd_size_is_refused(tmp_path: Path) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    fits.HDUList([fits.PrimaryHDU(), fits.ImageHDU(np.zeros((4, 6), "i4"))]).writeto(tmp_path / "a.fits")
    content = (tmp_path / "a.fits").read_bytes()
    for old, new in ((b"NAXIS1  =                    6", b"NAXIS1  =               600000"),
                     (b"NAXIS2  =                    4", b"NAXIS2  =               400000")):  # fmt: skip
        assert old in content
        content = content.replace(old, new)
    (tmp_path / "a.fits").write_bytes(content)
    with pytest.raises(PipelineError, match=rf"unit 2 has 960000000000 bytes, more than {LIMIT}"):
        run(lambda: fn.experimental.readers.fits(files=[str(tmp_path / "a.fits")]))


def test_annotations_with_absurd_numbers_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"x")

    def read(width: int, outline: Any) -> Any:
        (tmp_path / "a.json").write_text(
            json.dumps(
                {
                    "images": [{"id": 1, "file_name": "a.jpg", "width": width, "height": 4}],
                    "categories": [{"id": 1}],
                    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "segmentation": outline}],
                }
            )
        )
        arguments = {"file_root": str(tmp_path), "annotations_file": str(tmp_path / "a.json"), "pixelwise_masks": True}
        return run(lambda: fn.readers.coco(**arguments)[3])

    read(4, [[0, 0, 2, 0, 2, 2]])
    with pytest.raises(PipelineError, match=rf"readers\.coco.*the mask has \d+ bytes, more than {LIMIT}"):
        read(10**9, [[0, 0, 2, 0, 2, 2]])
    with pytest.raises(PipelineError, match="its 'width' must be a positive number"):
        read(10**12, [[0, 0, 2, 0, 2, 2]])
    with pytest.raises(PipelineError, match=rf"the outline of an object has \d+ bytes, more than {LIMIT}"):
        read(4, [[0, 0, 9e8, 0, 2, 2]])
    with pytest.raises(PipelineError, match="a vertex isn't a number, or is farther"):
        read(4, [[0, 0, float("inf"), 0, 2, 2]])
    with pytest.raises(PipelineError, match="the text of run lengths is damaged"):
        read(4, {"counts": "o" * 100_000, "size": [4, 4]})


def test_limit_can_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    image = simplejpeg.encode_jpeg(np.zeros((9, 9, 3), np.uint8))
    monkeypatch.setenv(LIMIT, "200")
    with pytest.raises(OperatorError, match=LIMIT):
        decode(image)
    monkeypatch.setenv(LIMIT, "0")
    decode(image)
    monkeypatch.setenv(LIMIT, "4 apples")
    with pytest.raises(PipelineError, match=f'{LIMIT} must be a number of bytes, such as "4G"'):
        decode(image)
