"""Operators that need torch, as in `nvidia.dali.plugin.pytorch.fn`.

Example:
    >>> from dali_proxy import torch_python_function
    >>> from pipeline import Pipeline, fn
    >>> with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
    ...     x = fn.external_source(name="x")
    ...     pipe.set_outputs(torch_python_function(x, function=lambda sample: sample + 1))
"""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._operator_api.functions import make_class, make_function
from dali_proxy.pipeline._operators.user_code.python_function import TORCH_PYTHON_FUNCTION

torch_python_function: Any = make_function(TORCH_PYTHON_FUNCTION)
"""Calls a Python function on torch tensors, as an operator of a graph."""
TorchPythonFunction: Any = make_class(TORCH_PYTHON_FUNCTION)
"""The same as a class, as in `ops`."""
