"""What the parts of one session share: its setup, its time, and what it says."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.gpu.budget import Budget
from benchmarks.workload import Setup

_FOLDERS = re.compile(r'(?<=File ")/[^"]*/(?=(?:site-packages|python3[.0-9]*|benchmarks|dali_proxy|pipeline)/)')


def without_paths(text: str) -> str:
    """Takes from a traceback where this machine keeps its files: results are published."""
    return _FOLDERS.sub("", text)


@dataclass
class Session:
    """One run of all parts.

    Attributes:
        setup: Folder, batch size, workers, threads and device; every part changes what it varies.
        rounds: Measurements of each rival.
        seconds: Length of one.
        budget: When nothing starts any more.
        say: Told what is being done.
        failures: Tracebacks, by what failed.
    """

    setup: Setup
    rounds: int
    seconds: float
    budget: Budget
    say: Callable[[str], None] = print
    failures: dict[str, str] = field(default_factory=dict)

    def of_kind(self, kind: str, **changes: Any) -> Setup:
        """The setup of one kind of input, with some fields changed."""
        return replace(self.setup, kind=kind, **changes)

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Keeps a failure of one measurement from the others: it is printed, and its traceback goes into the JSON."""
        try:
            yield
        except Exception:  # noqa: BLE001  # whatever it is, the other measurements go on
            self.fail(what, traceback.format_exc())

    def fail(self, what: str, text: str) -> None:
        """Notes a failure."""
        self.failures[what] = without_paths(text)
        self.say(f"  FAILED: {what}: {text.strip().splitlines()[-1]}")
