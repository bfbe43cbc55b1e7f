"""All parsers of bytes that may come from anywhere: how to create valid files, and how to read them."""

from __future__ import annotations

import io
import json
import random
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import lmdb
import lz4.block
import numpy as np
import soundfile
from astropy.io import fits
from PIL import Image

from dali_proxy.pipeline._codecs import encoded as headers
from dali_proxy.pipeline._definition.checkpoint import Checkpoint
from dali_proxy.pipeline._imaging.formats import peek
from pipeline import Pipeline, fn, types
from pipeline.errors import DecodeError, PipelineError
from pipeline.tfrecord import FixedLenFeature, VarLenFeature, float32, int64, string
from tests.clips import KINDS, encode
from tests.fuzz.mutation import mutate
from tests.pipeline.imaging.formats import bmp, lossless_jpeg, png, tiff
from tests.pipeline.readers.wire import datum, example, image_record, tensor, tensors, write_recordio, write_tfrecord

__all__ = ["PARSERS", "Parser"]

_PIXELS = np.arange(24 * 16 * 3, dtype=np.uint8).reshape(24, 16, 3)


@dataclass(frozen=True)
class Parser:
    """A parser, or several that read the same files.

    Attributes:
        write: writes valid files into a folder.
        read: reads them; raises a `PipelineError` if they are damaged.
        damaged: glob pattern of the files to damage, one of them at a time.
        single: whether the files are read one at a time: `read` receives a file's path instead of the folder.
    """

    write: Callable[[Path], None]
    read: Callable[[Path], Any]
    damaged: str = "*"
    single: bool = False


# Operators that receive the bytes of a file


@cache
def _pipe(operator: Callable[..., Any]) -> Pipeline:
    """Build a pipeline that every file goes through, so that an error must leave it intact."""
    with Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        outputs = operator(fn.external_source(name="data"))
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple | list) else [outputs]))
    pipe.build()
    return pipe


def _run(operator: Callable[..., Any], path: Path) -> Any:
    """Return the first output for a file. Its array ends with the file: AddressSanitizer sees accesses beyond it."""
    pipe = _pipe(operator)
    pipe.feed_input("data", [np.fromfile(path, np.uint8)])
    return np.asarray(pipe.run()[0][0])


def _read_image(path: Path) -> None:
    content = np.fromfile(path, np.uint8)
    _compare_headers(content)
    shape = None
    try:
        shape = peek(content).shape
    except DecodeError:
        pass
    for operator in (_decode_rgb, _decode_any, fn.peek_image_shape):
        try:
            found = _run(operator, path)
        except PipelineError as error:
            refused = error
            continue
        if operator is not fn.peek_image_shape and (shape is None or found.shape[:2] != shape[:2]):
            raise AssertionError(f"the header says {shape}, but the image has the shape {found.shape}")
    if shape is None:
        raise refused


_decode_sound = partial(fn.decoders.audio, sample_rate=4000.0)
_decode_rgb = partial(fn.decoders.image, device="cpu")
_decode_any = partial(fn.decoders.image, device="cpu", output_type=types.ANY_DATA)
_decode_window = partial(fn.decoders.image_slice, device="cpu", start=[3, 2], end=[15, 14], axis_names="HW")


def _compare_headers(content: np.ndarray[Any, Any]) -> None:
    """Compare the C module with the Python code."""
    columns = np.array([content.ctypes.data]), np.array([content.size])
    expected = headers._read(memoryview(content)) if content.size else headers._NONE
    found = headers.read_headers(*columns)[0].item()
    if found != expected:
        raise AssertionError(f"the C module reads the header {found}, but Python {expected}")


