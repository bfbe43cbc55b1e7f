"""`DataLoader`: torch's, with the server in front."""

from __future__ import annotations

import inspect
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.data
from torch.utils.data import IterableDataset, IterDataPipe, MapDataPipe

from dali_proxy.batches import Made, NumberedIndices, Unmade
from dali_proxy.collate import Collate
from dali_proxy.consumer import ConsumerClient
from dali_proxy.context import set_context
from dali_proxy.errors import ServerClosedError, ServerDiedError
from dali_proxy.numbering import NumberedDataset, NumberedIterableDataset, NumberedSampler, WorkerInit, session_of
from dali_proxy.policies import FilledBatches, LastBatchPolicy, check_policy, loader_drops_last
from dali_proxy.produce import produce
from dali_proxy.rescue import LOST, LeftOut, OnError, Rescue, check_on_error
from dali_proxy.server import DALIServer
from pipeline.errors import ArgumentMismatchError, ArgumentTypeError

__all__ = ["DataLoader", "LoaderIterator"]

_OF_TORCH = inspect.signature(torch.utils.data.DataLoader)


class DataLoader(torch.utils.data.DataLoader[Any]):
    """torch's `DataLoader` over a dataset that uses `server.proxy`: it yields tensors instead of placeholders.

    Everything that torch's loader has works as there: samplers, any number of workers and start method, persistent
    workers, pinned memory, iterable datasets, collate functions.

    Args:
        dali_server: the server; it is started if it doesn't run when the first iteration begins.
        dataset: the dataset.
        *args: as for `torch.utils.data.DataLoader`.
        last_batch_policy: what becomes of the last batch when the samples don't fill it, instead of torch's
            `drop_last`: DROP is ``drop_last=True``, PARTIAL is ``drop_last=False``, FILL makes it as large as the
            others, so that every batch has the same size and no sample is missing.
        last_batch_padded: how FILL does that: with the last sample, again and again, or else with the first samples
            of the same epoch. Either way an epoch is one pass over the sampler, and the next one begins anew.
        on_error: what becomes of a sample that the dataset or the pipeline can't make. "raise" raises where its batch
            would have come, and iterating on gives the next batch. "skip" leaves the sample out of its batch, "replace"
            puts the next good one of the batch into its place. A function is called with a `BatchError`, and returns
            one of these words (None means "skip"). A batch with no good sample is left out; so is the whole batch of an
            iterable dataset, which can't be read again. See `ServerStats` for how many there were.
        **kwargs: as for `torch.utils.data.DataLoader`.

    Raises:
        ArgumentMismatchError: `last_batch_policy` contradicts another argument.

    Example:
        >>> loader = DataLoader(server, dataset, batch_size=64, num_workers=2, shuffle=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        dali_server: DALIServer,
        dataset: Any,
        *args: Any,
        last_batch_policy: LastBatchPolicy | None = None,
        last_batch_padded: bool = False,
        on_error: OnError = "raise",
        **kwargs: Any,
    ) -> None:
        if not isinstance(dali_server, DALIServer):
            raise ArgumentTypeError(
                "DataLoader needs a DALIServer first, as in DataLoader(server, dataset, ...), "
                f"not {type(dali_server).__name__}"
            )
        self.last_batch_policy = None if last_batch_policy is None else check_policy(last_batch_policy)
        self.last_batch_padded = bool(last_batch_padded)
        self.on_error = check_on_error(on_error)
        options = _OF_TORCH.bind(dataset, *args, **kwargs).arguments
        if self.last_batch_policy is not None:
            iterable = isinstance(dataset, IterableDataset)
            options["drop_last"] = loader_drops_last(self.last_batch_policy, options, iterable)
        elif self.last_batch_padded:
            raise ArgumentMismatchError("last_batch_padded says how LastBatchPolicy.FILL fills: give that policy, too")
        super().__init__(**options)
        self.dali_server = dali_server
        self._epoch = 0
        self._lasting: LoaderIterator | None = None  # of persistent workers: there is one, as with torch

    def __iter__(self) -> LoaderIterator:  # type: ignore[override]
        """Begin an epoch."""
        self.dali_server.start()
        epoch, self._epoch = self._epoch, self._epoch + 1
        if not (self.persistent_workers and self.num_workers > 0):
            return LoaderIterator(self, epoch)
        if self._lasting is None:
            self._lasting = LoaderIterator(self, epoch)
        else:
            self._lasting.restart(epoch)
        return self._lasting


def _signature() -> inspect.Signature:
    server = inspect.Parameter("dali_server", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=DALIServer)
    own = inspect.signature(DataLoader.__init__).parameters
    return inspect.Signature(
        [
            server,
            *_OF_TORCH.parameters.values(),
            *(own[name] for name in ("last_batch_policy", "last_batch_padded", "on_error")),
        ]
    )


DataLoader.__signature__ = _signature()  # type: ignore[attr-defined]


class LoaderIterator(Iterator[Any]):
    """One epoch over a `DataLoader` (with persistent workers: one after the other).

    Args:
        loader: the loader.
        epoch: number of the epoch.
    """

    def __init__(self, loader: DataLoader, epoch: int) -> None:
        self._server = loader.dali_server
        self._first_session = secrets.randbits(63)
        self._session = 0
        self._has_workers = loader.num_workers > 0
        self._persistent = loader.persistent_workers and loader.num_workers > 0
        self._pin = loader.pin_memory and torch.accelerator.is_available()
        # No reference to the loader, which may have one to this: workers end slowly when a cycle is collected.
        restarts = self._server.restart == "on-failure"
        catch = Rescue.catches(loader.on_error, restarts)
        self._inner_loader, self._sampler = _inner_loader(loader, self._first_session, epoch, catch)
        self._rescue = Rescue(loader.on_error, restarts, _maker(self._inner_loader), self._server.losses)
        self._restarts = restarts
        self._consumer: ConsumerClient | None = None
        self._inner: Iterator[Any] | None = None
        self.restart(epoch)

    def restart(self, epoch: int) -> None:
        """Begin an epoch; what is left of the last one is dropped."""
        self._close_session()
        self._consumer = self._server.consumer
        self._stops = self._server.stops
        self._session = session_of(self._first_session, epoch)
        self._consumer.open_session(self._session)
        if self._sampler is not None:
            self._sampler.epoch = epoch
        self._inner = iter(self._inner_loader)
        self._is_first = True
        self._server.loop_times.pause()

    def __next__(self) -> Any:
        times = self._server.loop_times
        times.enter()
        if self._inner is None or self._consumer is None:
            raise StopIteration
        worker_wait = result_wait = 0.0
        while True:
            begin = time.perf_counter()
            made = self._next_made()
            worker_wait += time.perf_counter() - begin
            consumer, waited = self._consumer, self._consumer.waited
            try:
                batch = self._rescue.outcome(made, self._produced, self._revive)
            except LeftOut:
                continue
            except LOST as error:
                raise (error if self._restarts else self._server.explain(error))  # noqa: B904  # has it as its context
            result_wait += consumer.waited - waited
            times.leave(worker_wait, result_wait, self._is_first)
            self._is_first = False
            return batch

    def _next_made(self) -> Made | Unmade:
        """Wait for a worker."""
        assert self._inner is not None
        assert self._consumer is not None
        try:
            if self._consumer.ended and self._restarts:
                self._revive()
            self._consumer.check()
            made: Made | Unmade = next(self._inner)
            return made
        except StopIteration:
            self._rescue.report()
            self.close()
            raise
        except Exception as error:  # noqa: BLE001  # it is raised again, or a better one
            # torch raises what happened in a worker from a frame that refers to the exception. Through that cycle its
            # iterator would live until the next garbage collection, and ending the workers there takes seconds.
            if self._has_workers:
                error.__traceback__ = None
            raise self._explained(error)  # noqa: B904  # which has it as its context
        finally:
            set_context(None)  # without workers, a dataset that raised leaves its own behind

    def _produced(self, data: Any) -> Any:
        assert self._consumer is not None
        return produce(data, self._consumer, pin=self._pin)

    def _explained(self, error: Exception) -> Exception:
        """Return an error of this loader, or a better one that says who died."""
        if isinstance(error, ServerClosedError | ServerDiedError):
            return self._server.explain(error)
        return error

    def _revive(self) -> None:
        """Have the server started again if it died, and go on with it."""
        self._server.revive(self._stops)
        consumer = self._server.consumer
        if consumer is not self._consumer:
            consumer.open_session(self._session)
            self._consumer = consumer

    def __len__(self) -> int:
        return len(self._inner_loader)

    def close(self) -> None:
        """End the epoch: what was made for it and not used is dropped."""
        self._server.loop_times.pause()
        if not self._persistent:
            self._inner = None
            self._close_session()

    def _close_session(self) -> None:
        if self._consumer is not None:
            self._consumer.close_session(self._session)
            self._consumer = None

    def __del__(self) -> None:
        if getattr(self, "_consumer", None) is not None:
            self._close_session()


class _InnerLoader(torch.utils.data.DataLoader[Any]):
    """torch's loader, for wrapped datasets and samplers."""

    def check_worker_number_rationality(self) -> None:
        """Warn about nothing: the outer loader has done so."""


