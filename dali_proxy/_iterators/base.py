"""The common part of all iterators over pipelines, for tensors of any library."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex

from dali_proxy._common.iterators import Owner, Uncopyable, shared_by_threads
from dali_proxy._common.policies import LastBatchPolicy, check_policy
from dali_proxy._iterators.pipelines import Outputs, Pipelines
from dali_proxy._iterators.progress import Flat, Progress, Source
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline.errors import ArgumentValueError, FrameworkArgumentError, MissingInputError, PipelineError

_AUTO_RESET = {"yes": True, "no": False, "True": True, "False": False, None: False, True: True, False: False}


@dataclass(frozen=True)
class _Prepared:
    """The first batch, computed before the user asks for it.

    Attributes:
        batch: outputs of each pipeline, or the error.
        checkpoints: checkpoints from before the batch; None if they aren't enabled.
    """

    batch: list[Outputs] | PipelineError
    checkpoints: list[bytes] | None


class BaseIterator(Uncopyable, ABC, Iterator[list[Any]]):
    """Iterates over the batches of pipelines, epoch after epoch. Subclasses convert the batches.

    For the arguments, see `DALIGenericIterator`.
    """

    def __init__(
        self,
        pipelines: Any,
        size: int,
        reader_name: str | None,
        auto_reset: bool | str | None,
        fill_last_batch: bool | None,
        last_batch_padded: bool,
        last_batch_policy: LastBatchPolicy,
        prepare_first_batch: bool,
    ) -> None:
        policy = _policy(fill_last_batch, last_batch_policy)
        self._auto_reset = _check_auto_reset(auto_reset)
        size = _check_size(size, reader_name)
        self._pipelines = Pipelines(pipelines)
        self._owner: Owner = {}
        self._progress = self._plan(size, reader_name, last_batch_padded, policy)
        self._returned = 0  # batches of this epoch
        self._over = False  # whether the epoch is over and reset() wasn't called yet
        self._at_end_of_data = False  # pipelines that resume from a checkpoint may be; then they need a reset
        self._prepared: _Prepared | None = None
        self._restore()
        if prepare_first_batch:
            self._prepare()

    def _plan(self, size: int, reader: str | None, padded: bool, policy: LastBatchPolicy) -> Progress | None:
        """Return the counter of batches; None if only the end of the data ends an epoch."""
        source: Source
        if reader is not None:
            source, padded = self._pipelines.sharding(reader)
        elif size == -1:
            if len(self._pipelines) > 1:
                raise FrameworkArgumentError(
                    "Negative size is supported only for a single pipeline: pass size or reader_name"
                )
            return None
        else:
            source = Flat(size, len(self._pipelines))
        return Progress(source, policy, padded, self._pipelines.batch_size)

    # Iterating --------------------------------------------------------------------------------------------------

    def __iter__(self) -> BaseIterator:
        """Begin the next epoch if the last one is over; otherwise continue this one."""
        if self._returned or self._over:
            self.reset()
        return self

    def __next__(self) -> list[Any]:
        """Return the next batch.

        Raises:
            StopIteration: the epoch is over.
            PipelineError: the batch failed; the next call continues with the one after it.
        """
        thread = threading.get_ident()
        if self._owner.setdefault("thread", thread) != thread:
            raise shared_by_threads("iterator")
        try:
            if self._over:
                raise StopIteration
            return self._next()
        except StopIteration:
            if not self._over:
                self._over = True
                if self._auto_reset:
                    self.reset()
            raise
        finally:
            if self._owner:
                del self._owner["thread"]

    next = __next__

    def _next(self) -> list[Any]:
        if self._progress is None:
            return [self._convert(outputs, len(outputs[0])) for outputs in self._run()]
        while (share := self._progress.share) is not None:
            batch = self._run()
            if not share.dropped:
                self._check_full(batch)
                return [
                    self._convert(outputs, count)
                    for outputs, count in zip(batch, share.samples, strict=True)
                    if count is not None
                ]
        raise StopIteration

    def _run(self) -> list[Outputs]:
        """Take a batch of each pipeline and count it, even if it failed."""
        try:
            batch = self._take()
        except (MissingInputError, StopIteration):  # there was no batch
            raise
        except Exception:
            self._count()
            raise
        self._count()
        return batch

    def _take(self) -> list[Outputs]:
        if self._prepared is not None:
            prepared, self._prepared = self._prepared, None
            if isinstance(prepared.batch, PipelineError):
                raise prepared.batch
            return prepared.batch
        at_end, self._at_end_of_data = self._at_end_of_data, False
        try:
            return self._pipelines.run()
        except StopIteration:
            if not at_end:
                raise
        self._pipelines.reset()
        return self._pipelines.run()

    def _count(self) -> None:
        self._returned += 1
        if self._progress is not None:
            self._progress.advance()

    def _check_full(self, batch: list[Outputs]) -> None:
        for outputs in batch:
            if len(outputs[0]) != self._pipelines.batch_size:
                raise FrameworkArgumentError(
                    "Variable batch size is not supported by the iterator when reader_name is provided or iterator "
                    "size "
                    f"is set explicitly: a pipeline returned {len(outputs[0])} samples instead of "
                    f"{self._pipelines.batch_size}. "
                    "Without both, it reads until the data ends"
                )

    @abstractmethod
    def _convert(self, outputs: Outputs, samples: int) -> Any:
        """Return the first `samples` samples of a pipeline's batch in the form that the user gets."""

    def reset(self) -> None:
        """Begin the next epoch. In the middle of an epoch, only warn: an epoch is always read to its end."""
        if not self._at_end:
            if self._returned:
                warn_caller("reset() in the middle of an epoch does nothing")
            return
        if self._progress is not None:
            self._finish()
            self._progress.next_epoch()
        self._returned = 0
        self._over = False
        self._pipelines.reset()

    @property
    def _at_end(self) -> bool:
        """Whether the user has received all batches of the epoch."""
        return self._over or (self._progress is not None and self._progress.batch >= len(self._progress))

    def _finish(self) -> None:
        """Run the batches that the epoch leaves out, so that the next epoch begins at the right sample."""
        while not self._over and self._progress is not None and self._progress.share is not None:
            try:
                self._run()
            except StopIteration:
                return

    def __len__(self) -> int:
        """Return the number of batches of this epoch; 0 if only the end of the data ends it."""
        return 0 if self._progress is None else len(self._progress)

    @property
    def batch_size(self) -> int:
        """Number of samples in a batch of each pipeline."""
        return self._pipelines.batch_size

    @property
    def size(self) -> int:
        """Number of samples of an epoch, or with `reader_name` of a shard's batches; -1 if unknown."""
        return -1 if self._progress is None else self._progress.size

    @property
    def _size(self) -> int:  # DALI's users read it
        return self.size

    # Checkpoints ------------------------------------------------------------------------------------------------

    def checkpoints(self) -> list[bytes]:
        """Return a checkpoint of each pipeline, to resume after the batches that were taken.

        Create the pipelines again with ``checkpoint=`` and an iterator over them with the same arguments. It resumes in
        the middle of the epoch, or with the next epoch if this one is over.

        Raises:
            PipelineError: a pipeline was created without ``enable_checkpointing=True``.
        """
        if self._prepared is not None and self._prepared.checkpoints is not None:
            return self._prepared.checkpoints
        return self._pipelines.checkpoints(self._notes())

    def _notes(self) -> dict[str, int]:
        epoch, batch = (0, self._returned) if self._progress is None else (self._progress.epoch, self._progress.batch)
        return {"iterator_epoch": epoch, "iterator_batch": batch, "iterator_over": int(self._over)}

    def _restore(self) -> None:
        notes = self._pipelines.notes()
        if "iterator_epoch" not in notes:
            return
        self._returned = notes["iterator_batch"]
        self._over = bool(notes["iterator_over"])
        if self._progress is not None:
            self._progress.seek(notes["iterator_epoch"], notes["iterator_batch"])
        if self._at_end:
            self.reset()
            self._at_end_of_data = True

    def _prepare(self) -> None:
        """Run the first batch."""
        try:
            checkpoints = self._pipelines.checkpoints(self._notes())
        except PipelineError:
            checkpoints = None  # they aren't enabled
        try:
            self._prepared = _Prepared(self._take(), checkpoints)
        except StopIteration:
            if self._returned:  # the iterator resumed from a checkpoint, and this is the end of that epoch
                return
            raise PipelineError(
                "It seems that there is no data in the pipeline: it ended before the first batch"
            ) from None
        except MissingInputError:
            return  # the user hasn't fed it yet
        except PipelineError as error:
            self._prepared = _Prepared(error, checkpoints)


