"""readers.coco against NVIDIA DALI: all results exact, relative numbers within the rounding of float32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from dali_proxy.pipeline._imaging.masks import mask_of_polygon, mask_of_runs, runs_of_text
from pipeline.errors import PipelineError

NAMES = ["c.jpg", "a.jpg", "b.jpg", "d.jpg"]


def annotation(image: int, category: int, box: list[float], outline: Any, crowd: int = 0) -> dict[str, Any]:
    return {
        "image_id": image,
        "category_id": category,
        "bbox": box,
        "segmentation": outline,
        "iscrowd": crowd,
        "area": 1,
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create images of any bytes, one without objects, and objects of all kinds."""
    folder = tmp_path_factory.mktemp("coco")
    generator = np.random.default_rng(4)
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(bytes([number]) * (number + 1))
    images = [
        {"id": 40 - 10 * number, "file_name": name, "width": 64 + number, "height": 40 - number}
        for number, name in enumerate(NAMES)
    ]
    annotations = [
        annotation(40, 3, [10, 5, 20.5, 10.25], [generator.uniform(-3, 60, 14).round(2).tolist()]),
        annotation(40, 90, [1, 2, 3, 4], [generator.integers(0, 40, 8).tolist(), [1, 1, 9, 1, 9, 9, 1, 9]]),
        annotation(40, 7, [0, 0, 0.05, 9], [[1, 1, 5, 1, 5, 5]]),
        annotation(20, 3, [50, 20, 10, 10], {"counts": [100, 300, 64 * 40 - 400 - 104], "size": [38, 66]}, crowd=1),
        annotation(10, 7, [5, 6, 0.5, 8], [[5.5, 6.5, 30.25, 8, 20, 33.3]]),
        annotation(10, 3, [5, 6, 7, 8], [[0, 0, 40, 0, 40, 20, 0, 20]]),
    ]
    annotations[3]["segmentation"]["counts"][2] = 38 * 66 - 400
    categories = [{"id": number, "name": str(number)} for number in (7, 3, 90)]
    content = {"images": images, "categories": categories, "annotations": annotations}
    for number, each in enumerate(annotations):
        each["id"] = number
    (folder / "annotations.json").write_text(json.dumps(content))
    return folder


def outputs(side: str, root: Path, name: str = "annotations.json", batch_size: int = 4, **arguments: Any) -> list[Any]:
    dali = pipeline if side == "ours" else pytest.importorskip("nvidia.dali")
    pipe = dali.Pipeline(batch_size=batch_size, num_threads=1, device_id=None, seed=1)
    with pipe:
        pipe.set_outputs(
            *dali.fn.readers.coco(
                file_root=str(root), name="R", **({"annotations_file": str(root / name)} if name else {}), **arguments
            )
        )
    pipe.build()
    try:
        made = [pipe.epoch_size("R")]
        for output in pipe.run():
            made.append([np.array(output.at(index)) for index in range(len(output))])
        return made
    finally:
        if side == "ours":
            pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"ltrb": True, "ratio": True, "image_ids": True},
        {"include_iscrowd": False, "skip_empty": True},
        {"avoid_class_remapping": True, "size_threshold": 1.0, "save_img_ids": True},
        {"polygon_masks": True},
        {"polygon_masks": True, "ratio": True, "image_ids": True},
        {"masks": True, "include_iscrowd": False},
        {"pixelwise_masks": True},
        {"pixelwise_masks": True, "avoid_class_remapping": True, "image_ids": True},
        {"images": ["b.jpg", "c.jpg", "b.jpg"]},
        {"num_shards": 2, "shard_id": 1, "stick_to_shard": True},
    ],
)
def test_samples_are_those_of_dali(root: Path, arguments: dict[str, Any]) -> None:
    ours, theirs = (outputs(side, root, **arguments) for side in ("ours", "dali"))
    assert ours[0] == theirs[0]
    for our_output, their_output in zip(ours[1:], theirs[1:], strict=True):
        for our, their in zip(our_output, their_output, strict=True):
            assert our.dtype == their.dtype
            assert our.size == their.size
            if our.size:
                assert our.shape == their.shape
                assert np.allclose(our, their, rtol=1e-6, atol=0)


