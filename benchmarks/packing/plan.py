"""How full packed batches are, how equal the ranks, and whether every number of ranks gets the same batches."""

from __future__ import annotations

import hashlib
import time
from itertools import islice, zip_longest
from typing import Any

import numpy as np

from benchmarks.packing.samples import Drawn, draw
from dali_proxy import PackedBatchSampler

__all__ = ["heaviest_by_count", "measure_plans"]

_RANKS = (1, 2, 4, 8)
_STOP = 37  # steps of 8 ranks before the run resumes


def measure_plans(count: int, tokens: int, seed: int = 0) -> dict[str, Any]:
    """Return padding, balance, hashes and the time of the plan of an epoch.

    Args:
        count: number of samples.
        tokens: tokens of a batch.
        seed: seed of data and orders.
    """
    drawn = draw(count, seed)
    begin = time.perf_counter()
    batches = len(_sampler(drawn, tokens, seed, 0, 1))
    seconds = time.perf_counter() - begin
    result: dict[str, Any] = {"samples": count, "tokens": tokens, "batches": batches}
    result["microseconds_per_sample"] = round(seconds / count * 1e6, 2)
    for ranks in _RANKS:
        balance = _sampler(drawn, tokens, seed, 0, ranks).balance()
        by_count = heaviest_by_count(drawn, tokens, ranks, seed)
        result[f"{ranks} ranks"] = {
            "padding": round(balance.padding, 4),
            "heaviest": [round(each, 4) for each in balance.heaviest],
            "heaviest_by_count": [round(each, 3) for each in by_count],
            "hash": _digest(drawn, tokens, seed, ranks),
        }
    result["same_batches"] = len({result[f"{ranks} ranks"]["hash"] for ranks in _RANKS}) == 1
    result["same_after_resume"] = _resumes(drawn, tokens, seed)
    return result


def _sampler(drawn: Drawn, tokens: int, seed: int, rank: int, ranks: int) -> PackedBatchSampler:
    return PackedBatchSampler(drawn.lengths, tokens, costs=drawn.patches, seed=seed, rank=rank, world_size=ranks)


def _global(samplers: list[PackedBatchSampler]) -> list[list[int]]:
    return [list(batch) for step in zip_longest(*samplers) for batch in step]


def _digest(drawn: Drawn, tokens: int, seed: int, ranks: int) -> str:
    batches = _global([_sampler(drawn, tokens, seed, rank, ranks) for rank in range(ranks)])
    return hashlib.sha256(repr(batches).encode()).hexdigest()[:16]


def _resumes(drawn: Drawn, tokens: int, seed: int) -> bool:
    """Return whether the batches after a stop of 8 ranks are the same with any number of ranks."""
    expected = _global([_sampler(drawn, tokens, seed, 0, 1)])
    stopped = _sampler(drawn, tokens, seed, 0, 8)
    for _ in islice(stopped, _STOP):
        pass
    state = stopped.state_dict()
    for ranks in _RANKS:
        samplers = [_sampler(drawn, tokens, seed, rank, ranks) for rank in range(ranks)]
        for sampler in samplers:
            sampler.load_state_dict(state)
        if _global(samplers) != expected[8 * _STOP :]:
            return False
    return True


def heaviest_by_count(drawn: Drawn, tokens: int, ranks: int, seed: int) -> tuple[float, float]:
    """Return the heaviest rank relative to the mean with the same number of samples in each batch."""
    size = max(1, int(tokens / drawn.lengths.mean()))
    order = np.random.default_rng(seed).permutation(len(drawn.lengths))
    steps = order[: len(order) // (size * ranks) * size * ranks].reshape(-1, ranks, size)
    tokens_of, patches_of = (values[steps].sum(axis=2) for values in (drawn.lengths, drawn.patches))
    worst = [(sums.max(axis=1) / np.maximum(sums.mean(axis=1), 1)).mean() for sums in (tokens_of, patches_of)]
    return float(worst[0]), float(worst[1])
