"""State that the sections of one session share: setup, time budget, and messages."""

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
    """Remove this machine's file paths from a traceback: results are published."""
    return _FOLDERS.sub("", text)


@dataclass
class Session:
    """One execution of all sections.

    Attributes:
        setup: Folder, batch size, workers, threads and device; each section changes the fields that it varies.
        rounds: Measurements of each rival.
        seconds: Duration of one measurement.
        budget: Time budget, after which no measurement starts.
        say: Called with progress messages.
        failures: Tracebacks, by the failed measurement.
    """

    setup: Setup
    rounds: int
    seconds: float
    budget: Budget
    say: Callable[[str], None] = print
    failures: dict[str, str] = field(default_factory=dict)

    def of_kind(self, kind: str, **changes: Any) -> Setup:
        """Return the setup of one kind of input, with the given fields changed."""
        return replace(self.setup, kind=kind, **changes)

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Isolate other measurements from a failure of this one: print it, and add its traceback to the JSON."""
        try:
            yield
        except Exception:  # noqa: BLE001  # the other measurements continue after any error
            self.fail(what, traceback.format_exc())

    def fail(self, what: str, text: str) -> None:
        """Record a failure."""
        self.failures[what] = without_paths(text)
        self.say(f"  FAILED: {what}: {text.strip().splitlines()[-1]}")
