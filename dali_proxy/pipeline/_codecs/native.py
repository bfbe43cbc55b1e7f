"""The compiled loops over the images of a batch, if they were built."""

from __future__ import annotations

from dali_proxy.pipeline._native import find_compiled

compiled = find_compiled("_codecs")
"""The module `_native`: `headers`, `set_regions` and turns; None if it wasn't built."""
