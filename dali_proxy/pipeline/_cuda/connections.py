"""Connections between a process and its GPU: queues of work, which streams share if there are more streams.

A stream waits for the work of other streams in its queue. By default, a process has 8 queues. libnvjpeg uses 14 streams
for a batch, so that some of them wait behind the kernels of a training in the same process: decoding then takes as long
as several steps of the training, and delays them.

Reference: https://docs.nvidia.com/cuda/cuda-programming-guide, ``CUDA_DEVICE_MAX_CONNECTIONS``.
"""

from __future__ import annotations

import os
import sys

_VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
_DEFAULT, _ENOUGH, _MOST = 8, 16, 32


def request_connections() -> None:
    """Request as many queues as possible, unless the user has set their number, or CUDA already runs."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        os.environ.setdefault(_VARIABLE, str(_MOST))


def few_connections() -> str:
    """Return why decoding beside a training is slow in this process, as text for users; empty if it isn't.

    Example:
        >>> import os
        >>> os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"
        >>> few_connections()
        ''
    """
    value = os.environ.get(_VARIABLE, str(_DEFAULT))
    if value.isdecimal() and int(value) >= _ENOUGH:
        return ""
    return (
        f"{_VARIABLE} is {value}, so images that are decoded on the GPU of a training wait for its kernels. Import "
        f"dali_proxy before anything uses CUDA, or set {_VARIABLE}={_MOST}"
    )
