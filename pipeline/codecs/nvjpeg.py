"""Decodes batches of JPEGs on the hardware engine, with one call of libnvjpeg a batch and nothing per picture.

Binds the few functions of libnvjpeg's batched decoder (``nvjpegDecodeBatchedEx``, documented at
https://docs.nvidia.com/cuda/nvjpeg) that nvImageCodec reaches only picture by picture.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from ctypes import POINTER, byref, c_int, c_uint, c_void_p
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.codecs.joined_calls import JoinedCalls
from pipeline.codecs.missing import load_nvjpeg
from pipeline.codecs.native import compiled
from pipeline.errors import DeviceError, PipelineError
from pipeline.kernels.errors import cuda_call, load_cupy, require_device
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
#: By device: a graph or a process may have several decoders, and calls of all of them must follow each other.
_TURNS: dict[int, threading.Lock] = {}
#: Pictures of one call, of several batches: more bring nothing.
MOST_PICTURES = 512


class NvjpegError(PipelineError):
    """A call of libnvjpeg failed: for a batch, because of at least one of its pictures."""


class NvjpegDecoder:
    """The hardware JPEG engine of one device. Any thread may call it; calls, of all decoders, run one after the other.

    A call lasts about as long as the engine works: what else is to be done for a batch should be done by another
    thread. Batches of threads that wait meanwhile are decoded by one call. Two calls at once, of any states, were seen
    to wait for each other for ever (libnvjpeg 13.3 on an H100).

    It takes baseline JPEGs of one scan, of one or three components, without 4:1:1 and 4:1:0; a batch with anything
    else fails as a whole.

    Args:
        device_id: the CUDA device.

    Raises:
        DeviceError: when libnvjpeg is missing or too old, CuPy or the device is missing, or it has no such engine.

    Example:
        >>> with NvjpegDecoder(0) as decoder:  # doctest: +SKIP
        ...     decoder.decode(pointers, lengths, starts, target, RGB, stream)
    """

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._library = _bind(load_nvjpeg())
        require_device(device_id)
        self._handle: c_void_p | None = c_void_p()
        self._states: dict[int, _State] = {}
        self._made: dict[int, npt.NDArray[np.uint64]] = {}  # nvjpegDecodeParams_t, by output format
        self._turn = _TURNS.setdefault(device_id, threading.Lock())
        self._calls = JoinedCalls(self._turn, self._decode, _fit)
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
        starts: npt.NDArray[np.int64],
        target: Samples,
        output_type: DALIImageType,
        stream: Any,
    ) -> None:
        """Decode windows of a batch of JPEGs; their pixels are there in the stream's order.

        Args:
            pointers: (N,) host addresses of the JPEGs' bytes. They may change once the stream has passed this. From
                pinned memory, decoding is a third faster.
            lengths: (N,) their sizes in bytes.
            starts: (N, 2), the first row and column of each window.
            target: uint8 HWC pictures of the windows' sizes on the device, packed pixels, rows maybe padded. The
                windows lie in their JPEGs: this is not checked.
            output_type: RGB, BGR or GRAY.
            stream: `cupy.cuda.Stream` to decode on.

        Raises:
            NvjpegError: when the engine refuses the batch; which of the pictures is at fault, it doesn't say.
        """
        self._calls(_Call(pointers, lengths, starts, target, output_type, stream))

    def _decode(self, calls: Sequence[_Call]) -> None:
        """Decode batches with one call, on the stream of the first. The turn is the caller's."""
        stream, output = calls[0].stream, _OUTPUTS[calls[0].output_type]
        others = {int(call.stream.ptr): call.stream for call in calls if call.stream.ptr != stream.ptr}
        images = np.zeros(sum(len(call.pointers) for call in calls), _IMAGE)
        images["channel"][:, 0] = np.concatenate([call.target.pointers for call in calls])
        images["pitch"][:, 0] = np.concatenate([call.target.strides[:, 0] for call in calls])
        sources = np.concatenate([call.pointers for call in calls]).astype(np.uint64)
        sizes = np.concatenate([call.lengths for call in calls]).astype(np.uint64)
        starts = np.concatenate([call.starts for call in calls])
        shapes = np.concatenate([call.target.shapes for call in calls])
        with load_cupy().cuda.Device(self.device_id):
            if self._handle is None:
                raise PipelineError("the decoder is closed")
            for other in others.values():
                _follow(stream, other)
            state = self._state(stream)
            try:
                state.prepare(len(sources), output)
                parameters = self._parameters(output, starts, shapes)
                status = self._library.nvjpegDecodeBatchedEx(
                    self._handle, state.pointer, sources.ctypes.data, sizes.ctypes.data, images.ctypes.data,
                    parameters.ctypes.data, stream.ptr,
                )  # fmt: skip
                _check(status, "nvjpegDecodeBatchedEx")
            except NvjpegError:  # a state that has failed goes on failing
                with cuda_call("cudaStreamSynchronize"):
                    stream.synchronize()  # earlier batches may use it still
                self._states.pop(int(stream.ptr)).free()
                raise
            for other in others.values():
                _follow(other, stream)

    def close(self) -> None:
        """Wait for the device, and free the decoder. Idempotent."""
        with self._turn:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            with load_cupy().cuda.Device(self.device_id) as device:
                device.synchronize()
                for state in self._states.values():
                    state.free()
                self._states.clear()
                for made in self._made.values():
                    for parameters in made.tolist():
                        self._library.nvjpegDecodeParamsDestroy(parameters)
                self._made.clear()
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

    def _parameters(
        self, output: int, starts: npt.NDArray[np.int64], shapes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint64]:
        """Return the parameters of as many windows; they are good until the next call."""
        made = self._made.get(output, np.empty(0, np.uint64))
        if len(made) < len(starts):
            more = [self._make_parameters(output) for _ in range(len(starts) - len(made))]
            made = self._made[output] = np.concatenate([made, np.array(more, np.uint64)])
        regions = np.concatenate([starts[:, ::-1], shapes[:, 1::-1]], axis=1).astype(np.int32)  # x, y, width, height
        _check(_set_regions(self._library.nvjpegDecodeParamsSetROI, made, regions), "nvjpegDecodeParamsSetROI")
        return made

    def _make_parameters(self, output: int) -> int:
        made = c_void_p()
        _check(self._library.nvjpegDecodeParamsCreate(self._handle, byref(made)), "nvjpegDecodeParamsCreate")
        _check(self._library.nvjpegDecodeParamsSetOutputFormat(made, output), "nvjpegDecodeParamsSetOutputFormat")
        assert made.value is not None
        return made.value


