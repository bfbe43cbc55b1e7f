"""`DataLoader`: torch's loader, connected to a server."""

from __future__ import annotations

import inspect
import multiprocessing
import secrets
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.data
from torch.utils.data import IterableDataset

from dali_proxy._common.core_budget import Shares, allowed_cores, cgroup_cores, core_budget, processes_sharing
from dali_proxy._common.in_flight import InFlight
from dali_proxy._common.policies import LastBatchPolicy, check_policy, loader_drops_last
from dali_proxy._common.process_exit import dead_worker, hanging_worker, reports_dead_worker
from dali_proxy._consumer.consumer import ConsumerClient
from dali_proxy._consumer.earlier_shapes import EarlierShapes
from dali_proxy._consumer.produce import produce
from dali_proxy._consumer.ragged import Ragged, check_ragged
from dali_proxy._loader.batch_transform import BatchTransform, check_batch_transform
from dali_proxy._loader.batches import CollatedBatch, FailedBatch, NumberedIndices
from dali_proxy._loader.distributed_sampler import DistributedBatchSampler
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
from dali_proxy._transport.fetch_ahead import AHEAD
from dali_proxy._worker.batch_context import current_context
from dali_proxy.errors import ServerClosedError, ServerDiedError, WorkerDiedError
from pipeline._graph.location import user_traceback
from pipeline._ipc.signals import Interrupted, deferred_signals, finalizer, let_through
from pipeline._ranks import current_ranks
from pipeline.errors import ArgumentMismatchError, ArgumentTypeError, ArgumentValueError, PipelineError

if TYPE_CHECKING:
    from dali_proxy._cluster.cluster_consumer import ClusterConsumer

__all__ = ["DataLoader", "LoaderIterator"]

_OF_TORCH = inspect.signature(torch.utils.data.DataLoader)
_PAUSES = (0.02, 0.1, 0.5, 0.0)  # seconds after each attempt to open a session; none after the last one


