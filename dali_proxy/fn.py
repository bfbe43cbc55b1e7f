"""Operators that need torch, as in `nvidia.dali.plugin.pytorch.fn`.

Example:
    >>> from dali_proxy.fn import torch_python_function
    >>> from pipeline import Pipeline, fn
    >>> with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
    ...     x = fn.external_source(name="x")
    ...     pipe.set_outputs(torch_python_function(x, function=lambda samples: [s + 1 for s in samples]))
"""

from __future__ import annotations

from typing import Any

from pipeline._declaration.registry import lookup
from pipeline._operator_api.functions import make_class, make_function

__all__ = ["TorchPythonFunction", "torch_python_function"]

torch_python_function: Any = make_function(lookup("torch_python_function"))
TorchPythonFunction: Any = make_class(lookup("torch_python_function"))
