"""The result of a decoder: images in memory that the decoder reuses after their release."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._cuda.errors import load_cupy
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import SampleFailure


class DecodedBatch:
    """Decoded images of one call, in memory that the decoder reuses after `release`.

    Args:
        samples: one uint8 HWC image per sample, with rows that may be padded. Where decoding failed, an image of
            shape (0, 0, C) at address 0.
        failures: samples that failed, by position in the batch.
        device_id: device of the images; None for the host.
        owners: object that owns each image's memory; None where decoding failed.
        on_release: callback, called once with the stream of the last use or None.

    Attributes:
        is_repeatable: whether an image has the same bits in every batch. False if the engine failed because of one of
            the images, or for lack of memory, and other code has decoded all of them.
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
        self.failures, self.is_repeatable = failures, True
        self.owners = owners
        self._device_id = device_id
        self._on_release: Callable[[Any], object] | None = on_release

    def arrays(self) -> list[Any]:
        """Return the images as CuPy arrays (NumPy arrays from a decoder without a GPU), None where decoding failed.

        The arrays don't prevent the reuse of their memory: use them before `release`.
        """
        columns = zip(self.samples.pointers, self.samples.shapes, self.samples.strides, self.owners, strict=True)
        return [
            None if owner is None else self._array(int(p), tuple(sh), tuple(st), owner) for p, sh, st, owner in columns
        ]

    def release(self, stream: Any = None) -> None:
        """Return the memory to the decoder; call this after enqueueing the last use. Idempotent.

        This also drops the references to the encoded bytes. They must not change until the stream has finished
        decoding.

        Args:
            stream: `cupy.cuda.Stream` of the last use, if it isn't the stream of the decoding.
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
