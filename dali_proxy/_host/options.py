"""How a host runs."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["HostOptions"]


@dataclass(frozen=True)
class HostOptions:
    """How a host runs.

    Attributes:
        path: of the socket that it listens at; the directory is there and private.
        key: what clients must know.
        server: token of this start.
        unclaimed_bytes: most memory of results that nobody may want any more; the oldest are dropped.
        arena_bytes_limit: most shared memory for the samples of one worker.
        is_half: whether the pipeline is the first half of one, and consumers run the second.
        planned_half: the second half, as `Pipeline.serialize_for_host` made it, if the host plans what it does on the
            GPU; else empty.
    """

    path: str
    key: bytes = field(repr=False)
    server: bytes
    unclaimed_bytes: int = 2 << 30
    arena_bytes_limit: int = 1 << 40
    is_half: bool = False
    planned_half: bytes = field(default=b"", repr=False)
