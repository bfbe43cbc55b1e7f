"""Drawings of what a pipeline makes of image files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._definition.file_inputs import FileInputs, find_images
from dali_proxy.pipeline._graph.graph import Edge, Graph
from dali_proxy.pipeline._sheet import as_array, show
from dali_proxy.pipeline.errors import ArgumentValueError, OperatorError, PipelineError

if TYPE_CHECKING:
    from PIL import Image

    from dali_proxy.pipeline._definition.internals import PipelineInternals

Array = npt.NDArray[Any]

_CHANNELS = (1, 3, 4)
_LABEL = 8  # largest number of elements of a label
_DRAWS = 4
_LEGIBLE = 26  # characters of a caption
_PASSED = frozenset({"cast", "copy", "transpose"})  # operators between a normalization and an output


def draw_preview(
    internals: PipelineInternals,
    folder: str | Path | Iterable[str | Path] | None,
    *,
    images: int,
    draws: int | None,
    mean: float | Sequence[float] | None,
    std: float | Sequence[float] | None,
    size: int,
    path: str | Path | None,
    inputs: Mapping[str, Any],
) -> Image.Image:
    """Draw what a pipeline makes of image files; see `Pipeline.preview`."""
    graph = internals.graph
    if draws is None:
        varies = not graph.fed_inputs or any(node.schema.random for node in graph.nodes)
        draws = _DRAWS if varies else 1
    if images < 1 or draws < 1 or size < 1:
        raise ArgumentValueError("preview: images, draws and size must be 1 or more")
    if graph.fed_inputs and folder is None:
        raise ArgumentValueError("preview: the pipeline has inputs, so it needs a folder of images")
    copy = internals.for_trial(draws)
    tiles = _Tiles(graph, mean, std)
    try:
        if graph.fed_inputs:
            assert folder is not None
            files = find_images(folder, images) if isinstance(folder, str | os.PathLike) else map(Path, folder)
            reader = FileInputs(graph, inputs)
            for file in files:
                samples = reader.read(file)
                try:
                    outputs = copy.run(**{name: [sample] * draws for name, sample in samples.items()})
                except OperatorError as error:
                    raise PipelineError(f"{file}: {error}") from error
                tiles.add(outputs, _caption(file))
        else:
            for _ in range(images):
                tiles.add(copy.run(), "")
    finally:
        copy.close()
    return tiles.sheet(draws, size, path)


def _caption(file: Path) -> str:
    """Return the name of a file with that of its folder, or without it if both are too long to be legible."""
    both = str(Path(file.parent.name, file.name))
    return both if len(both) <= _LEGIBLE else file.name


class _Tiles:
    """The images of the drawing, with what is drawn in them.

    Args:
        graph: the graph whose outputs are drawn.
        mean: mean that it subtracted from all images; None to find it in the graph.
        std: standard deviation by which it divided.
    """

    def __init__(self, graph: Graph, mean: float | Sequence[float] | None, std: float | Sequence[float] | None) -> None:
        self._restore = [_restoring(graph, edge) for edge in graph.outputs]
        if mean is not None or std is not None:
            restore = _inverse(*(np.asarray(value, np.float32) for value in (mean or 0, std or 1, 0, 1)))
            self._restore = [restore] * len(graph.outputs)
        self._images: list[Array] = []
        self._boxes: list[Array] = []
        self._masks: list[Array] = []
        self._labels: list[str] = []
        self._views = 0

    def add(self, outputs: Sequence[Any], name: str) -> None:
        """Add the outputs of a batch."""
        for index in range(len(outputs[0])):
            before = len(self._images)
            rest: list[Array] = []  # belongs to the first image, because none is before it
            for restore, output in zip(self._restore, outputs, strict=True):
                sample = as_array(output[index])
                if (image := _as_image(sample)) is None or self._is_mask(image, before):
                    rest.append(sample)
                else:
                    self._append(restore(image) if image.dtype != np.uint8 else image, name)
                if len(self._images) > before:
                    for each in rest:
                        self._draw(each)
                    rest = []
            self._views = len(self._images) - before
            if not self._views:
                shapes = ", ".join(str(as_array(output[index]).shape) for output in outputs)
                raise ArgumentValueError(f"preview: no output is an image; the shapes of the outputs are {shapes}")

    def sheet(self, draws: int, size: int, path: str | Path | None) -> Image.Image:
        """Return the drawing."""
        return show(
            self._images,
            labels=self._labels if any(self._labels) else None,
            boxes=self._boxes,
            masks=self._masks,
            columns=draws * self._views,
            size=size,
            path=path,
        )

    def _append(self, image: Array, name: str) -> None:
        self._images.append(image)
        self._boxes.append(np.empty((0, 4)))
        self._masks.append(np.zeros(image.shape[:2], np.int64))
        self._labels.append(name)

    def _is_mask(self, image: Array, first: int) -> bool:
        """Return whether an output is the mask of the last image, which has the same size and more channels."""
        last = self._images[-1] if len(self._images) > first else None
        return (
            last is not None
            and image.shape[2] == 1
            and last.shape[2] > 1
            and image.shape[:2] == last.shape[:2]
            and image.dtype.kind in "biu"
        )

    def _draw(self, sample: Array) -> None:
        """Add boxes, a mask or a label to the last image."""
        image = self._images[-1]
        if sample.dtype.kind in "biu" and sample.ndim > 1 and sample.squeeze().shape == image.shape[:2]:
            self._masks[-1] = sample.squeeze()
        elif sample.ndim == 2 and sample.shape[1] == 4:
            self._boxes[-1] = np.concatenate([self._boxes[-1], sample])
        elif sample.size <= _LABEL:
            values = " ".join(f"{value:g}" for value in sample.ravel().tolist())
            self._labels[-1] = f"{self._labels[-1]} {values}".strip()


def _as_image(sample: Array) -> Array | None:
    """Return an output (H, W, C), the first frame of a sequence, as an image; None if it isn't one."""
    if sample.ndim == 4 and len(sample):
        sample = sample[0]
    if sample.ndim == 2 and sample.shape[1] > 4 and min(sample.shape) > 1:
        sample = sample[..., None]
    if sample.ndim != 3:
        return None
    if sample.shape[2] in _CHANNELS:
        return sample
    return np.moveaxis(sample, 0, 2) if sample.shape[0] in _CHANNELS else None


