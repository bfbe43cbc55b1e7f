"""Find pixel operators whose arguments are rows of constant tables: their parameters are computed once, for all rows.

Automatic augmentation derives such arguments from a magnitude, for example. A batch then only takes the rows of its
samples, for all operators with one kind of expression at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._arrays import Int64s
from dali_proxy.pipeline._compiler.rules.equal_operators import stack_equal_operators
from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.steps.step import FusedStep, PixelStep, Step, defer
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._cuda.launch import MAX_SAMPLES
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._kernels.rows import as_bytes, opaque, taken
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.branch_batches import branch_batch
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.request import BatchRequest
from dali_proxy.pipeline._operators.arrays.table_row import TableRow
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

# Largest number of kinds of inputs for which parameters are computed.
_MOST_KINDS = 16


@dataclass(frozen=True, eq=False)
class Member:
    """An operator of a group.

    Attributes:
        step: runs the operator alone.
        rows: outputs of `table_row` that it reads; all of them have the same index.
        tables: their tables.
    """

    step: PixelStep
    rows: tuple[Edge, ...]
    tables: tuple[TensorListCPU, ...]

    @property
    def count(self) -> int:
        """The number of rows of the tables."""
        return len(self.tables[0])

    def express(self, pixels: PixelExpression) -> tuple[PixelExpression, int] | None:
        """Return the outputs for all rows, given one image of the input, and where they store the parameters of it.

        None if the operator must run, or if it changes these parameters.
        """
        images = pixels.take(np.zeros(self.count, np.int64))
        batch = Batch.without_executor(BatchRequest(self.count), dict(zip(self.rows, self.tables, strict=True)))
        result = self.step.operator.express(batch, images)
        if result is None or result is images or len(result.owners) > len(images.owners):
            return None
        inner, begin = result.rows.dtype, 0
        while inner != images.rows.dtype:
            if "in" not in (inner.fields or ()) or "other" in (inner.fields or ()):
                return None  # it reads the image elsewhere, too
            assert inner.fields is not None
            inner, offset = inner.fields["in"][:2]
            begin += offset
        same = as_bytes(result.rows)[:, begin : begin + inner.itemsize] == as_bytes(images.rows)
        return (result, begin) if begin + inner.itemsize < result.rows.dtype.itemsize and same.all() else None


@dataclass(frozen=True, eq=False)
class _Table:
    """The outputs of members with one kind of expression, for all rows of their tables.

    Attributes:
        members: the members, and the first row of each.
        pixels: the outputs.
        begin: offset of the parameters of the input in a row.
    """

    members: Sequence[tuple[Member, int]]
    pixels: PixelExpression
    begin: int

    def choose(self, pixels: PixelExpression, rows: Int64s, samples: Int64s | slice) -> PixelExpression:
        """Return outputs for samples of the input."""
        size = pixels.rows.dtype.itemsize
        chosen = taken(self.pixels.rows, rows)
        opaque(chosen, self.begin, size)[:] = opaque(pixels.rows)[samples]
        return self.pixels.replaced(rows=chosen, extents=self.pixels.extents[rows], owners=pixels.owners)


class TabulatedOperators(FusedStep):
    """Operators that read the same images, `source`, with rows of constant tables as their arguments."""

    title = "operators with tables of arguments"

    def __init__(self, source: Edge, members: Sequence[Member]) -> None:
        super().__init__([member.step for member in members])
        self._source, self._operators = source, tuple(members)
        #: By kind of the images: the outputs for all rows.
        self._known: dict[Hashable, list[_Table]] = {}
        self._failures: list[Exception] = []

    def run_as_one(self, batch: Batch) -> bool:
        self._operators[0].step.operator.kernels.open_queue()
        batches = {member: branch_batch(batch, member.step.node.branch) for member in self._operators}
        done = {member.step.node.index for member, branch in batches.items() if branch is None}
        for operators, pixels in self._express(batch, batches):
            defer(batch, operators, pixels)
            done.update([step.node.index for step, _ in operators])
        for member in self.members if len(done) < len(self.nodes) else ():
            rest = [leaf for leaf in member.leaves() if leaf.nodes[0].index not in done]
            for step in [member] if len(rest) == len(member.nodes) else rest:
                step.run(batch)
        failures, self._failures[:] = self._failures[:], []
        for failure in failures:
            self.fast_paths.confirm(self.title, failure)
        return True

    def _express(
        self, batch: Batch, batches: Mapping[Member, Batch | None]
    ) -> list[tuple[list[tuple[PixelStep, Batch]], PixelExpression]]:
        """Return expressions of outputs: the operators with their batches, and the pixels.

        Operators that must run alone, and those without samples, are missing.
        """
        gathering = [member.step.operator.traits.gathers for member, branch in batches.items() if branch is not None]
        pixels = batch.outputs.pixels(self._source, computed=any(gathering), elements=True) if gathering else None
        if pixels is None or not pixels.may_be_read() or not (pixels.extents == pixels.extents[0]).all():
            return []
        found = []
        indices: dict[Edge, Int64s] = {}
        for table in self._tables(pixels):
            chosen: list[tuple[PixelStep, Batch]] = []
            rows: list[Int64s] = []
            samples: list[Int64s] = []
            for member, first in table.members:
                branch = batches[member]
                own = None if branch is None else _indices(batch, branch, member, indices)
                if branch is None or own is None:
                    continue
                inside = branch.indices_in(self._source)
                chosen.append((member.step, branch))
                rows.append(own + first)
                samples.append(np.arange(branch.size) if inside is None else inside)
            if chosen and sum(each.size for _, each in chosen) <= MAX_SAMPLES:
                found.append((chosen, table.choose(pixels, np.concatenate(rows), np.concatenate(samples))))
        return found

    def _tables(self, pixels: PixelExpression) -> list[_Table]:
        key = (pixels.kind, pixels.order, pixels.layout, *pixels.extents[0].tolist())
        tables = self._known.get(key)
        if tables is None:
            tables = []
            if len(self._known) < _MOST_KINDS:
                tables = self._known[key] = _tables(self._operators, pixels, self._failures)
        return tables


def _tables(members: Iterable[Member], pixels: PixelExpression, failures: list[Exception]) -> list[_Table]:
    kinds: dict[Hashable, list[tuple[Member, PixelExpression, int]]] = {}
    for member in members:
        try:
            expressed = member.express(pixels)
        except PipelineError:  # which only some rows cause, possibly none of those that a batch takes
            continue
        except Exception as error:  # noqa: BLE001 - an operator that fails reports the error when it runs alone
            pass_on_interrupt(error)
            failures.append(error)
            continue
        if expressed is not None:
            result, begin = expressed
            key = (result.kind, result.rows.dtype, result.order, result.layout, result.reads, begin)
            kinds.setdefault(key, []).append((member, result, begin))
    tables = []
    for alike in kinds.values():
        ends = np.cumsum([member.count for member, _, _ in alike]).tolist()
        firsts = [(member, end - member.count) for (member, _, _), end in zip(alike, ends, strict=True)]
        joined = PixelExpression.concatenate([result for _, result, _ in alike])
        tables.append(_Table(firsts, joined.replaced(owners=()), alike[0][2]))
    return tables


def _indices(batch: Batch, branch: Batch, member: Member, known: dict[Edge, Int64s]) -> Int64s | None:
    """Return the rows of the samples of a member, whose batch is `branch`; None if an index is invalid."""
    edge, index = batch.outputs.rows_chosen(member.rows[0])
    if index is None:
        return None
    if edge not in known:
        array = index.small_array()
        if array is None or array.size != batch.size:
            return None
        known[edge] = array.reshape(-1).astype(np.int64)
    inside = branch.indices_in(edge)
    chosen = known[edge] if inside is None else known[edge][inside]
    return chosen if chosen.view(np.uint64).max() < member.count else None


def tabulate_operators(steps: list[Step], scope: Scope) -> list[Step]:
    """Fuse operators that read the same images, with rows of tables as their arguments."""
    if scope.device != "gpu":
        return steps
    members: dict[Edge, list[Member]] = {}
    for step in steps:
        if isinstance(step, PixelStep) and is_tabulated(step.operator, scope):
            rows = _rows(step.node)
            sources = [scope.graph.nodes[edge.node] for edge in rows]
            tables = [TensorListCPU(np.asarray(each.argument("table")), each.argument("layout")) for each in sources]
            members.setdefault(step.node.inputs[0], []).append(Member(step, rows, tuple(tables)))
        elif isinstance(step, PixelStep) and step.node.argument_inputs:
            scope.note(TabulatedOperators, f"{step.node.display} depends on more than pixels and rows of tables")
    fused = [TabulatedOperators(source, each) for source, each in members.items()]
    steps = replaced(steps, scope, fused)
    for each in fused:
        each.members = stack_equal_operators(each.members, scope)  # of images with several sizes, which have no tables
    return steps


def is_tabulated(operator: Any, scope: Scope) -> bool:
    """Return whether the arguments of an operator are rows of tables with one index."""
    if not isinstance(operator, PixelOperator) or not operator.traits.per_sample or operator.needs_gpu:
        return False
    sources = [scope.graph.nodes[edge.node] for edge in _rows(operator.node)]
    if operator.node.schema.random or not all(isinstance(scope.operators[each.index], TableRow) for each in sources):
        return False
    return len({(each.inputs, len(each.argument("table"))) for each in sources}) == 1


def _rows(node: GraphNode) -> tuple[Edge, ...]:
    return tuple(dict.fromkeys((*node.inputs[1:], *node.argument_inputs.values())))
