"""What decoders return: images in memory that they use again once it is released."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline._kernels.errors import load_cupy
from pipeline._kernels.samples import Samples
from pipeline.errors import SampleFailure

__all__ = ["DecodedBatch"]


class DecodedBatch:
    """Decoded images of one call, in memory that the decoder reuses after `release`.

    Args:
        samples: one uint8 HWC image a sample, rows maybe padded; where decoding failed, an image of shape
            (0, 0, C) at address 0.
        failures: what failed, by position in the batch.
        device_id: where the images are; None for the host.
        owners: what keeps each image's memory, None where it failed.
        on_release: called once, with the stream of the last use or None.
    """

    def __init__(
        self,
        samples: Samples,
        failures: tuple[SampleFailure, ...],
        device_id: int | None,
        owners: Sequence[Any],
        on_release: Callable[[Any], object],
    ) -> None:
        self.samples = samples
        self.failures = failures
        self.owners = owners
        self._device_id = device_id
        self._on_release: Callable[[Any], object] | None = on_release

    def arrays(self) -> list[Any]:
        """Return the images as CuPy arrays (NumPy arrays from a decoder without a GPU), None where one failed.

        They don't keep the memory from being reused: use them before `release`.
        """
        columns = zip(self.samples.pointers, self.samples.shapes, self.samples.strides, self.owners, strict=True)
        return [
            None if owner is None else self._array(int(p), tuple(sh), tuple(st), owner) for p, sh, st, owner in columns
        ]

    def release(self, stream: Any = None) -> None:
        """Give the memory back for later batches; call it after enqueueing the last use. Idempotent.

        The encoded bytes are let go, too: they may change once the stream has passed the decoding, not before.

        Args:
            stream: `cupy.cuda.Stream` of that use, when it isn't the one that was decoded on.
        """
        on_release, self._on_release = self._on_release, None
        if on_release is not None:
            on_release(stream)
            self.owners = ()

    def _array(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], owner: Any) -> Any:
        if self._device_id is None:
            return np.asarray(owner)
        cupy = load_cupy()
        memory = cupy.cuda.UnownedMemory(pointer, shape[0] * strides[0], owner, self._device_id)
        return cupy.ndarray(shape, np.uint8, cupy.cuda.MemoryPointer(memory, 0), strides)
