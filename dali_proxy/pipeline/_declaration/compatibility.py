"""Scripts written for NVIDIA DALI, whose results stay DALI's."""

from __future__ import annotations

import sys


def follows_dali() -> bool:
    """Return whether this process runs a script for DALI: its `nvidia.dali` stands for this project's modules."""
    return getattr(sys.modules.get("nvidia.dali"), "stands_for_dali_proxy", False)
