"""Recovery of failed batches: repeats them after the server died, or without their bad samples."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from dali_proxy._loader.batches import CollatedBatch, FailedBatch, NumberedIndices
from dali_proxy._loader.rank_batch_sampler import Dealt
from dali_proxy.errors import BatchError, ProxyError, ServerClosedError, ServerDiedError, StaleReferenceError
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline._ipc.signals import Interrupted
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

if TYPE_CHECKING:
    from dali_proxy._server.telemetry import Losses

#: Exceptions which mean that a batch was lost with its server.
LOST = (ServerClosedError, ServerDiedError, StaleReferenceError)

#: Exceptions of a batch that may be repeated.
REPEATABLE = (BatchError, *LOST)

OnError = Literal["raise", "skip", "replace"] | Callable[[BatchError], Any]

_WORDS = ("raise", "skip", "replace")
_CHOICES = '"raise", "skip", "replace" or a function that takes the error'
_RESTARTS = 3  # limit of server restarts for one batch
_ATTEMPTS = 10  # limit of attempts at one batch while the server lives: other threads may restart it at any moment


class LeftOut(Exception):
    """The policy leaves out a whole batch. Internal: users never see this."""


def check_on_error(on_error: Any) -> OnError:
    """Return `on_error` if it is a valid policy.

    Raises:
        ArgumentValueError: it is an unknown word.
        ArgumentTypeError: it is neither a word nor a function.
    """
    if isinstance(on_error, str) and on_error not in _WORDS:
        raise ArgumentValueError(f"on_error must be {_CHOICES}, not {on_error!r}")
    if not isinstance(on_error, str) and not callable(on_error):
        raise ArgumentTypeError(f"on_error must be {_CHOICES}, not an object of type {type(on_error).__name__}")
    checked: OnError = on_error
    return checked


class Rescue:
    """Handles the failed batches of one loader.

    A batch is repeated in this process, from its dataset indices: without its bad samples, or as a whole after a new
    server has replaced one that died. It keeps its numbers, so its random numbers stay the same.

    Args:
        on_error: policy for bad samples.
        restarts: whether a server that died is restarted.
        make: function that computes a batch in this process; None for an iterable dataset, whose batches can't be
            repeated.
        losses: counters of restarts and of skipped and replaced samples.
        explain: function that adds the cause of a server's death to the error, if this process knows the cause.
    """

    def __init__(
        self,
        on_error: OnError,
        restarts: bool,
        make: Callable[[NumberedIndices], CollatedBatch | FailedBatch] | None,
        losses: Losses,
        explain: Callable[[ProxyError], ProxyError],
    ) -> None:
        self._on_error = on_error
        self._restarts = restarts
        self._make = make
        self._losses = losses
        self._explain = explain
        self._first_bad = ""

    def outcome(
        self,
        batch: CollatedBatch | FailedBatch,
        error: BaseException | None,
        produce: Callable[[Any], Any],
        restart: Callable[[], None],
    ) -> Any:
        """Repeat a batch that failed. Return what `produce` makes of it.

        Args:
            batch: the batch from a worker.
            error: what `produce` raised for it; None if it failed in the worker.
            produce: function that turns placeholders into tensors.
            restart: function that restarts the server if it isn't running.

        Raises:
            LeftOut: the policy leaves the batch out.
            Interrupted: a signal handler raised; the next call may pass the same batch.
            BaseException: the original error, if no policy applies. Exits always propagate.
        """
        failure = batch.error if isinstance(batch, FailedBatch) else None
        try:
            return self._outcome(batch, error, produce, restart)
        except Interrupted:
            if isinstance(batch, FailedBatch):
                batch.error = failure
            raise
        finally:  # their tracebacks refer to this frame
            del error, failure

    def _outcome(
        self,
        batch: CollatedBatch | FailedBatch,
        error: BaseException | None,
        produce: Callable[[Any], Any],
        restart: Callable[[], None],
    ) -> Any:
        original = batch.numbered
        verdicts: dict[str, str] = {}  # dataset index of a bad sample: "skip" or "replace"
        attempts, restarts = 0, self._losses.restarts
        while True:
            problem: BaseException | None = None
            if isinstance(batch, FailedBatch):
                error = batch.exception()
            elif error is None:
                try:
                    data = produce(batch.data)
                except REPEATABLE as failed:
                    error = failed
                else:
                    if verdicts:
                        self._count(original, verdicts)
                    return data
            if isinstance(error, BatchError) and isinstance(batch, CollatedBatch):
                error.dataset_indices = _as_drawn(error.dataset_indices, original.indices)
            try:
                if isinstance(error, LOST):
                    attempts += 1
                    problem = self._hopeless(error, original, attempts, self._losses.restarts - restarts)
                    if problem is None:
                        restart()
                else:
                    problem = self._judge(error, batch, original.indices, verdicts)
                if problem is not None:
                    raise problem
                assert self._make is not None  # otherwise `problem` was raised
                batch = self._make(replace(original, indices=_remaining(original.indices, verdicts)))
            finally:  # tracebacks refer to this frame and the iterator's: a cycle would keep the iterator alive
                error = problem = None

    def report(self) -> None:
        """Warn if a policy has skipped or replaced samples since the last report, so that users notice missing data."""
        if self._first_bad and not callable(self._on_error):
            warn_caller(
                f"on_error={self._on_error!r}: {self._losses.skipped} samples skipped and {self._losses.replaced} "
                f"replaced so far; the first one in this epoch: {self._first_bad}",
                RuntimeWarning,
            )
        self._first_bad = ""

    def _hopeless(
        self, error: ProxyError, numbered: NumberedIndices, attempts: int, restarts: int
    ) -> ProxyError | None:
        """Return the error to raise for a batch that was lost with its server, or None to repeat the batch."""
        if not self._restarts:
            return error
        if self._make is None:
            return ServerDiedError(
                f"{self._explain(error)}; it is not started again, because lost batches of an iterable dataset can't "
                "be made again"
            )
        if restarts >= _RESTARTS or attempts >= _ATTEMPTS:
            return ServerDiedError(
                f"batch {numbered.batch} of epoch {numbered.epoch} was lost {attempts} times, with {restarts} restarts "
                "of the server, and won't be tried again: one of its samples may crash the server. Its dataset "
                f"indices: {listed(_items(numbered.indices))}; last error: {error}"
            )
        return None

    def _judge(
        self, error: BaseException, batch: CollatedBatch | FailedBatch, drawn: Any, verdicts: dict[str, str]
    ) -> BaseException | None:
        """Record the verdict on the bad samples that an error names. Return the error to raise, or None to continue.

        Args:
            error: the error.
            batch: the batch that failed, which may lack samples that failed earlier.
            drawn: indices of the batch when it was drawn.
            verdicts: verdicts on its samples so far.
        """
        if self._on_error == "raise" or not isinstance(error, Exception):
            return error
        # The dataset may also raise a `BatchError`: one of another loop, with the indices of that loop.
        described = (
            error if isinstance(error, BatchError) and isinstance(batch, CollatedBatch) else _describe(error, batch)
        )
        verdict = self._verdict(described)
        if verdict == "raise":
            return error
        items = {str(index) for index in _items(batch.numbered.indices)}
        named = items.intersection(map(str, described.dataset_indices)) - verdicts.keys()
        if not (named or described.samples or callable(self._on_error)):
            return error  # it doesn't name a sample: more likely a bug than bad data
        self._first_bad = self._first_bad or str(described)
        verdicts.update(dict.fromkeys(named, verdict))
        if self._make is None or not named or items <= verdicts.keys():
            self._losses.skipped += max(len(_items(drawn)), len(described.samples), 1)
            return LeftOut()
        return None

    def _count(self, numbered: NumberedIndices, verdicts: dict[str, str]) -> None:
        decided = [verdicts.get(str(index)) for index in _items(numbered.indices)]
        self._losses.skipped += decided.count("skip")
        self._losses.replaced += decided.count("replace")

    def _verdict(self, error: BatchError) -> str:
        if not callable(self._on_error):
            return self._on_error
        verdict = self._on_error(error)
        if verdict is None:
            return "skip"
        if verdict not in _WORDS:
            raise ArgumentValueError(
                f'on_error returned {verdict!r}: it should be "raise", "skip" (or None) or "replace"'
            ) from error
        return str(verdict)


def _items(indices: Any) -> list[Any]:
    """Return the dataset indices of a batch as a list, which is empty for an iterable dataset."""
    if indices is None:
        return []
    try:
        return [indices] if isinstance(indices, str | bytes) else list(indices)
    except TypeError:
        return [indices]


def _as_drawn(named: tuple[Any, ...], indices: Any) -> tuple[Any, ...]:
    """Replace the texts of dataset indices, which the server uses, by the objects that the sampler drew."""
    by_text = {str(index): index for index in _items(indices)}
    return tuple(by_text.get(str(each), each) for each in named)


def _remaining(indices: Any, verdicts: dict[str, str]) -> Any:
    """Return the indices of a batch without the skipped ones. For "replace", use the next good index instead."""
    if not verdicts:
        return indices
    items = _items(indices)
    good = [position for position, index in enumerate(items) if str(index) not in verdicts]
    remaining = []
    for position, index in enumerate(items):
        verdict = verdicts.get(str(index))
        if verdict is None:
            remaining.append(index)
        elif verdict == "replace":
            remaining.append(items[next((later for later in good if later > position), good[0])])
    return Dealt(remaining, indices.global_batch) if isinstance(indices, Dealt) else remaining


def _describe(error: Exception, batch: CollatedBatch | FailedBatch) -> BatchError:
    """Return a `BatchError` that describes an exception of a dataset or a collate function."""
    assert isinstance(batch, FailedBatch)
    known = batch.index is not None
    where = f"dataset index {batch.index}" if known else f"batch {batch.numbered.batch}"
    positions = [
        position for position, index in enumerate(_items(batch.numbered.indices)) if str(index) == str(batch.index)
    ]
    text = batch.traceback.strip().rpartition("\n")[2] or f"{type(error).__name__}: {error}"
    described = BatchError(
        f"{where}: {text}\n  in {batch.worker}",
        samples=tuple(positions) or (0,) * known,
        dataset_indices=(batch.index,) * known,
        worker=batch.worker,
        remote_traceback=batch.traceback or "".join(traceback.format_exception(error)),
    )
    described.__cause__ = error
    return described
