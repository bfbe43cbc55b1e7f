"""`DataLoader`: torch's loader, connected to a server."""

from __future__ import annotations

import inspect
import multiprocessing
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.utils.data
from torch.utils.data import IterableDataset

from dali_proxy._common.core_budget import Shares, allowed_cores, core_budget, processes_sharing
from dali_proxy._common.policies import LastBatchPolicy, check_policy, loader_drops_last
from dali_proxy._consumer.produce import EarlierShapes
from dali_proxy._consumer.ragged import Ragged, check_ragged
from dali_proxy._loader.batch_transform import check_batch_transform
from dali_proxy._loader.generators import Generators
from dali_proxy._loader.iterator import LoaderIterator
from dali_proxy._loader.loader_options import LoaderOptions
from dali_proxy._loader.replay import ReplayedBatch, replay
from dali_proxy._loader.rescue import OnError, check_on_error
from dali_proxy._loader.resolving_collate import ResolvingCollate, function_of
from dali_proxy._loader.resume import (
    LoaderState,
    PastProgress,
    Progress,
    SamplerState,
    kind_of,
    start_of_epoch,
    stateful_sampler,
)
from dali_proxy._loader.sample_costs import SampleCosts
from dali_proxy._loader.sample_log import check_sample_log
from dali_proxy._server.server import DALIServer
from dali_proxy._worker.batch_context import this_thread
from dali_proxy.pipeline._control_group import cgroup_cores
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline._listing import did_you_mean
from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError, ArgumentValueError

_OF_TORCH = inspect.signature(torch.utils.data.DataLoader)


