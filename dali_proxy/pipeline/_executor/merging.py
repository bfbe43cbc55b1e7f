"""Batches that wait for the same phase run as one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._executor.program import Program
from dali_proxy.pipeline._executor.running_batch import RunningBatch
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._operator_api.joined_batches import MergedBatch
from dali_proxy.pipeline._operator_api.reader import ReaderOperator
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

#: Number of samples from which on larger batches aren't faster.
MOST_SAMPLES = 256
_MOST_BATCHES = 64
# Number of small batches, or merged ones, in this and later phases: two that are decoded, and one behind them. Others
# wait before this phase, where they can be merged, rather than between the phases.
_MOST_ACTIVE = 3


class Merger:
    """Takes batches that wait for a phase, several at once if there are several.

    In this and all later phases, operators whose samples depend on each other process each batch apart, so batches that
    run as one have the bits that they have alone.

    Args:
        phase: number of the phase.
        edges: outputs of earlier phases that this and later phases read.
        results: outputs of the graph that they compute.
    """

    def __init__(self, phase: int, edges: Sequence[Edge], results: Sequence[Edge]) -> None:
        self.phase = phase
        self._edges, self._results = edges, results
        #: Number of batches that may run as one.
        self.most = 1
        self._waiting: deque[RunningBatch] = deque()
        self._active = 0
        self._lock = new_lock(Level.LEAF, "merging batches")

    @staticmethod
    def batches(size: int) -> int:
        """Return how many batches of a size fill the active ones, merged, and one that waits; 0 for large ones."""
        return min((_MOST_ACTIVE + 1) * MOST_SAMPLES // size, _MOST_BATCHES) if 2 * size <= MOST_SAMPLES else 0

    def put(self, run: RunningBatch) -> None:
        """Add a batch that waits. Call `take` afterwards."""
        with self._lock:
            self._waiting.append(run)

    def take(self) -> list[RunningBatch]:
        """Return the batches to run next; none if none waits, or enough run. Any thread may call this."""
        taken: list[RunningBatch] = []
        samples = 0
        with self._lock:
            is_small = self._waiting and self.most > 1 and 2 * self._waiting[0].batch.size <= MOST_SAMPLES
            if is_small and self._active >= _MOST_ACTIVE:
                return []
            while self._waiting and len(taken) < max(1, self.most):
                run = self._waiting[0]
                samples += run.batch.size
                if taken and (samples > MOST_SAMPLES or run.batch.trace is not taken[0].batch.trace):
                    break
                taken.append(self._waiting.popleft())
            while len(taken) & (len(taken) - 1):  # few sizes: decoders prepare anew for each
                self._waiting.appendleft(taken.pop())
            self._active += bool(taken)
        return taken

    def end(self) -> bool:
        """Record that what a call of `take` returned has ended. Return whether batches wait, so that it is called."""
        with self._lock:
            self._active -= 1
            return bool(self._waiting)

    def merge(self, members: Sequence[RunningBatch]) -> RunningBatch:
        """Return batches as one.

        Raises:
            PipelineError: their outputs so far don't fit together. They must run one by one.
        """
        merged = RunningBatch(MergedBatch([each.batch for each in members], self._edges), lambda result: None)
        merged.phase, merged.members = self.phase, tuple(members)
        return merged

    @staticmethod
    def restore(members: Sequence[RunningBatch]) -> None:
        """Drop what batches got while they ran as one and failed: its launches may not have been issued."""
        for member in members:
            outputs = member.batch.outputs
            on_gpu = [edge for edge, value in outputs.items() if isinstance(value, TensorListGPU)]
            outputs.drop([*on_gpu, *outputs.deferred])

    def share_out(self, merged: RunningBatch) -> None:
        """Give each member its part of the outputs."""
        outputs = {edge: merged.batch.outputs[edge] for edge in self._results}
        ends = accumulate([member.batch.size for member in merged.members])
        for member, end in zip(merged.members, ends, strict=True):
            for edge, output in outputs.items():
                assert isinstance(output, TensorListGPU)
                if edge not in member.batch.outputs:  # of an operator that processed the batches apart
                    member.batch.outputs[edge] = output.part(slice(end - member.batch.size, end))
            member.stream, member.batch.stream = merged.stream, merged.batch.stream
            member.batch.lenders += merged.batch.lenders
        merged.members[0].batch.keep_alive += merged.batch.keep_alive


def make_merger(program: Program, operators: Mapping[int, Any], outputs: Sequence[Edge]) -> Merger | None:
    """Return a merger for the first phase that uses the GPU; None if batches can't be merged there, or gain nothing.

    Args:
        program: the steps.
        operators: implementations of the nodes, by index.
        outputs: outputs of the graph.
    """
    plan = program.plan
    first = next((number for number, phase in enumerate(plan.phases) if phase.device != "cpu"), None)
    if first is None:
        return None
    phases = plan.phases[first:]
    nodes = [node for phase in phases for step in phase.steps for node in step.nodes]
    fits = all(phase.device != "cpu" for phase in phases) and all(_fits(operators[node.index]) for node in nodes)
    steps = [step for phase in program.phases[first:] for each in phase for step in each.steps]
    fits = fits and not all(step.mixes_samples for step in steps)  # they would process each batch apart
    own = {node.index for node in nodes}
    constant = {node.index for node in plan.constants}
    read = {edge for node in nodes for edge in (*node.sources, *[condition for condition, _ in node.branch])}
    edges = sorted(edge for edge in read if edge.node not in own | constant)
    return Merger(first, edges, [edge for edge in outputs if edge.node in own]) if fits else None


def _fits(operator: Any) -> bool:
    """Return whether an operator can process several batches as one, or each of them apart."""
    if operator.traits.per_sample:
        return True
    node = operator.node
    return not (operator.traits.in_order or node.schema.fed or node.branch or isinstance(operator, ReaderOperator))
