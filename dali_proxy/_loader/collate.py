"""Turns the placeholders of samples into placeholders of a batch, during torch's collation."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from typing import Any

from dali_proxy._common.nested import find, replace
from dali_proxy._loader.batches import Chunk, CollatedBatch, Cost, FailedBatch, NumberedIndices, Packed, Pause
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._worker.batch_context import BatchContext, this_thread
from dali_proxy._worker.placeholders import BatchRef, SampleRef
from dali_proxy._worker.worker import collected_submissions
from dali_proxy.pipeline._ipc.pickling import for_spawned


class Collate:
    """Wraps the user's collate function: submits the samples that it left uncollated, and ends the batch's context.

    Args:
        collate_fn: the user's collate function.
        own: this process's role in the loader.
        epoch: epoch number for batches without a context (of datapipes, which can't be wrapped).
        rank: rank of the training process, likewise.

    Attributes:
        packs: whether a worker pickles its batches here; see `Packed`.
    """

    def __init__(self, collate_fn: Callable[[Any], Any], own: OwnWorker, epoch: int = 0, rank: int = 0) -> None:
        self.collate_fn = collate_fn
        self.epoch = epoch
        self.rank = rank
        self.own = own
        self.packs = True
        self._count = 0  # number of collated batches of datapipes
        self._message = 0  # size of the last batch's message

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "collate_fn": for_spawned(self.collate_fn)}

    def __call__(
        self, samples: Any, in_chunk: bool = False
    ) -> CollatedBatch | FailedBatch | Packed | Pause | list[Any]:
        if isinstance(samples, Chunk):
            assert samples.read is not None  # the dataset of this process has set it
            with collected_submissions():
                return [self(samples.read(numbered), in_chunk=True) for numbered in samples.numbered]
        last = samples[-1] if isinstance(samples, list) and samples else samples
        if isinstance(last, Pause):
            return last
        context = this_thread.context
        if context is None:
            numbered = NumberedIndices(self.epoch, self.own.batch_number(self._count), None, self.rank)
            context = BatchContext(0, self.epoch, numbered.batch, rank=self.rank)
            this_thread.context = context
            self._count += 1
        try:
            try:
                if self.own.init_error is not None:
                    raise self.own.init_error
                if isinstance(last, FailedBatch):  # the dataset raised
                    return last
                data = submit_rest(self.collate_fn(samples))
                position = None if context.position is None else context.position()
                elapsed, (slowest, longest) = time.perf_counter() - context.begun, context.slowest
                processor = time.thread_time() - context.begun_processor
                name = "" if slowest is None else str(slowest)
                packs = self.packs and self.own.id is not None
                samples = b"" if packs else array("f", context.seconds).tobytes()
                cost = Cost(elapsed, context.nbytes, self._message, name, longest, processor, samples)
                # The training process knows the indices of a chunk.
                batch = CollatedBatch(None if packs and in_chunk else _numbered(context), data, position, cost)
                if not packs:
                    return batch
                packed = Packed(batch)
                self._message = len(packed)
                return packed
            except BaseException as error:
                if self.own.is_interrupted_by(error):
                    raise
                return FailedBatch.from_error(_numbered(context), error, None, self.own)
        finally:
            this_thread.context = None
            context.tickets.clear()  # a dataset's iterator may keep the context until the next batch


def _numbered(context: BatchContext) -> NumberedIndices:
    return NumberedIndices(context.epoch, context.batch, context.indices, context.rank)


def submit_rest(data: Any) -> Any:
    """Submit the samples that are still uncollated as one batch; replace each by a reference to its item."""
    refs: list[SampleRef] = find(data, SampleRef)
    if not refs:
        return data
    samples = list({ref.sample.number: ref.sample for ref in refs}.values())
    client = samples[0].client
    positions: dict[int, tuple[Any, int]] = {}  # ticket and item by sample number
    limit = client.endpoint.max_batch_size
    for start in range(0, len(samples), limit):
        segment = samples[start : start + limit]
        ticket = client.submit(segment)
        positions.update({sample.number: (ticket, item) for item, sample in enumerate(segment)})

    def item_of(ref: SampleRef) -> BatchRef:
        ticket, item = positions[ref.sample.number]
        return BatchRef(ticket, ref.output, item)

    return replace(data, SampleRef, item_of)