class DataLoader(LoaderOptions):
    """A torch `DataLoader` over a dataset that uses `server.proxy`: it yields tensors instead of placeholders.

    The features of torch's loader work as usual: samplers, any number of workers and start method, persistent workers,
    pinned memory, iterable datasets, collate functions. Code that makes a torch loader of `dataset` and `collate_fn` of
    this one gets tensors, too.

    Args:
        dali_server: the server. An iteration starts it if it isn't running; it warns if the server was stopped, and
            raises an error if it died and has ``restart="never"``.
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
            Python, NumPy and torch (also that of the current GPU) have seeds that follow from the pipeline's `seed`,
            the epoch and the batch, as the pipeline's own random numbers do: runs repeat with any number of workers,
            and after `load_state_dict`. Without `seed=`, torch's generator at the start of the epoch replaces it.
        sample_log: file to which a line of JSON is appended for each batch that the loop gets: ``epoch``, ``batch``,
            ``rank``, and ``indices``, the dataset indices of its samples, with those that `on_error` left out. Several
            ranks may use the same file.
        **kwargs: as for `torch.utils.data.DataLoader`. In a distributed run (torchrun, SLURM, torch.distributed),
            `num_workers` is by default the rank's share of the cores when an epoch begins; see
            `distributed.environment`. It is 0 for iterable datasets. If the server has dataset workers, or servers in a
            cluster, it has no meaning for other datasets, and `prefetch_factor` is the number of batches in flight of
            each of these. If the server changes the number of its workers, as that of `serve` does, they read the
            samples of map-style datasets for loaders without `num_workers`. With ``in_order=False``, batches of several
            workers come as they are ready, each with the same data, and `state_dict` knows which have come.

    Raises:
        ArgumentMismatchError: `last_batch_policy` contradicts another argument.
        ArgumentTypeError: the first argument isn't a server, or its servers in a cluster can't read the dataset.
        ArgumentValueError: the server reads the dataset, and `prefetch_factor` is less than 1; or `num_workers` is
            "auto"; or `sample_log` is a folder, or in one that doesn't exist.

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
        sample_log: str | Path | None = None,
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
        self.sample_log = check_sample_log(sample_log)
        self._keeps_inputs = False
        self._earlier_shapes = EarlierShapes()
        self._sample_costs = SampleCosts()
        try:
            options = _OF_TORCH.bind(dataset, *args, **kwargs).arguments
        except TypeError as error:
            known = {*inspect.signature(DataLoader).parameters, *_OF_TORCH.parameters}
            hints = "".join(did_you_mean(name, sorted(known)) for name in kwargs.keys() - known)
            raise TypeError(f"DataLoader {error}{hints}") from None
        if options.get("num_workers") == "auto":
            raise ArgumentValueError(
                'DataLoader: num_workers must be a number. "auto" is for the server, DALIServer(..., '
                'num_workers="auto"), and for loaders without num_workers'
            )
        self._default_workers: int | None = None  # if the user passes no number
        chooses = dali_server.num_workers != "auto" or "num_workers" not in options
        self._reads_in_server = dali_server.reads_datasets and kind_of(dataset) == "map" and chooses
        if "num_workers" not in options and kind_of(dataset) == "map":
            options["num_workers"] = self._default_workers = _default_workers(dali_server)
        if self.last_batch_policy is not None:
            iterable = isinstance(dataset, IterableDataset)
            options["drop_last"] = loader_drops_last(self.last_batch_policy, options, iterable)
        elif self.last_batch_padded:
            raise ArgumentMismatchError("last_batch_padded says how LastBatchPolicy.FILL fills: pass that policy, too")
        self.dali_server = dali_server
        for_pool = _pool_options(options) if self._reads_in_server else {}
        super().__init__(**options)
        vars(self).update(for_pool)  # torch forbids changes of some attributes
        self._epoch = 0
        self._lasting: LoaderIterator | None = None  # the only iterator if workers are persistent, as in torch
        self._start: LoaderState | None = None  # start of the next iteration, set by load_state_dict
        self._progress: Progress | PastProgress | None = None  # of the latest iterator

    def __setattr__(self, attr: str, val: Any) -> None:
        """Set an attribute. `collate_fn` is for other code, which gets tensors from it; see `ResolvingCollate`."""
        super().__setattr__(attr, val)
        if attr == "collate_fn" or (attr in _OURS and "collate_fn" in vars(self)):
            vars(self)["collate_fn"] = ResolvingCollate(self, function_of(self.collate_fn))

    def __iter__(self) -> LoaderIterator:  # type: ignore[override]
        """Begin an epoch, or resume from the state of `load_state_dict`."""
        if self.dali_server.stopped and self.dali_server.owned:
            warn_caller(
                "the server was stopped, and this loop starts it again, with its old pipeline. If another server has "
                "taken its place, make the dataset with that server's proxy, and a loader of it; otherwise, call "
                "server.start() first",
                RuntimeWarning,
            )
        self.dali_server.start_for_loop()
        self._settle_workers()
        start = self._start
        between = replace(self._between_epochs(), epoch=self._epoch_number())
        if self._lasting is not None and not self._lasting.dead and start is None:
            iterator = self._lasting
            iterator.restart(replace(between, seeded=False))
        else:
            between = replace(between, seeded=True)  # it starts new workers
            # The state may come from another rank.
            begin = between if start is None else replace(start, seed=between.seed, rank=between.rank)
            iterator = LoaderIterator(self, begin, resumes=start is not None)
            if self.persistent_workers:
                self._lasting = iterator
        self._start = None
        self._epoch += 1
        self._progress = iterator.progress
        return iterator

    def _get_iterator(self) -> Any:
        return DataLoader.__iter__(self)  # endless loaders call this instead of `iter`, which they override

    def _settle_workers(self) -> None:
        """Determine the default of `num_workers` again: torch.distributed may have been initialized since."""
        workers = _default_workers(self.dali_server)
        if workers and self.num_workers == self._default_workers:
            self.num_workers = self._default_workers = workers
            self.prefetch_factor = self.prefetch_factor or 2  # torch's default, if there are workers

    def check_worker_number_rationality(self) -> None:
        """Warn if the workers of all ranks exceed the cores of the machine; torch calls this.

        Unlike torch, don't warn of a single process: `ServerStats.advice` recommends more workers than cores if they
        wait for a disk or the network, and fewer if they don't.
        """
        if self._reads_in_server:
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

    def ensure_server_listening(self) -> None:
        """Start the server if it isn't running. Iterating over the loader does the same."""
        self.dali_server.start_for_loop()

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
            ArgumentMismatchError: the state is damaged, or belongs to a different loader: it differs in `batch_size`,
                length of the dataset, class of the sampler (as with another `shuffle`), number of workers of an
                iterable dataset, or set of generators. If the seed of the pipeline differs, this only warns: the next
                batches have the same samples, with other random numbers.
        """
        if state_dict == {}:
            return
        start = LoaderState.from_dict(state_dict)
        start.check(self._between_epochs())
        if start.kind == "map" and Generators(self).only_torch and start.batches > len(self):
            raise ArgumentMismatchError(
                f"the state was saved after {start.batches} batches, but an epoch of this loader has {len(self)}"
            )
        self._start = start
        self._epoch = start.epoch

    def replay(self, state_dict: dict[str, Any], batch: int | None = None) -> ReplayedBatch:
        """Return any batch of an epoch again, as the loop got it, for example after a peak of the loss.

        Random numbers of the pipeline and the order of the samples are those of the run. Those that a dataset draws
        itself are repeated as far as `load_state_dict` repeats them. The position of this loader doesn't change.

        Args:
            state_dict: a result of `state_dict` during that epoch, such as that of a checkpoint. If the sampler has a
                state, it must have been saved before the batch.
            batch: number of the batch in the epoch, from 0; by default, the first one after the state.

        Returns:
            The batch, with its numbers and the dataset indices of its samples.

        Raises:
            ArgumentMismatchError: as for `load_state_dict`; also if the batch precedes the state of a sampler, or if
                the dataset isn't map-style.
            ArgumentValueError: the epoch has no such batch.

        Example:
            >>> replayed = loader.replay(torch.load("checkpoint.pt")["loader"], batch=231)  # doctest: +SKIP
            >>> replayed.indices  # doctest: +SKIP
            [1713, 20, 55, 4096]
        """
        return replay(self, state_dict, batch)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: it has the same position, and starts its own workers."""
        past = None if self._progress is None else PastProgress.of(self._progress)
        return {**vars(self), "_lasting": None, "_progress": past}

    def _epoch_number(self) -> int:
        """Return the number of the next epoch. Inside another loader's loop, derive it from that loader's batch."""
        outer = this_thread.context
        counts_itself = self.persistent_workers and kind_of(self.dataset) == "iterable"
        return self._epoch if outer is None or counts_itself else outer.epoch_of_loop()

    def _rank(self) -> int:
        """Return the rank of this process now. Inside another loader's loop, it is that of the loop."""
        outer = this_thread.context
        return self.dali_server.endpoint.rank if outer is None else outer.rank

    def _between_epochs(self) -> LoaderState:
        ended = None if self._progress is None else self._progress.sampler_at_end
        return replace(
            start_of_epoch(self, self._epoch, self.dali_server.seed, self._rank()),
            seeded=self._lasting is None,
            sampler=SamplerState(stateful_sampler(self)).now() if ended is None else ended,
        )


