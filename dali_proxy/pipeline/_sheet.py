"""Draws the images, clips or volumes of a batch side by side, with boxes, masks and labels."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

Array = npt.NDArray[Any]

_EMPTY: Array = np.full((1, 1, 3), 255, np.uint8)

_GAP, _CAPTION, _FONT_SIZE = 4, 14, 10  # pixels
#: Fonts of common systems for texts that Pillow's own font can't show.
_FONTS = ("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Arial.ttf")
#: Colors of boxes, and of the classes of masks from 1 on: Okabe and Ito's, which most people can tell apart.
_COLORS = (
    *((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167)),
)


def show(
    images: Any,
    *,
    labels: Sequence[Any] | None = None,
    boxes: Sequence[Any] | None = None,
    masks: Sequence[Any] | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    columns: int = 8,
    size: int | None = None,
    path: str | Path | None = None,
) -> Image.Image:
    """Draw the images of a batch side by side. Clips and volumes have a row each, with some of their frames or slices.

    A notebook displays the result. Everything may be on a GPU.

    Args:
        images: tensor (N, C, H, W) or (N, H, W, C), or images of any sizes: torch tensors, arrays, a `TensorList`. They
            have 1 to 4 channels, or none. Clips are (F, H, W, C), (F, C, H, W) or (C, F, H, W), volumes the same with
            D for F, or (D, H, W). At most `columns` frames are drawn, at equal distances. Bytes are drawn as they are.
            Floats are drawn in the range from the smallest to the largest value of the batch, or of 0 to 255 if `mean`
            and `std` are given.
        labels: a text or number below each image. For a clip, the number of the frame follows.
        boxes: for each image, boxes (M, 4): left, top, right, bottom, in pixels or, if none exceeds 1, as fractions.
            For a clip, these are the boxes of each frame, or (F, M, 4).
        masks: for each image, class numbers (H, W), (H, W, 1) or (1, H, W). The classes from 1 on are colored. For a
            clip, they have its first dimension, too.
        mean: what the pipeline subtracted: one number, or one per channel.
        std: what the pipeline divided by.
        columns: number of images in a row.
        size: longest side of an image in the drawing, in pixels: larger images are reduced, with what is drawn in them.
            Much smaller ones are enlarged by a whole number.
        path: file to save the drawing to.

    Returns:
        The drawing.

    Raises:
        ArgumentTypeError: `images` isn't a batch of images.
        ArgumentValueError: there are no images, or not as many labels, boxes or masks as images; or `columns` or `size`
            is below 1.

    Example:
        >>> show(np.zeros((3, 20, 30, 3), np.uint8), labels=["a", "b", "c"], columns=2).size
        (72, 80)
    """
    if columns < 1 or (size is not None and size < 1):
        raise ArgumentValueError(f"show: columns and size must be 1 or more, not {columns} and {size}")
    arrays = [as_array(image) for image in images]
    if not arrays:
        raise ArgumentValueError("there are no images to show")
    for name, values in (("labels", labels), ("boxes", boxes), ("masks", masks)):
        if values is not None and len(values) != len(arrays):
            raise ArgumentValueError(f"there are {len(arrays)} images, but {len(values)} {name}")
    all_masks = None if masks is None else [as_array(mask) for mask in masks]
    all_boxes = None if boxes is None else [as_array(each) for each in boxes]
    captions = None if labels is None else [_text(label) for label in labels]
    clips = [_frames(array) for array in arrays]
    if any(clip is not None for clip in clips):
        shown = _Rows([[array] if clip is None else clip for array, clip in zip(arrays, clips, strict=True)], columns)
        arrays, captions, columns = shown.images(), shown.captions(captions), shown.columns
        all_masks = None if all_masks is None else shown.parts(all_masks, 3)
        all_boxes = None if all_boxes is None else shown.parts(all_boxes, 3)
    tiles = [
        _tile(image, None if all_masks is None else all_masks[index], None if all_boxes is None else all_boxes[index])
        for index, image in enumerate(_pixels(arrays, mean, std))
    ]
    if size is not None:
        tiles = [_fitted(tile, size) for tile in tiles]
    sheet = _arrange(tiles, captions, min(columns, len(tiles)))
    if path is not None:
        sheet.save(path)
    return sheet


class _Rows:
    """The frames of clips that are drawn, a row for each clip."""

    def __init__(self, clips: Sequence[Sequence[Array]], columns: int) -> None:
        self.columns = min(columns, max(map(len, clips)))
        self._clips = clips
        self._chosen = [
            np.linspace(0, len(clip) - 1, min(self.columns, len(clip))).round().astype(int) for clip in clips
        ]

    def images(self) -> list[Array]:
        """Return the frames, with empty images where a clip is shorter than a row."""
        return self._filled([[clip[each] for each in chosen] for clip, chosen in self._pairs(self._clips)], _EMPTY)

    def captions(self, labels: Sequence[str] | None) -> list[str]:
        """Return a text for each frame."""
        named = [""] * len(self._clips) if labels is None else labels
        texts = [[f"{label} [{each}]".strip() for each in chosen] for label, chosen in self._pairs(named)]
        return self._filled(texts, "")

    def parts(self, values: Sequence[Array], ndim: int) -> list[Any]:
        """Return a part of masks or boxes for each frame: all of a value with fewer dimensions."""
        rows = [
            [value[each] if value.ndim >= ndim and len(value) == len(clip) else value for each in chosen]
            for (value, chosen), clip in zip(self._pairs(values), self._clips, strict=True)
        ]
        return self._filled(rows, None)

    def _pairs(self, values: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        return zip(values, self._chosen, strict=True)

    def _filled(self, rows: Sequence[Sequence[Any]], empty: Any) -> list[Any]:
        return [each for row in rows for each in (*row, *[empty] * (self.columns - len(row)))]


def _frames(array: Array) -> list[Array] | None:
    """Return the frames of a clip, or the slices of a volume; None for an image."""
    channels = (1, 2, 3, 4)
    if array.ndim == 4:
        if array.shape[3] in channels or array.shape[1] in channels:
            return list(array)
        if array.shape[0] in channels:
            return list(np.moveaxis(array, 1, 0))
    if array.ndim == 3 and array.shape[0] not in channels and array.shape[2] not in channels:
        return list(array)
    return None


def as_array(value: Any) -> Array:
    """Return a tensor of any library as an array on the CPU."""
    for convert in ("detach", "cpu", "as_cpu", "get"):
        if hasattr(value, convert) and not isinstance(value, np.ndarray):
            value = getattr(value, convert)()
    return np.asarray(value)


def _pixels(images: list[Array], mean: Sequence[float] | None, std: Sequence[float] | None) -> list[Array]:
    """Return images as uint8 (H, W, 3)."""
    images = [_channels_last(image) for image in images]
    floats = [image for image in images if image.dtype != np.uint8 and image.size]
    if mean is not None or std is not None:
        low, high = 0.0, 255.0
        scale = np.asarray(1 if std is None else std, np.float32)
        offset = np.asarray(0 if mean is None else mean, np.float32)
        images = [image if image.dtype == np.uint8 else image * scale + offset for image in images]
    else:
        low = min((float(image.min()) for image in floats), default=0.0)
        high = max((float(image.max()) for image in floats), default=255.0)
    drawn = []
    for image in images:
        if image.dtype != np.uint8:
            image = np.rint((image.astype(np.float32) - low) * (255 / (high - low or 1))).clip(0, 255).astype(np.uint8)
        drawn.append(np.repeat(image[..., :1], 3, axis=2) if image.shape[2] < 3 else image[..., :3])
    return drawn


def _channels_last(image: Array) -> Array:
    if image.ndim == 2:
        return image[..., None]
    if image.ndim == 3 and image.shape[2] in (1, 2, 3, 4):
        return image
    if image.ndim == 3 and image.shape[0] in (1, 2, 3, 4):
        return np.moveaxis(image, 0, 2)
    raise ArgumentTypeError(
        f"images must be (H, W), (H, W, C) or (C, H, W) with 1 to 4 channels, clips (F, H, W, C), (F, C, H, W) or "
        f"(C, F, H, W), volumes also (D, H, W), not of shape {image.shape}: pass a batch"
    )


def _tile(image: Array, mask: Array | None, boxes: Array | None) -> Image.Image:
    height, width, _ = image.shape
    if mask is not None:
        classes = mask.squeeze()
        if classes.shape != (height, width):
            raise ArgumentValueError(f"a mask of shape {mask.shape} doesn't fit an image of {height} x {width}")
        colors = np.array(_COLORS)[(classes.astype(np.int64) - 1) % len(_COLORS)]
        image = np.where(classes[..., None] > 0, (image + colors) // 2, image).astype(np.uint8)
    tile = Image.fromarray(image)
    if boxes is not None and boxes.size:
        if boxes.ndim != 2 or boxes.shape[1] != 4:
            raise ArgumentValueError(f"boxes must be of shape (M, 4), not {boxes.shape}")
        pen = ImageDraw.Draw(tile)
        relative = boxes.max() <= 1
        for number, box in enumerate(boxes * ([width, height] * 2) if relative else boxes):
            left, top, right, bottom = map(float, box)
            corners = (min(left, right), min(top, bottom), max(left, right) - 1, max(top, bottom) - 1)
            if corners[0] <= corners[2] and corners[1] <= corners[3]:
                pen.rectangle(corners, outline=_COLORS[number % len(_COLORS)], width=max(1, min(width, height) // 100))
    return tile


def _fitted(tile: Image.Image, size: int) -> Image.Image:
    """Return an image whose longest side is at most `size`, and more than half of it."""
    factor = size // max(tile.size)
    if factor > 1:
        return tile.resize((factor * tile.width, factor * tile.height), Image.Resampling.NEAREST)
    tile.thumbnail((size, size))
    return tile


def _text(label: Any) -> str:
    array = as_array(label) if not isinstance(label, str) else None
    if array is None or array.dtype.kind not in "biuf":
        return str(label)
    values = [f"{value:g}" if array.dtype.kind == "f" else str(value) for value in array.ravel().tolist()]
    return " ".join(values)


def _arrange(tiles: list[Image.Image], captions: list[str] | None, columns: int) -> Image.Image:
    width = max(tile.width for tile in tiles)
    rows = [tiles[first : first + columns] for first in range(0, len(tiles), columns)]
    heights = [max(tile.height for tile in row) + (0 if captions is None else _CAPTION) + _GAP for row in rows]
    sheet = Image.new("RGB", (columns * (width + _GAP) + _GAP, sum(heights) + _GAP), "white")
    pen = ImageDraw.Draw(sheet)
    for index, tile in enumerate(tiles):
        row, column = divmod(index, columns)
        x, y = _GAP + column * (width + _GAP), _GAP + sum(heights[:row])
        sheet.paste(tile, (x, y))
        if captions is not None:
            _write(pen, (x + 1, y + tile.height + 1), captions[index], width)
    return sheet


def _write(pen: ImageDraw.ImageDraw, position: tuple[int, int], text: str, width: int) -> None:
    """Write as much of a text as fits."""
    font: Any = ImageFont.load_default(_FONT_SIZE)
    if not text.isascii():  # Pillow's own font has hardly any other letters
        for name in _FONTS:
            with suppress(OSError):
                font = ImageFont.truetype(name, _FONT_SIZE)
                break
        else:
            text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    while text and pen.textlength(text, font) > width - 2:
        text = text[:-1]
    pen.text(position, text, fill="black", font=font)
