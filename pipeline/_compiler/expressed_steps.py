"""Run a step of pixel operators with prepared launches: only the numbers in their tables are computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._compiler.batch_place import BatchPlace
from pipeline._compiler.plan import BatchStep
from pipeline._cuda.context import KernelContext
from pipeline._cuda.launch import MAX_SAMPLES
from pipeline._cuda.packed_launches import PackedLaunches, Rows, packed_tables
from pipeline._cuda.reclaiming import reclaiming
from pipeline._cuda.staging import pack_tables
from pipeline._graph.graph import Edge
from pipeline._kernels import Samples
from pipeline._kernels.expression import PixelExpression
from pipeline._kernels.pixels import source_offsets
from pipeline._operator_api.batch import Batch
from pipeline._operator_api.error_context import error_context
from pipeline._operator_api.pixel_operator import PixelOperator
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["ExpressedStep"]

# Largest number of kinds of inputs for which launches are prepared.
_MOST_KINDS = 16


class _Launches:
    """The launches that compute expressions of memory whose addresses are 0 until they are issued.

    Args:
        expressions: the expressions, in the order of their launches.
        sources: for each of them, the index of the batch that it reads; ``~index`` of an earlier expression.
    """

    def __init__(self, expressions: Sequence[PixelExpression], sources: Sequence[int]) -> None:
        import cupy

        self._array, self._allocate = cupy.ndarray, reclaiming(cupy.cuda.alloc)
        self._expressions, self._sources = expressions, sources
        #: For each expression: where its samples lie relative to its memory, its size, and its shape if it is dense.
        self._targets = list(map(_target, expressions))
        launches = [pixels.launch(target) for pixels, (target, *_) in zip(expressions, self._targets, strict=True)]
        tables = [launch.tables[0] for launch in launches]
        kinds = [(table.dtype, len(table)) for table in tables]
        places, self._rows = _places(tuple(zip(kinds, pack_tables(tables)[0], strict=True)), tuple(sources))
        self._packed = PackedLaunches(tuple(launches), packed_tables(launches), places)

    def fit(self, expressions: Sequence[PixelExpression], sources: Sequence[int]) -> bool:
        """Return whether expressions differ from those of the launches in nothing but their rows."""
        return self._sources == sources and all(map(_alike, self._expressions, expressions))

    def run(
        self,
        kernels: KernelContext,
        batch: Batch,
        expressions: Sequence[PixelExpression],
        addresses: Sequence[int],
        results: Sequence[Edge],
    ) -> list[TensorListGPU]:
        """Compute expressions that `fit`, and return the results.

        Args:
            kernels: context of the launches.
            batch: the batch.
            expressions: the expressions.
            addresses: addresses of the batches that they read.
            results: edges of the last expressions; only other expressions read those before.
        """
        first = len(expressions) - len(results)
        memory = [self._allocate(size) for _, size, _ in self._targets[:first]]
        for edge, (_, size, shape) in zip(results, self._targets[first:], strict=True):
            given = None if shape is None else batch.output_memory(edge, size)
            memory.append(given or self._allocate(size))
        rows = [Rows(*where, pixels.rows) for where, pixels in zip(self._rows, expressions, strict=True)]
        kernels.repeat(self._packed, (*[each.ptr for each in memory], *addresses), batch.stream, rows)
        outputs = list(zip(self._expressions, self._targets, memory, strict=True))[first:]
        return [self._output(pixels, target, shape, block) for pixels, (target, _, shape), block in outputs]

    def _output(
        self, pixels: PixelExpression, target: Samples, shape: tuple[int, ...] | None, memory: Any
    ) -> TensorListGPU:
        if shape is not None:
            return TensorListGPU.from_dense(self._array(shape, pixels.dtype, memory), pixels.layout)
        placed = Samples(target.pointers + memory.ptr, target.shapes, target.strides, target.dtype)
        return TensorListGPU.from_table(placed, memory, memory.device_id, pixels.layout)


def _target(pixels: PixelExpression) -> tuple[Samples, int, tuple[int, ...] | None]:
    """Return where the samples of a result lie relative to its memory, its size, and its shape if it is dense."""
    shapes = pixels.shapes
    is_dense = bool((shapes == shapes[0]).all())
    target, size = Samples.packed(0, shapes, pixels.dtype, *((1,) if is_dense else ()))
    return target, max(1, size), (len(shapes), *shapes[0].tolist()) if is_dense else None


@lru_cache(maxsize=_MOST_KINDS * 16)
def _places(
    tables: tuple[tuple[tuple[np.dtype[Any], int], int], ...], sources: tuple[int, ...]
) -> tuple[npt.NDArray[np.int64], list[tuple[int, int, int]]]:
    """Return where the tables of launches have addresses and rows.

    Args:
        tables: dtype, length and offset of each table in the packed tables.
        sources: as for `_Launches`.

    Returns:
        `PackedLaunches.places`: the addresses are those of the results, then those of the batches. And for each launch:
        offset, step and size of its rows.
    """
    places, rows = [], []
    for number, ((kind, count), offset) in enumerate(tables):
        assert kind.fields is not None
        begins = offset + np.arange(count) * kind.itemsize
        source = sources[number] if sources[number] >= 0 else ~sources[number] - len(tables)
        read = [(where, len(tables) + source) for where in source_offsets(kind)]
        for where, index in ((0, number), *read):
            places.append(np.stack([begins + where, np.full(count, index)], axis=1))
        value, where = kind.fields["value"][:2]
        rows.append((offset + where, kind.itemsize, value.itemsize))
    return np.concatenate(places), rows


def _alike(one: PixelExpression, other: PixelExpression) -> bool:
    return one.kind == other.kind and one.rows.dtype is other.rows.dtype and _share_memory(one, other)


class _Kind:
    """What is known of batches whose inputs differ only in their addresses.

    Attributes:
        known: expressions that are the same for all these batches, by edge: the inputs, whose addresses are relative
            to the begin of their memory, and outputs of operators with constant arguments.
        stored: pixels that the last batch stored in between, in memory.
        launches: the launches of the last batch, or None.
    """

    def __init__(self, sources: dict[Edge, PixelExpression]) -> None:
        self.known = sources
        self.stored: Sequence[PixelExpression] = ()
        self.launches: _Launches | None = None


class _Expressions:
    """The expressions of a batch, in the order of their launches: pixels that are stored in between, then the results.

    Args:
        known: pixels that an earlier batch stored.

    Attributes:
        pixels: the expressions.
        sources: see `_Launches`.
        stored: the stored pixels in memory, at the address 0.
        source: what the next expression reads.
    """

    def __init__(self, known: Sequence[PixelExpression]) -> None:
        self._known = known
        self.pixels: list[PixelExpression] = []
        self.sources: list[int] = []
        self.stored: list[PixelExpression] = []
        self.source = 0

    def add(self, pixels: PixelExpression, source: int) -> None:
        """Add a result, or pixels that are stored."""
        self.pixels.append(pixels)
        self.sources.append(source)

    def store(self, pixels: PixelExpression) -> PixelExpression:
        """Add pixels that are stored, and return them in memory."""
        number = len(self.stored)
        self.add(pixels, self.source)
        self.source = ~number
        known = self._known[number] if number < len(self._known) else None
        if known is None or not _share_memory(known, pixels):
            known = PixelExpression.from_samples(_target(pixels)[0], pixels.layout)
            assert known is not None  # as the pixels
            known.keep_templates()
        self.stored.append(known)
        return known


def _share_memory(stored: PixelExpression, pixels: PixelExpression) -> bool:
    """Return whether pixels are stored like others."""
    return (
        stored.dtype == pixels.dtype
        and stored.channels == pixels.channels
        and stored.order == pixels.order
        and stored.layout == pixels.layout
        and (stored.extents is pixels.extents or stored.extents.tobytes() == pixels.extents.tobytes())
    )


class ExpressedStep:
    """A step whose operators are pixel operators with arguments, or random numbers, that differ from batch to batch.

    For inputs of each kind, the launches are prepared once. A batch then computes the numbers of the operators with the
    inputs of the first batch, because only the addresses of its inputs differ.

    Args:
        step: the step.
        results: outputs that other steps read, or that the pipeline returns.
        operators: implementations of all nodes, by index.
        readers: number of readers of each edge.
        kernels: context of the launches.
    """

    def __init__(
        self,
        step: BatchStep,
        results: Sequence[Edge],
        operators: Mapping[int, Any],
        readers: Mapping[Edge, int],
        kernels: KernelContext,
    ) -> None:
        own = {node.index for node in step.nodes}
        self._nodes = [(node, Edge(node.index), operators[node.index]) for node in step.nodes]
        self._inputs = sorted({node.inputs[0] for node in step.nodes if node.inputs[0].node not in own})
        self._results = [edge for edge in results if edge.node in own]
        #: By edge: the index of the input that it is computed from.
        self._sources = {edge: number for number, edge in enumerate(self._inputs)}
        for node in step.nodes:
            self._sources[Edge(node.index)] = self._sources[node.inputs[0]]
        self._shared = {edge for edge, count in readers.items() if edge.node in own and count > 1}
        self._kernels = kernels
        #: By kind of the inputs; None if the operators must run.
        self._known: dict[Hashable, _Kind | None] = {}
        #: Whether inputs of one kind have come twice.
        self._recurs = False

    @staticmethod
    def fits(step: BatchStep, operators: Mapping[int, Any]) -> bool:
        """Return whether all operators of a step are pixel operators whose expressions depend on one input."""
        return all(
            isinstance(operator := operators[node.index], PixelOperator)
            and (operator.traits.repeatable and operator.traits.per_sample)
            and not (operator.traits.launches or node.branch)
            and len(node.inputs) == 1
            for node in step.nodes
        )

    def run(self, batch: Batch, run_operators: Callable[[], None]) -> bool:
        """Compute the results of the step and store them in the batch; return False if nothing was done.

        Args:
            batch: the batch.
            run_operators: runs the operators of the step; not used.
        """
        if len(self._known) >= _MOST_KINDS and not self._recurs:
            return False  # images of many sizes: each batch is of another kind
        places = [BatchPlace.of(batch.outputs[edge]) for edge in self._inputs]
        found = [place for place in places if place is not None]
        if len(found) < len(places) or batch.size > MAX_SAMPLES:
            return False
        key = (batch.size, *[place.kind for place in found])
        kind = self._known.get(key)
        if kind is None:
            if key in self._known or len(self._known) >= _MOST_KINDS:
                return False
            kind = self._known[key] = self._described(batch, found)
        else:
            self._recurs = True
        expressions = None if kind is None else self._express(batch, kind)
        if kind is None or expressions is None:
            self._known[key] = None
            return False
        last = next(node for node, edge, _ in reversed(self._nodes) if edge in self._results)
        with error_context(last, batch):
            launches, pixels = kind.launches, expressions.pixels
            if launches is None or not launches.fit(pixels, expressions.sources):
                launches = kind.launches = _Launches(pixels, expressions.sources)
            addresses = [place.address for place in found]
            outputs = launches.run(self._kernels, batch, pixels, addresses, self._results)
        for edge, output in zip(self._results, outputs, strict=True):
            batch.keep(edge, output)
        return True

    def _described(self, batch: Batch, places: Sequence[BatchPlace]) -> _Kind | None:
        """Return the inputs as expressions; None if they aren't images, and an operator needs images."""
        sources: dict[Edge, PixelExpression] = {}
        for edge, place in zip(self._inputs, places, strict=True):
            value = batch.outputs[edge]
            assert isinstance(value, TensorListGPU)
            table = value.table()
            moved = Samples(table.pointers - place.address, table.shapes, table.strides, table.dtype)
            pixels = PixelExpression.from_samples(moved, value.layout())
            pixels = pixels or PixelExpression.from_elements(moved, value.layout())
            if pixels is None:
                return None
            sources[edge] = pixels.keep_templates()
        return _Kind(sources)

    def _express(self, batch: Batch, kind: _Kind) -> _Expressions | None:
        """Return the results as expressions; None if the operators must run one by one."""
        found, sources, expressions = dict(kind.known), dict(self._sources), _Expressions(kind.stored)
        for node, edge, operator in self._nodes:
            if edge in found:
                continue
            pixels, expressions.source = found[node.inputs[0]], sources[node.inputs[0]]
            if not (operator.traits.elementwise or pixels.is_image):
                return None
            batch.outputs.compute(node.argument_inputs.values())  # with the error context of their operators
            before = len(expressions.stored)
            if operator.traits.gathers and pixels.reads > 1:
                pixels = expressions.store(pixels)
            with error_context(node, batch):
                result = operator.express(batch, pixels)
            # An input that is passed on isn't copied, and memory that an operator holds isn't an input.
            if result is None or result.owners or (result is pixels and result.in_memory):
                return None
            if result.reads > 1 and edge in self._shared:
                return None  # it is computed once for all readers
            found[edge], sources[edge] = result, expressions.source
            is_constant = len(expressions.stored) == before and not (node.argument_inputs or node.schema.random)
            if is_constant and node.inputs[0] in kind.known:
                kind.known[edge] = result.keep_templates()
        kind.stored = expressions.stored
        for edge in self._results:
            expressions.add(found[edge], sources[edge])
        return expressions