def _default_workers(server: DALIServer) -> int:
    """Return the default of `num_workers`: workers in a distributed run, unless the server reads the datasets."""
    launched = current_ranks().source not in ("", "set_ranks")
    if not launched or server.reads_datasets or multiprocessing.current_process().daemon:
        return 0
    return Shares.of_rank().num_workers


def _pool_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options for a server that reads the dataset, and return them: torch allows them only with workers.

    Raises:
        ArgumentValueError: `prefetch_factor` is less than 1.
    """
    prefetch_factor = options.pop("prefetch_factor", None)
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ArgumentValueError(f"DataLoader: prefetch_factor must be 1 or more, or None, not {prefetch_factor!r}")
    return {"prefetch_factor": prefetch_factor, "persistent_workers": options.pop("persistent_workers", False)}


_OPTIONS = ("last_batch_policy", "last_batch_padded", "on_error", "ragged", "batch_transform", "sample_log")
_OURS = ("dali_server", *_OPTIONS)


def _signature() -> inspect.Signature:
    server = inspect.Parameter("dali_server", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=DALIServer)
    own = inspect.signature(DataLoader.__init__).parameters
    options = (own[name] for name in _OPTIONS)
    return inspect.Signature([server, *_OF_TORCH.parameters.values(), *options])


DataLoader.__signature__ = _signature()  # type: ignore[attr-defined]
