"""Annotations of images in a folder, in NVIDIA DALI's format: one binary file per attribute.

A file has the number of its items, uint32, and the items. Attributes that vary in number have two more files: the count
and the offset of each image's items.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dali_proxy.pipeline._imaging.masks import runs_of_text
from dali_proxy.pipeline._readers.annotations import AnnotatedImage
from dali_proxy.pipeline.errors import BuildError
from dali_proxy.pipeline.tensors.cpu import Array


@dataclass(frozen=True)
class SavedAnnotations:
    """A folder with the annotations of images.

    Args:
        folder: path of the folder.
        polygons: whether to save or load the polygons of the objects.
        masks: whether to save or load the polygons, the run lengths and the extents of the images.
        ids: whether to save or load the ids of the images.
    """

    folder: str
    polygons: bool = False
    masks: bool = False
    ids: bool = False

    def save(self, images: Sequence[AnnotatedImage], boxes: Sequence[Array], polygons: Sequence[Any]) -> None:
        """Write the annotations; create the folder if necessary.

        Args:
            images: the images.
            boxes: the boxes of each image, float32 of (M, 4), as the reader returns them.
            polygons: the polygons and the vertices of each image, as the reader returns them.

        Raises:
            BuildError: the folder can't be written.
        """
        try:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            names = "".join(f"{image.path}\n" for image in images)
            Path(self.folder, "filenames.dat").write_text(names, encoding="utf-8")
            self._write("boxes", np.concatenate(boxes).ravel())
            self._write_parts("labels", "offsets", "counts", [np.array(image.labels) for image in images], np.int32)
            if self.ids:
                self._write("original_ids", np.array([image.number for image in images], np.int32))
            if self.polygons or self.masks:
                rows, vertices = zip(*polygons, strict=True)
                self._write_parts("polygon_data", "polygon_offset", "polygons_count", rows, np.int32)
                self._write_parts("vertices", "vertices_offset", "vertices_count", vertices, np.float32)
            if self.masks:
                self._write("heights", np.array([image.height for image in images], np.int32))
                self._write("widths", np.array([image.width for image in images], np.int32))
                self._write_runs(images)
        except OSError as error:
            raise BuildError(f"can't write annotations to {self.folder!r}: {error.strerror or error}") from error

    def load(self) -> list[AnnotatedImage]:
        """Return the images.

        Raises:
            BuildError: the folder doesn't contain the annotations.
        """
        try:
            return self._images()
        except OSError as error:
            at = error.filename or self.folder
            raise BuildError(f"can't read preprocessed_annotations {str(at)!r}: {error.strerror or error}") from error
        except (IndexError, TypeError, ValueError, OverflowError) as error:
            raise BuildError(
                f"preprocessed_annotations {self.folder!r} weren't written by fn.readers.coco: {error}"
            ) from error

    def _images(self) -> list[AnnotatedImage]:
        paths = self._content("filenames").decode().removesuffix("\n").split("\n")
        labels = self._read_parts("labels", "offsets", "counts", len(paths), np.int32, np.int32)
        boxes = self._read("boxes", np.dtype(np.float32)).reshape(-1, 4)
        ends = list(itertools.accumulate(map(len, labels), initial=0))
        if len(boxes) != ends[-1]:
            raise ValueError(f"there are {len(boxes)} boxes for {ends[-1]} labels")
        images = [
            AnnotatedImage(path, 0, 0, 0, list(boxes[begin:end]), each.tolist(), [[] for _ in each])
            for path, each, begin, end in zip(paths, labels, ends, ends[1:], strict=False)
        ]
        if self.ids:
            for image, number in zip(images, self._read("original_ids", np.dtype(np.int32)), strict=True):
                image.number = int(number)
        if (self.polygons or self.masks) and Path(self.folder, "polygon_data.dat").exists():
            self._load_polygons(images)
        if self.masks:
            extents = (self._read(name, np.dtype(np.int32)) for name in ("heights", "widths"))
            for image, height, width in zip(images, *extents, strict=True):
                image.height, image.width = int(height), int(width)
            self._load_runs(images)
        return images

    def _load_polygons(self, images: Sequence[AnnotatedImage]) -> None:
        count = len(images)
        rows = self._read_parts("polygon_data", "polygon_offset", "polygons_count", count, np.int32, np.int64, 3)
        vertices = self._read_parts("vertices", "vertices_offset", "vertices_count", count, np.float32, np.int64, 2)
        for image, of_image, points in zip(images, rows, vertices, strict=True):
            if (of_image < 0).any() or (of_image[:, 1:] > len(points)).any():
                raise ValueError("a polygon exceeds the vertices of its image")
            for number, begin, end in of_image.tolist():
                image.outlines[number].append(points[begin:end])

    def _load_runs(self, images: Sequence[AnnotatedImage]) -> None:
        """Load run lengths: height, width, their number, all uint64, and the numbers, uint32."""
        content = self._content("masks_rles")
        runs, at = [], 4
        for _ in range(int.from_bytes(content[:4], "little")):
            count = int.from_bytes(content[at + 16 : at + 24], "little")
            runs.append(np.frombuffer(content, np.uint32, count, at + 24))
            at += 24 + 4 * count
        objects = self._read("masks_rles_idx", np.dtype(np.int32))
        offsets, counts = (self._read(name, np.dtype(np.int64)) for name in ("masks_offset", "mask_count"))
        if (objects < 0).any() or (offsets < 0).any():
            raise ValueError("masks_rles_idx.dat or masks_offset.dat has a negative item")
        for image, begin, count in zip(images, offsets, counts, strict=True):
            for number in range(begin, begin + count):
                image.outlines[objects[number]] = {"counts": runs[number].tolist()}

    def _write_runs(self, images: Sequence[AnnotatedImage]) -> None:
        content, objects, counts = b"", [], []
        for image in images:
            found = [number for number, outline in enumerate(image.outlines) if isinstance(outline, Mapping)]
            for number in found:
                numbers = image.outlines[number]["counts"]
                runs = np.array(runs_of_text(numbers) if isinstance(numbers, str) else numbers, np.uint32)
                extents = np.array([image.height, image.width, len(runs)], np.uint64)
                content += extents.tobytes() + runs.tobytes()
            objects += found
            counts.append(len(found))
        Path(self.folder, "masks_rles.dat").write_bytes(np.uint32(len(objects)).tobytes() + content)
        self._write("masks_rles_idx", np.array(objects, np.int32))
        self._write("mask_count", np.array(counts, np.int64))
        self._write("masks_offset", (np.cumsum(counts) - counts).astype(np.int64))

    def _write(self, name: str, items: Array) -> None:
        Path(self.folder, f"{name}.dat").write_bytes(np.uint32(len(items)).tobytes() + items.tobytes())

    def _content(self, name: str) -> bytes:
        path = Path(self.folder, f"{name}.dat")
        try:
            return path.read_bytes()
        except OSError as error:
            error.filename = str(path)  # reads don't name their file, only its opening does
            raise

    def _read(self, name: str, dtype: np.dtype[Any], width: int = 1) -> Array:
        content = self._content(name)
        items = np.frombuffer(content[4:], dtype)
        if len(items) != width * int.from_bytes(content[:4].ljust(4, b"?"), "little"):
            raise ValueError(f"{name}.dat is incomplete")
        return items if width == 1 else items.reshape(-1, width)

    def _write_parts(self, name: str, offsets: str, counts: str, parts: Sequence[Array], dtype: Any) -> None:
        """Write the items of all images, and where those of each image are."""
        sizes = np.array([len(part) for part in parts], np.int32 if name == "labels" else np.int64)
        self._write(name, np.concatenate(parts).astype(dtype))
        self._write(counts, sizes)
        self._write(offsets, (np.cumsum(sizes) - sizes).astype(sizes.dtype))

    def _read_parts(
        self, name: str, offsets: str, counts: str, images: int, dtype: Any, index: Any, width: int = 1
    ) -> list[Array]:
        items = self._read(name, np.dtype(dtype), width)
        begins, sizes = (self._read(each, np.dtype(index)) for each in (offsets, counts))
        if not len(begins) == len(sizes) == images:
            raise ValueError(f"{offsets}.dat and {counts}.dat need {images} items")
        if (begins < 0).any() or (sizes < 0).any() or (begins + sizes.astype(np.int64) > len(items)).any():
            raise ValueError(f"{offsets}.dat and {counts}.dat exceed the items of {name}.dat")
        return [items[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
