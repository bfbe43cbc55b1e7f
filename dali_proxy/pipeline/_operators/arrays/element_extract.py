"""`element_extract`: single frames of sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline.errors import ArgumentValueError


def _output_count(arguments: Mapping[str, Any]) -> int:
    return len(arguments["element_map"])


ELEMENT_EXTRACT = declare_operator(
    name="element_extract",
    doc="Returns single frames of sequences, with one output for each number in `element_map`.",
    inputs=(Input("data", 'Sequences, whose layout is empty or begins with "F".'),),
    arguments=(Argument("element_map", Kind.INTS, "Numbers of the frames, from 0.", REQUIRED),),
    devices=("cpu", "gpu"),
    outputs=_output_count,
)


def _outside(element: int, length: int) -> ArgumentValueError:
    return ArgumentValueError(
        f"Negative indices in `element_map` are not allowed, found: {element}"
        if element < 0
        else f"Index `{element}` from `element_map` is out of bounds for sample with sequence length equal `{length}`"
    )


@implements(ELEMENT_EXTRACT, "cpu", "gpu")
class ElementExtract(BatchOperator):
    """Returns views of the sequences."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        layout, elements = data.layout(), self.node.argument("element_map")
        if layout[:1] not in ("", "F") or data.ndim < 2:
            raise ArgumentValueError(
                "Input must have at least two dimensions - outermost for sequence and at least one for data elements."
                if data.ndim < 2
                else f"Input layout must describe a sequence - it must start with 'F', got {layout!r} instead."
            )
        lengths = [shape[0] for shape in data.shape()]
        fail(
            [
                (sample, _outside(element, length))
                for sample, length in enumerate(lengths)
                for element in elements
                if not 0 <= element < length
            ][:1]
        )
        if data.dense is not None:
            return [type(data)(data.dense[:, element], layout[1:]) for element in elements]
        return [type(data)([array[element] for array in data.samples], layout[1:]) for element in elements]
