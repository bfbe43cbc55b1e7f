"""Kinds of noise in noise.cuh."""

from __future__ import annotations

from enum import Enum


class Noise(Enum):
    """Kinds of noise in noise.cuh."""

    GAUSSIAN = 0
    SALT_AND_PEPPER = 1
    SHOT = 2
