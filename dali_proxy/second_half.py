"""The half of a pipeline that runs where its results are wanted, when the server runs the first half only."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dali_proxy.failures import describe, rebuild
from dali_proxy.transport.labels import unpack_labels
from dali_proxy.transport.origin import Origin
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

    def start(
        self, origin: Origin, client: int, seq: int, inputs: Sequence[TensorListCPU], on_done: Callable[[Made], None]
    ) -> None:
        """Start a batch; returns at once.

        Args:
            origin: which batch it is.
            client: who submitted it.
            seq: the client's number of it.
            inputs: what the server made of it.
            on_done: called once, on another thread; it must be quick and must not raise.
        """
        key = BatchKey(origin.epoch, origin.batch, origin.view)
        names = self._pipeline.input_names
        request = BatchRequest(origin.batch_size, dict(zip(names, inputs, strict=True)), key)
        try:
            self._pipeline.submit(request, lambda made: on_done(_outcome(origin, client, seq, made)))
        except PipelineError as error:
            on_done(_outcome(origin, client, seq, BatchResult(error=error)))

    def add_times(self, operators: dict[str, dict[str, Any]]) -> None:
        """Add the times of its steps to those that the server reports of its own."""
        for step in self._pipeline.executor.statistics.steps():
            times = operators.setdefault(step.name, {"batches": 0, "seconds": 0.0})
            times["batches"] += step.batches
            times["seconds"] += step.seconds

    def close(self) -> None:
        """Finish what was started, and end."""
        self._pipeline.close()

    @staticmethod
    def tensors(outputs: Sequence[TensorList]) -> tuple[Any, ...]:
        """Return outputs as a server's results are: a tensor each, or a list of tensors where shapes differ.

        On a GPU, the stream that is current now waits for the data.
        """
        return tuple(_tensors(output) for output in outputs)


def _outcome(origin: Origin, client: int, seq: int, made: BatchResult) -> Made:
    if made.error is None:
        return made.outputs
    paths = [os.fsencode(path) for path in origin.paths]
    indices = unpack_labels(origin.indices, origin.batch_size)
    return rebuild(describe(made.error, client, seq, indices, origin.worker, origin.worker_pid, paths))


def _tensors(output: TensorList) -> torch.Tensor | list[torch.Tensor]:
    if isinstance(output, TensorListGPU):
        from dali_proxy.transport.cuda_view import local_tensors

        return local_tensors(output)
    import torch

    if output.is_dense_tensor():
        return torch.from_numpy(output.as_array())
    return [torch.from_numpy(sample) for sample in output.samples]
