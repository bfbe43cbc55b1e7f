"""What the tests of the compiler share."""

from __future__ import annotations

import pytest

from pipeline._executor.executor import Executor


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each batch run alone, so that a test knows which batches run."""
    monkeypatch.setattr(Executor, "batches_to_merge", 0)
