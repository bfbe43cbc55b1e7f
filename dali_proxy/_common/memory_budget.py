"""The memory that a process may use for more workers and threads: its share of what is free."""

from __future__ import annotations

from dali_proxy.pipeline._executor.available_memory import available_memory
from dali_proxy.pipeline._ranks import current_ranks

_RESERVE = 512 << 20  # bytes that stay free


def fitting(nbytes: int) -> int:
    """Return how many more workers or threads of a size fit into this rank's share of the free memory.

    Args:
        nbytes: memory of one of them.

    Returns:
        The number; negative if so many should end.
    """
    return (available_memory() - _RESERVE) // current_ranks().local_world_size // nbytes
