"""What tests give to the processes that they start."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["ROOT", "with_project"]

ROOT = Path(__file__).resolve().parent.parent


def with_project(**more: str) -> dict[str, str]:
    """Return the variables of this process and others, by which Python finds this project before an installed one."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, **more}
