"""A batch in the host, from its submission to its delivery."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from dali_proxy._transport.failures import describe
from dali_proxy._transport.labels import clip, unpack_labels
from dali_proxy._transport.origin import Origin
from pipeline._operator_api.request import TensorList
from pipeline._rng import BatchKey
from pipeline.tensors import TensorListCPU

if TYPE_CHECKING:
    from dali_proxy._host.clients import Consumer, Worker
    from dali_proxy._host.variant import Variant
    from dali_proxy._transport.protocol import Failure
    from dali_proxy._transport.publisher import StagedResult


class State(Enum):
    """Stage of a request. Stages only advance."""

    QUEUED = "waits for the executor"
    RUNNING = "is in the executor"
    DONE = "waits to be fetched"
    GONE = "was delivered or dropped"


@dataclass(eq=False)
class Request:
    """A batch that a worker submitted.

    Attributes:
        worker: the worker that submitted it.
        variant: variant of the pipeline that computes it.
        seq: the worker's number for it.
        number: its number among the batches that this variant has started.
        session: the iterator that it belongs to; 0 for none.
        key: key of its random numbers.
        size: number of samples.
        labels: dataset indices of the samples, packed.
        name_labels: names of the samples, packed.
        paths: paths of the samples' files, if an input has paths; else None.
        inputs: one batch for each input of the pipeline; empty once the executor has them.
        bytes_in: size of the inputs.
        state: its stage.
        copying: the executor's result, while it is RUNNING and the GPU fills slots.
        staged: the executor's result, when it is DONE and succeeded.
        failure: description of the error, when it is DONE and failed.
        waiter: the consumer that has already asked for it, or None.
        times: when it arrived and left each stage, if a trace records it; see `HostTrace`.
    """

    worker: Worker
    variant: Variant
    seq: int
    session: int
    key: BatchKey
    size: int
    labels: str
    name_labels: str = ""
    paths: TensorListCPU | None = None
    inputs: dict[str, TensorList] = field(default_factory=dict)
    bytes_in: int = 0
    state: State = State.QUEUED
    copying: StagedResult | None = None
    staged: StagedResult | None = None
    failure: Failure | None = None
    waiter: Consumer | None = None
    times: list[float] | None = None
    number: int = -1

    @property
    def nbytes(self) -> int:
        """Size of the outputs."""
        return 0 if self.staged is None else self.staged.nbytes

    @property
    def indices(self) -> tuple[str, ...]:
        """Dataset indices of the samples, as text; empty where they are unknown."""
        return unpack_labels(self.labels, self.size)

    @property
    def names(self) -> tuple[str, ...]:
        """Names that the proxy was given for the samples; empty where it was given none."""
        return unpack_labels(self.name_labels, self.size)

    @property
    def files(self) -> tuple[bytes, ...]:
        """Paths of the samples' files, if an input has paths; else empty."""
        return () if self.paths is None else tuple(path.tobytes().rstrip(b"\0") for path in self.paths.samples)

    def origin(self, samples: bool = True) -> Origin:
        """Return metadata for a consumer that runs the device stage.

        Args:
            samples: whether to include the indices and paths of the samples, for errors.
        """
        key, worker = self.key, self.worker
        return Origin(
            epoch=key.epoch,
            batch=key.iteration,
            view=key.view,
            batch_size=self.size,
            indices=self.labels if samples else "",
            names=self.name_labels if samples else "",
            paths=tuple(clip(os.fsdecode(path)) for path in self.files) if samples else (),
            worker=worker.name,
            worker_pid=worker.pid,
            global_batch=key.global_batch,
        )

    def describe(self, error: Exception) -> Failure:
        """Describe an error of the batch for the process that fetches it."""
        worker = self.worker
        return describe(error, worker.client, self.seq, self.indices, worker.name, worker.pid, self.files, self.names)

    @property
    def held_bytes(self) -> int:
        """Memory that it occupies until a consumer fetches it: the outputs, or the approximate size of a failure."""
        if self.failure is None:
            return self.nbytes
        return 1024 + len(self.failure.message) + len(self.failure.arguments) + len(self.failure.traceback)

    def discard(self) -> None:
        """Free the memory of the outputs."""
        staged, self.staged = self.staged, None
        if staged is not None:
            staged.discard()
