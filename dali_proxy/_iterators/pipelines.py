"""The pipelines of an iterator, run side by side."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from dali_proxy._iterators.progress import Sharded
from dali_proxy._nvidia.adopt import is_nvidia_pipeline
from dali_proxy._nvidia.borrowed import BorrowedPipeline
from dali_proxy.pipeline import Pipeline
from dali_proxy.pipeline.errors import ArgumentTypeError, FrameworkArgumentError, MissingInputError, PipelineError
from dali_proxy.pipeline.tensors.torch_memory import TorchMemory

#: The outputs of one pipeline for a batch.
Outputs = tuple[Any, ...]


class Pipelines:
    """Runs pipelines batch by batch, all at the same time, one batch ahead of the caller.

    Raises:
        ArgumentTypeError, FrameworkArgumentError: the argument isn't that.
    """

    def __init__(self, pipelines: Any) -> None:
        if pipelines is None:
            raise FrameworkArgumentError("Number of provided pipelines has to be at least 1, but there is none")
        found = list(pipelines) if isinstance(pipelines, list | tuple) else [pipelines]
        if not found:
            raise FrameworkArgumentError("Number of provided pipelines has to be at least 1; the list is empty")
        found = [BorrowedPipeline(each) if is_nvidia_pipeline(each) else each for each in found]
        for each in found:
            if not hasattr(each, "share_outputs"):
                raise ArgumentTypeError(f"an iterator needs pipelines, not {type(each).__name__}")
        sizes = {each.max_batch_size for each in found}
        if len(sizes) > 1:
            raise FrameworkArgumentError(f"All pipelines should have the same batch size set, not {sorted(sizes)}")
        self._all = found
        self._ahead = [False] * len(found)  # whether a batch is scheduled that wasn't requested yet
        self.batch_size: int = sizes.pop()
        for each in found:
            each.build()
            if isinstance(each, Pipeline):
                each._internals.runner.executor.batch_memory.on_gpu = TorchMemory()

    def __len__(self) -> int:
        return len(self._all)

    def run(self) -> list[Outputs]:
        """Return the outputs of each pipeline's next batch, and start the one after it.

        Raises:
            StopIteration: the data of a pipeline has ended.
            MissingInputError: an input of a pipeline has no data; no pipeline has run.
            PipelineError: a batch failed; the batches of all pipelines were taken.
        """
        missing = self._schedule()
        if missing is not None:
            raise missing
        failed: Exception | None = None
        batches: list[Outputs] = []
        for number, pipeline in enumerate(self._all):
            self._ahead[number] = False
            try:
                with _used(pipeline):
                    batches.append(tuple(pipeline.share_outputs()))
                    pipeline.release_outputs()
            except Exception as error:  # noqa: BLE001 - the batches of the other pipelines must be taken, too
                failed = error if failed is None else failed
        if failed is not None:
            raise failed
        self._schedule()  # if this fails, the next call tries again
        return batches

    def _schedule(self) -> MissingInputError | None:
        """Start a batch of each pipeline without a running one. Return the error if an input has no data yet."""
        missing: MissingInputError | None = None
        for number, pipeline in enumerate(self._all):
            if not self._ahead[number]:
                try:
                    with _used(pipeline):
                        pipeline.schedule_run()
                    self._ahead[number] = True
                except MissingInputError as error:
                    missing = error
        return missing

    def reset(self) -> None:
        """Begin the next epoch of pipelines whose data has ended."""
        for number, pipeline in enumerate(self._all):
            pipeline.reset()
            self._ahead[number] = self._ahead[number] and not pipeline.empty()

    def sharding(self, reader: str) -> tuple[Sharded, bool]:
        """Return the shards of the readers with that name, and whether the readers pad their last batch.

        Raises:
            PipelineError: a pipeline has no such reader.
            FrameworkArgumentError: the readers don't read shards of the same data set in the same way.
        """
        metas = [pipeline.reader_meta(reader) for pipeline in self._all]
        for key in ("epoch_size", "number_of_shards", "pad_last_batch", "stick_to_shard"):
            found = {meta[key] for meta in metas}
            if len(found) > 1:
                raise FrameworkArgumentError(
                    f"the readers {reader!r} of an iterator's pipelines must agree on {key}; theirs are {sorted(found)}"
                )
        meta = metas[0]
        shards = tuple(int(each["shard_id"]) for each in metas)
        source = Sharded(meta["epoch_size"], meta["number_of_shards"], shards, bool(meta["stick_to_shard"]))
        return source, bool(meta["pad_last_batch"])

    def checkpoints(self, notes: Mapping[str, int]) -> list[bytes]:
        """Return a checkpoint of each pipeline, with the iterator's notes in it."""
        return [pipeline.checkpoint(notes=notes) for pipeline in self._all]

    def notes(self) -> Mapping[str, int]:
        """Return the notes in the checkpoints that the pipelines resumed from; empty without checkpoints.

        Raises:
            PipelineError: the checkpoints don't belong together.
        """
        notes = [_notes(each) for each in self._all]
        if any(other != notes[0] for other in notes):
            raise PipelineError("the pipelines' checkpoints weren't made together by one iterator")
        return notes[0]


def _used(pipeline: Any) -> AbstractContextManager[None]:
    return pipeline._internals.used_by_iterator() if isinstance(pipeline, Pipeline) else nullcontext()


def _notes(pipeline: Any) -> Mapping[str, int]:
    return pipeline._internals.checkpoint_notes if isinstance(pipeline, Pipeline) else {}
