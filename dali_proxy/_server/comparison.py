"""A comparison of rates that were measured in rounds, whose noise is estimated from the measurements themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

_WORTH = 0.01  # gain that is worth a change, and a further measurement
_CERTAINTY = 2.0  # standard errors by which a candidate may be faster than its mean
# Expected standard deviation of a ratio of two measurements, before there are others, and the number of measurements
# that it counts as. Eager training, which one thread of Python limits, varies by so much on busy machines.
_EXPECTED, _WEIGHT = 0.07, 0.1


class Comparison:
    """Compares candidates by their rates in rounds, in which each of them was measured once.

    Only ratios within a round count, so what changes slowly for all of them, like the clock of the processor, cancels.
    The ratios' standard deviation is estimated from their differences between rounds.

    Example:
        >>> comparison = Comparison()
        >>> comparison.add({0: 10.0, 1: 11.0, 2: 5.0})
        >>> comparison.contenders()
        [0, 1]
        >>> comparison.add({0: 10.1, 1: 11.0})
        >>> comparison.contenders()
        [1]
        >>> comparison.best()
        1
    """

    def __init__(self) -> None:
        self._rounds: list[dict[int, float]] = []

    def add(self, measured: dict[int, float]) -> None:
        """Add a round: the rate of each candidate that was measured. The first round must have all of them."""
        self._rounds.append(measured)

    def drop(self, number: int) -> None:
        """Remove a candidate."""
        for measured in self._rounds:
            measured.pop(number, None)

    def rates(self) -> dict[int, float]:
        """Return the rate of each candidate: relative to that of the fastest, which was measured in all rounds."""
        fastest = self._fastest()
        if fastest < 0:
            return {}
        rate = _mean(self._logarithms(fastest))
        return {number: math.exp(rate + self._gain(number, fastest)) for number in sorted(self._rounds[0])}

    def contenders(self) -> list[int]:
        """Return the candidates that may be faster than all others by more than 1 %: one if the choice is clear."""
        fastest = self._fastest()
        error = _CERTAINTY * self._deviation() / math.sqrt(len(self._rounds))
        return [
            number
            for number in sorted(self._last())
            if number == fastest or self._gain(number, fastest) + error > _WORTH
        ]

    def best(self) -> int:
        """Return the first candidate of the last round that is at most 1 % slower than the fastest; 0 without any."""
        fastest = self._fastest()
        return next((number for number in sorted(self._last()) if self._gain(fastest, number) <= _WORTH), 0)

    def _last(self) -> dict[int, float]:
        """Return the last round that isn't empty: its candidates were measured in all rounds."""
        return next((measured for measured in reversed(self._rounds) if measured), {})

    def _fastest(self) -> int:
        """Return the fastest candidate of the last round, by its mean rate; -1 if none was measured."""
        return max(self._last(), key=lambda number: _mean(self._logarithms(number)), default=-1)

    def _gain(self, number: int, other: int) -> float:
        """Return by which part a candidate is faster than another, in the mean of the rounds of both."""
        return _mean([math.log(each[number] / each[other]) for each in self._rounds if {number, other} <= each.keys()])

    def _deviation(self) -> float:
        """Return the standard deviation of the logarithm of a ratio of two measurements of one round."""
        squares, degrees = _WEIGHT * _EXPECTED**2, _WEIGHT
        for pair in combinations(self._last(), 2):
            ratios = [math.log(each[pair[0]] / each[pair[1]]) for each in self._rounds if each]
            mean = _mean(ratios)
            squares += sum((ratio - mean) ** 2 for ratio in ratios)
            degrees += len(ratios) - 1
        return math.sqrt(squares / degrees)

    def _logarithms(self, number: int) -> list[float]:
        return [math.log(each[number]) for each in self._rounds if number in each]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
