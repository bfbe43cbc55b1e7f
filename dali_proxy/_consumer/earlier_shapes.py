"""Shapes of earlier batches, for detecting outputs that change from one tensor to a list."""

from __future__ import annotations

from typing import Any

from dali_proxy._transport.labels import indices_of_labels, unpack_labels
from dali_proxy.errors import BatchError
from pipeline._graph.location import warn_caller
from pipeline._listing import listed

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
