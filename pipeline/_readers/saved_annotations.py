"""Annotations of images in a folder, in DALI's format, which is read faster than COCO's.

Each file is a table: the number of its rows as uint32, then the rows. Tables of offsets and counts have a row for each
image, with its rows in the next table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._imaging.masks import runs_of_text
from pipeline._readers.annotations import AnnotatedImage
from pipeline.errors import BuildError

__all__ = ["load_images", "save_images"]

Array = npt.NDArray[Any]

_SIZE = np.dtype("<u4")
_INT = np.dtype("<i4")
_LONG = np.dtype("<u8")
_REAL = np.dtype("<f4")


def save_images(images: Sequence[AnnotatedImage], folder: str, *, ids: bool, polygons: bool, masks: bool) -> None:
    """Write images and their objects to a folder, which is created if necessary.

    Args:
        images: the images.
        folder: path of the folder.
        ids: whether to write their ids.
        polygons: whether to write the polygons of objects.
        masks: whether to write the polygons and run lengths of objects, and the sizes of images.

    Raises:
        BuildError: the folder can't be written.
    """
    tables = {
        **_rows("offsets", "counts", [len(image.labels) for image in images], _INT),
        "boxes": np.array([value for image in images for box in image.boxes for value in box], _REAL),
        "labels": np.array([label for image in images for label in image.labels], _INT),
    }
    if ids:
        tables["original_ids"] = np.array([image.number for image in images], _INT)
    if polygons or masks:
        found = [image.polygons() for image in images]
        tables |= _rows("polygon_offset", "polygons_count", [len(rows) for rows, _ in found], _LONG)
        tables |= _rows("vertices_offset", "vertices_count", [len(vertices) for _, vertices in found], _LONG)
        tables["polygon_data"] = np.concatenate([rows for rows, _ in found]).astype(_INT)
        tables["vertices"] = np.concatenate([vertices for _, vertices in found]).astype(_REAL)
    try:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        if masks:
            tables["heights"] = np.array([image.height for image in images], _INT)
            tables["widths"] = np.array([image.width for image in images], _INT)
            tables |= _save_runs(path / "masks_rles.dat", images)
        for name, table in tables.items():
            (path / f"{name}.dat").write_bytes(np.array(len(table), _SIZE).tobytes() + table.tobytes())
        (path / "filenames.dat").write_text("".join(f"{image.path}\n" for image in images), encoding="utf-8")
    except OSError as error:
        raise BuildError(f"can't write annotations to {folder!r}: {error.strerror or error}") from error


def load_images(folder: str, *, ids: bool, polygons: bool, masks: bool) -> list[AnnotatedImage]:
    """Return the images that `save_images` or DALI wrote.

    Args:
        folder: path of the folder.
        ids: whether the ids of the images are needed.
        polygons: whether the polygons of objects are needed.
        masks: whether the masks of objects are needed.

    Raises:
        BuildError: the folder doesn't contain them.
    """
    try:
        return _load_images(Path(folder), ids, polygons, masks)
    except OSError as error:
        raise BuildError(f"can't read preprocessed_annotations {folder!r}: {error.strerror or error}") from error
    except (IndexError, ValueError) as error:
        raise BuildError(f"preprocessed_annotations {folder!r} aren't in DALI's format: {error}") from error


def _load_images(folder: Path, ids: bool, polygons: bool, masks: bool) -> list[AnnotatedImage]:
    names = (folder / "filenames.dat").read_text(encoding="utf-8").splitlines()
    numbers, heights, widths = (
        _load(folder, name, _INT).tolist() if wanted else [0] * len(names)
        for name, wanted in (("original_ids", ids), ("heights", masks), ("widths", masks))
    )
    images = [AnnotatedImage(*row) for row in zip(names, numbers, heights, widths, strict=True)]
    boxes, labels = _load(folder, "boxes", _REAL).reshape(-1, 4), _load(folder, "labels", _INT)
    for image, rows in zip(images, _slices(folder, "offsets", "counts", _INT), strict=True):
        image.boxes, image.labels = boxes[rows].tolist(), labels[rows].tolist()
        image.outlines = [[] for _ in image.labels]
    if polygons or masks:
        data, vertices = _load(folder, "polygon_data", _INT, 3), _load(folder, "vertices", _REAL, 2)
        points = _slices(folder, "vertices_offset", "vertices_count")
        for image, rows, corners in zip(
            images, _slices(folder, "polygon_offset", "polygons_count"), points, strict=True
        ):
            for number, first, end in data[rows].tolist():
                image.outlines[number].append(vertices[corners][first:end])
    if masks:
        runs, numbers = _load_runs(folder), _load(folder, "masks_rles_idx", _INT).tolist()
        for image, rows in zip(images, _slices(folder, "masks_offset", "mask_count"), strict=True):
            for number, counts in zip(numbers[rows], runs[rows], strict=True):
                image.outlines[number] = {"counts": counts}
    return images


def _rows(offsets: str, counts: str, numbers: Sequence[int], dtype: np.dtype[Any]) -> dict[str, Array]:
    """Return the two tables that describe each image's rows in another table."""
    starts = list(accumulate(numbers, initial=0))[:-1]
    return {offsets: np.array(starts, dtype), counts: np.array(numbers, dtype)}


def _slices(folder: Path, offsets: str, counts: str, dtype: np.dtype[Any] = _LONG) -> list[slice]:
    starts, numbers = _load(folder, offsets, dtype).tolist(), _load(folder, counts, dtype).tolist()
    return [slice(start, start + number) for start, number in zip(starts, numbers, strict=True)]


def _load(folder: Path, name: str, dtype: np.dtype[Any], columns: int = 0) -> Array:
    """Return a table; of two dimensions if it has columns."""
    content = (folder / f"{name}.dat").read_bytes()
    (count,) = np.frombuffer(content, _SIZE, 1).tolist()
    table: Array = np.frombuffer(content, dtype, count * max(1, columns), _SIZE.itemsize)
    return table.reshape(count, columns) if columns else table


def _save_runs(path: Path, images: Sequence[AnnotatedImage]) -> dict[str, Array]:
    """Write the run lengths of all objects; return the tables of their objects."""
    found = [
        [(number, outline["counts"]) for number, outline in enumerate(image.outlines) if isinstance(outline, Mapping)]
        for image in images
    ]
    content = np.array(sum(map(len, found)), _SIZE).tobytes()
    for image, masks in zip(images, found, strict=True):
        for _, counts in masks:
            runs = np.array(runs_of_text(counts) if isinstance(counts, str) else counts, _SIZE)
            content += np.array([image.height, image.width, len(runs)], _LONG).tobytes() + runs.tobytes()
    path.write_bytes(content)
    objects = np.array([number for masks in found for number, _ in masks], _INT)
    return {"masks_rles_idx": objects, **_rows("masks_offset", "mask_count", [len(masks) for masks in found], _LONG)}


def _load_runs(folder: Path) -> list[list[int]]:
    content = (folder / "masks_rles.dat").read_bytes()
    (count,) = np.frombuffer(content, _SIZE, 1).tolist()
    runs, position = [], _SIZE.itemsize
    for _ in range(count):
        _, _, length = np.frombuffer(content, _LONG, 3, position).tolist()
        position += 3 * _LONG.itemsize
        runs.append(np.frombuffer(content, _SIZE, length, position).tolist())
        position += length * _SIZE.itemsize
    return runs
