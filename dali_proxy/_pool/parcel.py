"""A pickled batch on its way from a dataset worker to a training process, in one piece of memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy._cluster.batch_pickle import dumps, loads
from dali_proxy._transport.protocol import BatchRead
from dali_proxy.pipeline._ipc.arena import ALIGNMENT
from dali_proxy.pipeline._ipc.memory import SharedBlock

_INLINE = 1 << 16  # bytes that the message contains: separate memory would take longer

Bytes = npt.NDArray[np.uint8]


def send_batch(number: int, batch: object) -> tuple[BatchRead, SharedBlock | None]:
    """Return the message with a batch, any object, and the shared memory whose descriptor goes with it, if it is large.

    Large arrays and tensors are copied once.
    """
    data, buffers = dumps(batch)
    parts = [np.frombuffer(data, np.uint8), *buffers]
    lengths = tuple(part.nbytes for part in parts)
    offsets, nbytes = _layout(lengths)
    block = None if nbytes <= _INLINE else SharedBlock.create(nbytes)
    memory = np.zeros(nbytes, np.uint8) if block is None else block.array
    for offset, part in zip(offsets, parts, strict=True):
        memory[offset : offset + part.nbytes] = part
    return BatchRead(number=number, lengths=lengths, data=memory.tobytes() if block is None else b""), block


def open_batch(message: BatchRead, fds: Sequence[int]) -> tuple[Any, int]:
    """Return the batch of a message, and its size. Owns the descriptors."""
    offsets, nbytes = _layout(message.lengths)
    if fds:
        block = SharedBlock.attach(fds[0], nbytes)
        memory = block.array
        block.close()
    else:
        memory = np.frombuffer(bytearray(message.data), np.uint8)
    parts = [memory[offset : offset + length] for offset, length in zip(offsets, message.lengths, strict=True)]
    return loads(parts[0].tobytes(), parts[1:]), nbytes


def _layout(lengths: Sequence[int]) -> tuple[list[int], int]:
    """Return the offsets of parts with these lengths, and the size of all."""
    *offsets, nbytes = accumulate((-(-length // ALIGNMENT) * ALIGNMENT for length in lengths), initial=0)
    return offsets, nbytes
