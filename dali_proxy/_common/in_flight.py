"""The number of batches in flight in a stage, and its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InFlight:
    """Number of batches in flight in one stage.

    Attributes:
        batches: largest number at present.
        reason: what limits it, as text for users.
    """

    batches: int
    reason: str
