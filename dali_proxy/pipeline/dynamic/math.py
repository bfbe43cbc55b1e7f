"""Mathematical functions of tensors and batches. Functions with real results convert integers to float32.

Example:
    >>> from dali_proxy import dynamic
    >>> dynamic.math.clamp(dynamic.tensor([-1, 300]), 0, 255).numpy().tolist()
    [0, 255]
"""

from __future__ import annotations

from dali_proxy.pipeline import math as _math
from dali_proxy.pipeline._dynamic.functions import make_math_function

_functions = {name: make_math_function(getattr(_math, name)) for name in _math.__all__}
globals().update(_functions)
__all__ = sorted(_functions)