def _inner_loader(
    loader: DataLoader, first_session: int, epoch: int, catch: tuple[type[Exception], ...]
) -> tuple[_InnerLoader, NumberedSampler | None]:
    """Build the loader that makes placeholders, and return it with the sampler that numbers its batches."""
    options: dict[str, Any] = {
        "num_workers": loader.num_workers,
        "collate_fn": Collate(loader.collate_fn, epoch, catch),
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": WorkerInit(loader.worker_init_fn),
        "multiprocessing_context": loader.multiprocessing_context,
        "generator": loader.generator,
        "persistent_workers": loader.persistent_workers,
        "in_order": loader.in_order,
    }
    if loader.num_workers > 0:
        options["prefetch_factor"] = loader.prefetch_factor
    if loader.pin_memory_device:
        options["pin_memory_device"] = loader.pin_memory_device
    dataset: Any = loader.dataset
    batches: Any = loader.batch_sampler
    if loader.last_batch_policy is LastBatchPolicy.FILL:
        batches = FilledBatches(batches, loader.batch_size or 1, loader.last_batch_padded)
    if isinstance(dataset, IterDataPipe | MapDataPipe):  # torch shards these by their type, so they stay as they are
        if isinstance(dataset, MapDataPipe):
            options.update(_sampling(loader, batches, loader.sampler))
        else:
            options.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
        return _InnerLoader(dataset, **options), None
    if isinstance(dataset, IterableDataset):
        wrapped = NumberedIterableDataset(dataset, first_session, epoch, loader.batch_size)
        return _InnerLoader(wrapped, batch_size=loader.batch_size, drop_last=loader.drop_last, **options), None
    sampler = NumberedSampler(loader.sampler if batches is None else batches)
    options.update(_sampling(loader, sampler, sampler))
    return _InnerLoader(NumberedDataset(dataset, first_session, catch), **options), sampler


def _sampling(loader: DataLoader, batch_sampler: Any, sampler: Any) -> dict[str, Any]:
    if loader.batch_sampler is None:
        return {"batch_size": None, "sampler": sampler}
    return {"batch_sampler": batch_sampler}


def _maker(inner: _InnerLoader) -> Callable[[NumberedIndices], Made | Unmade] | None:
    """Return what makes a batch in this process, if that is possible: if the dataset has indices."""
    dataset, collate, has_batches = inner.dataset, inner.collate_fn, inner.batch_sampler is not None
    if not isinstance(dataset, NumberedDataset):
        return None

    def make(numbered: NumberedIndices) -> Made | Unmade:
        try:
            made: Made | Unmade = collate(dataset.__getitems__(numbered) if has_batches else dataset[numbered])
            return made
        finally:
            set_context(None)

    return make
