"""The demo: trains a small network on real images through `DALIServer`, in under two minutes on two cores.

Run it with ``dali-proxy demo``. Nothing is downloaded: the pictures are cut from photographs that the
scikit-image wheel ships, or from a DALI_extra folder that ``DALI_EXTRA_PATH`` names.
"""

from __future__ import annotations

from dali_proxy._demo.run import run_demo
from dali_proxy._demo.settings import Settings, Summary

__all__ = ["Settings", "Summary", "run_demo"]
