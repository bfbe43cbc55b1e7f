"""Arguments that differ from frame to frame: operators process the frames of sequences as samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec.structs import replace

from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch, BatchView
from dali_proxy.pipeline._operator_api.operator import BatchOperator, OutputSpec, SampleOperator
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._rng import RandomNumbers
from dali_proxy.pipeline.errors import ArgumentValueError, OperatorError, SampleFailure
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


def by_frames(graph: Graph, node: GraphNode, operator: Any) -> Any:
    """Wrap an operator so that it processes frames as samples if its arguments are sequences.

    Return the operator itself if none of its arguments can be a sequence.
    """
    if not any(may_be_sequence(graph, edge) for edge in node.argument_inputs.values()):
        return operator
    return _SampleFrames(operator) if isinstance(operator, SampleOperator) else _BatchFrames(operator)


def may_be_sequence(graph: Graph, edge: Edge) -> bool:
    """Return whether an edge's layout may begin with F, because it depends on a sequence."""
    return edge.node in graph.sequences


def _is_sequence(layout: str) -> bool:
    return layout[:1] == "F"


def _sequence_arguments(batch: Batch, node: GraphNode) -> frozenset[str]:
    """Return the names of the arguments that differ from frame to frame in a batch."""
    return frozenset(name for name, edge in node.argument_inputs.items() if _is_sequence(batch.values[edge].layout()))


def _repeats(node: GraphNode) -> bool:
    """Return whether an operator with per-frame arguments repeats a first input without frames; others refuse it."""
    return node.schema.role in (Role.TRANSFORM, Role.MAPPED_POINTS)


class _Frames(BatchView):
    """The frames of all sequences of a batch, as a batch.

    Args:
        sequences: the batch of sequences.
        node: the operator.
        names: names of its arguments that differ from frame to frame. The values for one frame are repeated if other
            arguments or the sequence have more frames.
        lengths: numbers of frames of the sequences, if they are known.

    Attributes:
        begins: index of the first frame of each sequence, followed by the total number of frames.
    """

    def __init__(
        self, sequences: Batch, node: GraphNode, names: frozenset[str], lengths: Sequence[int] | None = None
    ) -> None:
        values = {name: sequences.values[edge] for name, edge in node.argument_inputs.items()}
        rows = {name: np.array([shape[0] for shape in values[name].shape()]) for name in sorted(names)}
        counts = np.max([*rows.values()], axis=0)
        if any(((each != counts) & (each != 1)).any() for each in rows.values()):
            raise ArgumentValueError(f"the arguments {', '.join(rows)} are for different numbers of frames")
        if lengths is not None:
            counts = np.where(counts == 1, lengths, counts)
        self.begins = np.concatenate([[0], np.cumsum(counts)])
        super().__init__(sequences, int(self.begins[-1]))
        self.request, self.positions = replace(sequences.request, branch=None), None
        expanded = {name: _expanded(value, counts, rows.get(name)) for name, value in values.items()}
        self._arguments = Arguments(node, expanded, self.size)
        self._sequences = sequences

    @property
    def values(self) -> Mapping[Edge, TensorList]:
        return {}

    def arguments(self, node: GraphNode) -> Arguments:
        return self._arguments

    def random_numbers(self, node: GraphNode) -> RandomNumbers:
        return self._sequences.random_numbers(node)

    def siblings(self, sample: int) -> range:
        return self.numbers(int(np.searchsorted(self.begins, sample, side="right")) - 1)

    def numbers(self, sequence: int) -> range:
        """Return the indices of a sequence's frames."""
        return range(int(self.begins[sequence]), int(self.begins[sequence + 1]))

    def check(self, sequence: int, count: int) -> None:
        """Check that a sequence has as many frames as its arguments, which may also be for one frame.

        Raises:
            ArgumentValueError: the numbers differ.
        """
        wanted = len(self.numbers(sequence))
        if wanted not in (1, count):
            raise ArgumentValueError(
                f"The sample {sequence} of a tensor argument contains {wanted} per-frame parameters, but there are "
                f"{count} frames in the corresponding sample of input 0. The numbers should match."
            )


def _expanded(value: TensorList, counts: Array, rows: Array | None) -> TensorListCPU:
    """Return the values of an argument for each frame: one for each sample, or a sequence of them.

    `counts` are the frames of the samples, `rows` the values in the sequences, if there are any; one value is repeated.
    """
    assert isinstance(value, TensorListCPU)
    samples = [np.asarray(sample) for sample in value.samples]
    frames = [[sample] if rows is None else list(sample) for sample in samples]
    repeats = counts if rows is None else np.where(rows == counts, 1, counts)
    return TensorListCPU(
        [np.asarray(row) for each, repeat in zip(frames, repeats.tolist(), strict=True) for row in each * repeat]
    )


