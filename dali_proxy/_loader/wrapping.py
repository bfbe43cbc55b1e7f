"""Wraps the dataset and the sampler of a loader, so that batches have numbers and samples become placeholders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, IterDataPipe, MapDataPipe

from dali_proxy._common.bound_process import with_bound_workers
from dali_proxy._common.policies import FilledBatches, LastBatchPolicy
from dali_proxy._loader.collate import Collate
from dali_proxy._loader.generators import DrawWatch, Generators
from dali_proxy._loader.inner_loop import InnerLoader
from dali_proxy._loader.numbered_datasets import NumberedDataset, NumberedSampler, WorkerInit
from dali_proxy._loader.numbered_streams import NumberedIterableDataset
from dali_proxy._loader.own_worker import OwnWorker
from dali_proxy._loader.pool_loader import PoolLoader
from dali_proxy._loader.queues import with_direct_queues
from dali_proxy._loader.resolving_collate import function_of
from dali_proxy._loader.resume import LoaderState, SamplerState, batch_size_of, stateful_sampler

if TYPE_CHECKING:
    from dali_proxy._loader.loader_options import LoaderOptions


def inner_loader(
    loader: LoaderOptions, first_session: int, start: LoaderState
) -> tuple[InnerLoader, NumberedSampler | None, SamplerState]:
    """Return the loader that produces placeholders, the sampler that numbers its batches, and the sampler's state."""
    epoch, own = start.epoch, OwnWorker()
    options: dict[str, Any] = {
        "num_workers": loader.num_workers,
        "collate_fn": Collate(function_of(loader.collate_fn), own, epoch, start.rank or 0),
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": WorkerInit(loader.worker_init_fn, own),
        "generator": loader.generator,
        "in_order": loader.in_order,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
    }
    if loader.num_workers > 0:
        options["multiprocessing_context"] = with_bound_workers(with_direct_queues(loader.multiprocessing_context))
    if loader.pin_memory_device:
        options["pin_memory_device"] = loader.pin_memory_device
    dataset: Any = loader.dataset
    batches: Any = loader.batch_sampler
    stream_batches = {"batch_size": batch_size_of(loader), "drop_last": getattr(batches, "drop_last", loader.drop_last)}
    filled: FilledBatches | None = None
    if loader.last_batch_policy is LastBatchPolicy.FILL:
        batches = filled = FilledBatches(batches, batch_size_of(loader) or 1, loader.last_batch_padded)
    if isinstance(dataset, IterDataPipe | MapDataPipe):  # not wrapped, because torch shards them by their type
        if isinstance(dataset, MapDataPipe):
            options.update(_sampling(loader, batches, loader.sampler))
        else:
            options.update(stream_batches)
        return InnerLoader(dataset, **options), None, SamplerState(None)
    if isinstance(dataset, IterableDataset):
        numbers = (first_session, epoch, start.rank or 0)
        wrapped = NumberedIterableDataset(dataset, *numbers, batch_size_of(loader), own, start.stream_start)
        options.update(stream_batches)
        inner = InnerLoader(wrapped, **options)
        inner._IterableDataset_len_called = loader._IterableDataset_len_called  # torch warns of more samples
        return inner, None, SamplerState(None)
    items = loader.sampler if batches is None else batches
    state = SamplerState(stateful_sampler(loader), items, filled)
    if state.taker is None and not Generators(loader).only_torch:
        state.watch = DrawWatch()
    sampler = NumberedSampler(items, state.taker, state.watch)
    sampler.keeps_inputs = loader._keeps_inputs
    options.update(_sampling(loader, sampler, sampler))
    numbered = NumberedDataset(dataset, first_session, own)
    if not loader._reads_in_server:
        return InnerLoader(numbered, **options), sampler, state
    options["worker_init_fn"] = loader.worker_init_fn
    return PoolLoader(loader.dali_server, numbered, loader._sample_costs, **options), sampler, state


def _sampling(loader: LoaderOptions, batch_sampler: Any, sampler: Any) -> dict[str, Any]:
    if loader.batch_sampler is None:
        return {"batch_size": None, "sampler": sampler}
    return {"batch_sampler": batch_sampler}
