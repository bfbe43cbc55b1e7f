"""Transforms as functions: of PIL images, torch tensors, and tensors and batches of dynamic mode.

Example:
    >>> from PIL import Image
    >>> from dali_proxy.torchvision import functional
    >>> functional.resize(Image.new("RGB", (80, 60)), 20).size
    (26, 20)
"""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._torchvision import color, conversion, elastic, geometry

_names: dict[str, Any] = {
    **{name: getattr(module, name) for module in (color, geometry) for name in module.__all__},
    "elastic": elastic.elastic,
    **{name: getattr(conversion, name) for name in conversion.__all__ if name.islower()},
}
_names["to_grayscale"] = _names["rgb_to_grayscale"]
globals().update(_names)
__all__: list[str] = []
__all__ += sorted(_names)
