"""What replaces each value of bytes by another: equalization, and maps that automatic augmentation uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._imaging.byte_map import auto_contrast_tables, contrast_tables, equalization_tables, histograms, look_up
from pipeline._kernels.byte_map import Rule, map_bytes, map_counted_bytes
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import GpuOperator, allocate, fail, samples_of
from pipeline._operator_api.layouts import choose_layout
from pipeline._operator_api.operator import OutputSpec, SampleOperator
from pipeline._operator_api.output_dtype import check_samples
from pipeline._operator_api.output_specs import describe, known_extents
from pipeline._operators.geometry.resize_launches import frames
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import UINT8

__all__ = ["BYTE_MAP", "EQUALIZE", "EXPERIMENTAL_EQUALIZE"]

_LAYOUTS = ("HW", "HWC", "CHW", "FHW", "FHWC", "FCHW")
_VALUES = np.arange(256)

#: Maps of a sample's parameter alone: (values, parameters of shape (N, 1)) -> (N, 256).
_GIVEN: dict[str, Callable[[Array, Array], Array]] = {
    "invert": lambda values, _: 255 - values,
    "posterize": lambda values, mask: values & mask.astype(np.int64),
    "solarize": lambda values, threshold: np.where(values < threshold, values, 255 - values),
    "solarize_add": lambda values, shift: np.where(values < 128, np.minimum(values + shift, 255), values),
}
#: Maps of how often each value occurs in the picture.
_COUNTED = {"equalize": Rule.EQUALIZATION, "auto_contrast": Rule.AUTO_CONTRAST, "contrast": Rule.CONTRAST}

_INPUT = Input("data", f"UINT8 images or sequences, of one of the layouts {', '.join(_LAYOUTS)}.")


def _declare_equalize(name: str, doc: str) -> OperatorSchema:
    return register(OperatorSchema(name, doc, inputs=(_INPUT,), devices=("cpu", "gpu")))


EQUALIZE = _declare_equalize("equalize", "Equalizes the histogram of each channel, each frame by itself.")
EXPERIMENTAL_EQUALIZE = _declare_equalize("experimental.equalize", "Old name of `equalize`.")
BYTE_MAP = register(
    OperatorSchema(
        name="byte_map",
        doc="Replaces each value by another.",
        inputs=(_INPUT,),
        arguments=(
            Argument("operation", Kind.STRING, "How.", REQUIRED, choices=(*_GIVEN, *_COUNTED)),
            Argument("parameter", Kind.FLOAT, "How much.", 0.0, per_sample=True),
        ),
        devices=("cpu", "gpu"),
        hidden=True,
    )
)


def _operation(node: GraphNode) -> str:
    return str(node.argument("operation") or "equalize")


def _parameters(arguments: Arguments, size: int) -> Array:
    found = arguments.scalars("parameter") if arguments.given("parameter") else None
    return np.zeros(size) if found is None else found


def _tables(operation: str, parameters: Array) -> Array:
    return np.broadcast_to(_GIVEN[operation](_VALUES, parameters[:, None]), (len(parameters), 256)).astype(np.uint8)


def _leading(layout: str) -> int:
    """Return how many dimensions come before the pictures: frames, and channels where they come first."""
    return layout.index("H")


def _pictures(data: Array, layout: str) -> Iterator[Array]:
    """Yield the pictures of a sample as views of (height, width, channels)."""
    for index in np.ndindex(*data.shape[: _leading(layout)]):
        picture = data[index]
        yield picture[..., None] if layout[-1] != "C" else picture


@dataclass(frozen=True)
class _State:
    layout: str
    parameters: Array
    tables: Array | None


@implements(EQUALIZE, "cpu")
@implements(EXPERIMENTAL_EQUALIZE, "cpu")
@implements(BYTE_MAP, "cpu")
class ByteMapCpu(SampleOperator[_State]):
    """A table of 256 values, for each sample or each channel of a picture."""

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        (data,) = inputs
        known = known_extents(batch, self.node, inputs)
        layout = _layout(data.layout, None if known is None else len(known))
        operation = _operation(self.node)
        parameters = _parameters(batch.arguments(self.node), batch.size)
        tables = _tables(operation, parameters) if operation in _GIVEN else None
        return _State(layout, parameters, tables), [describe(layout, known, np.dtype(np.uint8))]

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array:
        (data,) = inputs
        check_samples(data.dtype, (UINT8,))
        if out is None:
            out = np.empty(data.shape, data.dtype)
        if state.tables is not None:
            return look_up(data, state.tables[sample], out)
        for picture, target in zip(_pictures(data, state.layout), _pictures(out, state.layout), strict=True):
            look_up(picture, self._counted(histograms(picture), float(state.parameters[sample])), target)
        return out

    def _counted(self, counts: Array, parameter: float) -> Array:
        rule = _COUNTED[_operation(self.node)]
        if rule is Rule.EQUALIZATION:
            return equalization_tables(counts)
        if rule is Rule.AUTO_CONTRAST:
            return auto_contrast_tables(counts)
        try:
            return contrast_tables(counts, parameter)
        except ValueError as error:
            raise ArgumentValueError(str(error)) from error


@implements(EQUALIZE, "gpu")
@implements(EXPERIMENTAL_EQUALIZE, "gpu")
@implements(BYTE_MAP, "gpu")
class ByteMapGpu(GpuOperator):
    """One launch a batch, and three more to count values and make tables."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = self.contiguous(inputs[0], batch.stream)
        layout = _layout(data.layout(), data.ndim)
        source = samples_of(data)
        check_samples(source.dtype, (UINT8,))
        operation = _operation(self.node)
        parameters = _parameters(batch.arguments(self.node), batch.size)
        made, target = allocate(source.shapes, source.dtype, layout)
        if operation in _GIVEN:
            map_bytes(self.kernels, batch.stream, source, target, _tables(operation, parameters))
            return [made]
        if operation == "contrast":
            channels = source.shapes[:, -1]
            error = ArgumentValueError("an image needs 1 or 3 channels to have a brightness")
            fail([(sample, error) for sample in np.flatnonzero((channels != 1) & (channels != 3)).tolist()])
        pictures, owners = frames(source, _leading(layout))
        targets, _ = frames(target, _leading(layout))
        if len(pictures):
            factors = parameters[owners]
            map_counted_bytes(self.kernels, batch.stream, pictures, targets, _COUNTED[operation], factors)
        return [made]


def _layout(layout: str, ndim: int | None) -> str:
    return choose_layout(layout, ndim, _LAYOUTS if layout or ndim != 3 else ("HWC",))
