"""Drawings of batches: the right pixels at the right places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import dali_proxy
from pipeline import Pipeline, _sheet, fn
from pipeline.errors import ArgumentTypeError, ArgumentValueError

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (3, 8, 10, 3), np.uint8)


def tile(sheet: Image.Image, x: int, y: int) -> Any:
    return np.asarray(sheet)[y : y + 8, x : x + 10]


@pytest.mark.parametrize("form", ["NHWC", "NCHW", "list", "floats", "normalized", "TensorList"])
def test_images_lie_in_rows(form: str) -> None:
    batch: Any = torch.from_numpy(BYTES)
    options: dict[str, Any] = {}
    if form in ("NCHW", "normalized"):
        batch = batch.permute(0, 3, 1, 2)
    if form == "list":
        batch = list(BYTES)
    if form == "floats":
        batch = (batch - batch.min()) / 3.0
    if form == "normalized":
        options = {"mean": (10.0, 20.0, 30.0), "std": [50.0, 60.0, 70.0]}
        mean, std = (torch.tensor(options[name])[:, None, None] for name in ("mean", "std"))
        batch = (batch - mean) / std
    if form == "TensorList":
        with Pipeline(3, 1, None) as pipe:
            pipe.set_outputs(fn.external_source(name="x"))
        (batch,) = pipe.run(x=list(BYTES))
    sheet = dali_proxy.show(batch, columns=2, **options)
    assert sheet.size == (2 * 14 + 4, 2 * 12 + 4)
    expected = BYTES if form != "floats" else np.rint((BYTES - BYTES.min()) * (255 / np.ptp(BYTES)))
    for index, (x, y) in enumerate([(4, 4), (18, 4), (4, 16)]):
        assert np.abs(tile(sheet, x, y) - expected[index].astype(float)).max() <= (form == "floats")
    assert (tile(sheet, 18, 16) == 255).all()


def test_parts_of_images(tmp_path: Path) -> None:
    images = torch.zeros(2, 1, 8, 10)
    mask = torch.zeros(2, 8, 10, 1, dtype=torch.uint8)
    mask[1, 2, 3] = 8  # the eighth class has the color of the first
    boxes = [np.zeros((0, 4)), np.array([[0.5, 0, 1, 0.5]])]
    path = tmp_path / "sheet.png"
    drawn = dali_proxy.show(images, masks=mask, boxes=boxes, labels=["cat", torch.tensor([1, 2])], path=path)
    with Image.open(path) as saved:
        assert np.array_equal(np.asarray(saved), np.asarray(drawn))
    assert not tile(drawn, 4, 4).any()
    second = tile(drawn, 18, 4)
    orange = np.array([230, 159, 0])
    assert np.array_equal(second[2, 3], orange // 2)
    assert np.array_equal(
        np.argwhere((second == orange).all(2)),
        [[y, x] for y in range(4) for x in range(5, 10) if x in (5, 9) or y in (0, 3)],
    )
    assert (np.asarray(drawn)[13:26, 4:14] < 128).any(), "the caption"


CLIPS = RNG.integers(0, 256, (2, 7, 8, 10, 3), np.uint8)


@pytest.mark.parametrize("form", ["FHWC", "FCHW", "CFHW", "DHW", "ragged"])
def test_clips_and_volumes_have_rows_of_frames(form: str) -> None:
    batch: Any = torch.from_numpy(CLIPS)
    expected = CLIPS
    if form == "FCHW":
        batch = batch.permute(0, 1, 4, 2, 3)
    elif form == "CFHW":
        batch = batch.permute(0, 4, 1, 2, 3)
    elif form == "DHW":
        batch = batch[..., 0]
        expected = np.repeat(CLIPS[..., :1], 3, axis=4)
    elif form == "ragged":
        batch = [CLIPS[0], CLIPS[1][:2]]
    sheet = dali_proxy.show(batch, columns=3)
    row = 8 + 4 + 14  # with a caption
    assert sheet.size == (3 * 14 + 4, 2 * row + 4)
    for column, frame in enumerate((0, 3, 6)):
        assert np.array_equal(tile(sheet, 4 + 14 * column, 4), expected[0, frame])
        if form != "ragged":
            assert np.array_equal(tile(sheet, 4 + 14 * column, 4 + row), expected[1, frame])
    if form == "ragged":
        assert np.array_equal(tile(sheet, 18, 4 + row), CLIPS[1, 1])
        assert (tile(sheet, 32, 4 + row) == 255).all()


def test_parts_of_clips() -> None:
    clips = np.zeros((1, 4, 8, 10, 3), np.uint8)
    masks = np.zeros((1, 4, 8, 10), np.int32)
    masks[0, 3, 1, 2] = 1
    boxes = np.float32([[[2, 2, 6, 6]]])
    sheet = dali_proxy.show(clips, masks=masks, boxes=boxes, columns=2, labels=["a"])
    first, last = tile(sheet, 4, 4), tile(sheet, 18, 4)
    assert first[2, 2].any(), "the box is in each frame"
    assert last[2, 2].any()
    assert last[1, 2].any()
    assert not first[1, 2].any()


@pytest.mark.parametrize(
    ("images", "options", "error", "message"),
    [
        (np.zeros((0, 4, 4, 3)), {}, ArgumentValueError, "no images"),
        (BYTES[0, :, :, 0], {}, ArgumentTypeError, r"not of shape \(10,\): pass a batch"),
        (BYTES, {"labels": ["a"]}, ArgumentValueError, "3 images, but 1 labels"),
        (BYTES, {"size": 0}, ArgumentValueError, "columns and size must be 1 or more, not 8 and 0"),
        (BYTES, {"masks": np.zeros((3, 4, 4))}, ArgumentValueError, r"\(4, 4\) doesn't fit an image of 8 x 10"),
        (BYTES, {"boxes": np.ones((3, 2, 5))}, ArgumentValueError, r"\(M, 4\), not \(2, 5\)"),
    ],
)
def test_bad_calls_are_refused(images: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        dali_proxy.show(images, **options)


def test_labels_in_other_languages_are_readable_and_cut_where_the_next_image_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def caption(label: str) -> Any:
        return np.asarray(dali_proxy.show(np.zeros((1, 4, 60, 3), np.uint8), labels=[label]))[9:]

    assert not np.array_equal(caption("\u00e4"), caption("\u00f6")), "a letter that the font lacks is a box"
    assert (caption("W" * 60)[:, 64:] == 255).all()
    monkeypatch.setattr(_sheet, "_FONTS", ())
    assert np.array_equal(caption("\u00e4"), caption("a"))
