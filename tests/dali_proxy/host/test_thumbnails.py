"""Drawings of a batch for the live page."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from dali_proxy._host.thumbnails import draw_thumbnails
from pipeline.tensors import TensorListCPU


def test_masks_and_boxes_are_drawn_on_images_that_they_fit() -> None:
    images = TensorListCPU([np.zeros((40, 60, 3), np.uint8), np.zeros((400, 320, 3), np.uint8)])
    masks = TensorListCPU([np.ones((40, 60), np.int64), np.zeros((400, 320), np.int64)])
    boxes = TensorListCPU([np.zeros((0, 4), np.float32), np.array([[0, 0, 320, 400]], np.float32)])
    labels = TensorListCPU(np.arange(2))
    report = draw_thumbnails([labels, boxes, masks, images], ["7", "8"])
    (sheet,) = report["sheets"]
    assert (sheet["output"], sheet["shape"], sheet["drawn"]) == (
        3,
        "(40, 60, 3)",
        ["boxes of output 1", "masks of output 2"],
    )
    assert report["others"] == [{"output": 0, "shape": "()", "dtype": "int64"}]
    drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet["jpeg"]))).convert("RGB"))
    assert drawn.shape[1] < 320  # 60 and 128 pixels wide, reduced
    assert np.ptp(drawn[16:32, 16:48].astype(int), axis=(0, 1)).max() < 20  # the mask covers the first image
    assert drawn[20, 20].max() > 50


def test_planes_without_colored_images_are_images() -> None:
    floats = TensorListCPU(np.random.default_rng(0).random((3, 1, 20, 30), np.float32))
    report = draw_thumbnails([floats], [])
    assert [sheet["output"] for sheet in report["sheets"]] == [0]
    assert report["others"] == []


def test_arrays_that_are_no_images_are_listed() -> None:
    report = draw_thumbnails([TensorListCPU(np.zeros((2, 5), np.float32)), TensorListCPU(np.zeros((2, 3, 3, 3)))], [])
    assert report["sheets"] == []
    assert [other["shape"] for other in report["others"]] == ["(5,)", "(3, 3, 3)"]
