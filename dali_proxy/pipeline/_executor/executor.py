"""The executor: run batches through a graph, several batches at once."""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from dali_proxy.pipeline._bulk.gather import writable
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._compiler.cached_parts import cached_parts, parts_on_gpu
from dali_proxy.pipeline._compiler.folded_tables import folded_tables
from dali_proxy.pipeline._compiler.make_operator import make_operator
from dali_proxy.pipeline._compiler.per_frame_arguments import by_frames
from dali_proxy.pipeline._compiler.plan import Phase, make_plan
from dali_proxy.pipeline._compiler.sources_on_gpu import sources_on_gpu
from dali_proxy.pipeline._compiler.steps.step import Steps
from dali_proxy.pipeline._concurrency.affinity import nearest_cores
from dali_proxy.pipeline._concurrency.cost import MEASURED_CHEAP, Cost, spent
from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX, call_back, report
from dali_proxy.pipeline._concurrency.interrupts import is_interrupt
from dali_proxy.pipeline._concurrency.stuck_calls import this_thread
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool
from dali_proxy.pipeline._concurrency.work_queue import WorkQueue
from dali_proxy.pipeline._cuda.streams import ignore_captures
from dali_proxy.pipeline._executor.batch_memory import BatchMemory
from dali_proxy.pipeline._executor.batch_order import ordered_phases
from dali_proxy.pipeline._executor.constants import Constants
from dali_proxy.pipeline._executor.device import Device, open_device
from dali_proxy.pipeline._executor.look_ahead import LookAhead
from dali_proxy.pipeline._executor.merging import OnDone, RunningBatch, make_merger
from dali_proxy.pipeline._executor.program import Program
from dali_proxy.pipeline._executor.readers import ReaderGroup
from dali_proxy.pipeline._executor.shared import SharedResources
from dali_proxy.pipeline._executor.statistics import PhaseCosts, Statistics, ValueSizes
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.error_context import describe_failure
from dali_proxy.pipeline._operator_api.memory_statistics import MemoryStatistics
from dali_proxy.pipeline._operator_api.operator import FunctionProcesses, Setup
from dali_proxy.pipeline._operator_api.request import (
    BatchRequest,
    BatchResult,
    ExecutorConfig,
    TensorList,
    as_batch_error,
)
from dali_proxy.pipeline._operator_api.trace import Trace, profiler_trace
from dali_proxy.pipeline._user_functions.seeding import nesting
from dali_proxy.pipeline.errors import InputError, PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_MOST_CONCURRENT = 16
# Largest number of threads that each run one batch at a time.
_MOST_STAGES = 8
# The same between CPU and GPU, where each needs GPU memory.
_MOST_MIXED = 4
# The cost of a step that isn't measured, and the context of steps that aren't traced.
_UNMEASURED, _UNTRACED = Cost(), nullcontext()


