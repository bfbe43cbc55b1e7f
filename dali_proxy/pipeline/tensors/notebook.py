"""HTML that notebooks display for tensors and batches: the shapes, and small images."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import Any

from dali_proxy.pipeline._sheet import as_array, show

__all__ = ["as_html", "thumbnails"]

#: Number of samples that are drawn, and the longest side of a drawing in pixels.
_SAMPLES, _SIZE = 16, 128


def as_html(text: str, samples: Sequence[Any], layout: str) -> str:
    """Return a description and, if the samples are images or videos, the first ones (of a video, the first frame).

    Args:
        text: the description.
        samples: tensors of the samples; those on a GPU are copied.
        layout: the names of their dimensions; without a layout, samples of 3 dimensions are images if one of them can
            be that of channels.
    """
    images = thumbnails(samples, layout)
    return (f'<img src="data:image/png;base64,{images}">' if images else "") + f"<pre>{escape(text)}</pre>"


def thumbnails(samples: Sequence[Any], layout: str) -> str:
    """Return images with their shapes below as a PNG in base64, or an empty text if the samples aren't images."""
    first = [samples[index] for index in range(min(len(samples), _SAMPLES))]
    shapes = [tuple(sample.shape()) for sample in first]
    known = layout in ("", "HW", "HWC", "CHW", "FHWC", "FCHW")
    if not first or not known or not all(_is_image(shape, layout) for shape in shapes):
        return ""
    arrays = [as_array(sample) for sample in first]
    if layout.startswith("F"):
        arrays = [array[0] for array in arrays]
    content = io.BytesIO()
    labels = ["x".join(map(str, shape)) for shape in shapes]
    show(arrays, labels=labels, size=_SIZE).save(content, "png")
    return base64.b64encode(content.getvalue()).decode()


def _is_image(shape: tuple[int, ...], layout: str) -> bool:
    """Return whether a sample can be drawn: it isn't empty, and has 1 to 4 channels or the layout HW."""
    frame = shape[1:] if layout.startswith("F") else shape
    channels = len(frame) == 3 and (frame[-1] in (1, 2, 3, 4) or frame[0] in (1, 2, 3, 4))
    return min(shape, default=0) > 0 and (channels or layout == "HW")
