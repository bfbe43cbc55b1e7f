"""Environment of the processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["ROOT", "with_project"]

ROOT = Path(__file__).resolve().parent.parent


def with_project(**more: str) -> dict[str, str]:
    """Return this process's variables and `more`, with which Python imports this project, not an installed one."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}