def _write_images(folder: Path) -> None:
    image = Image.fromarray(_PIXELS)
    exif = Image.Exif()
    exif[274] = 6
    variants: dict[str, tuple[Image.Image, dict[str, Any]]] = {
        "plain.jpg": (image, {}),
        "rotated.jpg": (image, {"exif": exif, "comment": "comment"}),
        "progressive.jpg": (image, {"progressive": True}),
        "gray.jpg": (image.convert("L"), {}),
        "cmyk.jpg": (image.convert("CMYK"), {}),
        "palette.png": (image.convert("P"), {}),
        "alpha.png": (image.convert("RGBA"), {}),
        "lossless.webp": (image, {"lossless": True}),
        "lossy.webp": (image, {}),
        "colors.ppm": (image, {}),
        "bits.pbm": (image.convert("1"), {}),
        "frames.gif": (image.convert("P"), {"save_all": True, "append_images": [image.convert("P")]}),
        "wavelets.jp2": (image, {}),
        "deflate.tif": (image, {"compression": "tiff_deflate"}),
        "palette.tif": (image.convert("P"), {}),
    }
    for name, (variant, options) in variants.items():
        variant.save(folder / name, **options)
    (folder / "lossless.jpg").write_bytes(lossless_jpeg(_PIXELS))
    (folder / "interlaced.png").write_bytes(png(_PIXELS.astype(np.uint16) * 257, 16, 2, interlaced=True))
    (folder / "rgb.bmp").write_bytes(bmp(_PIXELS, 24))
    (folder / "wide.tif").write_bytes(tiff(_PIXELS.astype(np.uint16), bigtiff=True))
    (folder / "tiles.tif").write_bytes(tiff(_PIXELS, tile=(16, 16), byteorder=">"))


def _write_jpegs(folder: Path) -> None:
    for number, options in enumerate(({}, {"subsampling": 0}, {"progressive": True}, {"restart_marker_blocks": 1})):
        Image.fromarray(_PIXELS).save(folder / f"{number}.jpg", **options)


def _write_sounds(folder: Path) -> None:
    wave = np.sin(np.arange(400)[:, None] / [5, 9]).astype(np.float32)
    for name, options in {
        "pcm.wav": {"subtype": "PCM_16"},
        "float.wav": {"subtype": "FLOAT"},
        "adpcm.wav": {"subtype": "IMA_ADPCM"},
        "a.flac": {},
        "vorbis.ogg": {},
        "opus.ogg": {"format": "OGG", "subtype": "OPUS"},
        "a.mp3": {},
        "a.aiff": {},
        "a.au": {},
    }.items():
        soundfile.write(folder / name, wave, 8000, **options)


_VIDEOS = (
    *("h264.mp4", "h264_fragments.mp4", "h264.mkv", "h264.ts", "h264.h264", "hevc.mkv", "vp9.webm", "av1.mp4"),
    *("mpeg4.avi", "mjpeg.avi", "mjpeg.mp4"),
)


def _write_videos(folder: Path) -> None:
    for name in _VIDEOS:
        encode(folder / name, KINDS[name], count=8, size=(48, 64))


def _read_video(path: Path) -> None:
    for operator in (_first_and_last, fn.decoders.video):
        frames = _run(operator, path)
        if frames.ndim != 4 or frames.shape[3] != 3:
            raise AssertionError(f"the frames have the shape {frames.shape}")


_first_and_last = partial(fn.decoders.video, frames=[0, 7, 3], pad_mode="edge")


def _write_arrays(folder: Path) -> None:
    for name, array in {
        "plain": np.arange(60, dtype=np.int32).reshape(3, 4, 5),
        "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        "big_endian": np.arange(7, dtype=">i2"),
        "scalar": np.array(3.5, np.float16),
        "empty": np.zeros((0, 3), np.uint8),
    }.items():
        np.save(folder / f"{name}.npy", array)


def _read_array(path: Path) -> None:
    """Read a file as a whole and, with at least one dimension, in windows; both must agree."""
    with Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        whole = fn.readers.numpy(files=[str(path)])
        window = fn.readers.numpy(
            files=[str(path)], rel_roi_start=[0.0], rel_roi_shape=[1.0], roi_axes=[0], dont_use_mmap=True
        )
        pipe.set_outputs(whole, window) if _dimensions(path) else pipe.set_outputs(whole)
    results = [np.asarray(output[0]) for output in _outputs(pipe)]
    if not all(np.array_equal(results[0], other, equal_nan=other.dtype.kind == "f") for other in results[1:]):
        raise AssertionError("the window differs from the array")
    decoded = _outputs(_decoding(path))[0]
    if not np.array_equal(np.asarray(decoded[0]), results[0], equal_nan=results[0].dtype.kind == "f"):
        raise AssertionError("the decoder differs from the reader")


