"""Writes docs/images: what operators do to an image or a sound, before and after, for the reference.

python -m docs.images
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from dali_proxy._demo.data import photograph_paths
from dali_proxy.pipeline import fn, pipeline_def, types

Array = npt.NDArray[Any]
Graph = Callable[..., Any]

FOLDER = Path(__file__).resolve().parent / "images"
SIZE = (150, 200)  # height and width of an image
RATE = 16_000  # of the sound
BOXES = np.array([[0.42, 0.15, 0.68, 0.9], [0.05, 0.4, 0.3, 0.85]], np.float32)  # left, top, right, bottom
LABELS = np.array([1, 2], np.int32)

#: Operators that take an image and return one.
OF_IMAGES: dict[str, Graph] = {
    "brightness": lambda x: fn.brightness(x, brightness=1.6),
    "brightness_contrast": lambda x: fn.brightness_contrast(x, brightness=1.3, contrast=0.5),
    "clahe": lambda x: fn.clahe(x, tiles_x=4, tiles_y=4, clip_limit=4.0),
    "color_space_conversion": lambda x: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.YCbCr),
    "color_twist": lambda x: fn.color_twist(x, hue=90, saturation=1.5, contrast=1.2),
    "contrast": lambda x: fn.contrast(x, contrast=2.0),
    "crop": lambda x: fn.crop(x, crop=(100, 100), crop_pos_x=0.8, crop_pos_y=0.2),
    "crop_mirror_normalize": lambda x: fn.crop_mirror_normalize(
        x, crop=(120, 160), mirror=1, mean=[124, 116, 104], std=[58, 57, 57], scale=50, shift=128,
        dtype=types.UINT8, output_layout="HWC",
    ),
    "debayer": lambda x: fn.debayer(x, blue_position=[0, 0]),
    "equalize": lambda x: fn.equalize(x),
    "erase": lambda x: fn.erase(x, anchor=[20, 20, 80, 110], shape=[50, 70, 60, 60], axis_names="HW", fill_value=90),
    "experimental.dilate": lambda x: fn.experimental.dilate(x, mask_size=[7, 7]),
    "experimental.erode": lambda x: fn.experimental.erode(x, mask_size=[7, 7]),
    "experimental.median_blur": lambda x: fn.experimental.median_blur(x, window_size=[9, 9]),
    "experimental.resize": lambda x: fn.experimental.resize(x, size=[75, 100], roi_start=[20, 40], roi_end=[120, 170]),
    "experimental.warp_perspective": lambda x: fn.experimental.warp_perspective(
        x, matrix=[1.2, 0.3, -30.0, 0.0, 1.3, -10.0, 0.0, 0.0025, 1.0]
    ),
    "fast_resize_crop_mirror": lambda x: fn.fast_resize_crop_mirror(x, resize_shorter=130, crop=[100, 140], mirror=1),
    "filter": lambda x: fn.filter(x, types.Constant(np.eye(15, dtype=np.float32) / 15)),
    "flip": lambda x: fn.flip(x, horizontal=1),
    "gaussian_blur": lambda x: fn.gaussian_blur(x, sigma=4.0),
    "grid_mask": lambda x: fn.grid_mask(x, tile=40, ratio=0.5, angle=0.4),
    "hsv": lambda x: fn.hsv(x, hue=120, saturation=0.8, value=1.2),
    "hue": lambda x: fn.hue(x, hue=120),
    "jitter": lambda x: fn.jitter(x, nDegree=9),
    "jpeg_compression_distortion": lambda x: fn.jpeg_compression_distortion(x, quality=5),
    "laplacian": lambda x: fn.cast(128 + fn.laplacian(x, window_size=3, dtype=types.FLOAT), dtype=types.UINT8),
    "lookup_table": lambda x: fn.lookup_table(
        x, keys=list(range(256)), values=[min(each, 255 - each) for each in range(256)], dtype=types.UINT8
    ),
    "multi_paste": lambda x: fn.multi_paste(
        x,
        in_ids=[0, 0, 0],
        in_anchors=types.Constant(np.array([[0, 0], [0, 80], [60, 60]], np.int32)),
        shapes=types.Constant(np.full((3, 2), (75, 100), np.int32)),
        out_anchors=types.Constant(np.array([[0, 0], [10, 95], [70, 40]], np.int32)),
        output_size=list(SIZE),
    ),
    "noise.gaussian": lambda x: fn.noise.gaussian(x, stddev=40.0),
    "noise.salt_and_pepper": lambda x: fn.noise.salt_and_pepper(x, prob=0.1),
    "noise.shot": lambda x: fn.noise.shot(x, factor=40.0),
    "normalize": lambda x: fn.normalize(x, axes=[0, 1], scale=50.0, shift=128, dtype=types.UINT8),
    "pad": lambda x: fn.pad(x, axes=[0, 1], shape=[170, 240], fill_value=90),
    "paste": lambda x: fn.paste(x, ratio=1.5, fill_value=90, paste_x=0.2, paste_y=0.7),
    "random_resized_crop": lambda x: fn.random_resized_crop(x, size=[150, 150], random_area=[0.1, 0.4]),
    "resize": lambda x: fn.resize(x, size=[100, 100]),
    "resize_crop_mirror": lambda x: fn.resize_crop_mirror(x, resize_shorter=130, crop=[100, 140], mirror=1),
    "roi_random_crop": lambda x: fn.slice(
        x, fn.roi_random_crop(x, roi_start=[20, 80, 0], roi_end=[140, 140, 3], crop_shape=[90, 120, 3]), [90, 120, 3],
        axes=[0, 1, 2],
    ),
    "rotate": lambda x: fn.rotate(x, angle=20.0, fill_value=90),
    "saturation": lambda x: fn.saturation(x, saturation=0.2),
    "slice": lambda x: fn.slice(x, rel_start=[0.1, 0.3], rel_shape=[0.6, 0.5], axis_names="HW"),
    "sphere": lambda x: fn.sphere(x, interp_type=types.INTERP_LINEAR),
    "tensor_resize": lambda x: fn.tensor_resize(x, sizes=[150, 90], axes=[0, 1]),
    "warp_affine": lambda x: fn.warp_affine(x, matrix=[1.0, 0.4, -30.0, 0.1, 1.0, -10.0], fill_value=90),
    "water": lambda x: fn.water(x, ampl_x=6.0, ampl_y=6.0, freq_x=0.1, freq_y=0.1, interp_type=types.INTERP_LINEAR),
}  # fmt: skip

#: Operators that take an image, boxes and labels, and return the same.
OF_BOXES: dict[str, Graph] = {
    "bbox_paste": lambda x, boxes, labels: (
        fn.paste(x, ratio=1.6, fill_value=90, paste_x=0.8, paste_y=0.3),
        fn.bbox_paste(boxes, ratio=1.6, ltrb=True, paste_x=0.8, paste_y=0.3),
        labels,
    ),
    "bb_flip": lambda x, boxes, labels: (fn.flip(x, horizontal=1), fn.bb_flip(boxes, horizontal=1, ltrb=True), labels),
    "bbox_rotate": lambda x, boxes, labels: (
        fn.rotate(x, angle=25.0, keep_size=True, fill_value=90),
        *fn.bbox_rotate(boxes, labels, angle=25.0, keep_size=True, input_shape=list(SIZE)),
    ),
    "random_bbox_crop": lambda x, boxes, labels: _cropped(x, boxes, labels),
    "ssd_random_crop": lambda x, boxes, labels: fn.ssd_random_crop(x, boxes, labels, num_attempts=9),
}

#: Operators on sounds: what they take, and what they return, from a signal. Matrices have frequencies in rows.
OF_SOUNDS: dict[str, tuple[Graph, Graph]] = {
    "mel_filter_bank": (lambda x: _decibels(_spectrogram(x)), lambda x: _decibels(_mel(x))),
    "mfcc": (lambda x: _decibels(_mel(x)), lambda x: fn.mfcc(_decibels(_mel(x)), n_mfcc=20)),
    "nonsilent_region": (
        lambda x: x,
        lambda x: fn.slice(
            x, *fn.nonsilent_region(x, cutoff_db=-30.0), axes=[0], normalized_anchor=False, normalized_shape=False
        ),
    ),
    "power_spectrum": (lambda x: x, lambda x: fn.to_decibels(fn.power_spectrum(x), cutoff_db=-60) / 60 + 0.5),
    "preemphasis_filter": (lambda x: x, lambda x: fn.preemphasis_filter(x)),
    "spectrogram": (lambda x: x, lambda x: _spectrogram(x) ** 0.3),  # powers alone are too dark to see
    "to_decibels": (lambda x: _spectrogram(x), lambda x: _decibels(_spectrogram(x))),
}


def _decibels(powers: Any) -> Any:
    return fn.to_decibels(powers, cutoff_db=-60)


def _mel(sound: Any) -> Any:
    return fn.mel_filter_bank(_spectrogram(sound), sample_rate=RATE, nfilter=50)


def _spectrogram(sound: Any) -> Any:
    return fn.spectrogram(sound, nfft=512, window_length=512, window_step=160)


def _cropped(image: Any, boxes: Any, labels: Any) -> tuple[Any, Any, Any]:
    start, shape, boxes, labels = fn.random_bbox_crop(
        boxes, labels, scaling=[0.5, 0.8], aspect_ratio=[0.8, 1.3], thresholds=[0.3], allow_no_crop=False,
        bbox_layout="xyXY", num_attempts=50,
    )  # fmt: skip
    return fn.slice(image, start, shape), boxes, labels


def run(graph: Graph, *inputs: Array, layouts: Sequence[str] = ("HWC",)) -> list[Array]:
    """Return the outputs of an operator for one sample."""

    @pipeline_def(batch_size=1, num_threads=1, device_id=None, seed=5)
    def pipe() -> Any:
        feeds = (
            fn.external_source(source=partial(list, [value]), layout=layout)
            for value, layout in zip(inputs, [*layouts, *[""] * len(inputs)], strict=False)
        )
        return graph(*feeds)

    built = pipe()
    try:
        return [np.array(output.as_cpu().at(0)) for output in built.run()]
    finally:
        built.close()


def photograph(name: str = "cat") -> Array:
    """Return an example image."""
    with Image.open(photograph_paths(12)[name]) as opened:
        return np.asarray(opened.convert("RGB").resize(SIZE[::-1], Image.Resampling.LANCZOS))


def sound() -> Array:
    """Return a tone that rises, with overtones, between two moments of silence."""
    time = np.linspace(0, 1, RATE)
    phase = 2 * np.pi * np.cumsum(200 + 500 * time**2) / RATE
    tone = sum(np.sin(number * phase) / number for number in (1, 2, 3, 5, 8)) * np.sin(np.pi * time) ** 0.5
    silence = np.zeros(RATE // 3)
    return (0.3 * np.concatenate([silence, tone, silence])).astype(np.float32)


def mosaic(image: Array) -> Array:
    """Return what a camera with a Bayer filter sees of an image, one channel: blue is in the second row and column."""
    seen = image[..., 1].copy()
    seen[::2, ::2], seen[1::2, 1::2] = image[::2, ::2, 0], image[1::2, 1::2, 2]
    return seen[..., None]


def drawn(image: Array, boxes: Array, labels: Array) -> Array:
    """Draw boxes, left, top, right and bottom as fractions, in the colors of their labels."""
    picture = Image.fromarray(image)
    height, width = image.shape[:2]
    for box, label in zip(boxes, labels.ravel(), strict=True):
        corners = (box * [width - 1, height - 1, width - 1, height - 1]).round().tolist()
        ImageDraw.Draw(picture).rectangle(corners, outline=("white", "red", "cyan")[int(label)], width=2)
    return np.asarray(picture)


def waveform(signal: Array) -> Array:
    """Draw a signal as the range of its samples in each column."""
    picture = Image.new("RGB", SIZE[::-1], "white")
    pen, scale = ImageDraw.Draw(picture), SIZE[0] / 2
    for column, part in enumerate(np.array_split(signal, SIZE[1])):
        pen.line([(column, scale * (1 - part.max())), (column, scale * (1 - part.min()))], fill=(40, 80, 160))
    return np.asarray(picture)


def heat(values: Array) -> Array:
    """Draw a matrix in colors, the first row at the bottom."""
    low, high = values.min(), values.max()
    gray = ((values - low) / (high - low) * 255).astype(np.uint8)[::-1]
    colors = cv2.applyColorMap(gray, cv2.COLORMAP_VIRIDIS)[..., ::-1]
    return np.asarray(cv2.resize(colors, SIZE[::-1], interpolation=cv2.INTER_NEAREST))


def remapped(image: Array) -> list[Array]:
    """Turn an image around its middle, the more the farther outside."""
    height, width = SIZE
    y, x = np.mgrid[:height, :width] - np.array(SIZE).reshape(2, 1, 1) / 2
    angle = np.hypot(x, y) / 90
    maps = (x * np.cos(angle) - y * np.sin(angle) + width / 2, x * np.sin(angle) + y * np.cos(angle) + height / 2)
    return run(fn.experimental.remap, image, *(each.astype(np.float32) for each in maps), layouts=("HWC", "HW", "HW"))


def flow_of(frames: Array) -> Array:
    """Draw the motion between two frames: the hue is the direction, the brightness the distance."""
    (vectors,) = run(lambda x: fn.optical_flow(x, output_grid=1), frames, layouts=("FHWC",))
    distance, direction = cv2.cartToPolar(vectors[0, ..., 0], vectors[0, ..., 1], angleInDegrees=True)
    hsv = np.stack([direction / 2, np.full(distance.shape, 255), np.minimum(distance * 25, 255)], axis=-1)
    return np.asarray(cv2.cvtColor(hsv.astype(np.uint8), cv2.COLOR_HSV2RGB))


def masks() -> Array:
    """Return a map of labels: two objects."""
    labels = np.zeros((*SIZE, 1), np.int32)
    cv2.ellipse(labels[..., 0], (60, 80), (35, 50), 20, 0, 360, 1, -1)
    cv2.circle(labels[..., 0], (145, 60), 32, 2, -1)
    return labels


def segmentations() -> dict[str, list[Array]]:
    """Return the images of the operators on maps of labels."""
    labels = masks()
    colors = np.array([(60, 60, 60), (190, 90, 60), (60, 130, 190)], np.uint8)[labels[..., 0]]
    boxed, marked = colors.copy(), colors.copy()
    start, end = run(lambda x: fn.segmentation.random_object_bbox(x, format="start_end"), labels)
    cv2.rectangle(boxed, start[1::-1].tolist(), (end[1::-1] - 1).tolist(), (255, 255, 255), 2)
    (pixel,) = run(lambda x: fn.segmentation.random_mask_pixel(x, foreground=1), labels)
    cv2.drawMarker(marked, pixel[1::-1].tolist(), (255, 255, 255), cv2.MARKER_CROSS, 16, 2)
    polygons = np.array([[0, 0, 3], [1, 3, 7], [2, 7, 10]], np.int32)
    vertices = np.array(
        [20, 130, 60, 20, 90, 120, 100, 30, 180, 40, 170, 70, 110, 60, 110, 90, 185, 85, 150, 140], np.float32
    )
    selected = run(
        fn.segmentation.select_masks, np.array([0, 2], np.int32), polygons, vertices.reshape(-1, 2), layouts=()
    )
    return {
        "segmentation.random_mask_pixel": [colors, marked],
        "segmentation.random_object_bbox": [colors, boxed],
        "segmentation.select_masks": [outlines(polygons, vertices.reshape(-1, 2)), outlines(*selected)],
    }


def outlines(polygons: Array, vertices: Array) -> Array:
    """Draw polygons in the colors of their numbers."""
    picture = np.full((*SIZE, 3), 60, np.uint8)
    for number, first, end in polygons.tolist():
        color = ((190, 90, 60), (60, 130, 190), (120, 170, 70))[number]
        cv2.fillPoly(picture, [vertices[first:end].round().astype(np.int32)], color)
    return picture


def encoded(image: Array) -> list[Array]:
    """Draw boxes, and the anchors of a grid that `box_encoder` assigns to them, by label."""
    half, (rows, columns) = np.array([0.15, 0.3]), np.mgrid[0:1:5j, 0:1:7j]
    centers = np.stack([columns, rows], axis=-1).reshape(-1, 2)
    anchors = np.clip(np.concatenate([centers - half, centers + half], axis=1), 0, 1).astype(np.float32)
    _, labels = run(
        lambda boxes, labels: fn.box_encoder(boxes, labels, anchors=anchors.ravel().tolist()), BOXES, LABELS, layouts=()
    )
    return [drawn(image, BOXES, LABELS), drawn(image, anchors[labels > 0], labels[labels > 0])]


def images() -> dict[str, list[Array]]:
    """Return the images before and after each operator."""
    image, signal = photograph(), sound()
    frames = np.stack(
        [image, np.asarray(cv2.warpAffine(image, np.array([[1.0, 0.05, -3], [-0.05, 1, 5]]), SIZE[::-1]))]
    )
    found = {"experimental.remap": [image, *remapped(image)], "box_encoder": encoded(image), **segmentations()}
    sequence = np.stack([photograph(name)[::2, ::2] for name in ("cat", "coffee", "rocket")])
    (rearranged,) = run(lambda x: fn.sequence_rearrange(x, new_order=[2, 0, 0]), sequence, layouts=("FHWC",))
    found["sequence_rearrange"] = [np.concatenate(list(each), axis=1) for each in (sequence, rearranged)]
    found["optical_flow"] = [*frames, flow_of(frames)]
    for name, graph in OF_IMAGES.items():
        before = mosaic(image) if name.endswith("debayer") else image
        found[name] = [before, *run(graph, before)]
    for name, graph in OF_BOXES.items():
        found[name] = [drawn(image, BOXES, LABELS), drawn(*run(graph, image, BOXES, LABELS))]
    for name, graphs in OF_SOUNDS.items():
        values = [run(graph, signal, layouts=("",))[0] for graph in graphs]
        found[name] = [heat(value) if value.ndim == 2 else waveform(value) for value in values]
    return found


def beside(tiles: Sequence[Array], gap: int = 8) -> Image.Image:
    """Return images in a row, on white."""
    width = sum(tile.shape[1] for tile in tiles) + gap * (len(tiles) - 1)
    sheet = Image.new("RGB", (width, max(len(tile) for tile in tiles)), "white")
    left = 0
    for tile in tiles:
        sheet.paste(Image.fromarray(tile.squeeze()).convert("RGB"), (left, 0))
        left += tile.shape[1] + gap
    return sheet


def write_image(path: Path, image: Image.Image) -> None:
    """Save an image as JPEG, unless only rounding would change the file."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=85)
    if not path.exists() or _differ(path, buffer):
        path.write_bytes(buffer.getvalue())


def main() -> None:
    """Write the images."""
    FOLDER.mkdir(exist_ok=True)
    for name, tiles in images().items():
        write_image(FOLDER / f"{name}.jpg", beside(tiles))


def _differ(saved: Path, written: io.BytesIO) -> bool:
    with Image.open(saved) as old, Image.open(written) as new:
        if old.size != new.size or old.mode != new.mode:
            return True
        return bool(np.abs(np.asarray(old, int) - np.asarray(new, int)).max() > 2)


if __name__ == "__main__":
    main()
