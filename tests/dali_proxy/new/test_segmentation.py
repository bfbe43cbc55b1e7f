"""The script for segmentation keeps the classes of masks of 16 bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dali_proxy._new.kinds import segmentation
from dali_proxy.pipeline import dynamic, types


@pytest.fixture(autouse=True)
def _end_threads() -> Iterator[None]:
    dynamic.set_num_threads(2)
    yield
    dynamic.set_num_threads(None)


def folder_of(mask: Image.Image, folder: Path) -> Path:
    for name in ("images", "masks"):
        (folder / name).mkdir()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "images" / "0.png")
    mask.save(folder / "masks" / "0.png")
    return folder


def test_mask_of_16_bits_needs_its_dtype(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    classes = np.arange(64, dtype=np.uint16).reshape(8, 8) % 3
    folder = folder_of(Image.fromarray(classes), tmp_path)
    with pytest.raises(ValueError, match=r"the mask of 0\.png has PIL's mode I.*types\.UINT16 for 16 bits"):
        segmentation.Samples(folder, segmentation.prepare)
    monkeypatch.setattr(segmentation, "MASKS", types.UINT16)
    _, mask = segmentation.Samples(folder, segmentation.prepare)[0]
    assert set(np.unique(np.asarray(mask))) == {0, 1, 2}


@pytest.mark.parametrize("mode", ["1", "RGB"])
def test_mask_of_another_kind_is_an_error(mode: str, tmp_path: Path) -> None:
    folder = folder_of(Image.new(mode, (8, 8)), tmp_path)
    with pytest.raises(ValueError, match=f"has PIL's mode {mode}, .*convert others to L"):
        segmentation.Samples(folder, segmentation.prepare)
