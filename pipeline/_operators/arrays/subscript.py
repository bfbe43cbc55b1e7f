"""Indexing of data nodes: ``x[1:, :, 0]``, with constants and with data nodes as indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline._graph.graph import GraphNode
from pipeline._graph.indexing import ELLIPSIS, NEWAXIS
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.gpu_operator import fail
from pipeline._operator_api.operator import BatchOperator, Setup
from pipeline.errors import ArgumentValueError, PipelineError
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
                "The entries of the index, as `pipeline._graph.indexing` describes them.",
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
        entries = self._expand(data.ndim)
        layout = _layout(data.layout(), entries)
        made = TensorListGPU if isinstance(data, TensorListGPU) else TensorListCPU
        if not indices and data.dense is not None:
            key = _resolve(entries, indices, 0)
            fail([(0, error) for error in _out_of_range(data.dense.shape[1:], key)])
            everywhere: tuple[Any, ...] = (slice(None), *key)
            return [made(data.dense[everywhere], layout)]
        samples: list[Any] = []
        failures: list[tuple[int, PipelineError]] = []
        for number, sample in enumerate(data.samples):
            try:
                key = _resolve(entries, indices, number)
            except PipelineError as error:
                failures.append((number, error))
                continue
            wrong = _out_of_range(sample.shape, key)
            failures += [(number, error) for error in wrong]
            if not wrong:
                samples.append(sample[key])
        fail(failures)
        return [made(samples, layout)]

    def _expand(self, ndim: int) -> tuple[Any, ...]:
        """Return the entries of the key with whole dimensions in place of the ellipsis, and after the end."""
        used = sum(entry != ELLIPSIS and not _is_new(entry) for entry in self._key)
        if used > ndim:
            raise ArgumentValueError(f"{used} indices for samples of {ndim} dimensions")
        whole = ((None, None, None),) * (ndim - used)
        if ELLIPSIS not in self._key:
            return (*self._key, *whole)
        at = self._key.index(ELLIPSIS)
        return (*self._key[:at], *whole, *self._key[at + 1 :])


def _is_new(entry: Any) -> bool:
    return isinstance(entry, tuple | list) and entry[0] == NEWAXIS


def _resolve(entries: Sequence[Any], indices: Sequence[Any], sample: int) -> tuple[Any, ...]:
    """Return the index for a sample, as NumPy and CuPy understand it."""

    def number(part: Any) -> Any:
        return _index_of(indices[int(part)].samples[sample]) if isinstance(part, str) else part

    def index(entry: Any) -> Any:
        if _is_new(entry):
            return None
        return slice(*map(number, entry)) if isinstance(entry, tuple | list) else number(entry)

    return tuple(index(entry) for entry in entries)


def _index_of(value: Any) -> int:
    if value.dtype.kind not in "iu" or value.size != 1:
        raise ArgumentValueError(f"an index must be one integer per sample, not {value.dtype} of shape {value.shape}")
    return int(value.item())


def _out_of_range(shape: Sequence[int], key: Sequence[Any]) -> list[PipelineError]:
    extents = iter(enumerate(shape))
    wrong: list[PipelineError] = []
    for entry in key:
        if entry is None:
            continue
        axis, extent = next(extents)
        if isinstance(entry, int) and not -extent <= entry < extent:
            wrong.append(ArgumentValueError(f"index {entry} is out of range for axis {axis} of length {extent}"))
    return wrong[:1]


def _layout(letters: str, entries: Sequence[Any]) -> str:
    """Return the layout of what is left; an empty string when a new dimension has no name."""
    if not letters:
        return ""
    old = iter(letters)
    made = ""
    for entry in entries:
        if _is_new(entry):
            if not entry[1]:
                return ""
            made += entry[1]
        else:
            letter = next(old)
            made += letter if isinstance(entry, tuple | list) else ""
    return made
