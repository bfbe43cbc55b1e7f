"""Strict mode, in which faults that only cost time are errors. The tests set it."""

from __future__ import annotations

import os

STRICT = "PIPELINE_STRICT"
"""Environment variable that turns the mode on, if it is 1."""


def is_strict() -> bool:
    """Return whether the environment asks for strict mode."""
    return os.environ.get(STRICT) == "1"
