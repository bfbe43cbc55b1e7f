"""The iterator of a `DataLoader`: one epoch."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from dali_proxy._common.in_flight import InFlight
from dali_proxy._common.iterators import Owner, Uncopyable, shared_by_threads
from dali_proxy._common.process_exit import dead_worker, end_workers, hanging_worker, reports_dead_worker
from dali_proxy._consumer.consumer import ConsumerClient
from dali_proxy._consumer.consumer_group import ConsumerGroup, ResultsOfAll
from dali_proxy._consumer.pending_requests import AHEAD, SentAhead
from dali_proxy._consumer.produce import produce
from dali_proxy._loader.batch_transform import BatchTransform
from dali_proxy._loader.batches import CollatedBatch, FailedBatch, NumberedIndices
from dali_proxy._loader.generators import Generators
from dali_proxy._loader.inner_loop import InnerLoop
from dali_proxy._loader.numbered_datasets import session_of
from dali_proxy._loader.rank_batch_sampler import RankBatchSampler
from dali_proxy._loader.rescue import LOST, REPEATABLE, LeftOut, Rescue
from dali_proxy._loader.resume import LoaderState, Progress, sampler_with_epochs
from dali_proxy._loader.sample_log import SampleLog
from dali_proxy._loader.wrapping import inner_loader
from dali_proxy.errors import ServerClosedError, ServerDiedError, WorkerDiedError
from dali_proxy.pipeline._graph.location import user_traceback
from dali_proxy.pipeline._ipc.signals import Interrupted, deferred_signals, finalizer, let_through
from dali_proxy.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer
    from dali_proxy._loader.loader_options import LoaderOptions

_PAUSES = (0.02, 0.1, 0.5, 0.0)  # seconds after each attempt to open a session; none after the last one


class LoaderIterator(Uncopyable, Iterator[Any]):
    """One epoch over a `DataLoader` (with persistent workers: one epoch after another).

    Args:
        loader: the loader.
        start: starting position.
        resumes: whether `start` comes from a `state_dict`, so that the sampler must be moved there.

    Attributes:
        progress: position in the epoch.
        last: number and indices of the batch that was yielded last; None before the first one.
        on_placeholders: function that gets each batch with its placeholders, before these become tensors; or None.
        dead: reason why the iterator can't continue; empty while it can.
    """

    progress: Progress

    def __init__(self, loader: LoaderOptions, start: LoaderState, resumes: bool = False) -> None:
        self.dead = ""
        self._owner: Owner = {}
        self.last: NumberedIndices | None = None
        self.on_placeholders: Callable[[Any], object] | None = None
        self._server = loader.dali_server
        self._first_session = secrets.randbits(63)
        self._session = 0
        self._has_workers = loader.num_workers > 0
        self._persistent = loader.persistent_workers
        self._has_new_workers = True
        self._batch_size = loader.batch_size or 1
        self._pin = loader.pin_memory and torch.accelerator.is_available()
        # Keep no reference to the loader, which may refer to this: workers end slowly when a cycle is collected.
        restarts = self._server.restart == "on-failure"
        inner, sampler, sampler_state = inner_loader(loader, self._first_session, start)
        self._inner = inner
        self._loop = InnerLoop(inner, sampler, sampler_state)
        self._sampler_state = sampler_state
        self._generators = Generators(loader)
        self._epoch_sampler = sampler_with_epochs(loader)
        self._in_order = loader.in_order
        self._ragged = loader.ragged
        self._earlier_shapes = loader._earlier_shapes
        self._log = None if loader.sample_log is None else SampleLog(loader.sample_log)
        self._transform = None if loader.batch_transform is None else BatchTransform(loader.batch_transform)
        self._rescue = Rescue(loader.on_error, restarts, self._loop.make, self._server.losses, self._server.explain)
        self._restarts = restarts
        self._consumer: ConsumerClient | ConsumerGroup | ClusterConsumer | None = None
        self._results: SentAhead | ResultsOfAll = SentAhead()  # of the session
        self._noted: tuple[InFlight, int] | None = None  # the numbers of batches in flight in the server's statistics
        self.restart(start, resumes)

    def restart(self, start: LoaderState, resumes: bool = False) -> None:
        """Begin an epoch. Drop the rest of the previous one."""
        self._close_session()
        self._consumer = None
        self._stops = self._server.stops
        self._earlier_shapes.follow(self._stops)
        self._session = session_of(self._first_session, start.epoch)
        self._revive()
        with self._generators.going_back(start.own, start.shared):
            # The epoch's order depends on the current states, so its `state_dict` contains them.
            start = replace(
                start,
                own=self._generators.own(),
                shared=self._generators.shared(),
                sampler_epoch=self._set_sampler_epoch(start),
            )
            if self._transform is not None:
                given = self._server.given_seed
                self._transform.begin(self._generators.seed() if given is None else given, start.epoch)
            try:
                self._loop.begin(start, resumes)
            except RuntimeError as error:  # torch's, if a persistent worker has died since the last epoch
                if (died := self._ended_by_death(error)) is None:
                    raise
                raise died from None
        self.progress = Progress(start, self._sampler_state, self._in_order)
        self._is_first = True
        # A signal handler may raise when a batch has arrived; the next call continues with this batch.
        self._arrived: CollatedBatch | FailedBatch | None = None  # arrived, but its results didn't
        #: Finished batch, its number and indices, the worker's state.
        self._yielding: tuple[Any, NumberedIndices, bytes | None] | None = None
        self._failure: Exception | None = None  # that wasn't raised yet
        self._ends = False  # whether the next call raises `StopIteration`
        self._server.controller.pause()

    def _set_sampler_epoch(self, start: LoaderState) -> int | None:
        """Set the sampler's epoch if this resumes, or if the sampler follows the loader. Return its current epoch."""
        if self._epoch_sampler is None:
            return None
        follows = isinstance(self._epoch_sampler, RankBatchSampler)
        epoch = start.epoch if follows else start.sampler_epoch
        if epoch is not None:
            self._epoch_sampler.set_epoch(epoch)
        return int(self._epoch_sampler.epoch)

    def __next__(self) -> Any:
        thread = threading.get_ident()
        if self._owner.setdefault("thread", thread) != thread:
            raise shared_by_threads("iterator of a DataLoader")
        try:
            self._server.loop_times.enter()
            while self._yielding is None:
                try:
                    self._advance()
                except RuntimeError as error:  # torch's handler may raise while `_advance` handles another exception
                    if not reports_dead_worker(error):
                        raise
                    replaced = error.__context__
                    if not (replaced is None or replaced is self._failure or reports_dead_worker(replaced)):
                        raise replaced  # noqa: B904  # of another handler; a later call reports the worker
                    if dead_worker(self._loop.workers) is not None:
                        raise self._explained(error)  # noqa: B904  # `error` is its context
                finally:  # a cycle of an exception and this frame would keep the iterator alive
                    replaced = None
            batch, numbered, position = self._yielding
            if self._transform is not None:
                batch = self._transformed(batch, numbered, position)
            if self._log is not None:
                self._log.add(numbered)
            self.last, self.progress.yielded, self._yielding = numbered, (numbered.batch, position), None
            return batch  # no call since the assignment above, so no signal handler runs in between
        finally:
            if self._owner:
                del self._owner["thread"]

    def _advance(self) -> None:
        """Wait for the next batch, or for nothing if another loader's worker has died."""
        raised: BaseException | None = None
        try:
            with deferred_signals:
                try:
                    self._yielding = self._next_batch()
                except Exception as error:
                    self._failure = error  # until it is raised: a handler may raise in its place
                    raise
        except BaseException as error:
            raised = self._reported(error)
            if error is self._failure:
                self.progress.finished |= self._ends
                self._failure = None
            elif self._failure is not None:
                self._failure.__traceback__ = None
            if raised is error and not isinstance(error, PipelineError):
                raise
            if raised is not None:  # not a bare `raise`: in Python 3.10, it restores the frames that were removed
                raise raised  # noqa: B904  # `error` is its context
        finally:  # a cycle of an exception and this frame would keep the iterator alive
            del raised

    def _reported(self, error: BaseException) -> BaseException | None:
        """Return the exception to raise for one that ended a wait; None if it doesn't concern this loop."""
        if isinstance(error, PipelineError):  # its message says what our frames could say
            return error.with_traceback(user_traceback(error))
        # torch's handler may raise, while this waits for a result.
        if type(error) is RuntimeError and dead_worker(self._loop.workers) is not None:
            return self._explained(error)
        # If another loader's worker has died, that loader's own loop reports it.
        return None if reports_dead_worker(error) else error

    def _transformed(self, batch: Any, numbered: NumberedIndices, position: bytes | None) -> Any:
        assert self._transform is not None
        try:
            return self._transform(batch, numbered.number_among_ranks)
        except Exception:  # the next call returns the next batch; after an interrupt, it repeats this one
            self.progress.yielded, self._yielding = (numbered.batch, position), None
            raise

    def _next_batch(self) -> tuple[Any, NumberedIndices, bytes | None]:
        self.progress.catch_up()
        if self._failure is not None:
            try:
                raise self._failure
            finally:
                self._failure = None
        if self.dead:  # torch would skip the dead worker's batches
            raise WorkerDiedError(self.dead)
        if self._loop.batches is None or self._consumer is None:
            raise StopIteration
        worker_wait = result_wait = 0.0
        while True:
            begin = time.perf_counter()
            if self._arrived is None:
                self._arrived = self._next_arrived()
            arrived = self._arrived
            worker_wait += time.perf_counter() - begin
            consumer, waited = self._consumer, self._consumer.waited
            consumer.advance(self._session, arrived.numbered.batch, self._loop.in_order)
            noted = self._loop.in_flight, self._results.depth
            if self._noted != noted:
                self._note_in_flight(noted)
            try:
                batch = self._outcome(arrived)
            except LeftOut:
                self.progress.note(arrived.numbered.batch, arrived.position)
                self._arrived = None
                continue
            except LOST as error:
                self._arrived = None
                raise (error if self._restarts else self._explained(error))  # noqa: B904  # `error` is its context
            except Interrupted:
                raise
            except BaseException as error:
                self._arrived = None
                if not isinstance(error, Exception):
                    raise
                raise self._explained(error)  # noqa: B904  # `error` is its context
            self._arrived = None
            result_wait += consumer.waited - waited
            numbered = arrived.numbered
            indices = numbered.indices  # a dataset without indices has full batches
            size = len(indices) if hasattr(indices, "__len__") else self._batch_size
            times = self._server.loop_times
            times.leave(worker_wait, result_wait, self._is_first, (numbered.epoch, numbered.batch), size, numbered.rank)
            if arrived.cost is not None:
                times.note_cost(arrived.cost)
            if self._is_first:
                times.begin(self._loop.num_workers, self._has_new_workers and len(self._loop.workers) > 0)
                self._has_new_workers = False
            self._server.controller.take(consumer, self._earlier_shapes, self._inner.stays, self._inner.modules)
            self._loop.note_result(self._results.nbytes, result_wait, self._results.on_gpu)
            self._is_first = False
            return batch, arrived.numbered, arrived.position

    def _note_in_flight(self, noted: tuple[InFlight, int]) -> None:
        self._noted = noted
        ahead = InFlight(noted[1], f"at least {AHEAD}, more while they are small")
        self._server.loop_times.in_flight = {"loader": noted[0], "results sent ahead": ahead}

    def _next_arrived(self) -> CollatedBatch | FailedBatch:
        """Wait for the next batch of a worker."""
        assert self._consumer is not None
        try:
            if self._server.stops != self._stops:
                self._check_stopped()
            if self._consumer.ended:
                if self._restarts:
                    self._revive()
                self._consumer.check()
            if self._has_workers:
                self._check_workers()
            return self._loop.next()
        except Interrupted as interrupted:  # possibly by torch's handler, which reports that a worker died
            if type(interrupted.args[0]) is RuntimeError and dead_worker(self._loop.workers) is not None:
                raise self._explained(interrupted.args[0]) from None
            raise
        except StopIteration:
            pass  # its frames keep torch's iterator alive: drop them before that is closed, while signals are deferred
        except Exception as error:  # noqa: BLE001  # raised again, or replaced by a better one
            # torch raises a worker's exception from a frame that refers to it. This cycle would keep torch's iterator
            # alive until the next garbage collection, and ending the workers there takes seconds.
            if self._has_workers:
                error.__traceback__ = None
            raise self._explained(error)  # noqa: B904  # `error` is its context
        self._ends = True
        self._rescue.report()
        self.close()
        raise StopIteration

    def _outcome(self, batch: CollatedBatch | FailedBatch) -> Any:
        """Return the user's batch. If it failed, repeat it first; see `Rescue`."""
        error: BaseException | None = None
        try:
            if isinstance(batch, CollatedBatch):
                try:
                    return self._produced(batch.data)
                except REPEATABLE as failed:
                    error = failed
            return self._rescue.outcome(batch, error, self._produced, self._revive)
        finally:  # its traceback refers to this frame
            del error

    def _produced(self, data: Any) -> Any:
        assert self._consumer is not None
        if self.on_placeholders is not None:
            self.on_placeholders(data)
        return produce(
            data,
            self._consumer,
            self._loop.timeout,
            pin=self._pin,
            ragged=self._ragged,
            earlier=self._earlier_shapes,
        )

    def _explained(self, error: Exception) -> Exception:
        """Return the error, or a better one that names the process that died."""
        if isinstance(error, ServerClosedError | ServerDiedError):
            if self._server.stops != self._stops:
                return error
            explained = self._server.explain(error)
            explained.__suppress_context__ = True  # it says what `error` says
            return explained
        if isinstance(error, StopIteration):  # from a callback or an object in the batch, not the epoch's end
            failure = RuntimeError("StopIteration was raised while a batch was made, which would end the epoch")
            failure.__cause__ = error
            return failure
        died = self._ended_by_death(error)
        return died or hanging_worker(self._loop.workers, self._loop.timeout, error) or error

    def _ended_by_death(self, error: Exception | None = None) -> WorkerDiedError | None:
        """End the workers if one of them has died, and return the exception to raise. Has `dead_worker`'s argument."""
        died = dead_worker(self._loop.workers, error)
        if died is not None:
            self.dead = str(died)  # not the exception, whose frames refer to this object
            end_workers(self._loop.workers)
        return died

    def _check_stopped(self) -> None:
        """Raise an error if the server was stopped and started again since this epoch began."""
        if not self._server.running:
            return
        consumer = self._server.consumer
        if consumer is not self._consumer:  # batches that the workers still submit there belong to this iterator
            self._results = consumer.open_session(self._session)
            self._consumer = consumer
        raise ServerClosedError(
            "the server was stopped and started again, or its pipeline was replaced, since this epoch began, and its "
            "batches are lost: begin the epoch again, with iter(loader)"
        )

    def _check_workers(self) -> None:
        """Raise an error if a worker died unnoticed: torch's signal handler may have raised inside a finalizer."""
        if self._loop.has_ended_worker and self._ended_by_death() is not None:
            raise WorkerDiedError(self.dead)

    def _revive(self) -> None:
        """Open the session at the server. Restart the server if it died."""
        for pause in _PAUSES:
            self._server.revive(self._stops)
            try:
                consumer = self._server.consumer
                if consumer is not self._consumer:
                    self._results = consumer.open_session(self._session)
                    self._consumer = consumer
                return
            except LOST:  # it died again, or is ending: the system may close its connections before its listener
                if not pause:
                    raise
                let_through(time.sleep, pause)

    def __len__(self) -> int:
        return len(self._loop)

    def close(self) -> None:
        """End the epoch. Drop its unused batches."""
        self._server.controller.pause()
        if not self._persistent:
            self._loop.end()
            self._close_session()

    def _close_session(self) -> None:
        if self._consumer is not None:
            self._consumer.close_session(self._session)
            self._consumer = None

    @finalizer
    def __del__(self) -> None:
        if getattr(self, "_consumer", None) is not None:
            self._close_session()
        if hasattr(self, "_loop"):
            self._loop.leave()
