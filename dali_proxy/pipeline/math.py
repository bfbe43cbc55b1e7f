"""Mathematical functions of data nodes, sample by sample. Functions with real results convert integers to float32.

Example:
    >>> from dali_proxy.pipeline import fn, math
    >>> math.clamp(fn.external_source(name="x"), 0, 255).device
    'cpu'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dali_proxy.pipeline._catalog  # noqa: F401 - the functions are operators, also for a script that imports nothing else
from dali_proxy.pipeline._graph.nodes import DataNode, combine

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "clamp",
    "cos",
    "cosh",
    "exp",
    "fabs",
    "floor",
    "fpow",
    "log",
    "log2",
    "log10",
    "max",
    "min",
    "pow",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


def _function(name: str, operands: str, doc: str) -> Callable[..., DataNode]:
    count = len(operands.split())

    def function(*inputs: Any) -> DataNode:
        if len(inputs) != count:
            raise TypeError(f"math.{name}() takes {count} operands ({operands}), but {len(inputs)} were given")
        return combine(name, inputs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}\n\nOperands: {operands}; data nodes or constants."
    return function


abs = _function("abs", "x", "Absolute value, in the dtype of the operand.")
acos = _function("acos", "x", "Arc cosine, in radians.")
acosh = _function("acosh", "x", "Inverse hyperbolic cosine.")
asin = _function("asin", "x", "Arc sine, in radians.")
asinh = _function("asinh", "x", "Inverse hyperbolic sine.")
atan = _function("atan", "x", "Arc tangent, in radians.")
atan2 = _function("atan2", "y x", "Angle of the point (x, y), in radians.")
atanh = _function("atanh", "x", "Inverse hyperbolic tangent.")
cbrt = _function("cbrt", "x", "Cube root.")
ceil = _function("ceil", "x", "Smallest integer that isn't less than the operand.")
clamp = _function("clamp", "x low high", "The value, clamped to the range from low to high.")
cos = _function("cos", "x", "Cosine of an angle in radians.")
cosh = _function("cosh", "x", "Hyperbolic cosine.")
exp = _function("exp", "x", "e to the power of the operand.")
fabs = _function("fabs", "x", "Absolute value, as a float.")
floor = _function("floor", "x", "Largest integer that isn't greater than the operand.")
fpow = _function("fpow", "base exponent", "Power, as a float.")
log = _function("log", "x", "Natural logarithm.")
log10 = _function("log10", "x", "Decimal logarithm.")
log2 = _function("log2", "x", "Binary logarithm.")
max = _function("max", "a b", "The larger of two values.")
min = _function("min", "a b", "The smaller of two values.")
pow = _function("pow", "base exponent", "Power, in the common dtype of the operands.")
rsqrt = _function("rsqrt", "x", "One divided by the square root.")
sin = _function("sin", "x", "Sine of an angle in radians.")
sinh = _function("sinh", "x", "Hyperbolic sine.")
sqrt = _function("sqrt", "x", "Square root.")
tan = _function("tan", "x", "Tangent of an angle in radians.")
tanh = _function("tanh", "x", "Hyperbolic tangent.")
