"""Advice for values that a pipeline doesn't accept."""

from __future__ import annotations

import os
from typing import Any


def advice(value: Any) -> str:
    """Return advice for a sample that holds no numbers.

    Example:
        >>> advice(open(os.devnull, "rb"))
        "pass the content of the file, file.read(), opened in mode 'rb'"
    """
    if isinstance(value, str):
        return "for a file, pass its content, or for io.file.read or io.video its path as bytes, os.fsencode(path)"
    if isinstance(value, os.PathLike):
        return (
            "pass the content, path.read_bytes(), or for io.file.read or io.video its path as bytes, os.fsencode(path)"
        )
    if callable(getattr(value, "read", None)):
        return "pass the content of the file, file.read(), opened in mode 'rb'"
    if hasattr(value, "dtype"):
        return "convert it to an array of numbers"
    return "pass bytes, numbers, a NumPy array, a torch tensor on the CPU or a PIL image"
