"""Switches on the check of the order of locks, for the tests and all processes that they start.

Import this before any module of the packages: locks are created on import.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["REPORT_VARIABLE", "take_report"]

os.environ.setdefault("DALI_PROXY_DEBUG_LOCKS", "1")  # 0 runs the tests without the check

REPORT_VARIABLE = "DALI_PROXY_LOCK_REPORT"
"""Environment variable with the path of the file that all these processes report to."""


def take_report() -> str:
    """Return the errors since the last call. Code may have swallowed them, in any process."""
    path = Path(os.environ[REPORT_VARIABLE])
    try:
        report = path.read_text()
    except FileNotFoundError:
        return ""
    path.unlink()
    return report
