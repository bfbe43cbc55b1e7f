"""Calls of operators on encoded data."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from tests.parity.drawing import Array, Draw, Type
from tests.parity.machine import case

#: The smallest window: DALI decodes the first column of a JPEG alone without its neighbours, so its colours change.
LEAST = 2
DECODED = ("decoders.image", "decoders.image_crop", "decoders.image_slice")


#: The drawn kinds: the format, and how to create its images.
KINDS = (
    *("JPEG", "JPEG progressive", "JPEG turned", "JPEG grey", "JPEG CMYK"),
    *("PNG", "PNG grey", "PNG palette", "PNG alpha", "PNG turned", "PNG 16", "PNG grey 16"),
    *("BMP", "BMP grey", "PPM", "PPM grey", "PPM 16", "TIFF", "TIFF grey", "TIFF alpha", "TIFF turned", "TIFF 16"),
    *("WEBP", "WEBP alpha", "WEBP lossless", "JPEG2000", "JPEG2000 grey"),
)
_MODES = {"grey": "L", "CMYK": "CMYK", "palette": "P", "alpha": "RGBA"}


@cache
def encoded(kind: str, number: int) -> Array:
    """Return a smooth, encoded image of random size."""
    words = kind.split()
    rng = np.random.default_rng(number)
    height, width = (int(extent) for extent in rng.integers(17, 40, 2))
    channels = 4 if {"alpha", "CMYK"} & {*words} else 3
    noise = rng.uniform(0, 255, (5, 5, channels)).astype(np.float32)
    pixels = np.clip(cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC), 0, 255)
    if "16" in words:
        wide = (pixels * 257).astype(np.uint16)
        made = cv2.imencode(f".{words[0].lower()}", wide[:, :, 0] if "grey" in words else wide)[1]
        return np.asarray(made).ravel()
    mode = next((_MODES[word] for word in words if word in _MODES), "RGB")
    image = Image.fromarray(pixels.astype(np.uint8), {4: "CMYK" if mode == "CMYK" else "RGBA"}.get(channels, "RGB"))
    options: dict[str, object] = {"format": words[0]}
    if "progressive" in words or "lossless" in words:
        options[words[1]] = True
    if "turned" in words:
        exif = Image.Exif()
        exif[0x0112] = 1 + number % 8
        options["exif"] = exif
    file = io.BytesIO()
    image.convert(mode).save(file, **options)  # type: ignore[arg-type]
    return np.frombuffer(file.getvalue(), np.uint8)


def files(draw: Draw, *kinds: str) -> str:
    kind: str = draw.one(*kinds)
    draw.call.inputs.append(([encoded(kind, draw.integer(0, 7)) for _ in range(draw.count)], None))
    return kind


@case(*DECODED)
def image(draw: Draw, operator: str) -> None:
    # JPEGs are compared in tests/pipeline/operators/test_gpu.py: nvJPEG repeats colours that the CPU interpolates.
    exact = ("PNG", "BMP", "PPM", "WEBP")
    kind = files(draw, *[each for each in KINDS if not draw.gpu or each.split()[0] in exact or each == "JPEG CMYK"])
    draw.maybe("output_type", lambda: Type(draw.one("RGB", "BGR", "GRAY", "YCbCr")))
    if not draw.gpu and kind in (
        "PNG",
        "PNG alpha",
        "PNG 16",
        "PPM 16",
        "TIFF",
    ):  # DALI ends the process, or refuses other kinds
        draw.maybe("output_type", lambda: Type("ANY_DATA"))
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "INT8", "UINT16", "INT16", "INT32", "UINT32", "FLOAT")))
    draw.maybe("adjust_orientation", draw.flag)
    if kind != "JPEG CMYK":  # pillow, which decodes it, lacks this option
        draw.maybe("use_fast_idct", draw.flag)
    draw.call.ends = 0.008  # 1 of 255, for dtypes with another maximum and for images darker than 255
    draw.maybe("jpeg_fancy_upsampling", draw.flag)
    draw.maybe("hw_decoder_load", lambda: draw.real(0, 1))
    if operator == "decoders.image_crop":
        if draw.flag():
            draw.argument("crop", lambda: [draw.integer(LEAST, 16), draw.integer(LEAST, 16)], always=True)
        else:
            draw.argument("crop_h", lambda: draw.integer(LEAST, 16), always=True)
            draw.argument("crop_w", lambda: draw.integer(LEAST, 16), always=True)
        draw.argument("crop_pos_x", lambda: draw.real(0, 1))
        draw.argument("crop_pos_y", lambda: draw.real(0, 1))
        draw.maybe("rounding", lambda: draw.one("round", "truncate"))
    elif operator == "decoders.image_slice":
        slice_window(draw)


def slice_window(draw: Draw) -> None:
    way = draw.one("input", "normalized input", "absolute", "relative")
    if draw.flag():
        draw.give(axis_names=draw.one("HW", "WH"))
    else:
        draw.argument("axes", lambda: draw.one([0, 1], [1, 0]), np.int32)
    if "input" in way:
        normalized = "normalized" in way
        for low, high in ((0.0, 0.5), (0.25, 0.5)) if normalized else ((0, 8), (LEAST, 8)):
            batch = [np.array([draw.real(low, high), draw.real(low, high)], np.float32) for _ in range(draw.count)]
            draw.call.inputs.append((batch, None))
        draw.call.on_cpu = (1, 2)
        draw.give(normalized_anchor=normalized, normalized_shape=normalized)
    elif way == "absolute":
        draw.argument("start", lambda: [draw.integer(0, 8), draw.integer(0, 8)], np.int32, always=True)
        name, low, high = draw.one(("end", 8 + LEAST, 17), ("shape", LEAST, 9))
        draw.argument(name, lambda: [draw.integer(low, high), draw.integer(low, high)], np.int32, always=True)
    else:
        draw.argument("rel_start", lambda: [draw.real(0, 0.5), draw.real(0, 0.5)], always=True)
        name, part = draw.one(("rel_end", 0.5), ("rel_shape", 0.0))
        draw.argument(name, lambda: [part + draw.real(0.25, 0.5), part + draw.real(0.25, 0.5)], always=True)


@case("peek_image_shape")
def peek_image_shape(draw: Draw) -> None:
    files(draw, *KINDS)
    draw.maybe("adjust_orientation", draw.flag)
    draw.maybe("image_type", lambda: Type(draw.one("RGB", "GRAY")))
    draw.maybe("dtype", lambda: Type(draw.one("INT32", "INT64", "FLOAT")))


def npy(array: Array) -> Array:
    file = io.BytesIO()
    np.save(file, array)
    return np.frombuffer(file.getvalue(), np.uint8)


@case("decoders.numpy")
def decode_numpy(draw: Draw) -> None:
    samples = draw.arrays(draw.integer(0, 3))
    draw.call.inputs = [([npy(sample) for sample in samples], None)]
    draw.maybe("dtype", lambda: Type(draw.one("UINT8", "FLOAT", "INT64")))


@cache
def folder() -> Path:
    """Return a folder of files, which is deleted when the tests end."""
    held = tempfile.TemporaryDirectory(prefix="parity-")
    root = Path(held.name)
    _HELD.append(held)
    (root / "text.txt").write_bytes(bytes(range(50)))
    rng = np.random.default_rng(1)
    for name in ("b/x.npy", "a/y.npy", "z.npy"):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        array = rng.integers(0, 100, (int(rng.integers(5, 9)), 6)).astype(np.int32)
        np.save(path, np.asfortranarray(array) if name == "z.npy" else array)
    (root / "list.txt").write_text("a/y.npy\nz.npy\n")
    return root


_HELD: list[tempfile.TemporaryDirectory[str]] = []


@case("io.file.read")
def read_file(draw: Draw) -> None:
    path = str(folder() / draw.one("text.txt", "z.npy"))
    draw.call.inputs.append(([np.frombuffer(path.encode(), np.uint8)] * draw.count, None))


@case("readers.numpy")
def read_numpy(draw: Draw) -> None:
    draw.count = draw.integer(1, 4)
    draw.call.size = draw.count
    root = str(folder())
    way = draw.one("root", "files", "list")
    if way == "files":
        draw.give(files=["z.npy", "b/x.npy"], file_root=root)
    elif way == "list":
        draw.give(file_list=f"{root}/list.txt")
    else:
        draw.give(file_root=root)
        draw.maybe("file_filter", lambda: "?.npy")
    policy = draw.one("error", "pad", "trim_to_shape")
    draw.give(out_of_bounds_policy=policy)
    if policy == "pad":
        draw.maybe("fill_value", lambda: draw.real(-9, 9))
    far = 5 if policy == "error" else 9
    axes = draw.some(range(2))
    draw.maybe("roi_axes", lambda: axes)
    count = len(axes) if "roi_axes" in draw.call.constants else 2
    begin = draw.one("", "roi_start", "rel_roi_start")
    end = draw.one("", "roi_end", "rel_roi_end", "roi_shape", "rel_roi_shape")
    if not begin and not end:
        draw.call.constants.pop("roi_axes", None)
    for name, low, high in ((begin, 0, 2), (end, *((2, far) if end == "roi_end" else (0, far - 2)))):
        if name.startswith("rel"):
            least = {"rel_roi_start": 0.0, "rel_roi_end": 0.5, "rel_roi_shape": 0.25}[name]
            draw.argument(name, lambda least=least: [least + draw.real(0, 0.25) for _ in range(count)], always=True)
        elif name:
            draw.argument(
                name, lambda low=low, high=high: [draw.integer(low, high) for _ in range(count)], np.int32, always=True
            )
