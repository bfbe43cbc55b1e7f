"""Teaches torch's `default_collate` to make one `BatchRef` of the `SampleRef`s of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy._worker.placeholders import BatchRef, SampleRef

__all__ = ["register_with_torch"]


def collate_sample_refs(batch: Sequence[SampleRef], *, collate_fn_map: Any = None) -> BatchRef:
    """Submit one output of a batch of samples; torch's `default_collate` calls this for `SampleRef`s."""
    outputs = {ref.output for ref in batch}
    if len(outputs) != 1:
        raise ValueError(f"a batch mixes the pipeline's outputs {sorted(outputs)}: collate them one by one")
    ticket = batch[0].sample.client.submit([ref.sample for ref in batch])
    return BatchRef(ticket, outputs.pop())


def register_with_torch() -> None:
    """Teach `torch.utils.data.default_collate` what to do with `SampleRef`s."""
    from torch.utils.data._utils.collate import default_collate_fn_map  # documented, though its module isn't public

    default_collate_fn_map[SampleRef] = collate_sample_refs
