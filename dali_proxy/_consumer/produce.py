"""Replacement of the placeholders in a batch by tensors, whose shapes are compared with those of earlier batches."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Protocol

import torch

from dali_proxy._common.nested import replace
from dali_proxy._consumer.packed import packed
from dali_proxy._consumer.ragged import Ragged, formed
from dali_proxy._transport.fields import indices_of_labels, unpack_labels
from dali_proxy._worker.placeholders import BatchRef, JoinedRefs, PackedRefs, Placeholder, SampleRef
from dali_proxy.errors import BatchError
from dali_proxy.pipeline._graph.location import user_traceback, warn_caller
from dali_proxy.pipeline._listing import listed
from dali_proxy.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from dali_proxy._worker.tickets import Ticket

_REMEDY = "make the shapes equal in the pipeline, for example with fn.resize, fn.crop or fn.pad"


class EarlierShapes:
    """Records which outputs were one tensor in earlier batches: they must not become lists without the user's consent.

    An output whose first batch is a list may be a tensor or a list in later batches. If its samples differ in more than
    one dimension, as images do without a resize, a warning says so once. Boxes, labels and waves usually differ in one.
    """

    def __init__(self) -> None:
        # Key: position in the batch, and output. Value: shape of the last dense batch; None if the first batch was a
        # list.
        self._shapes: dict[tuple[int, int], tuple[int, ...] | None] = {}
        self._warned: set[int] = set()  # outputs
        self._stops = 0

    def follow(self, stops: int) -> None:
        """Forget all shapes if the server was stopped since the last call: its pipeline may have been replaced.

        Args:
            stops: how often the server has stopped.
        """
        if stops != self._stops:
            self._stops = stops
            self._shapes.clear()
            self._warned.clear()

    def check(self, index: int, output: int, value: Any, labels: tuple[str, str]) -> None:
        """Record the shape of an output and compare it with earlier batches.

        Args:
            index: index of the placeholder in the batch, from 0.
            output: index of the pipeline's output.
            value: a tensor, or a list of the samples' tensors.
            labels: packed dataset indices and names of the samples; see `Ticket.samples`.

        Raises:
            BatchError: the output is a list, and was a tensor before.
        """
        key = index, output
        if not isinstance(value, list):
            if self._shapes.get(key, ()) is not None:
                self._shapes[key] = value.shape
            return
        expected = self._shapes.setdefault(key, None)
        if expected is None:
            self._warn(output, [tuple(sample.shape) for sample in value])
        else:
            raise _several_shapes(output, [tuple(sample.shape) for sample in value], tuple(expected[1:]), labels)

    def _warn(self, output: int, shapes: list[tuple[int, ...]]) -> None:
        if output in self._warned or sum(len(set(lengths)) > 1 for lengths in zip(*shapes, strict=True)) < 2:
            return
        self._warned.add(output)
        warn_caller(
            f"output {output} of the pipeline becomes a list of tensors, because its samples differ in shape: "
            f"{listed(dict.fromkeys(shapes), most=3)}. For one tensor, {_REMEDY}. For lists without this warning, pass "
            'ragged="list"'
        )


def _several_shapes(
    output: int, shapes: list[tuple[int, ...]], expected: tuple[int, ...], labels: tuple[str, str]
) -> BatchError:
    odd = tuple(position for position, shape in enumerate(shapes) if shape != expected)
    indices, names = (_labels_of(text, odd, len(shapes)) for text in labels)
    said = [
        f"{shapes[position]} for sample {position} of the batch"
        + (f", dataset index {indices[number]}" if indices else "")
        + (f", named {names[number]}" if names else "")
        for number, position in enumerate(odd)
    ]
    return BatchError(
        f"the samples of output {output} of the pipeline differ in shape. In earlier batches, this output was one "
        f"tensor with samples of shape {expected}. This batch has {listed(said, separator='; ')}. "
        f'{_REMEDY.capitalize()}, or choose how such a batch is returned: ragged="list", "nested" or "pad"',
        samples=odd,
        dataset_indices=indices_of_labels(indices),
        sample_names=names,
    )


def _labels_of(text: str, positions: tuple[int, ...], count: int) -> tuple[str, ...]:
    labels = unpack_labels(text, count)
    return tuple(labels[position] for position in positions) if labels else ()


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
        if isinstance(ref, SampleRef):  # it wasn't collated
            ref = BatchRef(ref.sample.submit_alone(), ref.output, 0)
        assert isinstance(ref, BatchRef)
        if isinstance(ref, JoinedRefs):
            values = []
            for each in ref.refs:
                value = consumer.outputs(each.ticket, patience)[each.output]
                values.append(value if each.item is None else value[each.item])
            if isinstance(ref, PackedRefs):
                value = packed(values, [each.item is None for each in ref.refs])
                return _pinned(value) if pin else value
            value = _stacked(values)
            samples, kept = ("", ""), {}
        else:
            value = consumer.outputs(ref.ticket, patience)[ref.output]
            samples, kept = ref.ticket.samples, ref.ticket.formed
        if ref.item is not None:
            value = value[ref.item]
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