def _without_frames(layout: str) -> str:
    if not _is_sequence(layout):
        raise ArgumentValueError(
            f"arguments that differ from frame to frame need a sequence whose layout begins with F, not {layout!r}"
        )
    return layout[1:]


def _with_frames(layout: str) -> str:
    return f"F{layout}" if layout else ""


@dataclass(frozen=True)
class _State:
    """The state of one batch.

    Attributes:
        inner: state of the wrapped operator.
        frames: frames of the batch, or None if no argument differs between them.
        sequences: whether each input is a sequence.
    """

    inner: Any
    frames: _Frames | None = None
    sequences: tuple[bool, ...] = ()


class _SampleFrames(SampleOperator[_State]):
    """Runs an operator on the frames of a sample one after another."""

    def __init__(self, operator: SampleOperator[Any]) -> None:
        super().__init__(operator.node, operator.setup)
        self._operator = operator

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_State, Sequence[OutputSpec]]:
        names = _sequence_arguments(batch, self.node)
        if not names:
            state, outputs = self._operator.start(batch, inputs)
            return _State(state), outputs
        frames = _Frames(batch, self.node, names)
        sequences = tuple(
            _is_sequence(spec.layout) or not (position or _repeats(self.node)) for position, spec in enumerate(inputs)
        )
        specs = [
            OutputSpec(_without_frames(spec.layout), None if spec.shape is None else spec.shape[1:], spec.dtype)
            if sequence
            else spec
            for sequence, spec in zip(sequences, inputs, strict=True)
        ]
        state, outputs = self._operator.start(frames, specs)
        results = [OutputSpec(_with_frames(spec.layout), None, spec.dtype) for spec in outputs]
        return _State(state, frames, sequences), results

    def run(self, state: _State, sample: int, inputs: Sequence[Array], out: Array | None) -> Array | tuple[Array, ...]:
        if state.frames is None:
            return self._operator.run(state.inner, sample, inputs, out)
        numbers: Sequence[int] = state.frames.numbers(sample)
        for sequence, each in zip(state.sequences, inputs, strict=True):
            if sequence:
                state.frames.check(sample, len(each))
                numbers = numbers if len(numbers) == len(each) else [*numbers] * len(each)
        results = [
            self._operator.run(
                state.inner,
                number,
                [each[index] if sequence else each for sequence, each in zip(state.sequences, inputs, strict=True)],
                None,
            )
            for index, number in enumerate(numbers)
        ]
        if not results:
            raise ArgumentValueError("the sequence has no frames")
        if isinstance(results[0], tuple):
            return tuple(_stacked(column) for column in zip(*results, strict=True))
        return _stacked(results)


def _stacked(frames: Sequence[Any]) -> Array:
    shapes = {frame.shape for frame in frames}
    if len(shapes) > 1:
        raise ArgumentValueError(f"the frames would get different shapes, {listed(sorted(shapes), separator=' and ')}")
    return np.stack(frames)


class _BatchFrames(BatchOperator):
    """Runs an operator once on the frames of all sequences."""

    def __init__(self, operator: BatchOperator) -> None:
        super().__init__(operator.node, operator.setup)
        self._operator = operator

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        names = _sequence_arguments(batch, self.node)
        if not names:
            return self._operator.run(batch, inputs)
        lengths = [[shape[0] for shape in value.shape()] for value in inputs if _is_sequence(value.layout())]
        frames = _Frames(batch, self.node, names, lengths[0] if lengths else None)
        owners = np.repeat(np.arange(batch.size), np.diff(frames.begins)).tolist()
        frame_inputs = []
        for position, value in enumerate(inputs):
            if _is_sequence(value.layout()) or not (position or _repeats(self.node)):
                layout = _without_frames(value.layout())
                for sample, shape in enumerate(value.shape()):
                    frames.check(sample, shape[0])
                rows = [sample[index] for sample in value.samples for index in range(len(sample))]
                frame_inputs.append(type(value)(rows, layout))
            else:
                frame_inputs.append(type(value)([value.samples[owner] for owner in owners], value.layout()))
        try:
            results = self._operator.run(frames, frame_inputs)
        except OperatorError as error:
            failures = [
                SampleFailure(int(np.searchsorted(frames.begins, each.sample, side="right")) - 1, each.error)
                for each in error.failures
            ]
            raise OperatorError.type_for(error)(str(error), failures=tuple(failures)) from error
        return [self._folded(value, frames.begins.tolist()) for value in results]

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
