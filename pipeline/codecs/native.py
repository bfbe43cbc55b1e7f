"""The compiled walk through headers of JPEGs, where it was built."""

from __future__ import annotations

from pipeline.native import find_compiled

__all__ = ["compiled"]

compiled = find_compiled("codecs")
"""The module `_native`: `headers`; None where it isn't there."""