def _restoring(graph: Graph, edge: Edge) -> Callable[[Array], Array]:
    """Return a function of images (H, W, C) that inverts the normalization of an output."""
    node = graph.nodes[edge.node]
    while node.operator in _PASSED and len(node.inputs) == 1:
        node = graph.nodes[node.inputs[0].node]
    if node.operator != "crop_mirror_normalize" or node.argument_inputs.keys() & {"mean", "std"}:
        return lambda image: image
    mean, std, shift, scale = (
        np.asarray(node.argument(name), np.float32) for name in ("mean", "std", "shift", "scale")
    )
    if not (mean.any() or shift.any() or (std != 1).any() or scale != 1):  # only a crop, mirror or change of layout
        return lambda image: image
    return _inverse(mean, std, shift, scale)


def _inverse(mean: Array, std: Array, shift: Array, scale: Array) -> Callable[[Array], Array]:
    """Return the inverse of a normalization, from images (H, W, C) to uint8."""
    unit = 255 if std.max() < 1 else 1  # such deviations belong to pixels of 0 to 1

    def restore(image: Array) -> Array:
        if mean.size > 1:  # without the channel of `pad_output`
            image = image[..., : mean.size]
        restored: Array = ((image.astype(np.float32) - shift) / scale * std + mean) * unit
        pixels: Array = restored.round().clip(0, 255).astype(np.uint8)
        return pixels

    return restore