class DataLoader(torch.utils.data.DataLoader[Any]):
    """A torch `DataLoader` over a dataset that uses `server.proxy`: it yields tensors instead of placeholders.

    The features of torch's loader work as usual: samplers, any number of workers and start method, persistent workers,
    pinned memory, iterable datasets, collate functions.

    Args:
        dali_server: the server. The first iteration starts it if it isn't running.
        dataset: the dataset.
        *args: as for `torch.utils.data.DataLoader`.
        last_batch_policy: treatment of an incomplete last batch; replaces the argument `drop_last`. DROP
            is ``drop_last=True``, PARTIAL is ``drop_last=False``. FILL makes the last batch as large as the others, so
            that every batch has the same size and no sample is missing.
        last_batch_padded: if true, FILL repeats the last sample; otherwise it adds the first samples of the same epoch.
            In both cases an epoch is one pass over the sampler, and the next epoch starts from the beginning.
        on_error: treatment of a sample that the dataset or the pipeline can't process. "raise" raises the error in
            place of the sample's batch; the next call returns the next batch. "skip" leaves the sample out of its
            batch. "replace" replaces it by the next good sample of the batch. A function receives a `BatchError` and
            returns one of these words (None means "skip"). A batch without a good sample is left out; so is the whole
            batch of an iterable dataset, which can't be read again. Exits such as `SystemExit` are always raised.
            `ServerStats` counts the skipped and replaced samples.
        ragged: form of an output in a batch whose samples differ in shape. "list" is a list of tensors, without a copy.
            "nested" is a torch nested tensor: of layout ``torch.jagged`` if the samples differ in one dimension, else
            ``torch.strided``. "pad" is a tensor as large as the largest sample in each dimension; smaller samples are
            padded with zeros. If all samples have the same shape, the output is always a plain tensor. None means
            "list" for an output whose shapes differ in this loader's first batch. If the first batch was one tensor,
            a later batch whose samples differ in shape raises a `BatchError` that names them.
        batch_transform: function that receives each finished batch in the training process, and returns the batch that
            the loader yields; `MixUp` and `CutMix` are such functions. While it runs, the global random generators of
            Python, NumPy and torch (also that of the current GPU) have seeds that follow from torch's generator at the
            start of the epoch, and the number of the batch: runs repeat with any number of workers, and after
            `load_state_dict`.
        **kwargs: as for `torch.utils.data.DataLoader`. In a distributed run (torchrun, SLURM, torch.distributed),
            `num_workers` is by default the rank's share of the cores; see `distributed.environment`. It is 0 for
            iterable datasets. If the server has dataset workers, or servers in a cluster, it has no meaning for other
            datasets, and `prefetch_factor` is the number of batches in flight of each of these.

    Raises:
        ArgumentMismatchError: `last_batch_policy` contradicts another argument.
        ArgumentTypeError: the first argument isn't a server, or its servers in a cluster can't read the dataset.
        ArgumentValueError: the server reads the dataset, and `prefetch_factor` is less than 1.

    Example:
        >>> loader = DataLoader(server, dataset, batch_size=64, num_workers=2, shuffle=True)  # doctest: +SKIP
    """

    def __init__(
        self,
        dali_server: DALIServer,
        dataset: Any = None,  # optional, so that a call like torch's, with only a dataset, reaches our check below
        *args: Any,
        last_batch_policy: LastBatchPolicy | None = None,
        last_batch_padded: bool = False,
        on_error: OnError = "raise",
        ragged: Ragged | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not isinstance(dali_server, DALIServer):
            raise ArgumentTypeError(
                "DataLoader needs a DALIServer first, as in DataLoader(server, dataset, ...), "
                f"not {type(dali_server).__name__}"
            )
        if dataset is None:
            raise ArgumentTypeError("DataLoader needs a dataset, as in DataLoader(server, dataset, ...)")
        if dali_server.cluster is not None and kind_of(dataset) != "map":
            raise ArgumentTypeError(
                f"the servers in a cluster read datasets with indices, but {type(dataset).__name__} is an iterable "
                "dataset or a datapipe: use a map-style dataset, or a DALIServer without cluster="
            )
        self.last_batch_policy = None if last_batch_policy is None else check_policy(last_batch_policy)
        self.last_batch_padded = bool(last_batch_padded)
        self.on_error = check_on_error(on_error)
        self.ragged = check_ragged(ragged)
        self.batch_transform = check_batch_transform(batch_transform)
        self.earlier_shapes = EarlierShapes()
        try:
            options = _OF_TORCH.bind(dataset, *args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"DataLoader {error}") from None
        if "num_workers" not in options and kind_of(dataset) == "map" and _starts_workers(dali_server):
            options["num_workers"] = Shares.of_rank().num_workers
        if self.last_batch_policy is not None:
            iterable = isinstance(dataset, IterableDataset)
            options["drop_last"] = loader_drops_last(self.last_batch_policy, options, iterable)
        elif self.last_batch_padded:
            raise ArgumentMismatchError("last_batch_padded says how LastBatchPolicy.FILL fills: pass that policy, too")
        self.dali_server = dali_server
        for_pool = _pool_options(dali_server, options)
        super().__init__(**options)
        vars(self).update(for_pool)  # torch forbids changes of some attributes
        self._epoch = 0
        self._lasting: LoaderIterator | None = None  # the only iterator if workers are persistent, as in torch
        self._start: LoaderState | None = None  # start of the next iteration, set by load_state_dict
        self._progress: Progress | None = None  # of the latest iterator

    def __iter__(self) -> LoaderIterator:  # type: ignore[override]
        """Begin an epoch, or resume from the state of `load_state_dict`."""
        self.dali_server.start()
        start = self._start
        between = replace(self._between_epochs(), epoch=self._epoch_number())
        if self._lasting is not None and not self._lasting.dead and start is None:
            iterator = self._lasting
            iterator.restart(replace(between, seeded=False))
        else:
            between = replace(between, seeded=True)  # it starts new workers
            iterator = LoaderIterator(self, start or between, resumes=start is not None)
            if self.persistent_workers:
                self._lasting = iterator
        self._start = None
        self._epoch += 1
        self._progress = iterator.progress
        return iterator

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than cores; torch calls this. The ranks of a machine share its cores."""
        if self.dali_server.reads_datasets:
            return  # no workers are started here
        ranks, cores = current_ranks(), len(allowed_cores())
        sharing = processes_sharing(ranks, cores)
        share = core_budget(cores, cgroup_cores(), sharing)
        if sharing > 1 and self.num_workers > share:
            warnings.warn(
                f"{sharing} ranks on this machine start {self.num_workers} workers each, but every rank has a share of "
                f"{share} {'core' if share == 1 else 'cores'}: pass "
                "num_workers=dali_proxy.distributed.environment().num_workers",
                stacklevel=4,
            )
        else:
            super().check_worker_number_rationality()

    def ensure_server_listening(self) -> None:
        """Start the server if it isn't running. Iterating over the loader does the same."""
        self.dali_server.start()

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the latest iterator: after the last batch that it yielded.

        A loader that is created with the same arguments, in this process or in another one, resumes there after
        `load_state_dict`: with the next batch or, if the epoch has ended, with the next epoch. The number of workers
        may differ, except for iterable datasets, whose data is divided among the workers.

        Returns:
            Plain objects and tensors, for `torch.save`. It includes the `state_dict` of a sampler or an iterable
            dataset that has `state_dict` and `load_state_dict`.
        """
        if self._start is not None:
            return self._start.as_dict()
        if self._progress is not None and not self._progress.finished:
            return self._progress.state().as_dict()
        return self._between_epochs().as_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume the next iteration at the position where `state_dict` was called.

        Samples of batches that were yielded earlier are not read again, except by an iterable dataset without
        `load_state_dict`, which has no other way to reach the position.

        Args:
            state_dict: a result of `state_dict`; an empty one changes nothing.

        Raises:
            ArgumentMismatchError: the state belongs to a different loader: it differs in `batch_size`, length of the
                dataset, number of workers of an iterable dataset, or set of generators.
        """
        if state_dict:
            start = LoaderState.from_dict(state_dict)
            start.check(self._between_epochs())
            self._start = start
            self._epoch = start.epoch

    def _epoch_number(self) -> int:
        """Return the number of the next epoch. Inside another loader's loop, derive it from that loader's batch."""
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


def _starts_workers(server: DALIServer) -> bool:
    """Return whether a loader has workers by default: in a distributed run, unless the server reads the datasets."""
    launched = current_ranks().source not in ("", "set_ranks")
    return launched and not server.reads_datasets and not multiprocessing.current_process().daemon


def _pool_options(server: DALIServer, options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options for a server that reads the dataset, and return them: torch allows them only with workers.

    Raises:
        ArgumentValueError: `prefetch_factor` is less than 1.
    """
    if not server.reads_datasets or kind_of(options["dataset"]) != "map":
        return {}
    prefetch_factor = options.pop("prefetch_factor", None)
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ArgumentValueError(f"DataLoader: prefetch_factor must be 1 or more, or None, not {prefetch_factor!r}")
    return {"prefetch_factor": prefetch_factor, "persistent_workers": options.pop("persistent_workers", False)}


_OPTIONS = ("last_batch_policy", "last_batch_padded", "on_error", "ragged", "batch_transform")


def _signature() -> inspect.Signature:
    server = inspect.Parameter("dali_server", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=DALIServer)
    own = inspect.signature(DataLoader.__init__).parameters
    options = (own[name] for name in _OPTIONS)
    return inspect.Signature([server, *_OF_TORCH.parameters.values(), *options])


DataLoader.__signature__ = _signature()  # type: ignore[attr-defined]


class LoaderIterator(Iterator[Any]):
    """One epoch over a `DataLoader` (with persistent workers: one epoch after another).

    Args:
        loader: the loader.
        start: starting position.
        resumes: whether `start` comes from a `state_dict`, so that the sampler must be moved there.

    Attributes:
        progress: position in the epoch.
        dead: reason why the iterator can't continue; empty while it can.
    """

    progress: Progress

    def __init__(self, loader: DataLoader, start: LoaderState, resumes: bool = False) -> None:
        self.dead = ""
        self._server = loader.dali_server
        self._first_session = secrets.randbits(63)
        self._session = 0
        self._has_workers = loader.num_workers > 0
        self._persistent = loader.persistent_workers
        self._pin = loader.pin_memory and torch.accelerator.is_available()
        # Keep no reference to the loader, which may refer to this: workers end slowly when a cycle is collected.
        restarts = self._server.restart == "on-failure"
        inner, sampler, sampler_state = inner_loader(loader, self._first_session, start)
        self._loop = InnerLoop(inner, sampler, sampler_state)
        self._sampler_state = sampler_state
        self._generators = Generators(loader)
        self._epoch_sampler = sampler_with_epochs(loader)
        self._in_order = loader.in_order
        self._ragged = loader.ragged
        self._earlier_shapes = loader.earlier_shapes
        self._transform = None if loader.batch_transform is None else BatchTransform(loader.batch_transform)
        self._rescue = Rescue(loader.on_error, restarts, self._loop.make, self._server.losses, self._server.explain)
        self._restarts = restarts
        self._consumer: ConsumerClient | ClusterConsumer | None = None
        self._noted = (0, 0)  # numbers of batches in flight in the server's statistics
        self.restart(start, resumes)

    def restart(self, start: LoaderState, resumes: bool = False) -> None:
        """Begin an epoch. Drop the rest of the previous one."""
        self._close_session()
        self._consumer = None
        self._stops = self._server.stops
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
                self._transform.begin(self._generators.seed(), start.epoch)
            try:
                self._loop.begin(start, resumes)
            except RuntimeError as error:  # torch's, if a persistent worker has died since the last epoch
                if (died := dead_worker(self._loop.workers, error)) is None:
                    raise
                self.dead = str(died)
                raise died from None
        self.progress = Progress(start, self._sampler_state, self._in_order)
        self._is_first = True
        # A signal handler may raise when a batch has arrived; the next call continues with this batch.
        self._arrived: CollatedBatch | FailedBatch | None = None  # arrived, but its results didn't
        #: Finished batch, its number and indices, the worker's state.
        self._yielding: tuple[Any, NumberedIndices, bytes | None] | None = None
        self._failure: Exception | None = None  # that wasn't raised yet
        self._ends = False  # whether the next call raises `StopIteration`
        self._server.note_pause()

    def _set_sampler_epoch(self, start: LoaderState) -> int | None:
        """Set the sampler's epoch if this resumes, or if the sampler follows the loader. Return its current epoch."""
        if self._epoch_sampler is None:
            return None
        follows = isinstance(self._epoch_sampler, DistributedBatchSampler)
        epoch = start.epoch if follows else start.sampler_epoch
        if epoch is not None:
            self._epoch_sampler.set_epoch(epoch)
        return int(self._epoch_sampler.epoch)

    def __next__(self) -> Any:
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
        self.progress.yielded, self._yielding = (numbered.batch, position), None
        return batch  # no call since the assignment above, so no signal handler ran in between

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
            return self._transform(batch, numbered.number_among_ranks(self._server.endpoint.rank))
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
        if not self._loop.begun or self._consumer is None:
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
            self._note_in_flight(consumer)
            try:
                batch = self._rescue.outcome(arrived, self._produced, self._revive)
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
            self._server.loop_times.leave(worker_wait, result_wait, self._is_first, (numbered.epoch, numbered.batch))
            self._server.note_batch(consumer)
            waited = result_wait if consumer.on_gpu(self._session) else 0.0  # the training needs the host's memory
            self._loop.note_result(consumer.result_size(self._session), waited)
            self._is_first = False
            return batch, arrived.numbered, arrived.position

    def _note_in_flight(self, consumer: ConsumerClient | ClusterConsumer) -> None:
        noted = self._loop.chunk, consumer.depth(self._session)
        if self._noted != noted:
            self._noted = noted
            ahead = InFlight(noted[1], f"at least {AHEAD}, more while they are small")
            self._server.loop_times.in_flight = {"loader": self._loop.in_flight, "results sent ahead": ahead}

    def _next_arrived(self) -> CollatedBatch | FailedBatch:
        """Wait for the next batch of a worker."""
        assert self._consumer is not None
        try:
            self._check_stopped()
            if self._consumer.ended and self._restarts:
                self._revive()
            self._consumer.check()
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
        """Return the error, or a better one that names the process that died."""
        if isinstance(error, ServerClosedError | ServerDiedError):
            return error if self._server.stops != self._stops else self._server.explain(error)
        if isinstance(error, StopIteration):  # from a callback or an object in the batch, not the epoch's end
            failure = RuntimeError("StopIteration was raised while a batch was made, which would end the epoch")
            failure.__cause__ = error
            return failure
        died = dead_worker(self._loop.workers, error)
        if died is not None:
            self.dead = str(died)  # not the exception, whose frames refer to this object
        return died or hanging_worker(self._loop.workers, self._loop.timeout, error) or error

    def _check_stopped(self) -> None:
        """Raise an error if the server was stopped and started again since this epoch began."""
        if self._server.stops == self._stops or not self._server.running:
            return
        consumer = self._server.consumer
        if consumer is not self._consumer:  # batches that the workers still submit there belong to this iterator
            consumer.open_session(self._session)
            self._consumer = consumer
        raise ServerClosedError(
            "the server was stopped and started again since this epoch began, and its batches are lost: begin the "
            "epoch again, with iter(loader)"
        )

    def _check_workers(self) -> None:
        """Raise an error if a worker died unnoticed: torch's signal handler may have raised inside a finalizer."""
        if self._loop.has_ended_worker and (died := dead_worker(self._loop.workers)) is not None:
            self.dead = str(died)
            raise WorkerDiedError(self.dead)

    def _revive(self) -> None:
        """Open the session at the server. Restart the server if it died."""
        for pause in _PAUSES:
            self._server.revive(self._stops)
            try:
                consumer = self._server.consumer
                if consumer is not self._consumer:
                    consumer.open_session(self._session)
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
        self._server.note_pause()
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
