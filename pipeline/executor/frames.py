"""Arguments that differ from frame to frame: the frames of sequences run as samples of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from pipeline.errors import ArgumentValueError, OperatorError, SampleFailure
from pipeline.executor.arguments import Arguments
from pipeline.executor.batch import Batch
from pipeline.executor.request import TensorList
from pipeline.graph.graph import Edge, Graph, GraphNode
from pipeline.operators.base import BatchOperator, OutputSpec, SampleOperator
from pipeline.tensors.cpu import Array, TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["by_frames"]

_MARK = "per_frame"


def by_frames(graph: Graph, node: GraphNode, operator: Any) -> Any:
    """Return an operator that runs frames as samples, where `fn.per_frame` made one of its arguments; else itself."""
    names = frozenset(name for name, edge in node.argument_inputs.items() if graph.nodes[edge.node].operator == _MARK)
    if not names or not node.inputs:
        return operator
    inputs = frozenset(
        position
        for position, edge in enumerate(node.inputs)
        if not position or graph.nodes[edge.node].operator == _MARK
    )
    if isinstance(operator, SampleOperator):
        return _SampleFrames(operator, names, inputs)
    return _BatchFrames(operator, names, inputs)


class _Frames(Batch):
    """The frames of all sequences of a batch, as a batch.

    Args:
        whole: the batch.
        node: the operator.
        names: its arguments that differ from frame to frame.

    Attributes:
        begins: number of the first frame of each sequence, and of all frames.
    """

    def __init__(self, whole: Batch, node: GraphNode, names: frozenset[str]) -> None:
        super().__init__(whole.request, whole.seed, whole.pool, whole.allocate, whole.reads, whole.branches)
        self.stream, self.keep_alive, self.trace = whole.stream, whole.keep_alive, whole.trace
        values = {name: whole.values[edge] for name, edge in node.argument_inputs.items()}
        counts = [[shape[0] for shape in values[name].shape()] for name in sorted(names)]
        if any(each != counts[0] for each in counts):
            raise ArgumentValueError(f"the arguments {', '.join(sorted(names))} are for different numbers of frames")
        self.begins = np.concatenate([[0], np.cumsum(counts[0])])
        self.size = int(self.begins[-1])
        owners = np.repeat(np.arange(len(counts[0])), counts[0])
        expanded = {name: _expanded(value, None if name in names else owners) for name, value in values.items()}
        self._arguments = Arguments(node, expanded, self.size)
        self._whole = whole

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        return {}

    def arguments(self, node: GraphNode) -> Arguments:
        return self._arguments

    def generator(self, node: GraphNode) -> np.random.Generator:
        return self._whole.generator(node)

    def check(self, sample: int, count: int) -> range:
        """Return the numbers of a sequence's frames.

        Raises:
            ArgumentValueError: it has another number of them than the arguments are for.
        """
        begin, end = int(self.begins[sample]), int(self.begins[sample + 1])
        if count != end - begin:
            raise ArgumentValueError(f"there are arguments for {end - begin} frames, the sequence has {count}")
        return range(begin, end)


def _expanded(value: TensorList, owners: Array | None) -> TensorListCPU:
    """Return an argument for each frame: its rows, or the values of the frames' sequences."""
    assert isinstance(value, TensorListCPU)
    samples = [np.asarray(sample) for sample in value.samples]
    if owners is not None:
        return TensorListCPU([samples[owner] for owner in owners.tolist()])
    return TensorListCPU([np.asarray(row) for sample in samples for row in sample])


def _without_frames(layout: str) -> str:
    if layout[:1] != "F":
        raise ArgumentValueError(f"arguments that differ from frame to frame need a sequence, F first, not {layout!r}")
    return layout[1:]


def _with_frames(layout: str) -> str:
    return f"F{layout}" if layout else ""


class _SampleFrames(SampleOperator[tuple[Any, _Frames]]):
    """Runs an operator on each frame of a sample in turn."""

    def __init__(self, operator: SampleOperator[Any], names: frozenset[str], inputs: frozenset[int]) -> None:
        super().__init__(operator.node, operator.setup)
        self._operator, self._names, self._sequences = operator, names, inputs

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[tuple[Any, _Frames], Sequence[OutputSpec]]:
        frames = _Frames(batch, self.node, self._names)
        specs = [
            OutputSpec(_without_frames(spec.layout), None if spec.shape is None else spec.shape[1:], spec.dtype)
            if position in self._sequences
            else spec
            for position, spec in enumerate(inputs)
        ]
        state, outputs = self._operator.start(frames, specs)
        return (state, frames), [OutputSpec(_with_frames(spec.layout), None, spec.dtype) for spec in outputs]

    def run(
        self, state: tuple[Any, _Frames], sample: int, inputs: Sequence[Array], out: Array | None
    ) -> Array | tuple[Array, ...]:
        inner, frames = state
        numbers = frames.check(sample, len(inputs[0]))
        made = [
            self._operator.run(
                inner,
                number,
                [each[index] if position in self._sequences else each for position, each in enumerate(inputs)],
                None,
            )
            for index, number in enumerate(numbers)
        ]
        if not made:
            raise ArgumentValueError("the sequence has no frames")
        if isinstance(made[0], tuple):
            return tuple(_stacked(column) for column in zip(*made, strict=True))
        return _stacked(made)


def _stacked(frames: Sequence[Any]) -> Array:
    shapes = {frame.shape for frame in frames}
    if len(shapes) > 1:
        raise ArgumentValueError(f"the frames get different shapes, {' and '.join(map(str, sorted(shapes)))}")
    return np.stack(frames)


class _BatchFrames(BatchOperator):
    """Runs an operator once, on the frames of all sequences."""

    def __init__(self, operator: BatchOperator, names: frozenset[str], inputs: frozenset[int]) -> None:
        super().__init__(operator.node, operator.setup)
        self._operator, self._names, self._sequences = operator, names, inputs

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        frames = _Frames(batch, self.node, self._names)
        for sample, shape in enumerate(inputs[0].shape()):
            frames.check(sample, shape[0])
        owners = np.repeat(np.arange(batch.size), np.diff(frames.begins)).tolist()
        given = []
        for position, value in enumerate(inputs):
            if position in self._sequences:
                rows = [sample[index] for sample in value.samples for index in range(len(sample))]
                given.append(type(value)(rows, _without_frames(value.layout())))
            else:
                given.append(type(value)([value.samples[owner] for owner in owners], value.layout()))
        try:
            made = self._operator.run(frames, given)
        except OperatorError as error:
            failures = [
                SampleFailure(int(np.searchsorted(frames.begins, each.sample, side="right")) - 1, each.error)
                for each in error.failures
            ]
            raise OperatorError.type_for(error)(str(error), failures=tuple(failures)) from error
        return [self._folded(value, frames.begins.tolist()) for value in made]

    @staticmethod
    def _folded(value: Any, begins: list[int]) -> Any:
        layout = _with_frames(value.layout())
        spans = list(pairwise(begins))
        if value.dense is not None:
            return type(value)([value.dense[begin:end] for begin, end in spans], layout)
        stack: Any = np.stack
        if isinstance(value, TensorListGPU):
            import cupy

            stack = cupy.stack
        return type(value)([stack(value.samples[begin:end]) for begin, end in spans], layout)
