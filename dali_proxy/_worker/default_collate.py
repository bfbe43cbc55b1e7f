"""Support for placeholders in torch's `default_collate`, which turns those of a batch into one."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from dali_proxy._worker.placeholders import BatchRef, SampleRef, StackedRefs
from dali_proxy.pipeline._dynamic.structure import Output, is_record

_SAMPLE, _OUTPUT = attrgetter("sample"), attrgetter("output")


def collate_sample_refs(batch: Sequence[SampleRef], *, collate_fn_map: Any = None) -> BatchRef:
    """Submit a batch of samples and return a reference to one output. torch's `default_collate` calls this."""
    if len(set(map(_OUTPUT, batch))) != 1:
        raise _mixed(batch)
    ticket = batch[0].sample.client.submit(list(map(_SAMPLE, batch)))
    return BatchRef(ticket, batch[0].output)


def collate_batch_refs(batch: Sequence[BatchRef], *, collate_fn_map: Any = None) -> StackedRefs:
    """Return a reference to the stacked values of submitted samples, which came from other processes."""
    if len(set(map(_OUTPUT, batch))) != 1:
        raise _mixed(batch)
    return StackedRefs(tuple(batch))


def _mixed(batch: Sequence[SampleRef] | Sequence[BatchRef]) -> ValueError:
    outputs = sorted(set(map(_OUTPUT, batch)))
    return ValueError(f"a batch mixes the pipeline's outputs {outputs}: collate them one by one")


def collate_records(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Collate the fields of dataclasses, as torch's `default_collate` does with the values of dicts."""
    from torch.utils.data._utils.collate import collate

    result = copy.copy(batch[0])
    for field in fields(result):
        values = [getattr(each, field.name) for each in batch]
        object.__setattr__(result, field.name, collate(values, collate_fn_map=collate_fn_map))
    return result


def register_with_torch(structure: Any = None) -> None:
    """Register functions with `torch.utils.data.default_collate`.

    Args:
        structure: structure of a proxy's results, whose dataclasses torch couldn't collate.
    """
    from torch.utils.data._utils.collate import default_collate_fn_map  # documented, though its module isn't public

    default_collate_fn_map[SampleRef] = collate_sample_refs
    default_collate_fn_map[BatchRef] = collate_batch_refs
    waiting = [structure]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each
        elif is_record(each) and not isinstance(each, Output):
            default_collate_fn_map.setdefault(type(each), collate_records)
            waiting += [getattr(each, field.name) for field in fields(each)]
