"""The steps of a training run whose loss was far above the usual, with the samples of their batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy._loader.sample_log import Batch, LoggedBatches
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

_LEAST = 10  # losses before a step, without which it isn't judged
_ROWS = 10_000  # windows at a time
_NORMAL, _NORMAL_MEAN = 1.4826, 1.2533  # standard deviation of normal numbers, divided by their MAD and mean deviation
_SHOWN = 8  # dataset indices in a line of the report

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LossSpike:
    """A step whose loss was far above those before it.

    Attributes:
        step: number of the step; None if the losses have the numbers of epochs and batches.
        epoch: number of the epoch, from 0.
        batch: number of the batch in the epoch, from 0, as for `DataLoader.replay`.
        loss: the loss.
        median: median of the losses before it; NaN if there are none.
        score: distance from the median in robust standard deviations; infinite if the loss isn't finite.
        indices: dataset indices of the samples, by rank; empty for iterable datasets, which have none.
    """

    step: int | None
    epoch: int
    batch: int
    loss: float
    median: float
    score: float
    indices: Mapping[int, tuple[Any, ...]]

    def __str__(self) -> str:
        step = "" if self.step is None else f"step {self.step}: "
        usual = "" if math.isnan(self.median) else f", median before {self.median:.4g}"
        far = f", {self.score:.1f} deviations" if math.isfinite(self.score) else ""
        ranks = [f"\n  rank {rank}: {_shown(indices)}" for rank, indices in self.indices.items()]
        return f"{step}epoch {self.epoch}, batch {self.batch}: loss {self.loss:.4g}{usual}{far}{''.join(ranks)}"


class LossSpikes(tuple[LossSpike, ...]):
    """The spikes of a training run, in the order of the steps. Its text is a report."""

    __slots__ = ()

    @property
    def recurring(self) -> dict[Any, tuple[LossSpike, ...]]:
        """The spikes of each dataset index that was in the batches of several ones, the most frequent index first."""
        spikes: dict[Any, list[LossSpike]] = {}
        for spike in self:
            for index in dict.fromkeys(index for indices in spike.indices.values() for index in indices):
                spikes.setdefault(index, []).append(spike)
        several = {index: tuple(those) for index, those in spikes.items() if len(those) > 1}
        return dict(sorted(several.items(), key=lambda each: -len(each[1])))

    def __str__(self) -> str:
        if not self:
            return "no spikes"
        recurring = self.recurring
        counts = (f"{index} ({len(spikes)} times)" for index, spikes in list(recurring.items())[:_SHOWN])
        more = f" and {len(recurring) - _SHOWN} more" if len(recurring) > _SHOWN else ""
        again = f"dataset indices in several spikes: {', '.join(counts)}{more}" if recurring else ""
        worst = max(self, key=lambda spike: spike.score)
        ranks = max(worst.indices, default=0) + 1
        place = f" --rank {min(worst.indices, default=0)} --world-size {ranks}" if ranks > 1 else ""
        look = (
            f"look at the highest one, with a state that was saved in epoch {worst.epoch}: "
            f"loader.replay(state, {worst.batch}), or dali-proxy replay LOADER STATE --batch {worst.batch}{place}"
        )
        return "\n".join(line for line in (*map(str, self), again, look) if line)


def loss_spikes(
    losses: Any, sample_log: str | Path | Iterable[str | Path], *, window: int = 100, threshold: float = 6.0
) -> LossSpikes:
    """Find the steps whose loss was far above the losses before them, and the samples of their batches.

    The score of a loss is its distance from the median of the `window` losses before it, divided by 1.4826 times the
    median absolute deviation (MAD) of these losses from their median. This is the modified z-score of Iglewicz and
    Hoaglin, "How to Detect and Handle Outliers" (1993), over a running window; like there, the mean absolute deviation
    times 1.2533 replaces a MAD of 0. They advise 3.5 as the threshold for a few numbers. Training has many steps, so
    the default is higher. Losses that are NaN or infinite are spikes, and in no window. The first ten losses are not
    judged otherwise.

    Args:
        losses: a loss for each step from 0 on: a sequence, an array or a tensor. Or a mapping from steps to losses, if
            not all have been recorded. A step is a batch that the loop got, in all epochs. In a mapping, a pair
            ``(epoch, batch)`` may replace each step, for a log that doesn't begin with the training.
        sample_log: file that `DataLoader` has written (`sample_log`), or several, such as one for each node. If a
            resumed training has repeated steps, the last batch of each step counts.
        window: number of losses before a step that it is compared with, at least ten.
        threshold: score above which a loss is a spike.

    Returns:
        The spikes, in the order of the steps. Print them for a report; `recurring` has the dataset indices that were in
        several ones. `DataLoader.replay` shows what the model saw.

    Raises:
        ArgumentTypeError: `losses` isn't one of these kinds.
        ArgumentValueError: a step isn't in the log, steps can't be counted in it, or a line of it is damaged.
        OSError: a file can't be read.

    Example:
        >>> spikes = loss_spikes(losses, "samples.jsonl")  # doctest: +SKIP
        >>> print(spikes)  # doctest: +SKIP
        step 1823: epoch 2, batch 261: loss 9.1, median before 2.3, 41.7 deviations
          rank 0: 1713, 20, 55, 4096
        look at the highest one, with a state that was saved in epoch 2: loader.replay(state, 261), or dali-proxy ...
    """
    if window < _LEAST:
        raise ArgumentValueError(f"loss_spikes: window must be {_LEAST} or more, not {window}")
    if not threshold > 0:
        raise ArgumentValueError(f"loss_spikes: threshold must be more than 0, not {threshold}")
    steps, values = _by_step(losses)
    log = LoggedBatches([sample_log] if isinstance(sample_log, str | Path) else sample_log)
    batches = log.batches_of(steps)
    medians, scores = _scores(values, window)
    spikes = (
        LossSpike(
            step if isinstance(step, int) else None,
            *batch,
            loss=float(values[number]),
            median=float(medians[number]),
            score=float(scores[number]),
            indices=log.indices(batch),
        )
        for number, (step, batch) in enumerate(zip(steps, batches, strict=True))
        if scores[number] > threshold
    )
    return LossSpikes(spikes)


def _by_step(losses: Any) -> tuple[list[Any], Array]:
    """Return the steps, in order, and their losses."""
    if isinstance(losses, Mapping):
        try:
            steps = sorted(_plain_step(step) for step in losses)
            values = [losses[step] for step in steps]
        except (TypeError, ValueError, KeyError):
            raise ArgumentTypeError(
                "loss_spikes: the keys of losses must be steps, or all must be pairs (epoch, batch)"
            ) from None
    else:
        values = losses.tolist() if hasattr(losses, "tolist") else losses
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ArgumentTypeError(f"loss_spikes: losses must be numbers or a mapping, not a {type(losses).__name__}")
        values = list(values)
        steps = list(range(len(values)))
    try:
        return steps, np.array([float(value) for value in values])
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"loss_spikes: each loss must be a number: {error}") from None


def _plain_step(step: Any) -> int | Batch:
    """Return the key of a loss as Python's numbers."""
    if isinstance(step, tuple):
        epoch, batch = (int(number) for number in step)
        return epoch, batch
    return int(step)


