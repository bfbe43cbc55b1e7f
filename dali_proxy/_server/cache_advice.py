"""Advice on the cache of decoded samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dali_proxy._server.counters import Counters

_DECODES = 0.3  # share of the processor time of all operators that a cache may save, from which it may help
_LEAST = 1.0  # seconds of that time that are enough to know it
_MUCH = 0.9  # share of samples that the cache has if it has almost all


def advise_cache(stats: Counters) -> str:
    """Return a sentence or two for users: what the cache saves, and which size would save more.

    Without a cache, they say whether one may help; empty if not.
    """
    if not stats.cache_limit:
        return _advise_without(stats)
    used = f"{_gigabytes(stats.cache_bytes)} of {_gigabytes(stats.cache_limit)} are in use"
    looked_up = stats.cache_hits + stats.cache_misses
    if not looked_up:
        return f"The cache wasn't used: {used}."
    found = stats.cache_hits / looked_up
    text = f"{found:.0%} of {looked_up:,} samples came from the cache, which saved {stats.cache_seconds_saved:.1f} s"
    if not stats.cache_hits:
        text = "The cache has had no sample twice so far"
    if not stats.cache_refused:
        return f"{text}; {used}."
    # Each epoch finds what is in the cache and refuses the rest.
    needed = stats.cache_bytes * (stats.cache_hits + stats.cache_refused) / max(stats.cache_hits, 1)
    hint = f" About {_gigabytes(needed)} would hold all." if stats.cache_hits and found < _MUCH else ""
    return f"{text}; it is full with {_gigabytes(stats.cache_bytes)}.{hint}"


def _advise_without(stats: Counters) -> str:
    total = sum(times.seconds for times in stats.operators.values())
    share = sum(times.seconds for times in stats.operators.values() if times.cacheable) / max(total, _LEAST)
    if total < _LEAST or share < _DECODES or not stats.cacheable_bytes:
        return ""
    known = stats.samples - stats.repeated
    needed = _gigabytes(stats.cacheable_bytes * known)
    if stats.repeated:
        return (
            f"{share * stats.repeated / stats.samples:.0%} of the operators' processor time decodes {known:,} samples "
            f"that were decoded before: {needed} would hold them, see DALIServer(cache=...)."
        )
    return (
        f"{share:.0%} of the operators' processor time decodes. If epochs or jobs repeat the {known:,} samples so far, "
        f"{needed} would hold them, see DALIServer(cache=...)."
    )


def _gigabytes(count: float) -> str:
    return f"{count / (1 << 30):.1f} GB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MB"
