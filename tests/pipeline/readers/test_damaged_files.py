"""Damaged files that `make fuzz` has found: each is an error of this package that names the file or the sample."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn
from pipeline.errors import PipelineError
from tests.pipeline.readers.wire import field

lmdb = pytest.importorskip("lmdb")
PARSERS = pytest.importorskip("tests.fuzz.parsers").PARSERS  # these need optional packages

NPY = b"\x93NUMPY\1\0"


def npy(header: str) -> bytes:
    return NPY + len(header).to_bytes(2, "little") + header.encode()


def run(reader: Callable[..., Any], **arguments: Any) -> list[Any]:
    """Return the outputs of the first batch."""
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipe:
        outputs = reader(**arguments)
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple | list) else [outputs]))
    try:
        return list(pipe.run())
    finally:
        pipe.close()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<i4', 'fortran_order': False, 'shape': (\0\n",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-1, -1)}\n",
        "[" * 3000,
        f"{{'descr': '<i4', 'fortran_order': False, 'shape': {'(' * 300}\n",
    ],
)
def test_header_of_a_numpy_file(header: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(npy(header) + bytes(4))
    for roi in ({}, {"rel_roi_start": [0.0], "rel_roi_shape": [1.0], "roi_axes": [0]}):
        with pytest.raises(PipelineError, match=r"not a NumPy file"):
            run(fn.readers.numpy, files=[str(path)], **roi)


@pytest.mark.parametrize("member", ["-512 5", "512 -5", f"512 {2**63}", f"{2**63} 5"])
def test_index_of_an_archive(member: str, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(bytes(1024))
    (tmp_path / "a.idx").write_text(f"v1.2 1\njpg {member} 0.jpg\n")
    files = {"paths": [str(tmp_path / "a.tar")], "index_paths": [str(tmp_path / "a.idx")]}
    with pytest.raises(
        PipelineError,
        match=r"isn't an index of an archive: it lists|a\.tar' ends within|bytes, more than|has \d+ bytes, more",
    ):
        run(fn.readers.webdataset, ext=["jpg"], **files)


@pytest.mark.parametrize("value", [field(5, b"") + field(7, 1), field(5, 1 << 40) + field(7, 1)])
def test_label_in_a_caffe_database(value: bytes, tmp_path: Path) -> None:
    with lmdb.open(str(tmp_path), map_size=1 << 20) as database, database.begin(write=True) as transaction:
        transaction.put(b"key", value)
    with pytest.raises(PipelineError, match="at key key can't be read"):
        run(fn.readers.caffe, path=str(tmp_path))


def coco(folder: Path, **changes: Any) -> Path:
    """Write annotations of one object, with changed entries."""
    entry = {"image_id": 0, "category_id": 1, "bbox": [1, 2, 3, 4], "segmentation": [], **changes}
    image = {"id": changes.get("id", 0), "file_name": "a.jpg", "width": 4, "height": 4}
    content = {"images": [image], "categories": [{"id": 1}], "annotations": [{**entry, "image_id": image["id"]}]}
    (folder / "a.jpg").write_bytes(b"image")
    (folder / "a.json").write_text(json.dumps(content))
    return folder / "a.json"


@pytest.mark.parametrize("box", [[1, {}, 3, 4], [1, 2, 3, 4, 5], [1, "x", 3, 4], [1, 10**400, 3, 4]])
def test_box_of_an_annotation(box: list[Any], tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"a\.json' isn't in COCO's format"):
        run(fn.readers.coco, file_root=str(tmp_path), annotations_file=str(coco(tmp_path, bbox=box)))


@pytest.mark.parametrize(
    ("changes", "option"),
    [
        ({"segmentation": {"counts": "P"}}, "pixelwise_masks"),
        ({"segmentation": [[1, {}]]}, "polygon_masks"),
        ({"segmentation": [[1, 2, 3]]}, "polygon_masks"),
        ({"id": 1 << 40}, "image_ids"),
    ],
)
def test_outline_or_id_of_an_annotation(changes: dict[str, Any], option: str, tmp_path: Path) -> None:
    path = coco(tmp_path, **changes)
    with pytest.raises(PipelineError, match=r"of 'a\.jpg' aren't in COCO's format"):
        run(fn.readers.coco, file_root=str(tmp_path), annotations_file=str(path), **{option: True})


@pytest.mark.filterwarnings("ignore:skipped line")
def test_nested_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[" * 100_000)
    for reader, option in (
        (fn.readers.coco, {"file_root": str(tmp_path), "annotations_file": str(tmp_path / "a.json")}),
        (fn.readers.nemo_asr, {"manifest_filepaths": [str(tmp_path / "a.json")]}),
    ):
        with pytest.raises(PipelineError, match=r"a\.json'"):
            run(reader, **option)


@pytest.mark.parametrize("label", ["9" * 5000, str(1 << 40)])
def test_label_in_a_file_list(label: str, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(f"a.mp4 {label}\n")
    for reader, options in ((fn.readers.file, {}), (fn.readers.video, {"sequence_length": 1})):
        with pytest.raises(PipelineError, match=r"line 1: expected a path|doesn't fit into int32"):
            run(reader, file_list=str(tmp_path / "list"), **options)


def saved(folder: Path, name: str, items: Any) -> dict[str, Any]:
    """Write saved annotations with other items in one file; return arguments that read them."""
    PARSERS["saved coco"].write(folder)
    array = np.array(items)
    (folder / "saved" / f"{name}.dat").write_bytes(np.uint32(len(array)).tobytes() + array.tobytes())
    return {"file_root": str(folder), "preprocessed_annotations": str(folder / "saved")}


@pytest.mark.parametrize(
    ("name", "items"),
    [
        ("boxes", np.zeros(12, np.float32)),
        ("counts", np.array([2, 1, 9], np.int32)),
        ("masks_rles_idx", np.array([-1, 0], np.int32)),
        ("masks_offset", np.array([-1, 0, 1], np.int64)),
        ("masks_rles", np.array([5, 5, -1], np.int64)),
    ],
)
def test_saved_annotations(name: str, items: Any, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="weren't written by"):
        run(fn.readers.coco, pixelwise_masks=True, **saved(tmp_path, name, items))


def test_fits_file_whose_compressed_header_is_damaged(tmp_path: Path) -> None:
    PARSERS["fits"].write(tmp_path)
    path = tmp_path / "compressed.fits"
    path.write_bytes(path.read_bytes().replace(b"ZVAL1   =                   ", b"ZVAL1   =                  {", 1))
    with pytest.raises(PipelineError, match=r"compressed\.fits' can't be read"):
        run(fn.experimental.readers.fits, files=[str(path)])


def archive(count: int = 4) -> bytes:
    """Return an archive of samples of one file each: 1024 bytes for each file, then the end."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for number in range(count):
            member = tarfile.TarInfo(f"{number}.jpg")
            member.size = 4
            tar.addfile(member, io.BytesIO(b"%04d" % number))
    return file.getvalue()