@dataclass(frozen=True)
class _Call:
    """The arguments of `NvjpegDecoder.decode`."""

    pointers: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    target: Samples
    output_type: DALIImageType
    stream: Any


def _fit(calls: Sequence[_Call]) -> bool:
    pictures = sum(len(call.pointers) for call in calls)
    return pictures <= MOST_PICTURES and len({call.output_type for call in calls}) == 1


def _follow(stream: Any, other: Any) -> None:
    """Have a stream wait for what was issued on another one so far."""
    with cuda_call("cudaStreamWaitEvent"):
        event = load_cupy().cuda.Event(disable_timing=True)
        event.record(other)
        stream.wait_event(event)


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


def _set_regions(function: Any, parameters: npt.NDArray[np.uint64], regions: npt.NDArray[np.int32]) -> int:
    """Call nvjpegDecodeParamsSetROI for each region; returns the first status that is no success."""
    if compiled is not None:
        address = ctypes.cast(function, c_void_p).value
        return int(compiled.set_regions(address, parameters, regions))
    rows = zip(parameters.tolist(), regions.tolist(), strict=False)
    return next((status for one, region in rows if (status := function(one, *region))), 0)


def _bind(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions that are called.

    Raises:
        DeviceError: when the library is too old to have them.
    """
    pointer = c_void_p
    for name, arguments in {
        "nvjpegCreateEx": [c_int, pointer, pointer, c_uint, POINTER(pointer)],
        "nvjpegDestroy": [pointer],
        "nvjpegGetHardwareDecoderInfo": [pointer, POINTER(c_uint), POINTER(c_uint)],
        "nvjpegJpegStateCreate": [pointer, POINTER(pointer)],
        "nvjpegJpegStateDestroy": [pointer],
        "nvjpegDecodeBatchedInitialize": [pointer, pointer, c_int, c_int, c_int],
        "nvjpegDecodeBatchedEx": [pointer] * 7,
        "nvjpegDecodeParamsCreate": [pointer, POINTER(pointer)],
        "nvjpegDecodeParamsDestroy": [pointer],
        "nvjpegDecodeParamsSetOutputFormat": [pointer, c_int],
        "nvjpegDecodeParamsSetROI": [pointer, c_int, c_int, c_int, c_int],
    }.items():
        function = getattr(library, name, None)
        if function is None:
            raise DeviceError(f"libnvjpeg is too old: it has no {name}")
        function.argtypes, function.restype = arguments, c_int
    return library


def _check(status: int, function: str) -> None:
    if status:
        raise NvjpegError(f"{function} failed: {_words(status)}")


def _words(status: int) -> str:
    return f"{_STATUS.get(status, 'unknown reason')} (status {status})"
