"""`random.choice`: random elements of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operators.random.distribution import SHAPE, SHAPE_LIKE, DistributionCpu
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array

# Largest allowed difference between 1 and the sum of the probabilities.
_TOLERANCE = 1e-4

CHOICE = declare_operator(
    name="random.choice",
    random=True,
    draws=("number",),
    doc="Draws elements of an array. The output has the dtype of the elements.",
    inputs=(Input("a", "Elements, along the first dimension; or an integer n, to draw from 0 to n - 1."), SHAPE_LIKE),
    arguments=(
        Argument("p", Kind.FLOATS, "Probability of each element; by default all are equal.", per_sample=True),
        SHAPE,
    ),
)


@implements(CHOICE, "cpu")
class ChoiceCpu(DistributionCpu):
    """Uses uniform numbers as positions among the elements, or in the sums of their probabilities."""

    shape_like = 1

    def dtype(self, arguments: Arguments, inputs: Sequence[Any]) -> np.dtype[Any]:
        return np.asarray(inputs[0].samples[0]).dtype

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        elements = [_elements(np.asarray(sample)) for sample in inputs[0].samples]
        sums = self._sums(arguments, [len(each) for each in elements])

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> list[Array]:
            drawn = []
            numbers = generator.random(shape)
            for row, index in zip(numbers, range(*samples.indices(size)), strict=True):
                values = elements[index]
                if sums is None:
                    position = np.asarray(row * len(values)).astype(np.int64)
                else:
                    position = np.minimum(np.searchsorted(sums[index], row, side="right"), len(values) - 1)
                drawn.append(np.asarray(values[position]))
            return drawn

        return draw

    def _sums(self, arguments: Arguments, counts: Sequence[int]) -> list[Array] | None:
        """Return the cumulative probabilities of each sample; None if the elements are equally likely."""
        rows = arguments.optional(arguments.rows, "p")
        if rows is None:
            return None
        sums = []
        for sample, (row, count) in enumerate(zip(rows, counts, strict=True)):
            odds = np.repeat(row, count) if len(row) == 1 else row
            if len(odds) != count:
                raise ArgumentValueError(f"argument 'p' needs {count} values, but has {len(odds)} for sample {sample}")
            if not ((odds >= 0) & (odds <= 1)).all() or abs(odds.sum() - 1) > _TOLERANCE:
                raise ArgumentValueError(
                    f"argument 'p' must be probabilities with sum 1, but for sample {sample} they are {odds.tolist()}"
                )
            cumulative = np.cumsum(odds)
            sums.append(cumulative / cumulative[-1])
        return sums


def _elements(values: Array) -> Array:
    if values.ndim == 0:
        if values.dtype.kind not in "iu":
            raise ArgumentValueError(f"the number of elements must be an integer, not {values.dtype}")
        values = np.arange(max(0, int(values)), dtype=values.dtype)
    if not len(values):
        raise ArgumentValueError("there are no elements to choose from")
    return values
