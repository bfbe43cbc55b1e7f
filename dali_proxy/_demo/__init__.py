"""The demo: a small network trains on real images through DALIServer, in under two minutes on two cores.

Run it with ``dali-proxy demo``. It downloads nothing: it cuts the images from photographs of the scikit-image wheel,
or of a DALI_extra folder that ``DALI_EXTRA_PATH`` names.
"""

from __future__ import annotations

from dali_proxy._demo.run import run_demo
from dali_proxy._demo.settings import Settings, Summary

__all__ = ["Settings", "Summary", "run_demo"]
