"""The benchmark of a user's own pipeline on the user's own folder, beside torch's DataLoader, with advice."""

from __future__ import annotations

from dali_proxy._benchmark.advice import Report, recommend
from dali_proxy._benchmark.trials import Bench, Configuration, Result

__all__ = ["Bench", "Configuration", "Report", "Result", "recommend"]
