"""Hit rates of policies of eviction, for shuffled epochs over more values than the cache holds."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable

import numpy as np

from dali_proxy.pipeline._cache.memory_tier import OVERHEAD, MemoryTier, Part

#: Looks up a key, and adds it if it is missing; returns whether it was there.
LookUp = Callable[[int], bool]


def keep(size: int) -> LookUp:
    """Return the policy of our cache."""
    tier = MemoryTier(size * (64 + OVERHEAD))

    def look_up(key: int) -> bool:
        name = key.to_bytes(8, "little")
        if tier.find([name]) != [None]:
            return True
        blocks = tier.allocate([64])
        if blocks is not None:
            tier.promised -= 1
            tier.add(name, (Part(blocks[0], tier.address + blocks[0].offset, np.dtype(np.uint8), (64,)),), ("",))
        return False

    return look_up


def lru(size: int) -> LookUp:
    """Return the policy that evicts the least recently used value."""
    held: OrderedDict[int, None] = OrderedDict()

    def look_up(key: int) -> bool:
        found = key in held
        held[key] = None
        held.move_to_end(key)
        if len(held) > size:
            held.popitem(last=False)
        return found

    return look_up


def sieve(size: int) -> LookUp:
    """Return SIEVE (Zhang et al., NSDI 2024)."""
    held: OrderedDict[int, bool] = OrderedDict()  # whether it was used since the hand passed it; the oldest ones first
    hand: list[int] = []  # the keys that the hand hasn't passed in this turn, the next one last

    def look_up(key: int) -> bool:
        if key in held:
            held[key] = True
            return True
        while len(held) >= size:
            if not hand:
                hand.extend(reversed(held))
            oldest = hand.pop()
            if held.get(oldest):
                held[oldest] = False
            elif oldest in held:
                del held[oldest]
        held[key] = False
        return False

    return look_up


def s3_fifo(size: int) -> LookUp:
    """Return S3-FIFO (Yang et al., SOSP 2023), with a small queue of a tenth of the cache."""
    small: deque[int] = deque()
    main: deque[int] = deque()
    ghosts: OrderedDict[int, None] = OrderedDict()
    uses: dict[int, int] = {}

    def evict() -> None:
        if len(small) >= max(size // 10, 1) or not main:
            key = small.popleft()
            if uses[key] > 1:
                main.append(key)
                return
            del uses[key]
            ghosts[key] = None
            if len(ghosts) > size:
                ghosts.popitem(last=False)
            return
        key = main.popleft()
        if uses[key]:
            uses[key] -= 1
            main.append(key)
        else:
            del uses[key]

    def look_up(key: int) -> bool:
        if key in uses:
            uses[key] = min(uses[key] + 1, 3)
            return True
        while len(uses) >= size:
            evict()
        (main if key in ghosts else small).append(key)
        ghosts.pop(key, None)
        uses[key] = 0
        return False

    return look_up


POLICIES = {"keep": keep, "LRU": lru, "SIEVE": sieve, "S3-FIFO": s3_fifo}


def hit_rate(policy: Callable[[int], LookUp], share: float, values: int = 2000, epochs: int = 8) -> float:
    """Return the share of look-ups that find a value, after the first epoch.

    Args:
        policy: one of `POLICIES`.
        share: share of the values that fit.
        values: number of values.
        epochs: number of epochs.
    """
    look_up, found = policy(int(values * share)), 0
    for epoch in range(epochs):
        hits = sum(map(look_up, np.random.default_rng(epoch).permutation(values).tolist()))
        found += hits if epoch else 0
    return found / values / (epochs - 1)


def measure_policies() -> dict[str, dict[str, float]]:
    """Return the hit rate of each policy, for several sizes of the cache."""
    shares = (0.25, 0.5, 0.75, 0.9)
    return {
        name: {f"{share:.0%}": round(hit_rate(policy, share), 3) for share in shares}
        for name, policy in POLICIES.items()
    }
