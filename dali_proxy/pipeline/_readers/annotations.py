"""Reads the annotations of a dataset from a JSON file in COCO's format."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dali_proxy.pipeline._imaging.masks import mask_of_polygon, mask_of_runs, runs_of_text
from dali_proxy.pipeline._remote.data_file import open_text
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import BuildError
from dali_proxy.pipeline.tensors.cpu import Array

_LARGEST = 1 << 31


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


def read_annotations(
    path: str, *, remap: bool, crowds: bool, smallest: float, outlines: bool, extents: bool
) -> list[AnnotatedImage]:
    """Return the images of an annotation file, sorted by id.

    Fields that aren't needed may be missing, and annotations of other images are skipped.

    Args:
        path: path of the JSON file.
        remap: number the categories from 1 in the order of the file, instead of using their ids.
        crowds: whether to include objects that are marked as crowds.
        smallest: smallest width and height of an object, in pixels; smaller objects are left out.
        outlines: whether to keep the outlines.
        extents: whether images need a width and a height; otherwise they are 0 if they are missing.

    Raises:
        BuildError: the file can't be read, or isn't in COCO's format.
    """
    try:
        with open_text(path) as file:
            content = json.load(file)
        return _Parser(content, remap, crowds, smallest, outlines, extents).images()
    except OSError as error:
        raise BuildError(f"can't read annotations_file {path!r}: {error.strerror or error}") from error
    except KeyError as error:
        raise BuildError(f"annotations_file {path!r} isn't in COCO's format: it has no {error}") from error
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise BuildError(f"annotations_file {path!r} isn't in COCO's format: {error}") from error


@dataclass(frozen=True)
class _Parser:
    """Reads the content of a file. The fields are the arguments of `read_annotations`."""

    content: Any
    remap: bool
    crowds: bool
    smallest: float
    outlines: bool
    extents: bool

    def images(self) -> list[AnnotatedImage]:
        """Return the images with their objects, sorted by id."""
        images: dict[Any, AnnotatedImage] = {}
        labels: dict[Any, int] = {}
        numbers = itertools.count(1)

        def add_image(fields: Mapping[str, Any]) -> None:
            images[fields["id"]] = self._image(fields)

        def add_category(fields: Mapping[str, Any]) -> None:
            labels[fields["id"]] = next(numbers)

        def add_object(fields: Mapping[str, Any]) -> None:
            # Lists of captions have no boxes.
            if (image := images.get(fields["image_id"])) is not None and "bbox" in fields:
                self._add(image, fields, labels)

        _for_each(add_image, self.content["images"], "image")
        _for_each(add_category, self.content.get("categories", ()) if self.remap else (), "category")
        _for_each(add_object, self.content["annotations"], "annotation")
        return [image for _, image in sorted(images.items())]

    def _image(self, fields: Mapping[str, Any]) -> AnnotatedImage:
        names = ("height", "width")
        extents = [fields[name] if self.extents else fields.get(name, 0) for name in names]
        for name, extent in zip(names, extents, strict=True):
            if self.extents and not (isinstance(extent, int | float) and 0 < extent < _LARGEST):
                raise ValueError(f"its {name!r} must be a positive number, not {extent!r}")
        if not isinstance(fields["file_name"], str):
            raise ValueError(f"its 'file_name' must be text, not {fields['file_name']!r}")
        return AnnotatedImage(fields["file_name"], fields["id"], *extents)

    def _add(self, image: AnnotatedImage, fields: Mapping[str, Any], labels: Mapping[Any, int]) -> None:
        """Add an object to its image."""
        box = fields["bbox"]
        try:
            x, y, width, height = box
            finite = math.isfinite(x + y + width + height)
        except (TypeError, ValueError, OverflowError):
            finite = False
        if not finite:
            raise ValueError(f"its 'bbox' must be 4 finite numbers, not {box!r}")
        if (fields.get("iscrowd") and not self.crowds) or min(width, height) < self.smallest:
            return
        category = fields["category_id"]
        label = labels.get(category) if self.remap else category
        if label is None:
            raise ValueError(f"its 'category_id' {category!r} isn't the id of a category")
        if not isinstance(label, int) or not abs(label) < _LARGEST:
            raise ValueError(f"its 'category_id' must be an integer of 32 bits, not {label!r}")
        image.boxes.append(box)
        image.labels.append(label)
        if self.outlines:
            image.outlines.append(fields.get("segmentation") or ())


def _for_each(function: Callable[[Any], None], entries: Iterable[Any], kind: str) -> None:
    """Call a function for each entry of a list. Errors name the entry."""
    for fields in entries:
        try:
            function(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            number = fields.get("id") if isinstance(fields, Mapping) else fields
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ValueError(f"the {kind} {number!r}: {reason}") from error
