"""A log of the samples of each batch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dali_proxy._loader.batches import NumberedIndices
from dali_proxy.pipeline.errors import ArgumentValueError


class SampleLog:
    """Appends a line of JSON to a file for each batch. Several processes may use the same file.

    Args:
        path: the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def add(self, numbered: NumberedIndices) -> None:
        """Append the line of a batch.

        Raises:
            OSError: the file can't be written.
        """
        numbers = {"epoch": numbered.epoch, "batch": numbered.batch, "rank": numbered.rank}
        line = json.dumps({**numbers, "indices": numbered.indices}, default=_plain) + "\n"
        with open(self._path, "ab", buffering=0) as file:  # one call, so that lines of other ranks don't come between
            file.write(line.encode())


def check_sample_log(path: str | Path | None) -> str | None:
    """Return the absolute path of a log; None for no log.

    Raises:
        ArgumentValueError: its folder doesn't exist.
    """
    if path is None:
        return None
    path = os.path.abspath(path)
    if not os.path.isdir(os.path.dirname(path)):
        raise ArgumentValueError(f"DataLoader: sample_log={path!r} is in a folder that doesn't exist")
    return path


def _plain(value: Any) -> Any:
    """Return an index of any kind as an object that JSON has."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
