"""Windows of images for decoders: a crop, a slice or a random window, with a common interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.geometry.crop_arguments import CropWindows
from dali_proxy.pipeline._operators.geometry.random_windows import RandomWindows
from dali_proxy.pipeline._operators.geometry.slice_arguments import SliceWindows, positional
from dali_proxy.pipeline._operators.geometry.windows import inside
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

_LAYOUT = "HWC"


class DecodedWindows(Protocol):
    """Windows of the images of one batch."""

    def choose(self, sample: int, height: int, width: int, inputs: Sequence[Array]) -> tuple[int, int, int, int]:
        """Return the window of an image: first row and column, height, width.

        Args:
            sample: position in the batch.
            height: height of the image.
            width: width of the image.
            inputs: further inputs of the operator for this sample.

        Raises:
            PipelineError: the window isn't inside the image.
        """


class _Cropped:
    """Windows from the arguments of `crop`."""

    def __init__(self, node: GraphNode, batch: Batch) -> None:
        self._windows = CropWindows(batch.arguments(node), batch.size, _LAYOUT)

    def choose(self, sample: int, height: int, width: int, inputs: Sequence[Array]) -> tuple[int, int, int, int]:
        return _checked(*self._windows.locate(sample, (height, width, 1)), (height, width, 1))


class _Sliced:
    """Windows from the arguments of `slice`, or from inputs."""

    def __init__(self, node: GraphNode, batch: Batch) -> None:
        inputs = len(node.inputs) - 1
        if inputs == 1:
            raise ArgumentTypeError("the anchor needs a shape as the third input")
        self._windows = SliceWindows(batch.arguments(node), batch.size, _LAYOUT, len(_LAYOUT), inputs == 2)
        self._normalized = node.argument("normalized_anchor"), node.argument("normalized_shape")

    def choose(self, sample: int, height: int, width: int, inputs: Sequence[Array]) -> tuple[int, int, int, int]:
        bounds = positional(inputs[0], inputs[1], self._normalized) if inputs else None
        return _checked(*self._windows.locate(sample, (height, width, 1), bounds), (height, width, 1))


_WINDOWS: dict[str, Callable[[GraphNode, Batch], DecodedWindows | RandomWindows]] = {
    "decoders.image_crop": _Cropped,
    "decoders.image_slice": _Sliced,
    "decoders.image_random_crop": RandomWindows,
}


def windows_of(node: GraphNode, batch: Batch) -> DecodedWindows | RandomWindows | None:
    """Return the windows of a batch; None for decoders of full images."""
    kind = _WINDOWS.get(node.operator)
    return None if kind is None else kind(node, batch)


def _checked(start: Sequence[int], extent: Sequence[int], shape: Sequence[int]) -> tuple[int, int, int, int]:
    if not inside(start, extent, shape):
        rows, columns = (f"{low}..{low + length}" for low, length in zip(start[:2], extent[:2], strict=True))
        raise ArgumentValueError(
            f"The cropping window [{rows}, {columns}] is not valid for image dimensions [{shape[0]} x {shape[1]}]"
        )
    return start[0], start[1], extent[0], extent[1]
