"""Maps of byte values: equalization, and the maps that automatic augmentation uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.byte_map import (
    auto_contrast_tables,
    contrast_tables,
    equalization_tables,
    histograms,
    look_up,
)
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.byte_map import CountedMap, Rule
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import allocate, fail, samples_of
from dali_proxy.pipeline._operator_api.layouts import choose_layout
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.output_dtype import check_samples
from dali_proxy.pipeline._operator_api.output_specs import describe, known_extents
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.geometry.resize_launches import frames
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array
from dali_proxy.pipeline.types import UINT8

_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")
_VALUES = np.arange(256)

#: Maps that depend only on a parameter of the sample: (values, parameters of shape (N, 1)) -> (N, 256).
_BY_PARAMETER: dict[str, Callable[[Array, Array], Array]] = {
    "invert": lambda values, _: 255 - values,
    "posterize": lambda values, mask: values & mask.astype(np.int64),
    "solarize": lambda values, threshold: np.where(values < threshold, values, 255 - values),
    "solarize_add": lambda values, shift: np.where(values < 128, np.minimum(values + shift, 255), values),
}
#: Maps that depend on the histogram of the image, by the rule of the sample.
_BY_HISTOGRAM = "histogram"

_INPUT = Input("data", f"UINT8 images or sequences, of one of the layouts {', '.join(_LAYOUTS)}.")


EQUALIZE = declare_operator(
    "equalize", "Equalizes the histogram of each channel and each frame.", inputs=(_INPUT,), devices=("cpu", "gpu")
)
BYTE_MAP = declare_operator(
    name="byte_map",
    doc="Maps each value to another.",
    inputs=(_INPUT,),
    arguments=(
        Argument("operation", Kind.STRING, "The map.", REQUIRED, choices=(*_BY_PARAMETER, _BY_HISTOGRAM)),
        Argument("rule", Kind.INT, "For histograms: a `Rule`.", int(Rule.EQUALIZATION), per_sample=True),
        Argument("parameter", Kind.FLOAT, "Parameter of the map.", 0.0, per_sample=True),
    ),
    devices=("cpu", "gpu"),
    hidden=True,
)


def _operation(node: GraphNode) -> str:
    return str(node.argument("operation")) if node.operator == BYTE_MAP.name else _BY_HISTOGRAM


def _parameters(arguments: Arguments, size: int) -> Array:
    return arguments.scalars("parameter") if arguments.given("parameter") else np.zeros(size)


def _rules(arguments: Arguments, size: int) -> Array:
    return arguments.scalars("rule", np.int64) if arguments.given("rule") else np.full(size, Rule.EQUALIZATION)


def _tables(operation: str, parameters: Array) -> Array:
    return np.broadcast_to(_BY_PARAMETER[operation](_VALUES, parameters[:, None]), (len(parameters), 256)).astype(
        np.uint8
    )


def _leading(layout: str) -> int:
    """Return the number of dimensions before the images: frames, and channels if they come first."""
    return layout.index("H")


def _images(data: Array, layout: str) -> Iterator[Array]:
    """Yield the images of a sample as views of (height, width, channels)."""
    for index in np.ndindex(*data.shape[: _leading(layout)]):
        image = data[index]
        yield image[..., None] if layout[-1] != "C" else image


@dataclass(frozen=True)
class _State:
    layout: str
    parameters: Array
    rules: Array
    tables: Array | None


@implements(EQUALIZE, "cpu")
@implements(BYTE_MAP, "cpu")
class ByteMapCpu(SampleOperator[_State]):
    """Looks values up in a table of 256 values, for each sample or each channel of an image."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        layout = _layout(data.layout, None if known is None else len(known))
        operation = _operation(self.node)
        arguments = batch.arguments(self.node)
        parameters, rules = _parameters(arguments, batch.size), _rules(arguments, batch.size)
        tables = _tables(operation, parameters) if operation in _BY_PARAMETER else None
        return _State(layout, parameters, rules, tables), [describe(layout, known, np.dtype(np.uint8))]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, (UINT8,))
        if out is None:
            out = np.empty(data.shape, data.dtype)
        if state.tables is not None:
            return look_up(data, state.tables[sample], out)
        for image, target in zip(_images(data, state.layout), _images(out, state.layout), strict=True):
            tables = self._histogram_tables(histograms(image), state.rules[sample], float(state.parameters[sample]))
            look_up(image, tables, target)
        return out

    def _histogram_tables(self, counts: Array, rule: int, parameter: float) -> Array:
        if rule == Rule.EQUALIZATION:
            return equalization_tables(counts)
        if rule == Rule.AUTO_CONTRAST:
            return auto_contrast_tables(counts)
        try:
            return contrast_tables(counts, parameter)
        except ValueError as error:
            raise ArgumentValueError(str(error)) from error


