"""Indexing of data nodes: ``x[1:, :, 0]``, with constants and with data nodes as indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.errors import ArgumentValueError
from pipeline.executor.batch import Batch
from pipeline.graph.graph import GraphNode
from pipeline.operators.base import BatchOperator, Setup
from pipeline.operators.registry import implements, register
from pipeline.operators.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

__all__: list[str] = []

SUBSCRIPT = register(
    OperatorSchema(
        name="subscript",
        doc="Samples indexed and sliced.",
        inputs=(
            Input("data", "What is indexed."),
            Input("index", "Indices that differ from sample to sample.", optional=True, any_device=True),
        ),
        arguments=(
            Argument(
                "key",
                Kind.OBJECT,
                "A tuple with an entry for each indexed dimension: an index, or a list of start, stop and step. "
                "Each number is a constant, None, or the number of an index input as a string.",
                REQUIRED,
            ),
        ),
        devices=("cpu", "gpu"),
        variadic=True,
        hidden=True,
    )
)


@implements(SUBSCRIPT, "cpu", "gpu")
class Subscript(BatchOperator):
    """Makes views of the samples: no data is moved."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._key: tuple[Any, ...] = tuple(node.argument("key"))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data, *indices = inputs
        layout = self._layout(data)
        made = TensorListGPU if isinstance(data, TensorListGPU) else TensorListCPU
        if not indices and data.dense is not None:
            self._check(data.dense.shape[1:], self._resolve([], 0), 0)
            key: tuple[Any, ...] = (slice(None), *self._resolve([], 0))
            return [made(data.dense[key], layout)]
        samples = []
        for number, sample in enumerate(data.samples):
            key = self._resolve(indices, number)
            self._check(sample.shape, key, number)
            samples.append(sample[key])
        return [made(samples, layout)]

    def _resolve(self, indices: Sequence[Any], sample: int) -> tuple[Any, ...]:
        def number(part: Any) -> Any:
            return int(indices[int(part)].samples[sample]) if isinstance(part, str) else part

        return tuple(
            slice(*(number(part) for part in entry)) if isinstance(entry, tuple | list) else number(entry)
            for entry in self._key
        )

    def _check(self, shape: Sequence[int], key: tuple[Any, ...], sample: int) -> None:
        for axis, entry in enumerate(key):
            if isinstance(entry, int) and not -shape[axis] <= entry < shape[axis]:
                raise ArgumentValueError(
                    f"index {entry} is out of range for axis {axis} of length {shape[axis]} (sample {sample})"
                )

    def _layout(self, data: Any) -> str:
        if len(self._key) > data.ndim:
            raise ArgumentValueError(f"{len(self._key)} indices for samples of {data.ndim} dimensions")
        letters: str = data.layout()
        if not letters:
            return ""
        kept = [
            axis for axis in range(data.ndim) if axis >= len(self._key) or isinstance(self._key[axis], tuple | list)
        ]
        return "".join(letters[axis] for axis in kept)
