"""Whose turn it is to decode with libnvjpeg: one batch at a time for each GPU."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy.typing as npt

from pipeline._codecs.native import compiled

__all__ = ["Turn", "nobody_trains_here", "training_beside"]

_LOCKS: dict[int, Any] = {}
_anybody_trains = True


def nobody_trains_here() -> None:
    """Note that this process is a server's: batches needn't wait for the GPU (see `Turn`)."""
    global _anybody_trains
    _anybody_trains = False


def training_beside() -> bool:
    """Tell whether there may be a training in this process."""
    return _anybody_trains


class Turn:
    """The right to use libnvjpeg on a GPU, which all decoders of a process share.

    Where a training may be in the same process, a turn lasts until the GPU has decoded the batch, not only until the
    call returns: beside a CUDA graph the GPU can stop for ever otherwise (docs/decisions-gpu.md).

    Where the C module is, threads that wait in `decode` hold no GIL and need none to begin: the next batch is in the
    engine as soon as it has finished one, whatever Python does meanwhile.

    Args:
        device_id: the CUDA device.

    Attributes:
        held: the right as a context, for calls that decode nothing. The same thread may enter it again.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self.held = _LOCKS.setdefault(device_id, compiled.HeldTurn(device_id) if compiled else threading.RLock())

    def decode(
        self,
        library: Any,
        driver: Any,
        handle: Any,
        state: Any,
        prepare: tuple[int, int] | None,
        batch: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]],
        stream: int,
        event: int,
    ) -> tuple[int, int, int]:
        """Wait for the turn, prepare a state for a batch if that is asked for, and decode the batch.

        Args:
            library: libnvjpeg.
            driver: libcuda.
            handle: libnvjpeg's handle.
            state: a state that nobody uses.
            prepare: images of the batch and output format, or None for those of the last batch.
            batch: arrays of the addresses, sizes, images and parameters.
            stream: address of the stream.
            event: address of an event to record on it and to wait for before the turn ends; 0 for not waiting.

        Returns:
            the statuses of `nvjpegDecodeBatchedInitialize`; if that is 0, of `nvjpegDecodeBatchedEx`; and of waiting.
        """
        if compiled is not None:
            functions = (
                library.nvjpegDecodeBatchedInitialize, library.nvjpegDecodeBatchedEx,
                driver.cuEventRecord, driver.cuEventSynchronize,
            )  # fmt: skip
            addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
            count, output = prepare or (0, 0)
            found: tuple[int, int, int] = compiled.decode_in_turn(
                self._device_id, *addresses, handle.value, state.value, count, output, *batch, stream, event
            )
            return found
        with self.held:
            if prepare is not None and (
                status := library.nvjpegDecodeBatchedInitialize(handle, state, prepare[0], 1, prepare[1])
            ):
                return status, 0, 0
            decoded = library.nvjpegDecodeBatchedEx(handle, state, *(array.ctypes.data for array in batch), stream)
            waited = event and (driver.cuEventRecord(event, stream) or driver.cuEventSynchronize(event))
            return 0, decoded, waited
