"""Drawings of a batch's outputs, for a page in a browser."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._sheet import show
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

Array = npt.NDArray[Any]

_MOST = 15  # samples
_COLUMNS = 5
_SIDE = 160  # pixels
_LEAST = 8  # pixels; smaller arrays aren't images


def draw_thumbnails(outputs: Sequence[TensorList], captions: Sequence[str]) -> dict[str, Any]:
    """Draw the first samples of a batch: a sheet for each output with images, with the boxes and masks of the others.

    An output with arrays (N, 4) has boxes. An output with integers or booleans of an image's height and width and no
    colors has masks. Boxes and masks are drawn on the first output whose images they fit.

    Args:
        outputs: outputs of the pipeline.
        captions: text below each sample; may be empty.

    Returns:
        ``sheets``, each with the number of the output, a JPEG as base64, the first sample's shape and dtype, and what
        is drawn on it; and ``others``: number, shape and dtype of the outputs that aren't drawn.
    """
    samples = [_samples(output) for output in outputs]
    kinds = [_kind(arrays[0]) if arrays else "" for arrays in samples]
    colored = [arrays for arrays, kind in zip(samples, kinds, strict=True) if kind == "image"]
    sheets, others = [], []
    drawn: set[int] = set()
    for number, (arrays, kind) in enumerate(zip(samples, kinds, strict=True)):
        if kind != "image" and not (kind == "plane" and not any(_fit(each, arrays) for each in colored)):
            continue
        overlays: dict[str, list[Array]] = {}
        notes: list[str] = []
        for other, name in enumerate(kinds):
            wanted = {"boxes": "boxes", "plane": "masks"}.get(name)
            if kind == "image" and wanted and other not in drawn and wanted not in overlays:
                if wanted == "masks" and not _fit(arrays, samples[other]):
                    continue
                drawn.add(other)
                notes.append(f"{wanted} of output {other}")
                overlays[wanted] = samples[other]
        sheets.append(
            {"output": number, "jpeg": _sheet(arrays, overlays, captions), **_described(arrays[0]), "drawn": notes}
        )
    for number, arrays in enumerate(samples):
        if number not in drawn and all(sheet["output"] != number for sheet in sheets):
            text = _described(arrays[0]) if arrays else {"shape": "()", "dtype": ""}
            others.append({"output": number, **text})
    return {"sheets": sheets, "others": others}


def _samples(output: TensorList) -> list[Array]:
    count = min(len(output), _MOST)
    if isinstance(output, TensorListGPU):
        return [output.at(index).as_cpu().as_array() for index in range(count)]
    return [np.array(output.samples[index]) for index in range(count)]


def _kind(array: Array) -> str:
    """Return "image" for colors, "plane" for one channel, "boxes", or "" for other data."""
    if array.ndim == 2 and array.shape[1] == 4:
        return "boxes"
    height_width = _height_width(array)
    if height_width is None or min(height_width) < _LEAST:
        return ""
    return "plane" if array.ndim == 2 or 1 in (array.shape[0], array.shape[2]) else "image"


def _height_width(array: Array) -> tuple[int, int] | None:
    if array.ndim == 2:
        return array.shape[0], array.shape[1]
    if array.ndim == 3 and array.shape[2] in (1, 3, 4):
        return array.shape[0], array.shape[1]
    if array.ndim == 3 and array.shape[0] in (1, 3, 4):
        return array.shape[1], array.shape[2]
    return None


def _fit(images: list[Array], masks: list[Array]) -> bool:
    pairs = zip(images, masks, strict=True)
    return all(mask.dtype.kind in "biu" and _height_width(image) == _height_width(mask) for image, mask in pairs)


def _sheet(arrays: list[Array], overlays: dict[str, list[Array]], captions: Sequence[str]) -> str:
    scales = [min(1.0, _SIDE / max(_height_width(array) or (1, 1))) for array in arrays]
    boxes, masks = overlays.get("boxes"), overlays.get("masks")
    if boxes is not None:
        boxes = [
            each if not each.size or each.max() <= 1 else each * scale
            for each, scale in zip(boxes, scales, strict=True)
        ]
    if masks is not None:
        masks = [_smaller(mask, scale) for mask, scale in zip(masks, scales, strict=True)]
    images = [_smaller(array, scale) for array, scale in zip(arrays, scales, strict=True)]
    labels = [f"#{caption}" for caption in captions[: len(images)]] if any(captions) else None
    buffer = io.BytesIO()
    show(images, labels=labels, boxes=boxes, masks=masks, columns=_COLUMNS).save(buffer, "jpeg", quality=85)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _smaller(array: Array, scale: float) -> Array:
    """Return an image (H, W, C), reduced by nearest neighbors: class numbers must stay as they are."""
    if array.ndim == 3 and array.shape[2] not in (1, 3, 4):
        array = np.moveaxis(array, 0, 2)
    height, width = array.shape[:2]
    rows = np.linspace(0, height - 1, max(1, round(height * scale))).astype(np.intp)
    columns = np.linspace(0, width - 1, max(1, round(width * scale))).astype(np.intp)
    return array[rows[:, None], columns]


def _described(array: Array) -> dict[str, str]:
    return {"shape": str(tuple(array.shape)), "dtype": str(array.dtype)}