def _decoding(path: Path) -> Pipeline:
    with Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        pipe.set_outputs(fn.decoders.numpy(fn.external_source(source=lambda: [np.fromfile(path, np.uint8)])))
    return pipe


def _dimensions(path: Path) -> int:
    try:
        return int(np.load(path, allow_pickle=False).ndim)
    except Exception:  # noqa: BLE001 - the reader refuses it, too
        return 1


def _write_blocks(folder: Path) -> None:
    for number, data in enumerate((bytes(64), bytes(range(64)), random.Random(1).randbytes(64))):
        (folder / f"{number}.lz4").write_bytes(lz4.block.compress(data, store_size=False))


# Readers of data sets


def _outputs(pipe: Pipeline, batches: int = 1) -> Any:
    """Return the outputs of the last batch. After all batches, raise the first error: it costs only its batch."""
    errors, outputs = [], None
    try:
        pipe.build()
        for _ in range(batches):
            try:
                outputs = pipe.run()
            except PipelineError as error:
                errors.append(error)
    finally:
        pipe.close()
    if errors:
        raise errors[0]
    return outputs


def _read_with(reader: Callable[..., Any], **arguments: Any) -> None:
    """Run three batches of a reader."""
    with Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        outputs = reader(**arguments)
        outputs = tuple(outputs.values()) if isinstance(outputs, dict) else outputs
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple | list) else [outputs]))
    _outputs(pipe, 3)


def _write_tar(folder: Path) -> None:
    for name, style in (("a", tarfile.GNU_FORMAT), ("b", tarfile.PAX_FORMAT)):
        index, lines = "", 0
        with tarfile.open(folder / f"{name}.tar", "w", format=style) as archive:
            for path in ("dir/0.jpg", "dir/0.cls", "1.jpg", "1.cls", "long" * 40 + "/2.jpg", "ümlaut.jpg"):
                member = tarfile.TarInfo(path)
                member.size = len(path)
                member.mtime = 1.5
                archive.addfile(member, io.BytesIO(path.encode()[: member.size]))
                index += f"jpg {archive.offset - 512} {len(path)} {path}\n" if path.endswith(".jpg") else ""
                lines += path.endswith(".jpg")
        (folder / f"{name}.idx").write_text(f"v1.2 {lines}\n{index}")


def _read_tar(folder: Path) -> None:
    paths, indices = ([str(folder / f"{name}.{suffix}") for name in "ab"] for suffix in ("tar", "idx"))
    _both(
        partial(_read_with, fn.readers.webdataset, paths=paths, ext=["jpg", "cls"]),
        partial(_read_with, fn.readers.webdataset, paths=paths, index_paths=indices, ext=["jpg", "cls"]),
    )


def _both(*calls: Callable[[], None]) -> None:
    """Make all calls; then raise the first error."""
    errors = []
    for call in calls:
        try:
            call()
        except PipelineError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _write_examples(folder: Path) -> None:
    values = {"text": [b"abc"], "real": [1.5, 2.5, 3.5], "number": [1, -2, 3 << 40]}
    write_tfrecord(folder / "a.tfrecord", [example(values, packed=packed) for packed in (True, False, True)])


def _read_examples(folder: Path) -> None:
    features = {
        "text": FixedLenFeature((), string, ""),
        "real": FixedLenFeature([3], float32, 0.0),
        "number": VarLenFeature(int64, 0),
    }
    _read_records(folder, fn.readers.tfrecord, "tfrecord", features=features)


def _read_records(folder: Path, reader: Callable[..., Any], suffix: str, **arguments: Any) -> None:
    path, index = str(folder / f"a.{suffix}"), str(folder / "a.idx")
    _both(
        partial(_read_with, reader, path=[path], **arguments),
        partial(_read_with, reader, path=[path], index_path=[index], **arguments),
    )


