"""Connections between a process and its GPU: queues of work, which streams share if there are more streams.

A stream waits for the work of other streams in its queue. By default, a process has 8 queues. libnvjpeg uses 14 streams
for a batch, so that some of them wait behind the kernels of a training in the same process: decoding then takes as long
as several steps of the training, and delays them.

`import dali_proxy` requests 16 queues, which are enough. With 32, the GPU needs 25 s to start 15 processes, and
then 60 s haven't been enough for a batch.

Reference: https://docs.nvidia.com/cuda/cuda-programming-guide, ``CUDA_DEVICE_MAX_CONNECTIONS``.
"""

from __future__ import annotations

import os

_VARIABLE = "CUDA_DEVICE_MAX_CONNECTIONS"
_DEFAULT, _ENOUGH = 8, 16


def few_connections() -> str:
    """Return why decoding beside a training is slow in this process, as text for users; empty if it isn't.

    Example:
        >>> import os
        >>> os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "16"
        >>> few_connections()
        ''
    """
    value = os.environ.get(_VARIABLE, str(_DEFAULT))
    if value.isdecimal() and int(value) >= _ENOUGH:
        return ""
    return (
        f"{_VARIABLE} is {value}, so images that are decoded on the GPU of a training wait for its kernels. Import "
        f"dali_proxy before anything uses CUDA, or set {_VARIABLE}={_ENOUGH}"
    )
