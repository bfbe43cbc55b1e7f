"""The compiled loop that converts frames to pixels, if it was built.

Without it, swscale and OpenCV compute the same in more passes over memory.
"""

from __future__ import annotations

from dali_proxy.pipeline._native import find_compiled

compiled = find_compiled("_video")
"""The module `_native`: `convert`; None if it wasn't built."""
