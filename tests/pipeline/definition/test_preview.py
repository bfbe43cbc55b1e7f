"""Drawings of what a pipeline makes of image files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._sheet import _COLORS
from pipeline import Pipeline, fn, types
from pipeline.errors import ArgumentValueError, PipelineError

RED, BLUE = (200, 40, 40), (40, 40, 200)
STEP = 24 + 4  # width of a tile and its gap


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a red and a blue image of 24 x 24."""
    for name, color in (("a/red.png", RED), ("b/blue.png", BLUE)):
        (tmp_path / "images" / name).parent.mkdir(parents=True)
        Image.new("RGB", (24, 24), color).save(tmp_path / "images" / name)
    return tmp_path / "images"


def decoding(**more: Any) -> Pipeline:
    pipe = Pipeline(batch_size=8, num_threads=1, device_id=None, seed=1)
    with pipe:
        images = fn.decoders.image(fn.external_source(name="images"))
        pipe.set_outputs(images, *(fn.external_source(name=name) for name in more))
    return pipe


def colors(sheet: Image.Image, row: int, column: int, height: int = 24 + 14 + 4) -> Any:
    return np.asarray(sheet)[4 + row * height + 12, 4 + column * STEP + 12].tolist()


def test_row_has_the_draws_of_a_file_without_normalization(folder: Path, tmp_path: Path) -> None:
    with Pipeline(batch_size=64, num_threads=1, device_id=None, seed=2) as pipe:
        images = fn.decoders.image(fn.external_source(name="images")) * fn.random.uniform(range=(0.5, 1.0))
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mean=[100.0, 50.0, 20.0], std=[2.0, 3.0, 4.0]
        )
        pipe.set_outputs(images)
    sheet = pipe.preview(folder, draws=3, size=24, path=tmp_path / "sheet.png")
    assert sheet.size == (3 * STEP + 4, 2 * (24 + 14 + 4) + 4)
    assert Image.open(tmp_path / "sheet.png").size == sheet.size
    red = np.array([colors(sheet, 0, column) for column in range(3)])
    blue = np.array([colors(sheet, 1, column) for column in range(3)])
    assert (red[:, 0] > red[:, 2]).all()
    assert (blue[:, 0] < blue[:, 2]).all()
    assert len(set(map(tuple, red))) == 3
    assert np.abs(red / red[:, :1] - np.array(RED) / RED[0]).max() < 0.02


@pytest.mark.parametrize("by_graph", [True, False])
def test_pixels_of_0_to_1_are_restored(by_graph: bool, folder: Path) -> None:
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    with Pipeline(batch_size=64, num_threads=1, device_id=None) as pipe:
        images = fn.decoders.image(fn.external_source(name="images")) / np.float32(255)
        if by_graph:
            pipe.set_outputs(fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=mean, std=std))
        else:
            pipe.set_outputs((images - np.float32(mean)) / np.float32(std))
    sheet = pipe.preview(folder, size=24) if by_graph else pipe.preview(folder, size=24, mean=mean, std=std)
    assert [colors(sheet, row, 0) for row in range(2)] == [list(RED), list(BLUE)]


def test_boxes_masks_and_labels_lie_on_their_image(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "masks/a").mkdir(parents=True)
    (tmp_path / "masks/b").mkdir()
    mask = np.zeros((24, 24), np.uint8)
    mask[6:18, 6:18] = 2
    for name in ("a/red.bmp", "b/blue.bmp"):
        Image.fromarray(mask).save(tmp_path / "masks" / name)
    pipe = decoding(masks=0, boxes=0, labels=0)

    def box_of(path: Path) -> Any:
        return np.float32([[0, 0, 1, 1]] if path.stem == "red" else np.empty((0, 4)))

    sheet = pipe.preview(folder, masks=tmp_path / "masks", boxes=box_of, labels=7, size=24)
    pixels = np.asarray(sheet)
    assert colors(sheet, 0, 0) == ((np.array(RED) + _COLORS[1]) // 2).tolist()
    assert tuple(pixels[4, 4]) == _COLORS[0]
    assert tuple(pixels[4 + 42, 4]) == BLUE
    assert tuple(pixels[4 + 42 + 2, 4 + 2]) == BLUE


def test_reader_gives_a_batch_per_row(folder: Path) -> None:
    with Pipeline(batch_size=64, num_threads=1, device_id=None) as pipe:
        files, labels = fn.readers.file(file_root=str(folder))
        pipe.set_outputs(fn.decoders.image(files), labels)
    sheet = pipe.preview(images=1, draws=2, size=24)
    assert [colors(sheet, 0, column) for column in range(2)] == [list(RED), list(BLUE)]


def test_pipeline_itself_does_not_run(folder: Path) -> None:
    pipe = decoding()
    pipe.preview(folder, images=1)
    assert repr(pipe).endswith("not built>")


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({}, "the inputs 'images', 'masks' need data"),
        ({"masks": "nowhere"}, "the folder 'nowhere' has no file for"),
        ({"mask": 1}, "the pipeline has no input 'mask'; its inputs are 'images', 'masks'"),
    ],
)
def test_input_without_data_is_an_error(folder: Path, inputs: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentValueError, match=said):
        decoding(masks=0).preview(folder, **inputs)


@pytest.mark.parametrize(
    ("place", "said"), [("nowhere", "doesn't exist"), (".", "contains no images"), (None, "needs a folder")]
)
def test_folder_without_images_is_an_error(
    place: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentValueError, match=said):
        decoding().preview(place)


def test_bad_file_is_named(folder: Path) -> None:
    (folder / "text.jpg").write_text("text")
    with pytest.raises(PipelineError, match=r"text\.jpg: fn\.decoders\.image failed for sample 0: not an image"):
        decoding().preview(folder)


def test_pipeline_without_images_is_an_error(folder: Path) -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(fn.reductions.mean(fn.external_source(name="images", layout="HWC")))
    with pytest.raises(ArgumentValueError, match=r"no output is an image; the shapes of the outputs are \(\)"):
        pipe.preview(folder)
