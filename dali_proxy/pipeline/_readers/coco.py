"""`readers.coco`: images and their annotated objects, in COCO's format."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._bulk.read_file import read_file
from dali_proxy.pipeline._declaration import Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._readers.annotations import AnnotatedImage, read_annotations
from dali_proxy.pipeline._readers.arguments import EPOCH_SHUFFLE_ARGUMENTS, READER_ARGUMENTS
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.loader import Column, FilesLoader
from dali_proxy.pipeline._readers.saved_annotations import SavedAnnotations
from dali_proxy.pipeline._remote.urls import join
from dali_proxy.pipeline.errors import ArgumentValueError, BuildError, InputError
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

_INT32, _FLOAT = np.dtype(np.int32), np.dtype(np.float32)


def _wants_polygons(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments.get("polygon_masks") or arguments.get("masks"))


def _outputs(arguments: Mapping[str, Any]) -> int:
    others = sum(bool(arguments.get(name)) for name in ("pixelwise_masks", "image_ids"))
    return 3 + others + 2 * _wants_polygons(arguments)


@reads(
    OperatorSchema(
        name="readers.coco",
        doc="""Reads images and their annotated objects from a dataset in COCO's format.

The first three outputs are the bytes of the image file, 1-D uint8; the boxes of the objects, float32 of shape (M, 4),
as x, y, width and height; and their labels, int32 of shape (M,), with categories numbered from 1. Optional outputs
follow in this order:

- `polygon_masks`: polygons, int32 of shape (P, 3), as object, first vertex and end; and vertices, float32 of shape
  (V, 2).
- `pixelwise_masks`: the label of each pixel, int32 of shape (height, width, 1). Pixels without an object are 0. Where
  objects overlap, the largest label counts.
- `image_ids`: the id of the image, int32 of shape (1,).

