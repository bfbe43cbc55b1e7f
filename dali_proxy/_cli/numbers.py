"""Numbers on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

_Number = TypeVar("_Number", int, float)


def number(low: _Number, high: _Number | None = None) -> Callable[[str], _Number]:
    """Return a function for argparse that reads a number of the type of `low`, from `low` to `high`."""

    def read(text: str) -> _Number:
        value = type(low)(text)
        if high is not None and not low <= value <= high:
            raise argparse.ArgumentTypeError(f"must be from {low} to {high}, not {text}")
        if not low <= value:
            raise argparse.ArgumentTypeError(f"must be {low} or more, not {text}")
        return value

    read.__name__ = type(low).__name__  # argparse names it if the text isn't a number
    return read
