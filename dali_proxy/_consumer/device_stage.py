"""The device stage of a pipeline: it runs in the consumer's process when the server runs only the host stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from dali_proxy._consumer.launcher import Launcher
from dali_proxy._consumer.side_stream import SideStream
from dali_proxy._transport.failures import describe, rebuild
from dali_proxy._transport.fields import unpack_labels
from dali_proxy._transport.opener import DeferredOutputs, OutputFunctions, host_tensors
from dali_proxy._transport.origin import Origin
from dali_proxy._transport.protocol import Result
from dali_proxy.pipeline._compiler.device_planner import simple_derivations
from dali_proxy.pipeline._definition.serializing import deserialize_for_host
from dali_proxy.pipeline._executor.statistics import StepTimes
from dali_proxy.pipeline._operator_api.error_context import describe_failure
from dali_proxy.pipeline._operator_api.request import BatchRequest, BatchResult, TensorList
from dali_proxy.pipeline._operator_api.trace import Trace, profiler_trace
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.tensors.torch_memory import TorchMemory, owned_tensors

if TYPE_CHECKING:
    import torch

_GPU_PATIENCE = 2.5  # seconds that the GPU may take for batches without a reader
_GLANCE = 0.002  # seconds between checks

#: Outputs of the pipeline, or the error that it raised.
Outcome = DeferredOutputs | Exception


class DeviceStage:
    """Continues the server's batches, on separate CUDA streams. Only streams wait for the GPU, never the host.

    Prepared batches are issued immediately. An executor with its own threads runs the other batches. It is built when
    the first of them arrives, or immediately if the server can't prepare any.

    Args:
        pipeline: the device stage, as `serialize_for_host` returned it.

    Raises:
        BuildError: the device stage can't run here.
    """

    def __init__(self, pipeline: bytes) -> None:
        self._pipeline = deserialize_for_host(pipeline)
        self._internals = self._pipeline._internals
        nodes = self._internals.graph.nodes
        self._on_gpu = [node for node in nodes if node.device != "cpu"]
        derivations = simple_derivations(self._internals.graph)
        #: Operators that are issued. If a batch can't be issued, the error names the first one.
        self._launching = [each.chain[-1] for each in derivations or () if each.chain] or self._on_gpu
        #: Number of the GPU, or None.
        self.device_id = self._internals.arguments.executor_config().device_id if self._on_gpu else None
        self._launcher: Launcher | None = None
        self._runs = False  # whether an executor exists
        self._trace: Trace | None = None
        self._memory = TorchMemory()
        try:
            if derivations is not None:
                self._launcher = Launcher(self.device_id, SideStream)
            else:
                self._build()
        except BaseException:
            self._internals.close()
            raise

    def _build(self) -> None:
        self._pipeline.build()
        self._internals.runner.executor.batch_memory.on_gpu = self._memory
        self._runs = True

    def start(self, result: Result, inputs: Sequence[TensorListCPU], on_done: Callable[[Outcome], None]) -> None:
        """Start a batch that isn't prepared, and return immediately.

        Args:
            result: message of the server.
            inputs: batches in the slots of the message.
            on_done: callback for the outcome. Another thread calls it once; it must be quick and must not raise.
        """
        origin, client, seq = result.origin, result.client, result.seq
        assert origin is not None  # the server knows that it runs only the host stage
        key = BatchKey(origin.epoch, origin.batch, origin.view, origin.global_batch)
        names = self._internals.graph.fed_inputs
        request = BatchRequest(origin.batch_size, dict(zip(names, inputs, strict=True)), key)
        try:
            self._build()
            if self._trace is not None:
                self._internals.runner.executor.trace = self._trace
            self._internals.runner.submit(request, lambda done: on_done(_outcome(origin, client, seq, done)))
        except PipelineError as error:
            on_done(_outcome(origin, client, seq, BatchResult(error=error)))

    def issue(self, result: Result, arrays: Sequence[Any], pinned: Sequence[bool]) -> Outcome:
        """Issue a prepared batch and return its outputs.

        Args:
            result: message of the server.
            arrays: arrays in the slots of the message.
            pinned: for each array, whether its memory is registered with CUDA.
        """
        assert result.origin is not None
        assert result.prepared is not None
        assert self._launcher is not None  # the server prepares batches only for graphs with a launcher
        try:
            if self._trace is None:
                return self._launcher.issue(result.prepared, arrays, pinned)
            with self._trace.range("issue GPU work", result.batch):
                return self._launcher.issue(result.prepared, arrays, pinned)
        except Exception as error:  # noqa: BLE001  # raised for the requesting thread
            failed = describe_failure(self._launching[0], error) if self._launching else PipelineError(str(error))
            failed.__cause__ = error
            return _outcome(result.origin, result.client, result.seq, BatchResult(error=failed))

    @property
    def waits_for_all(self) -> bool:
        """Whether an executor runs all batches, so that it should get each as soon as it arrives."""
        return self._launcher is None

    def release_finished(self) -> None:
        """Release the server's slots that the GPU has read."""
        if self._launcher is not None:
            self._launcher.release_finished()

    def trace(self, trace: Trace | None) -> None:
        """Record in a trace from now on; None to stop."""
        self._trace = trace
        if self._runs:
            self._internals.runner.executor.trace = trace or profiler_trace()

    def add_times(self, operators: dict[str, dict[str, Any]]) -> None:
        """Add the times of the device stage's operators to those that the server reported."""
        added: list[StepTimes] = []
        if self._launcher is not None and self._launcher.batches:
            name = " → ".join(node.schema.display for node in self._on_gpu) or "outputs"
            launched = StepTimes(name, device="gpu")
            launched.add(self._launcher.batches, *self._launcher.cost)
            added.append(launched)
        if self._runs:
            added += self._internals.runner.executor.statistics.operators()
        for times in added:
            if times.name in operators:
                for key in ("batches", "seconds", "wall"):
                    operators[times.name][key] += getattr(times, key)
            else:
                operators[times.name] = times.report()

    def close(self) -> None:
        """Finish the batches that were started, and free all resources.

        If a kernel doesn't end, this leaves the resources to the end of the process.
        """
        end = time.monotonic() + _GPU_PATIENCE
        while self._runs and self._internals.runner.executor.is_gpu_busy():
            if time.monotonic() > end:
                return
            time.sleep(_GLANCE)
        self._internals.close()
        if self._launcher is not None:
            self._launcher.close()


