"""A log of the samples of each batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dali_proxy._loader.batches import NumberedIndices
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentTypeError, ArgumentValueError

#: The epoch of a batch, and its number in the epoch.
Batch = tuple[int, int]


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


class LoggedBatches:
    """The batches of one or several logs. If a resumed training has repeated batches, those of the last time.

    Args:
        paths: the files.

    Raises:
        ArgumentValueError: a line isn't that of a batch.
        OSError: a file can't be read.
    """

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = [*paths]
        self._places: dict[int, dict[Batch, tuple[str | Path, int]]] = {}  # file and offset, by rank and batch
        self._in_order = True
        for path in self._paths:
            with open(path, "rb") as file:
                place = 0
                for number, line in enumerate(file, 1):
                    self._add(line, (path, place), number)
                    place += len(line)

    def _add(self, line: bytes, place: tuple[str | Path, int], number: int) -> None:
        try:
            read = json.loads(line)
            batch, rank = (int(read["epoch"]), int(read["batch"])), int(read["rank"])
        except (ValueError, TypeError, KeyError):
            raise ArgumentValueError(f"{place[0]}, line {number}: not a line of a sample log") from None
        places = self._places.setdefault(rank, {})
        if batch not in places:
            self._in_order &= not places or batch > next(reversed(places))
        elif self._in_order:  # the training was resumed before this batch
            for other in [other for other in places if other >= batch]:
                del places[other]
        places[batch] = place

    def batches_of(self, steps: Sequence[Any]) -> list[Batch]:
        """Return the batches of steps.

        Args:
            steps: each is the number of a batch in the training, or its epoch and its number in the epoch.

        Raises:
            ArgumentMismatchError: steps can't be counted in this log.
            ArgumentValueError: a batch isn't in the log.
        """
        logged = sorted({batch for places in self._places.values() for batch in places})
        counted = [step for step in steps if not isinstance(step, tuple)]
        if counted and logged and (logged[0] != (0, 0) or not self._in_order):
            begin = f"begins with batch {logged[0][1]} of epoch {logged[0][0]}"
            why = begin if self._in_order else "is out of order"
            raise ArgumentMismatchError(
                f"the steps of the sample log can't be counted: it {why}. Give each loss the numbers of its batch: "
                "{(epoch, batch): loss}"
            )
        known = set(logged)
        for step in steps:
            if not (step in known if isinstance(step, tuple) else 0 <= step < len(logged)):
                what = f"batch {step[1]} of epoch {step[0]}" if isinstance(step, tuple) else f"step {step}"
                files = ", ".join(map(str, self._paths))
                raise ArgumentValueError(f"{what} isn't in the sample log ({files}), which has {len(logged)} steps")
        return [step if isinstance(step, tuple) else logged[step] for step in steps]

    def indices(self, batch: Batch) -> dict[int, tuple[Any, ...]]:
        """Return the dataset indices of a batch of each rank, by rank."""
        found = {}
        for rank, places in sorted(self._places.items()):
            if batch in places:
                path, place = places[batch]
                with open(path, "rb") as file:
                    file.seek(place)
                    indices = json.loads(file.readline())["indices"]
                if indices is not None:  # an iterable dataset has none
                    found[rank] = tuple(map(_hashable, indices if isinstance(indices, list) else [indices]))
        return found


def check_sample_log(path: str | Path | None) -> str | None:
    """Return the absolute path of a log; None for no log.

    Raises:
        ArgumentTypeError: it isn't a path.
        ArgumentValueError: it is a folder, or its folder doesn't exist.
    """
    if path is None:
        return None
    if not isinstance(path, str | os.PathLike):
        raise ArgumentTypeError(f"DataLoader: sample_log must be a path, not {type(path).__name__}")
    path = os.path.abspath(path)
    if os.path.isdir(path):
        raise ArgumentValueError(f"DataLoader: sample_log={path!r} is a folder")
    if not os.path.isdir(os.path.dirname(path)):
        raise ArgumentValueError(f"DataLoader: sample_log={path!r} is in a folder that doesn't exist")
    return path


def _plain(value: Any) -> Any:
    """Return an index of any kind as an object that JSON has."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _hashable(index: Any) -> Any:
    """Return an index as an object that a dict can have as a key."""
    return tuple(map(_hashable, index)) if isinstance(index, list) else index
