"""Launches of a step of pixel operators: their expressions are computed for each batch, their launches once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._compiler.batch_place import BatchPlace
from dali_proxy.pipeline._compiler.plan import BatchStep
from dali_proxy.pipeline._compiler.prepared_launches import OutputPlace, PreparedLaunches
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.launch import address_offsets
from dali_proxy.pipeline._cuda.packed_launches import PackedLaunches, Rows, packed_tables
from dali_proxy.pipeline._cuda.staging import pack_tables
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

# Largest number of batches that run their operators before the next attempt to repeat launches.
_LONGEST_PAUSE = 1023


class _Launches:
    """The launches that compute expressions.

    Args:
        expressions: the expressions, in the order of their launches: pixels that are stored in between, at the address
            0, then the results.
        sources: for each of them, the index of the input that it reads, whose address is 0; ``~index`` of an earlier
            expression; None for an input with its addresses.
        results: number of results.
    """

    def __init__(self, expressions: Sequence[PixelExpression], sources: Sequence[int | None], results: int) -> None:
        self._expressions, self._sources = expressions, sources
        targets = list(map(_target, expressions))
        launches = [pixels.launch(target) for pixels, (target, *_) in zip(expressions, targets, strict=True)]
        tables = [launch.tables[0] for launch in launches]
        kinds = [(table.dtype, len(table)) for table in tables]
        places, self._rows = _places(tuple(zip(kinds, pack_tables(tables)[0], strict=True)), tuple(sources))
        outputs = [
            OutputPlace(number, 0, pixels.dtype, pixels.layout, shape, None if shape else target)
            for number, (pixels, (target, _, shape)) in enumerate(zip(expressions, targets, strict=True))
        ]
        packed = PackedLaunches(tuple(launches), packed_tables(launches), places)
        self._prepared = PreparedLaunches(packed, [size for _, size, _ in targets], outputs[-results:])

    def fit(self, expressions: Sequence[PixelExpression], sources: Sequence[int | None]) -> bool:
        """Return whether expressions differ from those of the launches in nothing but their rows."""
        return self._sources == sources and all(map(_alike, self._expressions, expressions))

    def run(
        self,
        kernels: KernelContext,
        batch: Batch,
        results: Sequence[Edge],
        expressions: Sequence[PixelExpression],
        inputs: Sequence[BatchPlace],
    ) -> None:
        """Compute expressions that `fit`, and add the results to the batch."""
        rows = [
            Rows(offset + begin, step, own.dtype.itemsize, own)
            for (offset, step), pixels in zip(self._rows, expressions, strict=True)
            for begin, own in pixels.parts
        ]
        self._prepared.run(kernels, batch, results, inputs, rows)


def _target(pixels: PixelExpression) -> tuple[Samples, int, tuple[int, ...] | None]:
    """Return where the samples of a result lie relative to its memory, its size, and its shape if it is dense."""
    shapes = pixels.shapes
    is_dense = bool((shapes == shapes[0]).all())
    target, size = Samples.packed(0, shapes, pixels.dtype, *((1,) if is_dense else ()))
    return target, max(1, size), (len(shapes), *shapes[0].tolist()) if is_dense else None


@lru_cache(maxsize=256)
def _places(
    tables: tuple[tuple[tuple[np.dtype[Any], int], int], ...], sources: tuple[int | None, ...]
) -> tuple[Int64s, list[tuple[int, int]]]:
    """Return where the tables of launches have addresses and rows.

    Args:
        tables: dtype, length and offset of each table in the packed tables.
        sources: as for `_Launches`.

    Returns:
        `PackedLaunches.places`: the addresses are those of the expressions, then those of the inputs. And for each
        launch: offset and step of its rows.
    """
    places, rows = [], []
    for number, ((kind, count), offset) in enumerate(tables):
        assert kind.fields is not None
        begins = offset + np.arange(count) * kind.itemsize
        source = sources[number]
        own, *read = address_offsets(kind)  # the first is that of the result
        owners = [(own, number)]
        if source is not None:
            owners += [(where, ~source if source < 0 else len(tables) + source) for where in read]
        for where, index in owners:
            places.append(np.stack([begins + where, np.full(count, index)], axis=1))
        rows.append((offset + kind.fields["value"][1], kind.itemsize))
    return np.concatenate(places), rows


def _alike(one: PixelExpression, other: PixelExpression) -> bool:
    return one.kind == other.kind and one.row_kind is other.row_kind and _share_memory(one, other)


def _share_memory(stored: PixelExpression, pixels: PixelExpression) -> bool:
    """Return whether pixels are stored like others."""
    return (
        stored.dtype == pixels.dtype
        and stored.channels == pixels.channels
        and stored.order == pixels.order
        and stored.layout == pixels.layout
        and (stored.extents is pixels.extents or stored.extents.tobytes() == pixels.extents.tobytes())
    )


class _Expressions:
    """The expressions of a batch, in the order of their launches: pixels that are stored in between, then the results.

    `known` are pixels that an earlier batch stored.

    Attributes:
        pixels: the expressions.
        sources: see `_Launches`.
        stored: the stored pixels in memory, at the address 0.
        source: what the next expression reads.
    """

    def __init__(self, known: Sequence[PixelExpression]) -> None:
        self._known = known
        self.pixels: list[PixelExpression] = []
        self.sources: list[int | None] = []
        self.stored: list[PixelExpression] = []
        self.source: int | None = None

    def add(self, pixels: PixelExpression, source: int | None) -> None:
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
            known.keep_values()
        self.stored.append(known)
        return known


class ExpressedLaunches:
    """The launches of a step of pixel operators, whose expressions depend on arguments and random numbers.

    If all inputs are of one kind, the expressions of their first batch are used again, whose addresses are relative:
    then the operators compute nothing but numbers. Other inputs have other sizes in each batch.
    """

    def __init__(
        self,
        step: BatchStep,
        operators: Mapping[int, Any],
        readers: Mapping[Edge, int],
        kernels: KernelContext,
        *,
        one_kind: bool,
    ) -> None:
        own = {node.index for node in step.nodes}
        self._nodes = [(node, Edge(node.index), operators[node.index]) for node in step.nodes]
        self._inputs = sorted({node.inputs[0] for node in step.nodes if node.inputs[0].node not in own})
        self._results, self._kernels, self._one_kind = step.results, kernels, one_kind
        #: By edge: the index of the input that it is computed from; None without relative addresses.
        self._sources = {edge: number if one_kind else None for number, edge in enumerate(self._inputs)}
        for node in step.nodes:
            self._sources[Edge(node.index)] = self._sources[node.inputs[0]]
        self._shared = {edge for edge, count in readers.items() if edge.node in own and count > 1}
        #: Expressions that are the same for all batches, by edge: the inputs, and outputs with constant arguments.
        self._known: dict[Edge, PixelExpression] = {}
        #: The outputs of the last batch, by edge, if the inputs are of any kind.
        self._before: dict[Edge, PixelExpression] = {}
        #: Pixels that the last batch stored in between, in memory, and its launches.
        self._stored: Sequence[PixelExpression] = ()
        self._launches: _Launches | None = None
        #: Number of batches that don't try to repeat launches: now, and after the next failure.
        self._waiting, self._pause = 0, 1

    @staticmethod
    def fits(step: BatchStep, operators: Mapping[int, Any]) -> bool:
        """Return whether all operators of a step are pixel operators with one input on the GPU."""
        return bool(step.results) and all(
            isinstance(operator := operators[node.index], PixelOperator)
            and (operator.traits.repeatable and operator.traits.per_sample)
            and not (operator.traits.launches or node.branch)
            and all(operators[edge.node].node.output_device == "cpu" for edge in node.inputs[1:])
            for node in step.nodes
        )

    def run(self, batch: Batch, inputs: Sequence[BatchPlace], run_operators: Callable[[], None]) -> bool:
        """Compute the results of the step and store them in the batch; return False if nothing was done.

        `run_operators` isn't used.
        """
        if self._waiting:
            self._waiting -= 1
            return False
        expressions = self._express(batch, inputs)
        if expressions is None:
            self._rest()
            return False
        self._pause = 1
        launches, pixels = self._launches, expressions.pixels
        if launches is None or not launches.fit(pixels, expressions.sources):
            launches = self._launches = _Launches(pixels, expressions.sources, len(self._results))
        launches.run(self._kernels, batch, self._results, pixels, inputs)
        return True

    def _rest(self) -> None:
        """Let the next batches run their operators: it takes longer to prepare launches that aren't repeated."""
        self._waiting, self._pause = self._pause, min(2 * self._pause + 1, _LONGEST_PAUSE)

    def _express(self, batch: Batch, places: Sequence[BatchPlace]) -> _Expressions | None:
        """Return the results as expressions; None if the operators must run one by one."""
        found = dict(self._known) or self._described(batch, places)
        if found is None:
            return None
        if self._one_kind and not self._known:
            self._known = dict(found)
        sources, expressions = dict(self._sources), _Expressions(self._stored)
        for node, edge, operator in self._nodes:
            if edge in found:
                continue
            pixels, expressions.source = found[node.inputs[0]], sources[node.inputs[0]]
            if not pixels.may_be_read(elements=operator.traits.elementwise):
                return None
            batch.outputs.compute((*node.inputs[1:], *node.argument_inputs.values()))
            before = len(expressions.stored)
            if operator.traits.gathers and pixels.reads > 1:
                pixels = expressions.store(pixels)
            is_constant = not (node.inputs[1:] or node.argument_inputs or node.schema.random)
            result = self._expressed(batch, operator, pixels) if is_constant else operator.express(batch, pixels)
            # An input that is passed on isn't copied, and memory that an operator holds isn't an input.
            if result is None or result.owners or (result is pixels and result.in_memory):
                return None
            if result.reads > 1 and edge in self._shared:
                return None  # it is computed once for all readers
            found[edge], sources[edge] = result, expressions.source
            if not self._one_kind:
                self._remember(edge, result)
            elif is_constant and len(expressions.stored) == before and node.inputs[0] in self._known:
                self._known[edge] = result.keep_values()
        self._stored = expressions.stored
        for edge in self._results:
            expressions.add(found[edge], sources[edge])
        return expressions

    @staticmethod
    def _expressed(batch: Batch, operator: PixelOperator, pixels: PixelExpression) -> PixelExpression | None:
        """Return the output of an operator with constant arguments, which has the same nodes for pixels that recur."""
        if not pixels.recurs or pixels.in_memory:
            return operator.express(batch, pixels)
        result = pixels.kept(operator.node.index, lambda: operator.express(batch, pixels))
        if result is None or result.owners:
            return result
        return operator.express(batch, pixels) if result.combines else result.over(pixels)

    def _remember(self, edge: Edge, pixels: PixelExpression) -> None:
        """Let pixels use what those of the last batch have kept, if only their rows differ."""
        if not pixels.in_memory:
            before = self._before.get(edge)
            if before is not None and _alike(before, pixels):
                pixels.keep_values(before if before.recurs else None)
            self._before[edge] = pixels

    def _described(self, batch: Batch, places: Sequence[BatchPlace]) -> dict[Edge, PixelExpression] | None:
        """Return the inputs as expressions; None if expressions don't support them."""
        found: dict[Edge, PixelExpression] = {}
        for number, edge in enumerate(self._inputs):
            value = batch.outputs[edge]
            if not isinstance(value, TensorListGPU) or not len(value):
                return None
            table = value.table()
            if self._one_kind:
                table = Samples(table.pointers - places[number].address, table.shapes, table.strides, table.dtype)
            pixels = PixelExpression.from_samples(table, value.layout())
            pixels = pixels or PixelExpression.from_elements(table, value.layout())
            if pixels is None:
                return None
            found[edge] = pixels.keep_values() if self._one_kind else pixels
        return found