def _policy(fill_last_batch: bool | None, policy: LastBatchPolicy) -> LastBatchPolicy:
    if fill_last_batch is None:
        return check_policy(policy)
    warn_caller("fill_last_batch is deprecated: use last_batch_policy", DeprecationWarning)
    return LastBatchPolicy.FILL if fill_last_batch else LastBatchPolicy.PARTIAL


def _check_auto_reset(value: Any) -> bool:
    if not isinstance(value, bool | str | None) or value not in _AUTO_RESET:
        raise ArgumentValueError(
            f"Unsupported value for `auto_reset`: {value!r}; it must be one of False, True, 'yes' and 'no'"
        )
    return _AUTO_RESET[value]


def _check_size(size: Any, reader: Any) -> int:
    """Return the size as an int. Scripts may pass a NumPy integer, or a float from a division."""
    samples = int(size) if isinstance(size, SupportsIndex | float) and math.isfinite(size) else 0
    if samples != size or samples == 0:
        wrong = "Size cannot be 0" if size == 0 else f"size must be a number of samples, not {size!r}"
        raise FrameworkArgumentError(f"{wrong}; pass -1 if only the data determines it")
    if reader is not None and size != -1:
        raise FrameworkArgumentError("When reader_name is provided, size should not be set: the reader knows it")
    return max(samples, -1)
