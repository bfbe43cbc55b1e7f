"""Random numbers: normal, beta and choice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeline._declaration.registry import implements, register
from pipeline._declaration.schema import Argument, Input, Kind, OperatorSchema
from pipeline._operator_api.arguments import Arguments
from pipeline._operator_api.output_dtype import check_dtype
from pipeline._operators.random.uniform_coin_flip import SHAPE, SHAPE_LIKE, RandomCpu, RandomGpu, column, declare
from pipeline.errors import ArgumentValueError
from pipeline.tensors.cpu import Array
from pipeline.types import FLOAT, FLOAT64

__all__ = ["BETA", "CHOICE", "NORMAL"]

# By how much the sum of probabilities may differ from 1.
_SLACK = 1e-4

NORMAL = declare(
    "normal",
    "Draws from a normal distribution.",
    Argument("mean", Kind.FLOAT, "Mean of the distribution.", 0.0, per_sample=True),
    Argument("stddev", Kind.FLOAT, "Standard deviation of the distribution.", 1.0, per_sample=True),
    dtypes="FLOAT, FLOAT64 or an integer",
)
BETA = declare(
    "beta",
    "Draws from a beta distribution, between 0 and 1.",
    Argument("alpha", Kind.FLOAT, "First parameter of the distribution, positive.", 1.0, per_sample=True),
    Argument("beta", Kind.FLOAT, "Second parameter of the distribution, positive.", 1.0, per_sample=True),
    dtypes="FLOAT or FLOAT64",
    gpu=False,
)
CHOICE = register(
    OperatorSchema(
        name="random.choice",
        doc="Draws elements of a list; the output has their dtype.",
        inputs=(
            Input("a", "The elements, along the first dimension; or their number n, an integer, for 0 to n - 1."),
            SHAPE_LIKE,
        ),
        arguments=(
            Argument("p", Kind.FLOATS, "Probability of each element; by default all have the same.", per_sample=True),
            SHAPE,
        ),
    )
)


class _Normal(RandomCpu):
    """Scales numbers of the standard normal distribution."""

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        mean, stddev = arguments.scalars("mean"), arguments.scalars("stddev")
        assert mean is not None
        assert stddev is not None

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            center, scale = (column(values[samples], len(shape)) for values in (mean, stddev))
            made: Array = center + scale * generator.standard_normal(shape)
            return made

        return draw


@implements(NORMAL, "cpu")
class NormalCpu(_Normal):
    """Of a mean and a deviation."""


@implements(NORMAL, "gpu")
class NormalGpu(RandomGpu, _Normal):
    """Of a mean and a deviation."""


@implements(BETA, "cpu")
class BetaCpu(RandomCpu):
    """As NumPy draws."""

    def dtype(self, arguments: Arguments, inputs: Sequence[Any]) -> np.dtype[Any]:
        wanted = arguments.constant("dtype")  # UINT8 is 0
        return check_dtype(FLOAT if wanted is None else wanted, (FLOAT, FLOAT64))

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        alpha, beta = arguments.scalars("alpha"), arguments.scalars("beta")
        for name, values in (("alpha", alpha), ("beta", beta)):
            assert values is not None
            if not ((values > 0) & np.isfinite(values)).all():
                wrong = int(np.argmin((values > 0) & np.isfinite(values)))
                raise ArgumentValueError(f"argument {name!r} must be positive, not {values[wrong]} (sample {wrong})")

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> Array:
            first, second = (column(values[samples], len(shape)) for values in (alpha, beta) if values is not None)
            return generator.beta(first, second, shape)

        return draw


@implements(CHOICE, "cpu")
class ChoiceCpu(RandomCpu):
    """Takes uniform numbers as positions among the elements, or in the sums of their probabilities."""

    shape_like = 1

    def dtype(self, arguments: Arguments, inputs: Sequence[Any]) -> np.dtype[Any]:
        found: np.dtype[Any] = np.asarray(inputs[0].samples[0]).dtype
        return found

    def prepare(self, arguments: Arguments, inputs: Sequence[Any], size: int, dtype: np.dtype[Any]) -> Any:
        elements = [_elements(np.asarray(sample)) for sample in inputs[0].samples]
        sums = self._sums(arguments, [len(each) for each in elements])

        def draw(generator: np.random.Generator, shape: tuple[int, ...], samples: slice) -> list[Array]:
            made = []
            drawn = generator.random(shape)
            for row, index in zip(drawn, range(*samples.indices(size)), strict=True):
                chosen = elements[index]
                if sums is None:
                    position = np.asarray(row * len(chosen)).astype(np.int64)
                else:
                    position = np.minimum(np.searchsorted(sums[index], row, side="right"), len(chosen) - 1)
                made.append(np.asarray(chosen[position]))
            return made

        return draw

    def _sums(self, arguments: Arguments, counts: Sequence[int]) -> list[Array] | None:
        rows = arguments.rows("p")
        if rows is None:
            return None
        sums = []
        for sample, (row, count) in enumerate(zip(rows, counts, strict=True)):
            odds = np.repeat(row, count) if len(row) == 1 else row
            if len(odds) != count:
                raise ArgumentValueError(f"argument 'p' needs {count} values, but has {len(odds)} for sample {sample}")
            if not ((odds >= 0) & (odds <= 1)).all() or abs(odds.sum() - 1) > _SLACK:
                raise ArgumentValueError(
                    f"argument 'p' must be probabilities with sum 1, but for sample {sample} they are {odds.tolist()}"
                )
            added = np.cumsum(odds)
            sums.append(added / added[-1])
        return sums


def _elements(given: Array) -> Array:
    if given.ndim == 0:
        if given.dtype.kind not in "iu":
            raise ArgumentValueError(f"the number of elements must be an integer, not {given.dtype}")
        given = np.arange(max(0, int(given)), dtype=given.dtype)
    if not len(given):
        raise ArgumentValueError("there are no elements to choose from")
    return given