def _scores(losses: Array, window: int) -> tuple[Array, Array]:
    """Return the median of the finite losses before each loss, and the score of each; see `loss_spikes`."""
    is_finite = np.isfinite(losses)
    finite = losses[is_finite]
    before = np.cumsum(is_finite) - is_finite  # number of finite losses before each
    medians, spreads = np.full(len(finite) + 1, np.nan), np.full(len(finite) + 1, np.nan)
    for first, rows in _windows(finite, window):
        middle = np.median(rows, axis=1)
        distances = np.abs(rows - middle[:, None])
        mad = _NORMAL * np.median(distances, axis=1)
        medians[first : first + len(rows)] = middle
        spreads[first : first + len(rows)] = np.where(mad > 0, mad, _NORMAL_MEAN * distances.mean(axis=1))
    medians, spreads = medians[before], spreads[before]
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = (losses - medians) / spreads
    scores[np.isnan(scores) | (before < _LEAST)] = 0.0  # the median itself, or too few losses
    scores[~is_finite] = np.inf
    return medians, scores


def _windows(losses: Array, window: int) -> Iterator[tuple[int, Array]]:
    """Return the losses before each one and before the end, several windows of one length at a time, and its number."""
    for end in range(1, min(window, len(losses) + 1)):
        yield end, losses[None, :end]
    if len(losses) >= window:
        windows = np.lib.stride_tricks.sliding_window_view(losses, window)
        for first in range(0, len(windows), _ROWS):
            yield window + first, windows[first : first + _ROWS]


def _shown(indices: tuple[Any, ...]) -> str:
    more = f", ... ({len(indices)} samples)" if len(indices) > _SHOWN else ""
    return ", ".join(map(str, indices[:_SHOWN])) + more
