"""Checks of this machine for ``dali-proxy doctor``."""

from __future__ import annotations

from dali_proxy._doctor.check import Check
from dali_proxy._doctor.gpu import gpu_name, gpu_problem
from dali_proxy._doctor.machine import examine

__all__ = ["Check", "examine", "gpu_name", "gpu_problem"]
