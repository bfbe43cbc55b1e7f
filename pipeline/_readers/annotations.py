"""Reads the annotations of a dataset from a JSON file in COCO's format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline._imaging.masks import mask_of_polygon, mask_of_runs, runs_of_text
from pipeline._remote.data_file import open_text
from pipeline._size_limit import check_size
from pipeline.errors import BuildError
from pipeline.tensors.cpu import Array

__all__ = ["AnnotatedImage", "read_annotations"]


@dataclass
class AnnotatedImage:
    """An image and its objects.

    Attributes:
        path: path of the image, as in the annotation file.
        number: id of the image.
        height, width: extents in pixels.
        boxes: x, y, width and height of each object, in pixels.
        labels: label of each object.
        outlines: outline of each object: polygons, or a mapping with run lengths.
    """

    path: str
    number: int
    height: int
    width: int
    boxes: list[Sequence[float]] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    outlines: list[Any] = field(default_factory=list)

    def polygons(self) -> tuple[Array, Array]:
        """Return (object, first vertex, end) of each polygon, int32, and all vertices, float32. Skip run lengths."""
        rows, vertices, count = [], [], 0
        for number, outline in enumerate(self.outlines):
            for polygon in () if isinstance(outline, Mapping) else outline:
                points = np.asarray(polygon, np.float32).reshape(-1, 2)
                rows.append((number, count, count + len(points)))
                vertices.append(points)
                count += len(points)
        joined = np.concatenate(vertices) if vertices else np.empty((0, 2), np.float32)
        return np.array(rows, np.int32).reshape(-1, 3), joined

    def mask(self) -> Array:
        """Return the label of each pixel, int32 of (height, width, 1): the largest label of its objects, or 0."""
        check_size("the mask", self.height, self.width, np.dtype(np.int32).itemsize)
        mask = np.zeros((self.height, self.width), np.int32)
        for number in np.argsort(self.labels, kind="stable").tolist():
            for inside in self._insides(self.outlines[number]):
                mask[inside] = self.labels[number]
        return mask[:, :, None]

    def _insides(self, outline: Any) -> list[Array]:
        if isinstance(outline, Mapping):
            counts = outline["counts"]
            runs = runs_of_text(counts) if isinstance(counts, str) else counts
            return [mask_of_runs(runs, self.height, self.width)]
        return [mask_of_polygon(polygon, self.height, self.width) for polygon in outline]


def read_annotations(path: str, *, remap: bool, crowds: bool, smallest: float, outlines: bool) -> list[AnnotatedImage]:
    """Read an annotation file.

    Args:
        path: path of the JSON file.
        remap: number the categories from 1 in the order of the file, instead of using their ids.
        crowds: whether to include objects that are marked as crowds.
        smallest: smallest width and height of an object, in pixels; smaller objects are left out.
        outlines: whether to keep the outlines.

    Returns:
        The images, sorted by id.

    Raises:
        BuildError: the file can't be read, or isn't in COCO's format.
    """
    try:
        with open_text(path) as file:
            content = json.load(file)
        return _images(content, remap, crowds, smallest, outlines)
    except OSError as error:
        raise BuildError(f"can't read annotations_file {path!r}: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise BuildError(
            f"annotations_file {path!r} isn't in COCO's format: {type(error).__name__}: {error}"
        ) from error


def _images(content: Any, remap: bool, crowds: bool, smallest: float, outlines: bool) -> list[AnnotatedImage]:
    labels = {
        category["id"]: number if remap else category["id"] for number, category in enumerate(content["categories"], 1)
    }
    images = {
        image["id"]: AnnotatedImage(image["file_name"], image["id"], image["height"], image["width"])
        for image in content["images"]
    }
    for annotation in content["annotations"]:
        box = annotation["bbox"]
        if (annotation.get("iscrowd") and not crowds) or min(box[2:4]) < smallest:
            continue
        image = images[annotation["image_id"]]
        image.boxes.append(box)
        image.labels.append(labels[annotation["category_id"]])
        if outlines:
            image.outlines.append(annotation["segmentation"])
    _check_numbers(images.values())
    return [image for _, image in sorted(images.items())]


def _check_numbers(images: Iterable[AnnotatedImage]) -> None:
    """Check what batches are built from, so that an error names the file and comes when the reader is created."""
    boxes = np.array([box for image in images for box in image.boxes], np.float32)
    if boxes.size and boxes.shape[1:] != (4,):
        raise ValueError("a 'bbox' doesn't consist of 4 numbers")
    np.array([label for image in images for label in image.labels], np.int32)
    np.array([(image.width, image.height) for image in images], np.float32)