Images are sorted by id. Objects whose outlines are run lengths have no polygons.""",
        arguments=(
            Argument("file_root", Kind.STRING, "Folder that the paths of the images are relative to."),
            Argument("annotations_file", Kind.STRING, "Path of the JSON file with the annotations."),
            Argument("images", Kind.STRINGS, "Paths of the images to read, as in the annotation file, in this order."),
            Argument("ltrb", Kind.BOOL, "Return boxes as left, top, right and bottom.", False),
            Argument("ratio", Kind.BOOL, "Return boxes and vertices relative to the image's width and height.", False),
            Argument("skip_empty", Kind.BOOL, "Skip images without objects.", False),
            Argument("size_threshold", Kind.FLOAT, "Smallest width and height of an object, in pixels.", 0.1),
            Argument("include_iscrowd", Kind.BOOL, "Include objects that are marked as crowds.", True),
            Argument("avoid_class_remapping", Kind.BOOL, "Use the ids of the categories as labels.", False),
            Argument("polygon_masks", Kind.BOOL, "Return polygons and vertices.", False),
            Argument("pixelwise_masks", Kind.BOOL, "Return the label of each pixel.", False),
            Argument("image_ids", Kind.BOOL, "Return the id of each image.", False),
            Argument(
                "masks",
                Kind.BOOL,
                "Deprecated: `polygon_masks`, but counted in coordinates, 2 per vertex.",
                deprecated="Use `polygon_masks` instead. Note that the polygon format has changed: it counts vertices.",
            ),
            Argument("save_img_ids", Kind.BOOL, "Deprecated name of `image_ids`.", replaced_by="image_ids"),
            Argument(
                "preprocessed_annotations",
                Kind.STRING,
                "Folder with annotations that `save_preprocessed_annotations` wrote, here or in NVIDIA DALI, instead "
                "of `annotations_file`. They are read faster. `include_iscrowd` has no effect on them; other "
                "arguments that select or convert objects are errors.",
            ),
            Argument("save_preprocessed_annotations", Kind.BOOL, "Write the selected images and objects.", False),
            Argument("save_preprocessed_annotations_dir", Kind.STRING, "Folder to write them to."),
            *(
                Argument(old, kind, f"Deprecated name of `{new}`.", replaced_by=new)
                for old, new, kind in (
                    ("meta_files_path", "preprocessed_annotations", Kind.STRING),
                    ("dump_meta_files", "save_preprocessed_annotations", Kind.BOOL),
                    ("dump_meta_files_path", "save_preprocessed_annotations_dir", Kind.STRING),
                )
            ),
            *READER_ARGUMENTS,
            *EPOCH_SHUFFLE_ARGUMENTS,
        ),
        outputs=_outputs,
    )
)
class CocoLoader(FilesLoader):
    """Loads image files and their annotations."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        argument = node.argument
        if not argument("file_root"):
            raise ArgumentValueError("``file_root`` argument is required")
        if bool(argument("annotations_file")) == bool(argument("preprocessed_annotations")):
            raise ArgumentValueError("Either ``annotations_file`` or ``preprocessed_annotations`` must be provided")
        if argument("preprocessed_annotations"):
            _refuse_unsupported(node)
        if argument("save_preprocessed_annotations") and not argument("save_preprocessed_annotations_dir"):
            raise ArgumentValueError("argument 'save_preprocessed_annotations' needs a folder: pass its '_dir'")
        self._polygons = _wants_polygons(node.arguments)
        self._pixelwise = bool(argument("pixelwise_masks"))
        self._ids = bool(argument("image_ids"))
        if self._polygons and self._pixelwise:
            raise ArgumentValueError("arguments 'polygon_masks' and 'pixelwise_masks' are mutually exclusive")
        self._images: list[AnnotatedImage] = []
        self.outputs = (
            OutputSpec(dtype=np.dtype(np.uint8)),
            OutputSpec(dtype=_FLOAT),
            OutputSpec(dtype=_INT32),
            *((OutputSpec(dtype=_INT32), OutputSpec(dtype=_FLOAT)) if self._polygons else ()),
            *((OutputSpec(layout="HWC", dtype=_INT32),) if self._pixelwise else ()),
            *((OutputSpec(shape=(1,), dtype=_INT32),) if self._ids else ()),
        )

    def open(self) -> int:
        argument = self.node.argument
        folder = argument("preprocessed_annotations")
        self._images = self._saved(folder).load() if folder else self._selected(argument("annotations_file"))
        if not self._images:
            raise BuildError(f"the annotations in {folder or argument('annotations_file')!r} name no images to read")
        if argument("save_preprocessed_annotations"):
            boxes = self._boxes(self._images).samples
            polygons = [self._polygons_of(image) for image in self._images]
            self._saved(argument("save_preprocessed_annotations_dir")).save(self._images, boxes, polygons)
        if not self._pixelwise:
            self.paths = PathTable.from_paths([image.path for image in self._images], argument("file_root"))
        return len(self._images)

    def _saved(self, folder: str) -> SavedAnnotations:
        return SavedAnnotations(folder, self._polygons, self._pixelwise, self._ids)

    def _selected(self, path: str) -> list[AnnotatedImage]:
        argument = self.node.argument
        found = read_annotations(
            path,
            remap=not argument("avoid_class_remapping"),
            crowds=argument("include_iscrowd"),
            smallest=argument("size_threshold"),
            outlines=self._polygons or self._pixelwise,
            extents=argument("ratio") or self._pixelwise,
        )
        if argument("images") is not None:
            named = {image.path: image for image in found}
            unknown = [name for name in argument("images") if name not in named]
            if unknown:
                warnings.warn(
                    f"{self.node.display}: annotations_file {path!r} doesn't have {len(unknown)} of the images, such "
                    f"as {unknown[0]!r}: they are left out",
                    stacklevel=2,
                )
            found = [named[name] for name in argument("images") if name in named]
        return [image for image in found if image.labels or not argument("skip_empty")]

    def parse(self, files: TensorListCPU, entries: Sequence[int]) -> Sequence[Column]:
        images = [self._images[entry] for entry in entries]
        labels = np.array([label for image in images for label in image.labels], np.int32)
        others: Iterator[Column] = zip(*map(self._others, images), strict=True)
        return [files, self._boxes(images), TensorListCPU.from_rows(labels, _counts(images)), *others]

    def read(self, entry: int) -> tuple[Array, ...]:
        """Read an image whose objects are drawn pixel by pixel, on the threads that read ahead."""
        image = self._images[entry]
        content = read_file(join(self.node.argument("file_root"), image.path))
        return content, self._boxes([image]).at(0), np.array(image.labels, np.int32), *self._others(image)

    def _others(self, image: AnnotatedImage) -> list[Array]:
        """Return the optional outputs."""
        outputs: list[Array] = []
        try:
            if self._polygons:
                polygons, vertices = self._polygons_of(image)
                if self.node.argument("masks"):
                    polygons[:, 1:] *= 2
                outputs += [polygons, vertices]
            if self._pixelwise:
                outputs.append(image.mask())
            if self._ids:
                outputs.append(np.array([image.number], np.int32))
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"the outlines or the id of {image.path!r} aren't in COCO's format: {error}") from error
        return outputs

    def source_info(self, entry: int) -> str:
        return self._images[entry].path

    def _polygons_of(self, image: AnnotatedImage) -> tuple[Array, Array]:
        polygons, vertices = image.polygons()
        scaled = self.node.argument("ratio") and not self._pixelwise
        return polygons, vertices / _extents(image) if scaled else vertices

    def _boxes(self, images: Sequence[AnnotatedImage]) -> TensorListCPU:
        counts = _counts(images)
        boxes = np.array([box for image in images for box in image.boxes], np.float32).reshape(-1, 4)
        if self.node.argument("ltrb"):
            boxes[:, 2:] += boxes[:, :2]
        if self.node.argument("ratio"):
            extents = np.array([(image.width, image.height) * 2 for image in images], np.float32)
            boxes /= extents.repeat(counts, axis=0)
        return TensorListCPU.from_rows(boxes, counts)


def _counts(images: Sequence[AnnotatedImage]) -> Array:
    """Return the number of objects on each image."""
    return np.array([len(image.labels) for image in images])


def _refuse_unsupported(node: GraphNode) -> None:
    """Raise an error for arguments that have no effect on saved annotations."""
    if node.argument("images") is not None:
        raise ArgumentValueError("Argument ``images`` is not supported with ``preprocessed_annotations``")
    defaults = {argument.name: argument.default for argument in node.schema.arguments}
    for name in ("skip_empty", "ratio", "ltrb", "size_threshold"):
        if node.argument(name) != defaults[name]:
            raise BuildError(f'When reading data from preprocessed annotation files, "{name}" is not supported.')


def _extents(image: AnnotatedImage) -> Array:
    return np.array([image.width, image.height], np.float32)
