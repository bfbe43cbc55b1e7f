"""What notebooks display for tensors and batches."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from pipeline.tensors import TensorListCPU


def drawing(html: str) -> Image.Image:
    (content,) = re.findall('base64,([^"]*)"', html)
    return Image.open(io.BytesIO(base64.b64decode(content)))


@pytest.mark.parametrize(
    ("shape", "layout"), [((30, 40, 3), "HWC"), ((3, 30, 40), "CHW"), ((30, 40), "HW"), ((2, 30, 40, 1), "FHWC")]
)
def test_batches_of_images_are_drawn_with_their_shapes(shape: tuple[int, ...], layout: str) -> None:
    images = TensorListCPU([np.full(shape, value, np.uint8) for value in (0, 200)], layout=layout)
    html = images._repr_html_()
    assert str(shape) in html
    pixels = np.asarray(drawing(html).convert("RGB"))
    assert pixels.shape[1] == 2 * 120 + 3 * 4, "small images are enlarged by a whole number"
    assert (pixels[4:94, 4:124] == 0).all()
    assert (pixels[4:94, 128:248] == 200).all()
    assert drawing(images[1]._repr_html_()).size[0] == 128


def test_batches_of_other_data_and_empty_ones_are_described_without_a_drawing() -> None:
    others = (np.zeros((2, 5), np.float32), np.zeros((2, 0, 5, 3), np.uint8), np.zeros((0, 4, 4, 3), np.uint8))
    for batch in (*map(TensorListCPU, others), TensorListCPU(np.zeros((2, 3, 4, 5)), layout="XYZ")):
        html = batch._repr_html_()
        assert "<img" not in html
        assert html.startswith("<pre>TensorListCPU(")