class Executor:
    """Runs batches through a graph.

    CPU phases of up to `cpu_depth` batches share one thread pool. GPU phases are issued in order, each batch on one
    of `gpu_streams` CUDA streams; the host doesn't wait for the GPU unless an operator does. A failed batch is a
    result like any other.

    Args:
        graph: the graph.
        config: sizes, threads and devices.
        shared: threads and a GPU that it shares with other executors; None for its own. With shared ones, all phases
            run on the thread that calls `submit`.
        functions: processes for functions of the user; None for none. The caller closes them.
        cache: has results of deterministic parts of the graph; None for no cache.

    Raises:
        DeviceError: the graph needs a GPU or a library that is missing.
    """

    def __init__(
        self,
        graph: Graph,
        config: ExecutorConfig,
        shared: SharedResources | None = None,
        functions: FunctionProcesses | None = None,
        cache: ValueCache | None = None,
    ) -> None:
        self.graph = graph = folded_tables(sources_on_gpu(graph))
        self.config = config
        #: Sizes of outputs; None unless `memory_statistics` is set.
        self.memory: MemoryStatistics | None = MemoryStatistics(graph) if config.memory_statistics else None
        #: The trace that records the times of steps and samples; None to record nothing.
        self.trace: Trace | None = profiler_trace()
        self._submitted = itertools.count()
        fuse = config.fuse and not config.memory_statistics
        self.cache = cache if fuse else None
        self._parts = cached_parts(graph) if self.cache is not None or shared is None else []
        on_gpu = parts_on_gpu(graph) if fuse else []
        self._plan = make_plan(graph, on_gpu if self.cache is None else [*on_gpu, *self._parts])
        #: Sizes of what a cache would hold; it measures nothing if there is one.
        self.value_sizes = ValueSizes(
            [] if self.cache is not None else [e for part in self._parts for e in part.results]
        )
        self._closed = False
        self._process = os.getpid()
        self._shared = shared
        open_or_share = open_device if shared is None else shared.device
        self._device: Device | None = open_or_share(graph, config) if self._plan.uses_gpu else None
        if self._device is not None:
            self.config = replace(config, device_id=self._device.device_id)
        self.batch_memory = BatchMemory(graph, self._plan, self._device)
        self._queues: dict[str, WorkQueue | None] = {"cpu": None, "mixed": None, "gpu": None}
        self._operators: dict[int, Any] = {}
        self._opened: list[Callable[[], object]] = []  # the `close` methods of operators
        try:
            with nullcontext() if self._device is None else self._device.building():
                self._make_operators(functions)
                self._prepare_steps(fuse)
                self._start_threads()
        except BaseException:
            self._end()  # otherwise threads would keep the decoders' GPU memory forever
            raise

    def _make_operators(self, functions: FunctionProcesses | None) -> None:
        graph, config = self.graph, self.config
        kernels = None if self._device is None else self._device.kernels
        setup = Setup.from_config(config, kernels, functions)
        for node in graph.nodes:
            operator = make_operator(node, setup)
            closing = getattr(operator, "close", None)
            if closing is not None:
                self._opened.append(closing)
            self._operators[node.index] = by_frames(graph, node, operator)
        look_ahead = LookAhead(graph, self._operators)
        #: Tells operators of batches that wait; None if none of them can know.
        self.look_ahead = look_ahead if look_ahead.operators else None

    def _prepare_steps(self, fuse: bool) -> None:
        graph = self.graph
        #: The readers of data sets.
        self.readers = ReaderGroup(graph, self._operators)
        kernels = getattr(self._device, "kernels", None)
        self.program = Program(graph, self._plan, self._operators, kernels, self.config.seed, fuse, self.cache)
        #: The counters of its batches, and the cost of its operators.
        cacheable = {node.index for part in self._parts for node in part.nodes}
        steps = [step for phase in self.program.phases for step in phase]
        self.statistics = Statistics(graph, self._operators, steps, cacheable)
        self._constants = Constants(self._plan.constants, self._operators)
        can_merge = fuse and self._shared is None
        self._merger = make_merger(self.program, self._operators, self._constants) if can_merge else None
        self._branches = {
            Edge(node.index, output): node.branch
            for node in graph.nodes
            if node.branch
            for output in range(node.output_count)
        }
        #: By number, for phases that call the user's code; without own threads, one thread runs all phases of a batch.
        self._orders = ordered_phases(self._plan, self._operators) if self._shared is None else {}
        self.batch_memory.reserve(self.config)
        self._costs = PhaseCosts(self._plan, self._operators)

    def _start_threads(self) -> None:
        config = self.config
        if self._shared is not None:
            self._pool = self._shared.pool
            self.concurrency = self.most_concurrent = 1
            return
        self._pool = ThreadPool(
            config.num_threads,
            f"{THREAD_PREFIX}cpu",
            nearest_cores(config.device_id if self._device else None) if config.set_affinity else (),
        )
        self._queues["cpu"] = WorkQueue(f"{THREAD_PREFIX}cpu-stage", max(1, config.cpu_depth))
        mixed_threads = self._mixed_threads()
        #: Number of batches from which on more would hardly make it faster.
        self.most_concurrent = max(_MOST_CONCURRENT, self.batches_to_merge)
        #: Number of batches that it can use at once; further ones only wait.
        self.concurrency = max(config.cpu_depth, config.gpu_depth, mixed_threads + 1) + 1
        if self._device:
            self._queues["gpu"] = WorkQueue(f"{THREAD_PREFIX}gpu-stage", 1)
        if mixed_threads:
            self._queues["mixed"] = WorkQueue(f"{THREAD_PREFIX}mixed-stage", mixed_threads)

    def widen(self, concurrency: int) -> None:
        """Let so many batches run at once, with more threads for small batches, which mostly wait for each other.

        The caller found that this is faster. One thread at a time may call this.
        """
        on_cpu, mixed = self._queues["cpu"], self._queues["mixed"]
        if on_cpu is not None:
            on_cpu.widen(min(concurrency - 1, _MOST_STAGES))
        if self._merger is not None:
            self._merger.most = concurrency
        elif mixed is not None and self._mixed_threads() > 1:
            mixed.widen(min(concurrency - 1, _MOST_MIXED))

    @property
    def num_threads(self) -> int:
        """Number of threads of the CPU stage."""
        return self._pool.num_threads

    def resize(self, num_threads: int) -> None:
        """Change the number of threads of the CPU stage. One thread may call this."""
        self._pool.resize(num_threads)

    def check_process(self) -> None:
        """Raise a `PipelineError` in a forked child of the process that created the executor."""
        if os.getpid() != self._process:
            raise PipelineError(
                f"the pipeline was built in process {self._process}, and a forked child doesn't have its threads: "
                "create the pipeline in the child"
            )

    def submit(self, request: BatchRequest, on_done: OnDone, *, on_caller: bool = False) -> None:
        """Start a batch and return at once. Readers advance by one batch, even when this raises.

        Args:
            request: the batch.
            on_done: function to call once with the result, on a thread of the executor. It must be quick and must not
                raise.
            on_caller: whether the calling thread may run phases that take less time than to wake another thread, and
                call `on_done`.

        Raises:
            InputError: inputs are missing or don't fit; nothing was started.
            OperatorError: a reader can't read; nothing was started.
            PipelineError: the executor is closed, or this is a forked child of the process that created it.
        """
        if self._closed:
            raise PipelineError("the executor is closed")
        self.check_process()
        reads = self.readers.nothing or self.readers.begin(request.batch_size)
        self._check(request)
        batch = Batch(request, self.config.seed, self._pool, self.batch_memory.allocate, reads, self._branches)
        batch.nested = nesting.depth > 0
        batch.trace, batch.memory, batch.output_memory = self.trace, self.memory, self.batch_memory.output_on_gpu
        if self._plan.constants:
            self._constants.add_to(batch, on_gpu=False)
        run = RunningBatch(batch, on_done, on_caller=on_caller)
        batch.number = next(self._submitted)
        if batch.memory is None and self.value_sizes.measures(batch.number):
            batch.memory = self.value_sizes
        try:
            self.advance(run)
        except BaseException:
            self._end_order(batch.number)
            raise

    def copy_input(self, batch: TensorListCPU, node: GraphNode) -> TensorListCPU:
        """Copy fed data for a node, on the threads of the CPU stage; to pinned memory if the GPU reads the data."""
        return self.batch_memory.copy_input(batch, node, self._pool)

    def run(self, request: BatchRequest) -> tuple[TensorList, ...]:
        """Run a batch and return its outputs. Those on the GPU may still be computed.

        Raises:
            PipelineError: the batch failed.
        """
        done: queue.SimpleQueue[BatchResult] = queue.SimpleQueue()
        self.submit(request, done.put)
        result = done.get()
        if result.error is not None:
            raise result.error
        return result.outputs

    def _mixed_threads(self) -> int:
        """Return the number of threads for phases between CPU and GPU.

        With two, one prepares a batch while the other waits for a decoder.
        """
        phases = [phase for phase in self._plan.phases if phase.device == "mixed"]
        nodes = [node for phase in phases for step in phase.steps for node in step.nodes]
        if not nodes:
            return 0
        return 2 if all(self._operators[node.index].traits.any_thread for node in nodes) else 1

    @property
    def merges(self) -> bool:
        """Whether batches that wait for the GPU run as one."""
        return self._merger is not None

    @property
    def batches_to_merge(self) -> int:
        """Number of batches in flight that small batches need to be merged; 0 if they aren't small, or don't merge."""
        return 0 if self._merger is None else self._merger.batches(self.config.max_batch_size)

    @property
    def device_id(self) -> int | None:
        """Number of the graph's GPU; None if the graph uses no GPU."""
        return None if self._device is None else self._device.device_id

    def suspects(self) -> list[GraphNode]:
        """Return the operators whose kernels may have lost CUDA's context: those that run the user's code, if any."""
        on_gpu = [node for node in self.graph.nodes if node.device == "gpu"]
        users = [node for node in on_gpu if self._operators[node.index].traits.in_order]
        return users or on_gpu

    @property
    def calls_user(self) -> bool:
        """Whether operators call the user's functions."""
        return any(operator.traits.in_order for operator in self._operators.values())

    @property
    def caches(self) -> list[ValueCache]:
        """The caches of decoded samples: on the host, and in the memory of the GPU."""
        return list(
            dict.fromkeys([*[step.cache for step in self.program.cached], *([self.cache] if self.cache else [])])
        )

    def is_gpu_busy(self) -> bool:
        """Return whether the GPU has work of batches left."""
        return self._device is not None and self._device.is_busy()

    def close(self) -> None:
        """Finish all started batches, then end all threads and free the device. Further calls do nothing."""
        if self._closed:
            return
        self._closed = True
        self._end()

    def _end(self) -> None:
        """End the started threads, then close the operators and the device, as far as they exist."""
        with ExitStack() as ends:  # calls all of them in reverse order, even when one fails
            for step in self.program.cached if hasattr(self, "program") else ():
                ends.callback(step.close)
            if self._device is not None and self._shared is None:
                ends.callback(self._device.close)
            for closing in reversed(self._opened):
                ends.callback(closing)
            if self._shared is None:
                for threads in (getattr(self, "_pool", None), *reversed(self._queues.values())):
                    if threads is not None:
                        ends.callback(threads.close)
            for step in self.program.cached if hasattr(self, "program") else ():
                ends.callback(step.release_claims)  # first: other executors needn't wait for what may never end

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _check(self, request: BatchRequest) -> None:
        if not 0 < request.batch_size <= self.config.max_batch_size:
            raise InputError(
                f"the batch has {request.batch_size} samples, but the pipeline accepts 1 to "
                f"{self.config.max_batch_size} (batch_size)"
            )
        for node in self.graph.inputs:
            value = request.inputs.get(node.name)
            if value is None:
                raise InputError(f"no data for the input {node.name!r}\n  at {node.location}")
            if len(value) != request.batch_size:
                raise InputError(
                    f"the input {node.name!r} has {len(value)} samples, but the batch has {request.batch_size}"
                )

    def advance(self, run: RunningBatch) -> None:
        """Start the next phase of a batch, or deliver the batch after the last one."""
        if run.phase == len(self._plan.phases):
            self._finish(run)
            return
        phase = self._plan.phases[run.phase]
        order = self._orders.get(run.phase)
        if order is not None:
            run.on_caller = False
            order.enter(run.batch.number, partial(self._enqueue, run, phase))
            return
        takes_inputs = self.program.takes_inputs[run.phase] and run.phase + 1 < len(self._plan.phases)
        if takes_inputs and run.batch.trace is None:
            self._run_unmeasured(run, self.program.phases[run.phase])
            run.phase += 1
            self.advance(run)
            return
        if takes_inputs or (run.on_caller and self._costs.is_cheap[run.phase]):
            self.run_phase(run, phase)
            return
        run.on_caller = False
        self._enqueue(run, phase)

    def _enqueue(self, run: RunningBatch, phase: Phase) -> None:
        work_queue = self._queues[phase.device]
        if work_queue is None:
            self.run_phase(run, phase)
            return
        if self._merger is not None and run.phase == self._merger.phase and not run.alone:
            self._merger.put(run, self, work_queue)
            return
        work_queue.put(partial(self.run_phase, run, phase))

    def run_phase(self, run: RunningBatch, phase: Phase) -> None:
        """Run a phase of a batch on this thread, then start the next one."""
        outer, this_thread.give_up = this_thread.give_up, partial(self._give_up, run, phase)
        try:
            if phase.on_gpu:
                assert self._device is not None
                with self._device.current():
                    self._run_on_gpu(run, phase, self._device)
            else:
                if run.stream is not None:
                    run.stream.stream.synchronize()  # the CPU reads results of the GPU
                self._run_steps(run, phase)
        except BaseException as error:
            if not run.given_up:
                self._finish(run, as_batch_error(error, "a batch ran"))  # always deliver a result: callers wait for it
            if is_interrupt(error):
                raise
        else:
            if not run.given_up:
                run.phase += 1
                self.advance(run)
        finally:
            this_thread.give_up = outer

    def _give_up(self, run: RunningBatch, phase: Phase, thread: threading.Thread, reason: str) -> None:
        """End a batch whose thread is in a call that doesn't return. The thread keeps the memory of the call."""
        run.given_up = True
        for step in self.program.cached:
            step.release_claims()  # batches that wait for this one compute the samples
        if (work_queue := self._queues[phase.device]) is not None:
            work_queue.abandon(thread)
        self._finish(run, describe_failure((run.step or phase.steps[0]).nodes[0], PipelineError(reason)))

    def _run_on_gpu(self, run: RunningBatch, phase: Phase, device: Device) -> None:
        if self._shared is None and not run.on_caller:  # not the user's thread
            ignore_captures()
        is_first = run.stream is None
        if is_first:
            run.stream = device.acquire()
            run.batch.stream = run.stream.stream
        stream, trace = run.stream.stream, run.batch.trace
        memory = nullcontext() if self.batch_memory.on_gpu is None else self.batch_memory.on_gpu.on(stream)
        with stream, memory:
            if is_first:
                self._constants.add_to(run.batch, on_gpu=True)
            begin = None if trace is None else trace.mark(stream)
            with device.kernels.queued(stream):
                self._run_steps(run, phase)
            if trace is not None:
                number, lane, key = run.batch.number, run.stream.name, run.batch.request.key
                trace.add_on_gpu(phase.name, number, lane, begin, trace.mark(stream), key)

    def _run_steps(self, run: RunningBatch, phase: Phase) -> None:
        batch, trace, steps = run.batch, run.batch.trace, self.program.phases[run.phase]
        weight, order = self._costs.weight(run.phase), self._orders.get(run.phase)
        if trace is None and not weight and order is None and not phase.on_gpu:
            self._run_unmeasured(run, steps)
            return
        traced = _UNTRACED if trace is None else trace.sequence(steps, batch.number, batch.request.key)
        begun = already = spent() if weight else _UNMEASURED
        kernels = self._device.kernels if phase.on_gpu and self._device is not None else None
        for number, step in enumerate(steps):
            if order is not None and number == order.first:
                order.begin(batch.number)
                already = spent() if weight else _UNMEASURED  # the wait isn't the operator's
            run.step, batch.costs = step, self.statistics.begin(step)
            launched = kernels.launched if weight and kernels is not None else 0
            with traced:
                step.run(batch)
                if kernels is not None and number == len(steps) - 1:
                    batch.outputs.compute(phase.results)
            cost, launches, nbytes = _UNMEASURED, 0, None
            if weight:
                now = spent()
                cost, already = now.minus(already, weight), now
                launches = 0 if kernels is None else kernels.launched - launched
            if weight and not batch.number % MEASURED_CHEAP:  # computing sizes takes longer than a cheap operator
                found = map(batch.outputs.get, step.results)
                nbytes = sum([output.nbytes for output in found if output is not None])
            self.statistics.end(step, cost, batch.costs, launches, nbytes)
            if order is not None and number == order.last:
                order.end_turn(batch.number)
        if weight:
            self._costs.add(run.phase, already.minus(begun))

    def _run_unmeasured(self, run: RunningBatch, steps: Sequence[Steps]) -> None:
        """Run the steps of a phase on the CPU, and nothing else."""
        batch, statistics = run.batch, self.statistics
        for step in steps:
            run.step, batch.costs = step, statistics.begin(step)
            step.run(batch)
            statistics.end(step, _UNMEASURED, batch.costs)

    def _finish(self, run: RunningBatch, error: PipelineError | None = None) -> None:
        if run.taken and self._merger is not None:
            run.taken = False
            work_queue = self._queues[self._plan.phases[self._merger.phase].device]
            assert work_queue is not None  # the phase is one of the GPU
            self._merger.end(self, work_queue)
        if run.stream is None and not run.members:
            self._deliver([run], None, error)
            return
        if run.stream is None or self._device is None:
            self._complete(run, error)
            return
        with self._device.current():
            self._complete(run, error)

    def _complete(self, run: RunningBatch, error: PipelineError | None) -> None:
        event: Any = None
        if run.stream is not None:
            try:
                event = run.stream.record()
            except Exception as failure:  # noqa: BLE001 - CUDA is in an error state: deliver it as a result
                error = error or PipelineError(f"the GPU failed while a batch ran: {failure}")
        if not run.members:
            self._deliver([run], event, error)
        elif self._merger is not None and self._merger.divide(run, error, self):
            self._deliver(run.members, event)

    def _deliver(self, runs: Sequence[RunningBatch], event: Any, error: PipelineError | None = None) -> None:
        """Deliver a batch, or several that ran as one. One event shows that the GPU has read the inputs of all."""
        keep_alive: list[Any] = []
        callbacks: list[Callable[[], None]] = []
        for run in runs:
            self._call_on_done(run, event, error)
            keep_alive += run.batch.keep_alive
            run.batch.keep_alive.clear()
            if run.batch.request.on_inputs_read is not None:
                callbacks.append(run.batch.request.on_inputs_read)
        stream = runs[0].stream
        if stream is not None:
            stream.retire(keep_alive, callbacks, event)
            return
        for callback in callbacks:
            try:
                callback()
            except BaseException as failure:  # noqa: BLE001
                report(callback, failure)

    def _call_on_done(self, run: RunningBatch, event: Any, error: PipelineError | None) -> None:
        batch = run.batch
        outputs: tuple[TensorList, ...] = ()
        if error is None:
            try:
                outputs = self._outputs(batch)
                if run.failure is not None and self._merger is not None:
                    self._merger.confirm(run, run.failure)
            except Exception as failure:  # noqa: BLE001 - always deliver a result: callers wait for it
                outputs, error = (), as_batch_error(failure, "a batch ended")
        batch.clear()
        run.failure = None  # the frames in its traceback reference this object
        if self._orders:
            self._end_order(batch.number)
        result = BatchResult(outputs, error, time.perf_counter() - run.started)
        self.statistics.batch(failed=error is not None)
        if run.stream is None:
            try:  # `call_back` would take longer
                run.on_done(result)
            except BaseException as failure:  # noqa: BLE001
                report(run.on_done, failure)
        else:
            for output in outputs:
                if isinstance(output, TensorListGPU):
                    output.ready, output.stream, output.lenders = event, run.stream.stream, tuple(batch.lenders)
            # Work that the callback issues follows the batch.
            with nullcontext() if event is None else run.stream.stream:
                call_back(run.on_done, result)

    def _end_order(self, number: int) -> None:
        for order in self._orders.values():
            order.end(number)

    def _outputs(self, batch: Batch) -> tuple[TensorList, ...]:
        outputs = tuple(map(batch.outputs.__getitem__, self.graph.outputs))
        if self._plan.constants:
            outputs = self._constants.own(batch, outputs)
        if self.cache is not None:
            outputs = tuple(map(writable, outputs))
        if batch.reads.by_reader:
            for edge, output in zip(self.graph.outputs, outputs, strict=True):
                output.sources = batch.reads.sources(edge) or output.sources
        return outputs