ARCHIVE = archive()


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (ARCHIVE[:2050] + b"\xff" + ARCHIVE[2051:], "has a damaged header, at offset 2048"),
        (ARCHIVE[:2048] + bytes([0xAA]) * 512 + ARCHIVE[2048:], "has a damaged header, at offset 2048"),
        (ARCHIVE[:2048] + b"x" * 100 + ARCHIVE[2048:], "has a damaged header, at offset 2048"),
        (ARCHIVE[:2048] + bytes(512) + ARCHIVE[2560:], "has a header of zeros, at offset 2048"),
        (ARCHIVE[:2348], "ends within a header, at offset 2048"),
        (ARCHIVE[:2561], "unexpected end of data"),
    ],
)
def test_header_within_an_archive(content: bytes, match: str, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(PipelineError, match=rf"can't read the archive '.*a\.tar': .*{match}"):
        run(fn.readers.webdataset, ext=["jpg"], paths=[str(tmp_path / "a.tar")])


@pytest.mark.parametrize("end", [bytes(0), bytes(100), bytes(512), bytes(1024), bytes(2048) + b"anything"])
def test_archive_may_end_without_zeros_or_with_padding(end: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(ARCHIVE[:4096] + end)
    (files,) = run(fn.readers.webdataset, ext=["jpg"], paths=[str(tmp_path / "a.tar")])
    assert bytes(np.array(files.at(0))) == b"0000"


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"bbox": [1, 2, float("nan"), 4]}, r"the annotation 9: its 'bbox' must be 4 finite numbers, not \[1, 2, nan"),
        ({"bbox": []}, r"the annotation 9: its 'bbox' must be 4 finite numbers, not \[\]"),
        ({"bbox": "a box"}, "the annotation 9: its 'bbox' must be 4 finite numbers, not 'a box'"),
        ({"category_id": 77}, "the annotation 9: its 'category_id' 77 isn't the id of a category"),
        ({"category_id": None}, "the annotation 9: its 'category_id' None isn't the id"),
    ],
)
def test_field_of_an_annotation_is_named(changes: dict[str, Any], match: str, tmp_path: Path) -> None:
    path = coco(tmp_path)
    content = json.loads(path.read_text())
    content["annotations"][0] |= {"id": 9, **changes}
    path.write_text(json.dumps(content))
    with pytest.raises(PipelineError, match=rf"a\.json' isn't in COCO's format: {match}"):
        run(fn.readers.coco, file_root=str(tmp_path), annotations_file=str(path))


@pytest.mark.parametrize(
    ("image", "option", "match"),
    [
        ({"id": 3, "file_name": "a.jpg", "width": 4}, "ratio", "the image 3: it has no 'height'"),
        ({"id": 3, "file_name": "a.jpg", "width": 4, "height": 0}, "ratio", "'height' must be a positive number"),
        ({"id": 3, "width": 4, "height": 4}, "skip_empty", "the image 3: it has no 'file_name'"),
        ({"file_name": "a.jpg"}, "skip_empty", "the image None: it has no 'id'"),
    ],
)
def test_field_of_an_image_is_named(image: dict[str, Any], option: str, match: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"images": [image], "categories": [], "annotations": []}))
    with pytest.raises(PipelineError, match=rf"a\.json' isn't in COCO's format: .*{match}"):
        run(fn.readers.coco, file_root=str(tmp_path), annotations_file=str(path), **{option: True})
