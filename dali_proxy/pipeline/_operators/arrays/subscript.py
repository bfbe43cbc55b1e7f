"""Indexing of data nodes, such as ``x[1:, :, 0]``, with constants and data nodes as indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._graph.indexing import ELLIPSIS, NEWAXIS
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

SUBSCRIPT = declare_operator(
    name="subscript",
    doc="Indexes and slices samples.",
    inputs=(
        Input("data", "Samples to index."),
        Input("index", "Indices that differ from sample to sample.", optional=True, any_device=True),
    ),
    arguments=(
        Argument("key", Kind.OBJECT, "Entries of the index, in the format of `pipeline._graph.indexing`.", REQUIRED),
    ),
    devices=("cpu", "gpu"),
    variadic=True,
    hidden=True,
)


@implements(SUBSCRIPT, "cpu", "gpu")
class Subscript(BatchOperator):
    """Returns views of the samples, without a copy."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._key: tuple[Any, ...] = tuple(node.argument("key"))

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data, *indices = inputs
        entries = self._expand(data.ndim)
        layout = _layout(data.layout(), entries)
        tensor_list = TensorListGPU if isinstance(data, TensorListGPU) else TensorListCPU
        if not indices and data.dense is not None:
            key = _resolve(entries, indices, 0)
            fail([(0, error) for error in _out_of_range(data.dense.shape[1:], key)])
            batch_key: tuple[Any, ...] = (slice(None), *key)
            return [tensor_list(data.dense[batch_key], layout)]
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
        return [tensor_list(samples, layout)]

    def _expand(self, ndim: int) -> tuple[Any, ...]:
        """Return the entries of the key, with full slices for the ellipsis and for missing dimensions."""
        used = sum(entry != ELLIPSIS and not _is_new(entry) for entry in self._key)
        if used > ndim:
            raise ArgumentValueError(f"Too many indices ({used}) for a {ndim}-D tensor: it has not enough dimensions")
        full = ((None, None, None),) * (ndim - used)
        if ELLIPSIS not in self._key:
            return (*self._key, *full)
        position = self._key.index(ELLIPSIS)
        return (*self._key[:position], *full, *self._key[position + 1 :])


def _is_new(entry: Any) -> bool:
    return isinstance(entry, tuple | list) and entry[0] == NEWAXIS


def _resolve(entries: Sequence[Any], indices: Sequence[Any], sample: int) -> tuple[Any, ...]:
    """Return the index for a sample, in the form of NumPy and CuPy."""

    def number(bound: Any) -> Any:
        return _index_of(indices[int(bound)].samples[sample]) if isinstance(bound, str) else bound

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
            wrong.append(ArgumentValueError(f"Index {entry} is out of range for axis {axis} of length {extent}"))
    return wrong[:1]


def _layout(letters: str, entries: Sequence[Any]) -> str:
    """Return the layout of the result; an empty string if a new dimension has no name."""
    if not letters:
        return ""
    old = iter(letters)
    result = ""
    for entry in entries:
        if _is_new(entry):
            if not entry[1]:
                return ""
            result += entry[1]
        else:
            letter = next(old)
            result += letter if isinstance(entry, tuple | list) else ""
    return result
