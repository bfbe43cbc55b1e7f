"""Replacement of the placeholders in a batch by tensors."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

import torch

from dali_proxy._common.nested import replace
from dali_proxy._consumer.ragged import Ragged, formed
from dali_proxy._worker.placeholders import BatchRef, Placeholder, SampleRef
from pipeline._graph.location import user_traceback
from pipeline.errors import PipelineError

if TYPE_CHECKING:
    from dali_proxy._consumer.earlier_shapes import EarlierShapes
    from dali_proxy._worker.tickets import Ticket

__all__ = ["produce"]


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

    def value_of(ref: Placeholder) -> Any:
        item: int | None
        if isinstance(ref, SampleRef):  # it wasn't collated
            ticket, output, item = ref.sample.submit_alone(), ref.output, 0
        else:
            assert isinstance(ref, BatchRef)
            ticket, output, item = ref.ticket, ref.output, ref.item
        value = consumer.outputs(ticket, patience)[output]
        if item is not None:
            value = value[item]
        elif ragged is None:
            if earlier is not None:
                earlier.check(next(indices), output, value, ticket)
        elif isinstance(value, list) and ragged != "list":
            if (output, ragged) not in ticket.formed:
                ticket.formed[output, ragged] = formed(value, ragged)
            value = ticket.formed[output, ragged]
        return _pinned(value) if pin else value

    try:
        return replace(data, Placeholder, value_of)
    except PipelineError as error:  # its message says what our frames could say
        raise error.with_traceback(user_traceback(error))  # noqa: B904  # it is `error` itself


def _pinned(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.is_cuda else value.pin_memory()
    return [_pinned(sample) for sample in value]
