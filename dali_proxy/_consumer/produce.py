"""Replacement of the placeholders in a batch by tensors."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

import torch

from dali_proxy._common.nested import replace
from dali_proxy._consumer.packed import packed
from dali_proxy._consumer.ragged import Ragged, formed
from dali_proxy._worker.placeholders import BatchRef, JoinedRefs, PackedRefs, Placeholder, SampleRef
from pipeline._graph.location import user_traceback
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from dali_proxy._consumer.earlier_shapes import EarlierShapes
    from dali_proxy._worker.tickets import Ticket


class Fetches(Protocol):
    """Fetches batches, like `ConsumerClient`."""

    def outputs(self, ticket: Ticket, patience: float | None = None) -> tuple[Any, ...]:
        """Wait for a batch and return its outputs."""


def produce(
    data: Any,
    consumer: Fetches,
    patience: float | None = None,
    *,
    pin: bool = False,
    ragged: Ragged | None = None,
    earlier: EarlierShapes | None = None,
) -> Any:
    """Return `data` with all placeholders replaced by the pipeline's outputs.

    Args:
        data: batch of a loader: tuples, lists, deques, mappings, dataclasses and objects, in any nesting.
        consumer: connection that fetches the batches.
        patience: seconds to wait for a batch; None for the server's timeout.
        pin: copy tensors on the CPU to pinned memory.
        ragged: form of outputs whose samples differ in shape, see `formed`; None is "list", unless the output was a
            tensor according to `earlier`.
        earlier: shapes of earlier batches.

    Returns:
        The same structure. An output is one tensor when all its samples have one shape, else it has the form `ragged`.

    Raises:
        BatchError: a batch failed in the server, or its samples differ in shape for the first time.
    """
    indices = itertools.count()

    def fetched(ref: BatchRef) -> Any:
        value = consumer.outputs(ref.ticket, patience)[ref.output]
        return value if ref.item is None else value[ref.item]

    def value_of(ref: Placeholder) -> Any:
        if isinstance(ref, SampleRef):  # it wasn't collated
            ref = BatchRef(ref.sample.submit_alone(), ref.output, 0)
        assert isinstance(ref, BatchRef)
        if isinstance(ref, PackedRefs):
            value = packed([fetched(each) for each in ref.refs], [each.item is None for each in ref.refs])
            return _pinned(value) if pin else value
        if isinstance(ref, JoinedRefs):
            value = _stacked([fetched(each) for each in ref.refs])
            samples, kept = ("", ""), {}
        else:
            value = fetched(ref)
            samples, kept = ref.ticket.samples, ref.ticket.formed
        if ref.item is not None:
            pass
        elif ragged is None:
            if earlier is not None:
                earlier.check(next(indices), ref.output, value, samples)
        elif isinstance(value, list) and ragged != "list":
            if (ref.output, ragged) not in kept:
                kept[ref.output, ragged] = formed(value, ragged)
            value = kept[ref.output, ragged]
        return _pinned(value) if pin else value

    try:
        return replace(data, Placeholder, value_of)
    except PipelineError as error:  # its message says what our frames could say
        raise error.with_traceback(user_traceback(error))  # noqa: B904  # it is `error` itself


def _stacked(values: list[Any]) -> Any:
    """Return one tensor, or the list itself if the values differ in shape or are lists."""
    dense = all(isinstance(value, torch.Tensor) and value.shape == values[0].shape for value in values)
    return torch.stack(values) if dense else values


def _pinned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.is_cuda else value.pin_memory()
    return [_pinned(sample) for sample in value]
