"""Quick starts of the processes that measure."""

from __future__ import annotations

import pytest

from benchmarks import child


@pytest.fixture(autouse=True)
def _preloaded_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children fork from a process that has imported torch."""
    monkeypatch.setattr(child, "START_METHOD", "forkserver")
