"""Check the batches of a rival against the reference of the job, before it is timed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.check import WrongOutputError
from benchmarks.comparison.job import Job
from benchmarks.comparison.rival import Batch

BATCHES = 2
SAMPLES = 12
"""Samples of each batch that are compared with the reference."""


@dataclass(frozen=True)
class Difference:
    """How far an output is from the reference: mean and largest difference."""

    mean: float
    largest: float


def check_batches(batches: Iterator[Batch], job: Job) -> list[Difference]:
    """Take the first batches, and compare indices, shapes, types and values.

    Returns:
        The difference of each output.

    Raises:
        WrongOutputError: Something is wrong, or a mean difference exceeds the job's bound.
    """
    differences: list[list[np.ndarray]] = [[] for _ in job.bounds]
    taken: list[int] = []
    for number in range(BATCHES):
        indices, outputs = next(batches)
        taken += indices.tolist()
        end = (number + 1) * job.batch_size
        expected_order = list(range(end)) if job.ordered else list(dict.fromkeys(taken))
        if taken != expected_order or len(taken) != end:
            raise WrongOutputError(f"batch {number} has the samples {indices.tolist()}")
        for position in range(0, job.batch_size, max(1, job.batch_size // SAMPLES)):
            wanted = job.reference(*job.inputs(taken[end - job.batch_size + position]))
            if len(wanted) != len(outputs):
                raise WrongOutputError(f"{len(outputs)} outputs, not {len(wanted)}")
            for output, expected, found in zip(outputs, wanted, differences, strict=True):
                made = output[position].cpu().numpy()
                if made.shape != expected.shape or made.dtype != expected.dtype:
                    raise WrongOutputError(f"{made.dtype} {made.shape}, not {expected.dtype} {expected.shape}")
                found.append(np.abs(made.astype(np.float64) - expected))
    results = []
    for found, unit, bound in zip(differences, job.units, job.bounds, strict=True):
        values = np.concatenate([each.ravel() for each in found]) * unit
        if not values.mean() <= bound:
            raise WrongOutputError(f"the mean difference is {values.mean():.3g}, more than {bound:g} {job.unit}")
        results.append(Difference(float(values.mean()), float(values.max())))
    return results