@pytest.mark.parity
@pytest.mark.parametrize(("batch_size", "masks"), [(16, "polygon_masks"), (2, "pixelwise_masks")])
def test_real_annotations(dali_extra: Path | None, batch_size: int, masks: str) -> None:
    if dali_extra is None:
        pytest.skip("needs DALI_extra")
    ours, theirs = (
        outputs(side, dali_extra / "db/coco/images", "../instances.json", batch_size, **{masks: True})
        for side in ("ours", "dali")
    )
    for our_output, their_output in zip(ours[1:], theirs[1:], strict=True):
        for our, their in zip(our_output, their_output, strict=True):
            assert our.size
            assert np.array_equal(our, their)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"images": []}, "name no images to read"),
        ({"polygon_masks": True, "pixelwise_masks": True}, "are mutually exclusive"),
        ({"name": "nowhere.json"}, "can't read annotations_file"),
        ({"name": "a.jpg"}, "isn't in COCO's format"),
        ({"preprocessed_annotations": "x"}, "Either ``annotations_file`` or ``preprocessed_annotations`` must be"),
        ({"save_preprocessed_annotations": True}, "needs a folder"),
    ],
)
def test_bad_annotations_are_refused(root: Path, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        outputs("ours", root, **arguments)


def test_missing_arguments_are_refused() -> None:
    with pipeline.Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        pipe.set_outputs(*pipeline.fn.readers.coco(annotations_file="x"))
    with pytest.raises(PipelineError, match="``file_root`` argument is required"):
        pipe.build()


def test_preprocessed_annotations_are_those_that_were_saved(root: Path, tmp_path: Path) -> None:
    def read(**arguments: Any) -> Any:
        with pipeline.Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
            pipe.set_outputs(*pipeline.fn.readers.coco(file_root=root, polygon_masks=True, image_ids=True, **arguments))
        outputs = [[np.array(sample) for sample in output] for output in pipe.run()]
        pipe.close()
        return outputs

    folder = tmp_path / "annotations"
    saved = read(
        annotations_file=root / "annotations.json",
        skip_empty=True,
        save_preprocessed_annotations=True,
        save_preprocessed_annotations_dir=folder,
    )
    with pytest.warns(DeprecationWarning, match="`meta_files_path` is a deprecated alias"):
        loaded = read(meta_files_path=folder)
    for ours, theirs in zip(saved, loaded, strict=True):
        for before, after in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(before, after)
    with pytest.raises(PipelineError, match="can't read preprocessed_annotations"):
        read(preprocessed_annotations=tmp_path)
    with pytest.raises(PipelineError, match='from preprocessed annotation files, "ltrb" is not supported'):
        read(preprocessed_annotations=folder, ltrb=True)
    (folder / "boxes.dat").write_bytes(b"")
    with pytest.raises(PipelineError, match=r"weren't written by fn\.readers\.coco: boxes\.dat is"):
        read(preprocessed_annotations=folder)


@pytest.mark.parity
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"ltrb": True, "ratio": True, "image_ids": True},
        {"polygon_masks": True, "ratio": True},
        {"pixelwise_masks": True, "skip_empty": True},
    ],
)
def test_preprocessed_annotations_are_exchanged_with_dali(
    root: Path, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    folders = {side: tmp_path / side for side in ("ours", "dali")}
    for side, folder in folders.items():
        folder.mkdir()
        saving = {"save_preprocessed_annotations": True, "save_preprocessed_annotations_dir": str(folder)}
        outputs(side, root, **saving, **arguments)
    files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders.values()]
    assert files[0] == files[1]
    masks = {name: value for name, value in arguments.items() if name in ("polygon_masks", "pixelwise_masks")}
    samples = [
        outputs(side, root, name="", batch_size=2, preprocessed_annotations=str(folders["dali"]), **masks)
        for side in folders
    ]
    for ours, theirs in zip(samples[0][1:], samples[1][1:], strict=True):
        for our, their in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(our, their.reshape(our.shape))


def test_missing_images_are_left_out_with_a_warning(root: Path) -> None:
    with pytest.warns(UserWarning, match="doesn't have 1 of the images, such as 'x.jpg': they are left out"):
        *_, ids = outputs("ours", root, images=["a.jpg", "x.jpg", "c.jpg"], image_ids=True, batch_size=2)
    assert np.concatenate(ids).tolist() == [30, 40]


