"""The half of a pipeline that runs where its results are wanted, when the server runs the first half only."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dali_proxy.failures import describe, rebuild
from dali_proxy.transport.protocol import Result
from pipeline import Pipeline
from pipeline.errors import PipelineError
from pipeline.executor.request import BatchRequest, BatchResult, TensorList
from pipeline.rng import BatchKey
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

if TYPE_CHECKING:
    import torch

__all__ = ["SecondHalf"]

#: Outputs of the pipeline, or what was raised instead.
Made = tuple[TensorList, ...] | Exception


class SecondHalf:
    """Goes on with what a server has begun, on threads of this process and on streams of their own.

    Nothing waits for the GPU: the stream that is current where `tensors` is called does.

    Args:
        pipeline: the second half, as `Pipeline.serialize_for_host` made it.

    Raises:
        BuildError: it can't run here.
    """

    def __init__(self, pipeline: bytes) -> None:
        self._pipeline = Pipeline.from_host_bytes(pipeline)
        try:
            self._pipeline.build()
        except BaseException:
            self._pipeline.close()
            raise
        on_gpu = any(node.device != "cpu" for node in self._pipeline.graph.nodes)
        #: The GPU that it runs on, or None.
        self.device_id = self._pipeline.executor.config.device_id if on_gpu else None

    def start(self, result: Result, inputs: Sequence[TensorListCPU], on_done: Callable[[Made], None]) -> None:
        """Start a batch; returns at once.

        Args:
            result: what the server sent.
            inputs: its outputs.
            on_done: called once, on another thread; it must be quick and must not raise.
        """
        origin = result.origin
        assert origin is not None  # the server was told that it has one half only
        key = BatchKey(origin.epoch, origin.batch, origin.view)
        names = self._pipeline.input_names
        request = BatchRequest(origin.batch_size, dict(zip(names, inputs, strict=True)), key)
        try:
            self._pipeline.submit(request, lambda made: on_done(_outcome(result, made)))
        except PipelineError as error:
            on_done(_outcome(result, BatchResult(error=error)))

    def operators(self) -> dict[str, dict[str, Any]]:
        """Return the times of its steps, as the server reports those of its own."""
        steps = self._pipeline.executor.statistics.steps()
        return {step.name: {"batches": step.batches, "seconds": step.seconds} for step in steps}

    def close(self) -> None:
        """Finish what was started, and end."""
        self._pipeline.close()

    @staticmethod
    def tensors(outputs: Sequence[TensorList]) -> tuple[Any, ...]:
        """Return outputs as a server's results are: a tensor each, or a list of tensors where shapes differ.

        On a GPU, the stream that is current now waits for the data.
        """
        return tuple(_tensors(output) for output in outputs)


def _outcome(result: Result, made: BatchResult) -> Made:
    if made.error is None:
        return made.outputs
    origin = result.origin
    assert origin is not None
    paths = [os.fsencode(path) for path in origin.paths]
    return rebuild(
        describe(made.error, result.client, result.seq, origin.indices, origin.worker, origin.worker_pid, paths)
    )


def _tensors(output: TensorList) -> torch.Tensor | list[torch.Tensor]:
    if isinstance(output, TensorListGPU):
        from dali_proxy.transport.cuda_view import local_tensors

        return local_tensors(output)
    import torch

    if output.is_dense_tensor():
        return torch.from_numpy(output.as_array())
    return [torch.from_numpy(sample) for sample in output.samples]