@implements(EQUALIZE, "gpu")
@implements(BYTE_MAP, "gpu")
class ByteMapGpu(PixelOperator):
    """Looks values up in tables; tables of histograms take three launches more."""

    traits = replace(PixelOperator.traits, launches=True, planewise=True)
    layouts = _LAYOUTS

    @property
    def needs_gpu(self) -> bool:
        return _operation(self.node) not in _BY_PARAMETER

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        layout, operation = _layout(pixels.layout, pixels.ndim), _operation(self.node)
        check_samples(pixels.dtype, (UINT8,))
        arguments = batch.arguments(self.node)
        parameters = _parameters(arguments, batch.size)
        if operation in _BY_PARAMETER:
            return pixels.named(layout).lookup(np.asarray(_tables(operation, parameters)))
        images = pixels.stored
        if layout != "HWC" or images is None or pixels.channels not in (1, 3) or not images.is_contiguous():
            return None
        tables, memory = self._counted(batch, images, _rules(arguments, batch.size), parameters)
        return pixels.named(layout).lookup_stored(tables, memory)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Count the values of any number of channels, and of frames, each of which has its own tables."""
        if not self.needs_gpu:
            return super().run(batch, inputs)
        data = self.contiguous(inputs[0], batch.stream)
        layout = _layout(data.layout(), data.ndim)
        source = samples_of(data)
        check_samples(source.dtype, (UINT8,))
        arguments = batch.arguments(self.node)
        rules, channels = _rules(arguments, batch.size), source.shapes[:, -1]
        error = ArgumentValueError("adjusting the contrast needs 1 or 3 channels")
        wrong = (rules == Rule.CONTRAST) & (channels != 1) & (channels != 3)
        fail([(sample, error) for sample in np.flatnonzero(wrong).tolist()])
        output, target = allocate(source.shapes, source.dtype, layout)
        (images, owners), (targets, _) = (frames(each, _leading(layout)) for each in (source, target))
        if len(images):
            tables, memory = self._counted(batch, images, rules[owners], _parameters(arguments, batch.size)[owners])
            pixels = PixelExpression.from_samples(images, "HWC", data)
            if pixels is None:  # each channel is an image
                planes, numbers = images.positions([2])
                images, targets = (each.parts(planes, numbers, [2]) for each in (images, targets))
                pixels, tables = PixelExpression.from_samples(images, "HW", data), tables[planes] + 256 * numbers[:, 0]
            if pixels is not None:  # there are channels
                self.store(pixels.lookup_stored(tables, memory), targets, batch)
        return [output]

    def _counted(self, batch: Batch, images: Samples, rules: Array, parameters: Array) -> tuple[Array, Any]:
        """Return the addresses of the tables of each image, and their memory, which launches fill."""
        import cupy

        plan = CountedMap(images, rules, parameters)
        memory = cupy.cuda.alloc(max(1, plan.scratch_bytes))
        for launch in plan.launches(memory.ptr):
            self.kernels.run(launch, batch.stream)
        return plan.tables(memory.ptr), memory


def _layout(layout: str, ndim: int | None) -> str:
    return choose_layout(layout, ndim, _LAYOUTS if layout or ndim != 3 else ("HWC",))
