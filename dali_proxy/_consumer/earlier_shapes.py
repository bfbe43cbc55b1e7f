"""The shapes of earlier batches: an output that was one tensor must not become a list unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dali_proxy._transport.labels import indices_of_labels, unpack_labels
from dali_proxy.errors import BatchError
from pipeline._listing import listed

if TYPE_CHECKING:
    from dali_proxy._worker.tickets import Ticket

__all__ = ["EarlierShapes"]


class EarlierShapes:
    """Knows which outputs were one tensor each in earlier batches: such an output must not become a list unasked.

    An output whose first batch is a list already may be either in later batches.
    """

    def __init__(self) -> None:
        # By place in the batch and output: shape of a sample of the last dense batch; None if the first was a list.
        self._shapes: dict[tuple[int, int], tuple[int, ...] | None] = {}

    def check(self, place: int, output: int, value: Any, ticket: Ticket) -> None:
        """Take note of an output.

        Args:
            place: which of the placeholders of the batch it is, from 0.
            output: index of the pipeline's output.
            value: a tensor, or a list of the samples' tensors.
            ticket: the batch that it is from.

        Raises:
            BatchError: it is a list, and was a tensor before.
        """
        key = place, output
        if not isinstance(value, list):
            if self._shapes.get(key, ()) is not None:
                self._shapes[key] = tuple(value.shape[1:])
            return
        expected = self._shapes.setdefault(key, None)
        if expected is not None:
            raise _several_shapes(output, [tuple(sample.shape) for sample in value], expected, ticket)


def _several_shapes(
    output: int, shapes: list[tuple[int, ...]], expected: tuple[int, ...], ticket: Ticket
) -> BatchError:
    odd = tuple(position for position, shape in enumerate(shapes) if shape != expected)
    indices, names = (_labels_of(text, odd, len(shapes)) for text in ticket.samples)
    said = [
        f"{shapes[position]} for sample {position} of the batch"
        + (f", dataset index {indices[number]}" if indices else "")
        + (f", named {names[number]}" if names else "")
        for number, position in enumerate(odd)
    ]
    return BatchError(
        f"the samples of output {output} of the pipeline differ in shape, and earlier batches of it were one tensor, "
        f"with samples of shape {expected}. Now there are {listed(said, separator='; ')}. Make the shapes equal in the "
        'pipeline, for example with fn.resize, fn.crop or fn.pad, or choose what such a batch becomes: ragged="list", '
        '"nested" or "pad"',
        samples=odd,
        dataset_indices=indices_of_labels(indices),
        sample_names=names,
    )


def _labels_of(text: str, positions: tuple[int, ...], count: int) -> tuple[str, ...]:
    labels = unpack_labels(text, count)
    return tuple(labels[position] for position in positions) if labels else ()
