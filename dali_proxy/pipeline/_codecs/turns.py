"""Serializes decoding with libnvjpeg: one batch at a time per GPU."""

from __future__ import annotations

import ctypes
from typing import Any

from dali_proxy.pipeline._arrays import Array
from dali_proxy.pipeline._codecs.native import compiled
from dali_proxy.pipeline._concurrency.locks import Level, new_rlock

_LOCKS: dict[int, Any] = {}


class Turn:
    """A lock for libnvjpeg on one GPU, shared by all decoders of a process.

    With the C module, threads wait in `decode` without the GIL and don't need it to begin. The engine can start the
    next batch as soon as it has finished one, independently of Python code.

    Args:
        device_id: the CUDA device.

    Attributes:
        held: context that holds the lock, for calls that don't decode. It is reentrant.
    """

    def __init__(self, device_id: int) -> None:
        self._device_id = device_id
        self.held = _LOCKS.setdefault(
            device_id, compiled.HeldTurn(device_id) if compiled else new_rlock(Level.LEAF, "nvJPEG turn")
        )

    def decode(
        self,
        library: Any,
        handle: Any,
        state: Any,
        prepare: tuple[int, int] | None,
        batch: tuple[Array, Array, Array, Array],
        stream: int,
    ) -> tuple[int, int]:
        """Wait for the turn, prepare the state if requested, and decode a batch.

        Args:
            library: libnvjpeg.
            handle: handle of libnvjpeg.
            state: an idle state.
            prepare: number of images and output format, or None if the state was prepared for the same ones.
            batch: arrays of the addresses, sizes, images and parameters.
            stream: address of a stream, which must be idle.

        Returns:
            The statuses of `nvjpegDecodeBatchedInitialize`, and of `nvjpegDecodeBatchedEx` if the first is 0.
        """
        if compiled is not None:
            functions = (library.nvjpegDecodeBatchedInitialize, library.nvjpegDecodeBatchedEx)
            addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
            count, output = prepare or (0, 0)
            statuses: tuple[int, int] = compiled.decode_in_turn(
                self._device_id, *addresses, handle.value, state.value, count, output, *batch, stream
            )
            return statuses
        with self.held:
            if prepare is not None and (
                status := library.nvjpegDecodeBatchedInitialize(handle, state, prepare[0], 1, prepare[1])
            ):
                return status, 0
            return 0, library.nvjpegDecodeBatchedEx(handle, state, *(array.ctypes.data for array in batch), stream)