class DeviceStages:
    """The device stages of the variants of a pipeline that the server may run.

    Args:
        pipelines: for each variant, its device stage as `serialize_for_host` returned it, or None.

    Raises:
        BuildError: the device stage of the first variant can't run here.

    Attributes:
        refused: for other variants whose device stage can't run here, the reason.
    """

    def __init__(self, pipelines: Sequence[bytes | None]) -> None:
        self._stages: dict[int, DeviceStage] = {}
        self.refused: dict[int, str] = {}
        try:
            for number, pipeline in enumerate(pipelines):
                if pipeline is not None:
                    self._add(number, pipeline)
        except BaseException:
            self.close()
            raise

    def _add(self, number: int, pipeline: bytes) -> None:
        try:
            self._stages[number] = DeviceStage(pipeline)
        except PipelineError as error:
            if not number:
                raise
            self.refused[number] = str(error)

    def __bool__(self) -> bool:
        return bool(self._stages)

    def get(self, variant: int) -> DeviceStage | None:
        """Return the device stage of a variant of the pipeline, or None."""
        return self._stages.get(variant)

    @property
    def device_id(self) -> int | None:
        """Number of the GPU, or None."""
        return next((stage.device_id for stage in self._stages.values() if stage.device_id is not None), None)

    @property
    def wait_for_all(self) -> bool:
        """Whether one of them should get each batch as soon as it arrives; see `DeviceStage.waits_for_all`."""
        return any(stage.waits_for_all for stage in self._stages.values())

    def release_finished(self) -> None:
        """Release the server's slots that the GPU has read."""
        for stage in self._stages.values():
            stage.release_finished()

    def trace(self, trace: Trace | None) -> None:
        """Record in a trace from now on; None to stop."""
        for stage in self._stages.values():
            stage.trace(trace)

    def add_times(self, operators: dict[str, dict[str, Any]]) -> None:
        """Add the times of their operators to those that the server reported."""
        for stage in self._stages.values():
            stage.add_times(operators)

    def close(self) -> None:
        """Finish the batches that were started, and free all resources."""
        with ExitStack() as ends:  # calls all of them, even when one fails
            for stage in self._stages.values():
                ends.callback(stage.close)


def _outcome(origin: Origin, client: int, seq: int, result: BatchResult) -> Outcome:
    if result.error is None:
        return OutputFunctions([partial(_tensors, output) for output in result.outputs])
    count = len(origin.paths) // origin.batch_size
    paths = list(zip(*[iter(origin.paths)] * count, strict=True))
    indices = unpack_labels(origin.indices, origin.batch_size)
    names = unpack_labels(origin.names, origin.batch_size)
    return rebuild(describe(result.error, client, seq, indices, origin.worker, origin.worker_pid, paths, names))


def _tensors(output: TensorList) -> torch.Tensor | list[torch.Tensor]:
    if isinstance(output, TensorListGPU):
        return owned_tensors(output)
    return host_tensors(output.as_array() if output.is_dense_tensor() else list(output.samples))
