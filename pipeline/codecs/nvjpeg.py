"""Decodes batches of JPEGs on the hardware engine, with one call of libnvjpeg a batch and nothing per picture.

Binds the few functions of libnvjpeg's batched decoder (``nvjpegDecodeBatched``, documented at
https://docs.nvidia.com/cuda/nvjpeg) that nvImageCodec reaches only picture by picture.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import POINTER, byref, c_int, c_uint, c_void_p
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.codecs.missing import load_nvjpeg
from pipeline.errors import DeviceError, PipelineError
from pipeline.kernels.errors import load_cupy
from pipeline.kernels.samples import Samples
from pipeline.types import BGR, GRAY, RGB, DALIImageType

__all__ = ["NvjpegDecoder", "NvjpegError"]

_STATUS = {
    1: "not initialised",
    2: "invalid parameter",
    3: "bad JPEG",
    4: "JPEG not supported",
    5: "out of memory",
    6: "execution failed",
    7: "wrong architecture",
    8: "internal error",
    9: "not implemented",
    10: "incomplete bitstream",
}
_BACKEND_HARDWARE = 3
#: nvjpegOutputFormat_t: interleaved, except one channel.
_OUTPUTS = {RGB: 5, BGR: 6, GRAY: 2}
#: nvjpegImage_t: a pointer and a pitch for each of four planes.
_IMAGE = np.dtype([("channel", "u8", 4), ("pitch", "u8", 4)])


class NvjpegError(PipelineError):
    """A call of libnvjpeg failed: for a batch, because of at least one of its pictures."""


class NvjpegDecoder:
    """The hardware JPEG engine of one device. Any thread may call it; calls run one after the other.

    A call lasts about as long as the engine works: what else is to be done for a batch should be done by another
    thread. Two calls at once, of any states, were seen to wait for each other for ever (libnvjpeg 13.3 on an H100).

    It takes baseline JPEGs of one scan, of one or three components, without 4:1:1 and 4:1:0; a batch with anything
    else fails as a whole.

    Args:
        device_id: the CUDA device.

    Raises:
        DeviceError: when libnvjpeg is missing, or the device has no such engine.

    Example:
        >>> with NvjpegDecoder(0) as decoder:  # doctest: +SKIP
        ...     decoder.decode(pointers, lengths, target, RGB, stream)
    """

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._library = _bind(load_nvjpeg())
        self._handle: c_void_p | None = c_void_p()
        self._states: dict[int, _State] = {}
        self._lock = threading.Lock()
        with load_cupy().cuda.Device(device_id):
            status = self._library.nvjpegCreateEx(_BACKEND_HARDWARE, None, None, 0, byref(self._handle))
        if status:
            self._handle = None
            raise DeviceError(f"device {device_id} has no JPEG engine that libnvjpeg can use: {_words(status)}")

    @property
    def engines(self) -> int:
        """How many engines the device has."""
        engines, cores = c_uint(), c_uint()
        _check(
            self._library.nvjpegGetHardwareDecoderInfo(self._handle, byref(engines), byref(cores)),
            "nvjpegGetHardwareDecoderInfo",
        )
        return engines.value

    def decode(
        self,
        pointers: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        target: Samples,
        output_type: DALIImageType,
        stream: Any,
    ) -> None:
        """Decode a batch of whole JPEGs; their pixels are there in the stream's order.

        Args:
            pointers: (N,) host addresses of the JPEGs' bytes. They may change once the stream has passed this.
            lengths: (N,) their sizes in bytes.
            target: uint8 HWC pictures of the JPEGs' sizes on the device, packed pixels, rows maybe padded.
            output_type: RGB, BGR or GRAY.
            stream: `cupy.cuda.Stream` to decode on.

        Raises:
            NvjpegError: when the engine refuses the batch; which of the pictures is at fault, it doesn't say.
        """
        images = np.zeros(len(pointers), _IMAGE)
        images["channel"][:, 0] = target.pointers
        images["pitch"][:, 0] = target.strides[:, 0]
        sources = np.ascontiguousarray(pointers, np.uint64)
        sizes = np.ascontiguousarray(lengths, np.uint64)
        with self._lock, load_cupy().cuda.Device(self.device_id):
            if self._handle is None:
                raise PipelineError("the decoder is closed")
            state = self._state(stream)
            state.prepare(len(sources), _OUTPUTS[output_type])
            status = self._library.nvjpegDecodeBatched(
                self._handle, state.pointer, sources.ctypes.data, sizes.ctypes.data, images.ctypes.data, stream.ptr
            )
            if status:  # a state that has failed goes on failing
                self._states.pop(int(stream.ptr)).free()
        _check(status, "nvjpegDecodeBatched")

    def close(self) -> None:
        """Wait for the device, and free the decoder. Idempotent."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            with load_cupy().cuda.Device(self.device_id) as device:
                device.synchronize()
                for state in self._states.values():
                    state.free()
                self._states.clear()
                self._library.nvjpegDestroy(handle)

    def __enter__(self) -> NvjpegDecoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _state(self, stream: Any) -> _State:
        key = int(stream.ptr)
        if key not in self._states:
            self._states[key] = _State(self._library, self._handle)
        return self._states[key]


class _State:
    """A decoder state (nvjpegJpegState_t): intermediate buffers of the batches on one stream."""

    def __init__(self, library: Any, handle: c_void_p | None) -> None:
        self.pointer = c_void_p()
        self._library = library
        self._handle = handle
        self._prepared: tuple[int, int] | None = None
        _check(library.nvjpegJpegStateCreate(handle, byref(self.pointer)), "nvjpegJpegStateCreate")

    def prepare(self, count: int, output: int) -> None:
        """Tell libnvjpeg the size of the next batch, where it is another than the last one's."""
        if self._prepared != (count, output):
            self._prepared = None
            status = self._library.nvjpegDecodeBatchedInitialize(self._handle, self.pointer, count, 1, output)
            _check(status, "nvjpegDecodeBatchedInitialize")
            self._prepared = (count, output)

    def free(self) -> None:
        """Free it. What it was last used for may not run any more, or have failed."""
        self._library.nvjpegJpegStateDestroy(self.pointer)


def _bind(library: ctypes.CDLL) -> ctypes.CDLL:
    pointer = c_void_p
    for name, arguments in {
        "nvjpegCreateEx": [c_int, pointer, pointer, c_uint, POINTER(pointer)],
        "nvjpegDestroy": [pointer],
        "nvjpegGetHardwareDecoderInfo": [pointer, POINTER(c_uint), POINTER(c_uint)],
        "nvjpegJpegStateCreate": [pointer, POINTER(pointer)],
        "nvjpegJpegStateDestroy": [pointer],
        "nvjpegDecodeBatchedInitialize": [pointer, pointer, c_int, c_int, c_int],
        "nvjpegDecodeBatched": [pointer, pointer, pointer, pointer, pointer, pointer],
    }.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    return library


def _check(status: int, function: str) -> None:
    if status:
        raise NvjpegError(f"{function} failed: {_words(status)}")


def _words(status: int) -> str:
    return f"{_STATUS.get(status, 'unknown reason')} (status {status})"