def test_run_lengths_as_numbers_and_as_text() -> None:
    mask = np.zeros((5, 7), bool)
    mask[1:4, 2:6] = True
    counts = [11, 3, 2, 3, 2, 3, 2, 3, 6]
    assert np.array_equal(mask_of_runs(counts, 5, 7), mask)
    # From the third number on, the difference from the last but one, in groups of five bits from 48 on.
    assert runs_of_text(";32000004") == counts
    with pytest.raises(ValueError, match="34 pixels, but the image has 35"):
        mask_of_runs([*counts[:-1], 5], 5, 7)


def test_polygons_outside_of_the_image() -> None:
    assert not mask_of_polygon([-9, -9, -2, -9, -2, -2], 5, 5).any()
    assert mask_of_polygon([-9, -9, 99, -9, 99, 99, -9, 99], 5, 5).all()


@pytest.mark.parity
@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({"annotations": [{}, {"image_id": 99}]}, {}),  # a subset of the images
        ({"categories": []}, {"avoid_class_remapping": True}),
        ({"annotations": [{"category_id": 6}]}, {"avoid_class_remapping": True}),
        ({"images": [{"width": None, "height": None}]}, {}),
        ({"annotations": [{}, {"segmentation": None}]}, {"polygon_masks": True}),
        ({"annotations": [{"bbox": None}]}, {}),  # captions
    ],
    ids=str,
)
def test_fields_that_are_not_needed_may_be_missing(
    changes: dict[str, Any], arguments: dict[str, Any], tmp_path: Path
) -> None:
    entries: dict[str, dict[str, Any]] = {
        "images": {"id": 7, "file_name": "a.jpg", "width": 40, "height": 30},
        "categories": {"id": 5, "name": "cat"},
        "annotations": annotation(7, 5, [1, 2, 3, 4], [[1, 2, 4, 2, 4, 6]]),
    }
    content = {}
    for name, defaults in entries.items():
        made = [
            {**defaults, "id": defaults.get("id", number), **each}
            for number, each in enumerate(changes.get(name, [{}]))
        ]
        content[name] = [{key: value for key, value in each.items() if value is not None} for each in made]
    (tmp_path / "a.jpg").write_bytes(b"image")
    (tmp_path / "a.json").write_text(json.dumps(content))
    ours, theirs = (outputs(side, tmp_path, "a.json", 1, **arguments) for side in ("ours", "dali"))
    assert ours[0] == theirs[0] == 1
    for our, their in zip(ours[1:], theirs[1:], strict=True):
        np.testing.assert_array_equal(our[0], their[0])


def test_segmentation_null_has_no_outline(root: Path, tmp_path: Path) -> None:
    content = json.loads((root / "annotations.json").read_text())
    for each in content["annotations"]:
        each["segmentation"] = None
    (tmp_path / "a.json").write_text(json.dumps(content))
    for name in NAMES:
        (tmp_path / name).write_bytes(b"image")
    *_, polygons, vertices = outputs("ours", tmp_path, "a.json", polygon_masks=True)
    assert not any(len(each) for each in (*polygons, *vertices))
    *_, masks = outputs("ours", tmp_path, "a.json", pixelwise_masks=True)
    assert not any(each.any() for each in masks)


def test_saved_annotations_keep_names_with_unusual_characters(root: Path, tmp_path: Path) -> None:
    name = "a\u2028b\x0c.jpg"
    content = json.loads((root / "annotations.json").read_text())
    content["images"][0]["file_name"] = name
    (tmp_path / "a.json").write_text(json.dumps(content))
    for each in (name, *NAMES):
        (tmp_path / each).write_bytes(each.encode())
    saved = str(tmp_path / "saved")
    _, files, *_ = outputs(
        "ours", tmp_path, "a.json", save_preprocessed_annotations=True, save_preprocessed_annotations_dir=saved
    )
    _, again, *_ = outputs("ours", tmp_path, "", preprocessed_annotations=saved)
    assert [each.tobytes() for each in again] == [each.tobytes() for each in files]
    assert name.encode() in {each.tobytes() for each in again}
