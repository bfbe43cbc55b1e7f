"""Any batch of an epoch again, from a state that was saved in that epoch."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from dali_proxy._common.nested import find
from dali_proxy._loader.generators import Generators, global_states
from dali_proxy._loader.resume import LoaderState
from dali_proxy._worker.placeholders import BatchRef, JoinedRefs
from dali_proxy._worker.tickets import TicketWithInputs
from dali_proxy.pipeline._executor.draws import Draw, draws
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError


@dataclass(frozen=True)
class ReplayedBatch:
    """A batch as a loop got it.

    Attributes:
        epoch: number of the epoch, from 0.
        batch: number of the batch in the epoch, from 0.
        indices: dataset indices of the samples.
        data: what the loop got.
        draws: what the random operators of the pipeline drew, such as numbers and windows, for each view of the
            samples; empty if the servers of a cluster made the batch.
    """

    epoch: int
    batch: int
    indices: Any
    data: Any
    draws: tuple[Draw, ...] = ()


def replay(loader: Any, state_dict: Mapping[str, Any], batch: int | None = None) -> ReplayedBatch:
    """Return a batch of the epoch in which a state was saved, from a `DataLoader`; see its `replay`."""
    state = LoaderState.from_dict(state_dict)
    batch = state.batches if batch is None else batch
    if state.kind != "map":
        raise ArgumentMismatchError("replay: only the batches of map-style datasets can be made in any order")
    if batch < 0:
        raise ArgumentValueError(f"replay: batch must be 0 or more, not {batch}")
    server = loader.dali_server
    if state.rank == server.endpoint.rank and state.seed not in (None, server.seed):
        raise ArgumentMismatchError(
            f"replay: the state was saved with seed={state.seed} of the pipeline, which now has seed={server.seed}: "
            f"its random numbers would differ. Create it with seed={state.seed}"
        )
    if state.rank not in (None, server.endpoint.rank) and server.given_seed is None and server.seed is not None:
        raise ArgumentMismatchError(
            f"replay: the state is that of rank {state.rank}, and the pipeline has no seed: the seed that it drew for "
            f"rank {server.endpoint.rank} isn't known. Create it with seed=..., for training too"
        )
    missing = ArgumentValueError(f"replay: epoch {state.epoch} has no batch {batch}")
    if batch > state.batches and Generators(loader).only_torch and batch >= len(loader):
        raise missing
    skipped = 0
    if state.sampler is None:
        state = replace(state, batches=batch, done=[])
    elif state.done or batch < state.batches:
        raise ArgumentMismatchError(
            f"replay: the state has that of the sampler after batch {state.batches - 1}, so that batch {batch} needs "
            "an earlier state of the same epoch"
        )
    else:
        skipped = batch - state.batches
    again = _copy(loader)
    again.load_state_dict(state.as_dict())
    placeholders: list[Any] = []
    if not state.shared and _draws_globally(loader):
        raise ArgumentMismatchError(
            f"replay: the state was saved before epoch {state.epoch} began, and the order of its samples follows from "
            "global random generators, whose states it doesn't have: use a state that was saved in that epoch, or "
            "give the loader generator=torch.Generator()"
        )
    with Generators(loader).going_back({}, Generators(loader).shared()), closing(iter(again)) as batches:
        batches.on_placeholders = lambda data: placeholders.__setitem__(slice(None), [data])
        for data in itertools.islice(batches, skipped, None):
            numbered = batches.last
            assert numbered is not None
            drawn = tuple(_draws(server, placeholders))
            return ReplayedBatch(numbered.epoch, numbered.batch, numbered.indices, data, drawn)
    raise missing


def _draws(server: Any, placeholders: Any) -> Iterator[Draw]:
    """Return what the operators drew for the requests of a batch, in the order of its views."""
    refs = [
        each for ref in find(placeholders, BatchRef) for each in (ref.refs if isinstance(ref, JoinedRefs) else [ref])
    ]
    tickets = {(ref.ticket.client, ref.ticket.seq): ref.ticket for ref in refs}
    for ticket in sorted(tickets.values(), key=lambda ticket: ticket.seq):
        if ticket.key is not None:
            graph = server.pipeline._internals.graph
            arrays = ticket.inputs if isinstance(ticket, TicketWithInputs) else ()
            inputs = dict(zip((node.name for node in graph.fed_inputs.values()), arrays, strict=False))
            yield from draws(graph, server.seed or 0, BatchKey(*ticket.key), ticket.size, inputs)


def _draws_globally(loader: Any) -> bool:
    """Return whether the sampler of a loader draws from global random generators."""
    again = _copy(loader)
    with Generators(loader).going_back({}, Generators(loader).shared()):
        before = global_states()
        next(iter(again.sampler if again.batch_sampler is None else again.batch_sampler), None)
        return global_states() != before


def _copy(loader: Any) -> Any:
    """Return a loader of the same batches whose samplers and generators can be moved without moving the user's."""
    again = copy.copy(loader)
    known = {id(loader.dataset): loader.dataset}
    for name in ("sampler", "batch_sampler", "generator"):
        vars(again)[name] = copy.deepcopy(vars(loader).get(name), known)
    vars(again).update(persistent_workers=False, sample_log=None, _keeps_inputs=loader.dali_server.cluster is None)
    return again