def _write_records(folder: Path) -> None:
    records = [image_record(1.0, b"image"), image_record([1.0, 2.0], b"two labels"), (b"first part", b"second")]
    write_recordio(folder / "a.rec", [records[0], records[1], tuple(image_record(3.0, b"x") for _ in range(3))])


def _write_values(folder: Path, values: list[bytes]) -> None:
    for number, value in enumerate(values):
        (folder / str(number)).write_bytes(value)


def _write_datums(folder: Path) -> None:
    _write_values(folder, [datum(b"image", 3), datum(bytes(24), 2, (3, 2, 4)), datum(b"image")])


def _write_tensors(folder: Path) -> None:
    pixels = bytearray(range(24))
    for values in ([tensor(b"image"), tensor([3])], [tensor(pixels, (4, 2, 3)), tensor([1])]):
        (folder / str(len(list(folder.iterdir())))).write_bytes(tensors(*values, tensor([1.5, 2.5]), tensor([1] * 4)))


def _read_values(folder: Path, reader: Callable[..., Any], **arguments: Any) -> None:
    """Read values of LMDB. The database itself isn't damaged: LMDB's library trusts its pages."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as path:
        with lmdb.open(path, map_size=1 << 20, sync=False) as database, database.begin(write=True) as transaction:
            for value in folder.iterdir():
                transaction.put(value.name.encode(), value.read_bytes())
        _read_with(reader, path=path, **arguments)


_read_tensors = partial(_read_values, reader=fn.readers.caffe2, additional_inputs=1, bbox=True)


def _write_coco(folder: Path) -> None:
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(b"image")
    extents = [{"width": 20, "height": 10}, {"width": 20, "height": 10}, {"width": 4, "height": 4}]
    images = [{"id": number, "file_name": f"{number}.jpg", **extent} for number, extent in enumerate(extents)]
    common = {"bbox": [1, 2, 3, 4], "iscrowd": 0, "area": 1}
    outlines = [
        [[1.0, 1.0, 5.0, 1.0, 5.0, 5.0]],
        {"counts": [5, 10, 185], "size": [10, 20]},
        {"counts": "52203", "size": [4, 4]},
        [[1, 1, 9, 1, 9, 9], [2, 2, 3, 2, 3, 4, 2, 4]],
    ]
    objects = [
        {**common, "image_id": number % 3, "category_id": 1 + number % 2, "segmentation": outline}
        for number, outline in enumerate(outlines)
    ]
    content = {"images": images, "categories": [{"id": 1}, {"id": 2}], "annotations": objects}
    (folder / "annotations.json").write_text(json.dumps(content))


def _read_coco(folder: Path, **arguments: Any) -> None:
    source = arguments or {"annotations_file": str(folder / "annotations.json")}
    read = partial(_read_with, fn.readers.coco, file_root=str(folder), image_ids=True, **source)
    _both(partial(read, polygon_masks=True), partial(read, pixelwise_masks=True))


def _write_saved(folder: Path) -> None:
    _write_coco(folder)
    (folder / "saved").mkdir()
    options = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(folder / "saved")}
    _read_coco(folder, annotations_file=str(folder / "annotations.json"), **options)


def _read_saved(folder: Path) -> None:
    _read_coco(folder, preprocessed_annotations=str(folder / "saved"))


def _write_lists(folder: Path) -> None:
    _write_sounds(folder)
    for number in range(3):
        (folder / f"{number}.jpg").write_bytes(b"image")
    encode(folder / "a.avi", KINDS["mjpeg.avi"], count=8, size=(16, 16))
    sounds = [{"audio_filepath": str(folder / "pcm.wav"), "duration": 0.1, "text": "text"} for _ in range(3)]
    (folder / "sounds.list").write_text("\n".join(map(json.dumps, sounds)))
    (folder / "files.list").write_text("0.jpg 0\n1.jpg 1\n2.jpg 2\n")
    (folder / "videos.list").write_text(f"{folder / 'a.avi'} 0 0 4\n{folder / 'a.avi'} 1 2 8\n")


def _read_lists(folder: Path) -> None:
    lists = {name: str(folder / f"{name}.list") for name in ("sounds", "files", "videos")}
    _both(
        partial(_read_with, fn.readers.nemo_asr, manifest_filepaths=[lists["sounds"]], read_idxs=True),
        partial(_read_with, fn.readers.file, file_list=lists["files"], file_root=str(folder)),
        partial(_read_with, fn.readers.video, file_list=lists["videos"], sequence_length=2, file_list_frame_num=True),
    )


def _write_fits(folder: Path) -> None:
    data = np.arange(60, dtype=np.int16).reshape(5, 12)
    for name, unit in {"plain": fits.ImageHDU(data), "compressed": fits.CompImageHDU(data)}.items():
        fits.HDUList([fits.PrimaryHDU(), unit]).writeto(folder / f"{name}.fits")


def _read_fits(path: Path) -> None:
    _read_with(fn.experimental.readers.fits, files=[str(path)])


# State of this package


def _write_pipeline(folder: Path) -> None:
    with Pipeline(batch_size=2, num_threads=1, device_id=None, seed=3) as pipe:
        images, labels = fn.readers.file(files=["a.jpg", "b.jpg"], name="r")
        size = fn.random.uniform(range=(10.0, 20.0))
        pipe.set_outputs(fn.resize(fn.decoders.image(images, device="cpu"), resize_shorter=size), labels + 3)
    (folder / "pipeline").write_bytes(pipe.serialize())


def _read_pipeline(path: Path) -> None:
    Pipeline.deserialize(path.read_bytes())


def _write_checkpoint(folder: Path) -> None:
    paths = [str(folder.parent / "absent")]
    with Pipeline(batch_size=2, num_threads=1, device_id=None, enable_checkpointing=True) as pipe:
        pipe.set_outputs(fn.random.uniform(), fn.readers.file(files=paths, lazy_init=True, name="r")[1])
    (folder / "checkpoint").write_bytes(pipe.checkpoint())
    pipe.close()


def _read_checkpoint(path: Path) -> None:
    Checkpoint.from_bytes(path.read_bytes())


PARSERS = {
    "image": Parser(_write_images, _read_image, single=True),
    "jpeg window": Parser(_write_jpegs, partial(_run, _decode_window), single=True),
    "sound": Parser(_write_sounds, partial(_run, _decode_sound), single=True),
    "video": Parser(_write_videos, _read_video, single=True),
    "npy": Parser(_write_arrays, _read_array, single=True),
    "lz4": Parser(_write_blocks, partial(_run, partial(fn.experimental.inflate, shape=[64])), single=True),
    "tar": Parser(_write_tar, _read_tar, "*.tar"),
    "tar index": Parser(_write_tar, _read_tar, "*.idx"),
    "tfrecord": Parser(_write_examples, _read_examples, "*.tfrecord"),
    "tfrecord index": Parser(_write_examples, _read_examples, "*.idx"),
    "recordio": Parser(_write_records, partial(_read_records, reader=fn.readers.mxnet, suffix="rec"), "*.rec"),
    "recordio index": Parser(_write_records, partial(_read_records, reader=fn.readers.mxnet, suffix="rec"), "*.idx"),
    "caffe": Parser(_write_datums, partial(_read_values, reader=fn.readers.caffe)),
    "caffe2": Parser(_write_tensors, _read_tensors),
    "coco": Parser(_write_coco, _read_coco, "*.json"),
    "saved coco": Parser(_write_saved, _read_saved, "saved/*"),
    "lists": Parser(_write_lists, _read_lists, "*.list"),
    "fits": Parser(_write_fits, _read_fits, single=True),
    "pipeline": Parser(_write_pipeline, _read_pipeline, single=True),
    "checkpoint": Parser(_write_checkpoint, _read_checkpoint, single=True),
}


def damage(parser: Parser, folder: Path, chance: random.Random) -> tuple[Path, bytes]:
    """Damage one of the files. Return its path and its valid content, to restore it."""
    path = chance.choice(sorted(folder.glob(parser.damaged)))
    content = path.read_bytes()
    path.write_bytes(mutate(chance, content))
    return path, content
