"""Batches that an executor runs: those that wait for the same phase run as one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate
from typing import Any, Protocol

import msgspec

from dali_proxy.pipeline._compiler.plan import Phase
from dali_proxy.pipeline._compiler.steps.step import Step
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._concurrency.work_queue import WorkQueue
from dali_proxy.pipeline._executor.constants import Constants
from dali_proxy.pipeline._executor.program import Program
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.joined_batches import MergedBatch
from dali_proxy.pipeline._operator_api.reader import ReaderOperator
from dali_proxy.pipeline._operator_api.request import BatchResult, as_batch_error
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

#: Number of samples from which on larger batches aren't faster.
MOST_SAMPLES = 256
_MOST_BATCHES = 64
# Number of small batches, or merged ones, in this and later phases: two that are decoded, and one behind them. Others
# wait before this phase, where they can be merged, rather than between the phases.
_MOST_ACTIVE = 3
# Numbers of batches in flight that would all be active, and never wait: beside others, these start in pairs.
_SHALLOW = range(4, 9)


OnDone = Callable[[BatchResult], None]


class RunningBatch(msgspec.Struct, eq=False):
    """A batch and its progress through the phases.

    Attributes:
        batch: the batch.
        on_done: called with its result.
        started: time when it began.
        phase: number of its phase.
        step: the step that runs, or ran last.
        stream: its `BatchStream`, once it has one.
        members: the batches that run as this one, if it isn't a batch of the user.
        taken: whether the merger must learn when it ends.
        alone: whether it must not run together with others.
        failure: why it failed together with others.
        suspects: those that failed together and have not succeeded alone; they share it.
        given_up: whether it has ended although a thread is still in a call for it.
        on_caller: whether the thread that submitted it still runs it, and may run more of it.
    """

    batch: Batch
    on_done: OnDone
    started: float = msgspec.field(default_factory=time.perf_counter)
    phase: int = 0
    step: Step | None = None
    stream: Any = None
    members: tuple[RunningBatch, ...] = ()
    taken: bool = False
    alone: bool = False
    failure: Exception | None = None
    suspects: list[RunningBatch] = []
    given_up: bool = False
    on_caller: bool = False


class RunsPhases(Protocol):
    """What a merger needs of an `Executor`."""

    def advance(self, run: RunningBatch) -> None:
        """Start the next phase of a batch, or deliver it."""

    def run_phase(self, run: RunningBatch, phase: Phase) -> None:
        """Run a phase of a batch on this thread."""


class Merger:
    """Runs batches that wait for a phase, several as one if there are several.

    In this and all later phases, operators whose samples depend on each other process each batch apart, so batches that
    run as one have the bits that they have alone. Batches that fail together run again, one by one, so that the others
    succeed and the error has its context.

    Args:
        phase: number of the phase.
        program: the steps.
        constants: outputs that are the same for all batches.
        edges: outputs of earlier phases that this and later phases read.
        results: outputs of the graph that they compute.
    """

    def __init__(
        self, phase: int, program: Program, constants: Constants, edges: Sequence[Edge], results: Sequence[Edge]
    ) -> None:
        self.phase = phase
        self._program, self._constants = program, constants
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

    def put(self, run: RunningBatch, executor: RunsPhases, work_queue: WorkQueue) -> None:
        """Queue a batch for the phase.

        Args:
            run: the batch.
            executor: runs the phase.
            work_queue: the queue of work of the phase.
        """
        with self._lock:
            self._waiting.append(run)
            starts = self._may_start()
        if starts:
            work_queue.put(partial(self._run, executor, work_queue))

    def end(self, executor: RunsPhases, work_queue: WorkQueue) -> None:
        """Let batches that wait take the place of what has ended: batches that ran as one, or a `taken` one."""
        with self._lock:
            self._active -= 1
            starts = self._may_start()
        if starts:
            work_queue.put(partial(self._run, executor, work_queue))

    def divide(self, merged: RunningBatch, error: PipelineError | None, executor: RunsPhases) -> bool:
        """Return whether batches that ran as one have their results now. If they failed, run them one by one."""
        try:
            if error is None:
                self.share_out(merged)
        except Exception as failure:  # noqa: BLE001 - always deliver results: callers wait for them
            error = as_batch_error(failure, "batches were divided")
        merged.batch.clear()
        if error is not None:
            with suppress(Exception):  # CUDA is in an error state, as they will say
                if merged.stream is not None:
                    merged.stream.stream.synchronize()  # it may still read their inputs
            self._restore(merged.members)
            self._run_alone(merged.members, executor, error)
        return error is None

    def confirm(self, run: RunningBatch, failure: Exception) -> None:
        """Record that a batch has succeeded. If all those with which it failed have, to merge them was the fault."""
        run.suspects.remove(run)
        if not run.suspects:
            self._program.fast_paths.confirm("batches that run as one", failure)

    def _run(self, executor: RunsPhases, work_queue: WorkQueue) -> None:
        waiting, more = self._take()
        if more:
            work_queue.put(partial(self._run, executor, work_queue))
        if not waiting:
            return
        try:
            run = self._merge(waiting) if len(waiting) > 1 else waiting[0]
        except Exception as error:  # noqa: BLE001 - they don't fit together; one that fails reports its error when it runs alone
            pass_on_interrupt(error)
            self.end(executor, work_queue)
            self._run_alone(waiting, executor)
            return
        run.taken = True
        executor.run_phase(run, self._program.plan.phases[self.phase])

    @staticmethod
    def _run_alone(runs: Sequence[RunningBatch], executor: RunsPhases, failure: Exception | None = None) -> None:
        suspects = list(runs)
        for run in runs:
            run.alone, run.suspects, run.failure = True, suspects, failure
        for run in runs:
            executor.advance(run)

    def _take(self) -> tuple[list[RunningBatch], bool]:
        """Return the batches to run next, and whether others may run, too. Any thread may call this."""
        taken: list[RunningBatch] = []
        samples = 0
        with self._lock:
            if not self._may_start():
                return [], False
            while self._waiting and len(taken) < max(1, self.most):
                run = self._waiting[0]
                samples += run.batch.size
                if taken and (samples > MOST_SAMPLES or run.batch.trace is not taken[0].batch.trace):
                    break
                taken.append(self._waiting.popleft())
            while len(taken) & (len(taken) - 1):  # few sizes: decoders prepare anew for each
                self._waiting.appendleft(taken.pop())
            self._active += 1
            return taken, self._may_start()

    def _may_start(self) -> bool:
        """Return whether batches that wait may run now. Else they wait for the end of others, or for one more.

        Waking a thread takes long, and it holds the GIL meanwhile.
        """
        if not self._waiting or self.most < 2 or 2 * self._waiting[0].batch.size > MOST_SAMPLES:
            return bool(self._waiting)
        if self.most in _SHALLOW and self._active:
            return len(self._waiting) > 1 and self._active < _MOST_ACTIVE
        return self._active < _MOST_ACTIVE

    def _merge(self, members: Sequence[RunningBatch]) -> RunningBatch:
        """Return batches as one.

        Raises:
            PipelineError: their outputs so far don't fit together. They must run one by one.
        """
        merged = RunningBatch(MergedBatch([each.batch for each in members], self._edges), lambda result: None)
        merged.phase, merged.members = self.phase, tuple(members)
        self._constants.add_to(merged.batch, on_gpu=False)
        return merged

    @staticmethod
    def _restore(members: Sequence[RunningBatch]) -> None:
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


def make_merger(program: Program, operators: Mapping[int, Any], constants: Constants) -> Merger | None:
    """Return a merger for the first phase that uses the GPU; None if batches can't be merged there, or gain nothing.

    Args:
        program: the steps.
        operators: implementations of the nodes, by index.
        constants: outputs that are the same for all batches.
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
    results = [edge for edge in program.graph.outputs if edge.node in own]
    return Merger(first, program, constants, edges, results) if fits else None


def _fits(operator: Any) -> bool:
    """Return whether an operator can process several batches as one, or each of them apart."""
    if operator.traits.per_sample:
        return True
    node = operator.node
    return not (operator.traits.in_order or node.schema.fed or node.branch or isinstance(operator, ReaderOperator))
