"""`DataLoader`: torch's, with the server in front."""

from __future__ import annotations

import inspect
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.utils.data
from torch.utils.data import IterableDataset

from dali_proxy._common.policies import LastBatchPolicy, check_policy, loader_drops_last
from dali_proxy._common.process_exit import dead_worker, hanging_worker
from dali_proxy._consumer.consumer import ConsumerClient
from dali_proxy._consumer.earlier_shapes import EarlierShapes
from dali_proxy._consumer.produce import produce
from dali_proxy._consumer.ragged import Ragged, check_ragged
from dali_proxy._loader.batches import Made, Unmade
from dali_proxy._loader.generators import Generators
from dali_proxy._loader.inner_loader import inner_loader
from dali_proxy._loader.inner_loop import InnerLoop
from dali_proxy._loader.numbered_datasets import session_of
from dali_proxy._loader.rescue import LOST, LeftOut, OnError, Rescue, check_on_error
from dali_proxy._loader.resume import (
    LoaderState,
    Progress,
    SamplerState,
    kind_of,
    sampler_with_epochs,
    start_of_epoch,
    stateful_sampler,
)
from dali_proxy._server.server import DALIServer
from dali_proxy._worker.batch_context import current_context
from dali_proxy.errors import ServerClosedError, ServerDiedError, WorkerDiedError
from pipeline._ipc.signals import Interrupted, deferred_signals
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
            iterable dataset, which can't be read again. Exits such as `SystemExit` are raised in any case.
            `ServerStats` says how many samples there were.
        ragged: what an output becomes in a batch in which its samples differ in shape. "list" is a list of tensors,
            without a copy. "nested" is a nested tensor of torch: of layout ``torch.jagged`` where the samples differ in
            one dimension, else ``torch.strided``. "pad" is a tensor as large as the largest sample in each dimension,
            with zeros behind the smaller ones. Where all samples have one shape, it is a plain tensor in any case. None
            is "list" for an output that differs from this loader's first batch on; if its first batch was one tensor,
            a later batch whose samples differ in shape is a `BatchError` that names them.
        **kwargs: as for `torch.utils.data.DataLoader`.

    Raises:
        ArgumentMismatchError: `last_batch_policy` contradicts another argument.

    Example:
        >>> loader = DataLoader(server, dataset, batch_size=64, num_workers=2, shuffle=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        dali_server: DALIServer,
        dataset: Any = None,  # a call like torch's, with a dataset alone, gets past Python's own check to the one below
        *args: Any,
        last_batch_policy: LastBatchPolicy | None = None,
        last_batch_padded: bool = False,
        on_error: OnError = "raise",
        ragged: Ragged | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(dali_server, DALIServer):
            raise ArgumentTypeError(
                "DataLoader needs a DALIServer first, as in DataLoader(server, dataset, ...), "
                f"not {type(dali_server).__name__}"
            )
        if dataset is None:
            raise ArgumentTypeError("DataLoader needs a dataset, as in DataLoader(server, dataset, ...)")
        self.last_batch_policy = None if last_batch_policy is None else check_policy(last_batch_policy)
        self.last_batch_padded = bool(last_batch_padded)
        self.on_error = check_on_error(on_error)
        self.ragged = check_ragged(ragged)
        self.earlier_shapes = EarlierShapes()
        try:
            options = _OF_TORCH.bind(dataset, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"DataLoader {error}") from None
        if self.last_batch_policy is not None:
            iterable = isinstance(dataset, IterableDataset)
            options["drop_last"] = loader_drops_last(self.last_batch_policy, options, iterable)
        elif self.last_batch_padded:
            raise ArgumentMismatchError("last_batch_padded says how LastBatchPolicy.FILL fills: pass that policy, too")
        super().__init__(**options)
        self.dali_server = dali_server
        self._epoch = 0
        self._lasting: LoaderIterator | None = None  # of persistent workers: there is one, as with torch
        self._start: LoaderState | None = None  # where the next iteration starts, after load_state_dict
        self._progress: Progress | None = None  # of the iterator that began last

    def __iter__(self) -> LoaderIterator:  # type: ignore[override]
        """Begin an epoch, or go on where `load_state_dict` says."""
        self.dali_server.start()
        start = self._start
        between = replace(self._between_epochs(), epoch=self._epoch_number())
        if self._lasting is not None and not self._lasting.dead and start is None:
            iterator = self._lasting
            iterator.restart(replace(between, seeded=False))
        else:
            between = replace(between, seeded=True)  # it has workers of its own
            iterator = LoaderIterator(self, start or between, goes_on=start is not None)
            if self.persistent_workers and self.num_workers > 0:
                self._lasting = iterator
        self._start = None
        self._epoch += 1
        self._progress = iterator.progress
        return iterator

    def state_dict(self) -> dict[str, Any]:
        """Return where the iterator that began last is: after the last batch that it yielded.

        A loader that is made with the same arguments, in this process or in another one, goes on from there after
        `load_state_dict`: with the next batch, or, when the epoch has ended, with the next epoch. The number of
        workers may be another one, except for iterable datasets, which share their data between the workers.

        Returns:
            Plain objects and tensors, for `torch.save`. Of a sampler or an iterable dataset that has `state_dict` and
            `load_state_dict`, what these give is part of it.
        """
        if self._start is not None:
            return self._start.as_dict()
        if self._progress is not None and not self._progress.finished:
            return self._progress.state().as_dict()
        return self._between_epochs().as_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Have the next iteration go on where `state_dict` was called.

        Batches that were yielded before are not made again: their samples are not read. (An iterable dataset that has
        no `load_state_dict` has no other way than reading them again.)

        Args:
            state_dict: what `state_dict` returned; an empty one changes nothing.

        Raises:
            ArgumentMismatchError: it is of another kind of loader: another `batch_size`, length of the dataset,
                number of workers of an iterable dataset, or set of generators.
        """
        if state_dict:
            start = LoaderState.of_dict(state_dict)
            start.check(self._between_epochs())
            self._start = start
            self._epoch = start.epoch

    def _epoch_number(self) -> int:
        """Return the number of the epoch that begins: inside another loader's loop, it comes from that one's batch."""
        outer = current_context()
        counts_itself = self.persistent_workers and kind_of(self.dataset) == "iterable"
        return self._epoch if outer is None or counts_itself else outer.epoch_of_loop()

    def _between_epochs(self) -> LoaderState:
        ended = None if self._progress is None else self._progress.sampler_at_end
        return replace(
            start_of_epoch(self, self._epoch),
            seeded=self._lasting is None,
            sampler=SamplerState(stateful_sampler(self)).now() if ended is None else ended,
        )


def _signature() -> inspect.Signature:
    server = inspect.Parameter("dali_server", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=DALIServer)
    own = inspect.signature(DataLoader.__init__).parameters
    options = (own[name] for name in ("last_batch_policy", "last_batch_padded", "on_error", "ragged"))
    return inspect.Signature([server, *_OF_TORCH.parameters.values(), *options])


DataLoader.__signature__ = _signature()  # type: ignore[attr-defined]


class LoaderIterator(Iterator[Any]):
    """One epoch over a `DataLoader` (with persistent workers: one after the other).

    Args:
        loader: the loader.
        start: where to start.
        goes_on: whether that comes of a `state_dict`, so that the sampler must be brought there.

    Attributes:
        progress: how far it is.
        dead: why this can't go on; empty while it can.
    """

    progress: Progress

    def __init__(self, loader: DataLoader, start: LoaderState, goes_on: bool = False) -> None:
        self.dead = ""
        self._server = loader.dali_server
        self._first_session = secrets.randbits(63)
        self._session = 0
        self._has_workers = loader.num_workers > 0
        self._persistent = loader.persistent_workers and loader.num_workers > 0
        self._pin = loader.pin_memory and torch.accelerator.is_available()
        # No reference to the loader, which may have one to this: workers end slowly when a cycle is collected.
        restarts = self._server.restart == "on-failure"
        inner, sampler, sampler_state = inner_loader(loader, self._first_session, start)
        self._loop = InnerLoop(inner, sampler, sampler_state)
        self._sampler_state = sampler_state
        self._generators = Generators(loader)
        self._told_sampler = sampler_with_epochs(loader)
        self._in_order = loader.in_order
        self._ragged = loader.ragged
        self._earlier_shapes = loader.earlier_shapes
        self._rescue = Rescue(loader.on_error, restarts, self._loop.make, self._server.losses, self._server.explain)
        self._restarts = restarts
        self._consumer: ConsumerClient | None = None
        self.restart(start, goes_on)

    def restart(self, start: LoaderState, goes_on: bool = False) -> None:
        """Begin an epoch; what is left of the last one is dropped."""
        self._close_session()
        self._consumer = None
        self._stops = self._server.stops
        self._session = session_of(self._first_session, start.epoch)
        self._revive()
        with self._generators.going_back(start.own, start.shared):
            # Now is what the epoch's order depends on, and what its `state_dict` has.
            start = replace(
                start,
                own=self._generators.own(),
                shared=self._generators.shared(),
                sampler_epoch=self._set_sampler_epoch(start.sampler_epoch),
            )
            self._loop.begin(start, goes_on)
        self.progress = Progress(start, self._sampler_state, self._in_order)
        self._is_first = True
        # A signal handler may have raised when there was a batch; the next call goes on with it.
        self._made: Made | Unmade | None = None  # came, and its results did not
        self._yielding: tuple[Any, int, bytes | None] | None = None  # a whole batch, its number, the worker's place
        self._server.loop_times.pause()

    def _set_sampler_epoch(self, epoch: int | None) -> int | None:
        """Tell the sampler which epoch it goes on in; return what it was told last."""
        if self._told_sampler is None:
            return None
        if epoch is not None:
            self._told_sampler.set_epoch(epoch)
        return int(self._told_sampler.epoch)

    def __next__(self) -> Any:
        self._server.loop_times.enter()
        with deferred_signals:
            if self._yielding is None:
                self._yielding = self._next_batch()
        batch, number, place = self._yielding
        self.progress.yielded, self._yielding = (number, place), None
        return batch  # nothing was called, so no handler came in between

    def _next_batch(self) -> tuple[Any, int, bytes | None]:
        self.progress.catch_up()
        if self.dead:  # torch would leave out what the dead worker had to make
            raise WorkerDiedError(self.dead)
        if not self._loop.begun or self._consumer is None:
            raise StopIteration
        worker_wait = result_wait = 0.0
        while True:
            begin = time.perf_counter()
            if self._made is None:
                self._made = self._next_made()
            made = self._made
            worker_wait += time.perf_counter() - begin
            consumer, waited = self._consumer, self._consumer.waited
            try:
                batch = self._rescue.outcome(made, self._produced, self._revive)
            except LeftOut:
                self.progress.note(made.numbered.batch, made.place)
                self._made = None
                continue
            except LOST as error:
                self._made = None
                raise (error if self._restarts else self._explained(error))  # noqa: B904  # which has it as its context
            except Interrupted:
                raise
            except BaseException as error:
                self._made = None
                if not isinstance(error, Exception):
                    raise
                raise self._explained(error)  # noqa: B904  # which has it as its context
            self._made = None
            result_wait += consumer.waited - waited
            self._server.loop_times.leave(worker_wait, result_wait, self._is_first)
            self._is_first = False
            return batch, made.numbered.batch, made.place

    def _next_made(self) -> Made | Unmade:
        """Wait for a worker."""
        assert self._consumer is not None
        try:
            self._check_stopped()
            if self._consumer.ended and self._restarts:
                self._revive()
            self._consumer.check()
            self._check_workers()
            return self._loop.next()
        except Interrupted as interrupted:  # perhaps by torch's handler, which says that a worker died
            if type(interrupted.args[0]) is RuntimeError and dead_worker(self._loop.workers) is not None:
                raise self._explained(interrupted.args[0]) from None
            raise
        except StopIteration:
            self.progress.finished = True
            self._rescue.report()
            self.close()
            raise
        except Exception as error:  # noqa: BLE001  # it is raised again, or a better one
            # torch raises what happened in a worker from a frame that refers to the exception. Through that cycle its
            # iterator would live until the next garbage collection, and ending the workers there takes seconds.
            if self._has_workers:
                error.__traceback__ = None
            raise self._explained(error)  # noqa: B904  # which has it as its context

    def _produced(self, data: Any) -> Any:
        assert self._consumer is not None
        return produce(
            data,
            self._consumer,
            self._loop.timeout,
            pin=self._pin,
            ragged=self._ragged,
            earlier=self._earlier_shapes,
        )

    def _explained(self, error: Exception) -> Exception:
        """Return an error, or a better one that says who died."""
        if isinstance(error, ServerClosedError | ServerDiedError):
            return error if self._server.stops != self._stops else self._server.explain(error)
        if isinstance(error, StopIteration):  # of a callback or of an object in the batch: this isn't the epoch's end
            ending = RuntimeError("StopIteration was raised while a batch was made, which would end the epoch")
            ending.__cause__ = error
            return ending
        died = dead_worker(self._loop.workers, error)
        if died is not None:
            self.dead = str(died)  # the exception itself would refer to its frames, and these to this
        return died or hanging_worker(self._loop.workers, self._loop.timeout, error) or error

    def _check_stopped(self) -> None:
        """Raise if the server that this epoch began with was stopped, and runs again."""
        if self._server.stops == self._stops or not self._server.running:
            return
        consumer = self._server.consumer
        if consumer is not self._consumer:  # what the workers go on to submit there belongs to this iterator
            consumer.open_session(self._session)
            self._consumer = consumer
        raise ServerClosedError(
            "the server was stopped and started again since this epoch began, and its batches are lost: begin the "
            "epoch again, with iter(loader)"
        )

    def _check_workers(self) -> None:
        """Raise if a worker died and nobody noticed: torch's signal handler may have raised in some finalizer."""
        died = dead_worker(self._loop.workers)
        if died is not None:
            self.dead = str(died)
            raise WorkerDiedError(self.dead)

    def _revive(self) -> None:
        """Open the session at the server. Have that started again if it died."""
        for attempt in range(3):
            self._server.revive(self._stops)
            try:
                consumer = self._server.consumer
                if consumer is not self._consumer:
                    consumer.open_session(self._session)
                    self._consumer = consumer
                return
            except LOST:  # it died once more
                if attempt == 2:
                    raise

    def __len__(self) -> int:
        return len(self._loop)

    def close(self) -> None:
        """End the epoch: what was made for it and not used is dropped."""
        self._server.loop_times.pause()
        if not self._persistent:
            self._loop.end()
            self._close_session()

    def _close_session(self) -> None:
        if self._consumer is not None:
            self._consumer.close_session(self._session)
            self._consumer = None

    def __del__(self) -> None:
        if getattr(self, "_consumer", None) is not None:
            self._close_session()
