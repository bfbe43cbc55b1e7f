"""Decodes batches of JPEGs on the hardware engine, with one call of libnvjpeg a batch and nothing per image.

Binds the few functions of libnvjpeg's batched decoder (``nvjpegDecodeBatchedEx``, documented at
https://docs.nvidia.com/cuda/nvjpeg) that nvImageCodec reaches only image by image.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_int, c_uint, c_void_p
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._codecs.missing import load_nvjpeg
from pipeline._codecs.native import compiled
from pipeline._codecs.turns import Turn, training_beside
from pipeline._kernels.errors import CudaError, cuda_call, load_cupy, require_device
from pipeline._kernels.samples import Samples
from pipeline.errors import DeviceError, PipelineError
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
    """A call of libnvjpeg failed: for a batch, because of at least one of its images."""


class NvjpegDecoder:
    """The hardware JPEG engine of one device. Any thread may call it; calls, of all decoders, run one after the other.

    A call lasts about as long as the engine works: what else is to be done for a batch should be done by another
    thread, so that the next call has been prepared when one ends. Two calls at once, of any states, were seen to wait
    for each other for ever, and so was a call beside a training that replays a CUDA graph (libnvjpeg 13.3 on an H100):
    where a training may be in this process, a call begins on an idle stream and lasts until the batch is decoded.

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
        self._library, self._driver = _bind(load_nvjpeg()), _bind_driver()
        require_device(device_id)
        self._handle: c_void_p | None = c_void_p()
        self._turn = Turn(device_id)
        self._idle: dict[int, list[_Decoding]] = {}  # by the stream's address
        self._users = 0
        self._changed = threading.Condition()
        with load_cupy().cuda.Device(device_id), self._turn.held:
            status = self._library.nvjpegCreateEx(_BACKEND_HARDWARE, None, None, 0, byref(self._handle))
        if status:
            self._handle = None
            raise DeviceError(f"device {device_id} has no JPEG engine that libnvjpeg can use: {_words(status)}")

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
            target: uint8 HWC images of the windows' sizes on the device, packed pixels, rows maybe padded. The
                windows lie in their JPEGs: this is not checked.
            output_type: RGB, BGR or GRAY.
            stream: `cupy.cuda.Stream` to decode on.

        Raises:
            NvjpegError: when the engine refuses the batch; which of the images is at fault, it doesn't say.
            CudaError: when CUDA fails.
        """
        images = np.zeros(len(pointers), _IMAGE)
        images["channel"][:, 0] = target.pointers
        images["pitch"][:, 0] = target.strides[:, 0]
        sources = np.ascontiguousarray(pointers, np.uint64)
        sizes = np.ascontiguousarray(lengths, np.uint64)
        with load_cupy().cuda.Device(self.device_id), self._use() as handle:
            decoding = self._take(handle, stream)
            try:
                decoding.decode(sources, sizes, images, starts, target.shapes, _OUTPUTS[output_type], stream)
            except NvjpegError:  # a state that has failed goes on failing
                with cuda_call("cudaStreamSynchronize"):
                    stream.synchronize()  # earlier batches may use it still
                decoding.free()
                raise
            self._idle.setdefault(int(stream.ptr), []).append(decoding)

    def close(self) -> None:
        """Wait for calls and for the device, and free the decoder, unless the device is in error. Idempotent."""
        with self._changed:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            self._changed.wait_for(lambda: not self._users)
        # Of a GPU in error nothing can be freed any more, and whoever closes has other things to end.
        with suppress(CudaError), cuda_call("cudaDeviceSynchronize"), load_cupy().cuda.Device(self.device_id) as device:
            device.synchronize()
            for decodings in self._idle.values():
                for decoding in decodings:
                    decoding.free()
            self._idle.clear()
            with self._turn.held:
                self._library.nvjpegDestroy(handle)

    def __enter__(self) -> NvjpegDecoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _use(self) -> Iterator[c_void_p]:
        """Keep it open meanwhile, also when `close` comes."""
        with self._changed:
            handle = self._handle
            if handle is None:
                raise PipelineError("the decoder is closed")
            self._users += 1
        try:
            yield handle
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def _take(self, handle: c_void_p, stream: Any) -> _Decoding:
        """Return what nobody decodes with, of those that were used on a stream: its order keeps batches apart."""
        idle = self._idle.get(int(stream.ptr))
        with suppress(IndexError):
            if idle is not None:
                return idle.pop()
        return _Decoding(self._library, self._driver, handle, self._turn)


class _Decoding:
    """What one call of the engine needs: a state (nvjpegJpegState_t), parameters of windows, maybe an event."""

    def __init__(self, library: Any, driver: Any, handle: c_void_p, turn: Turn) -> None:
        self._library, self._driver = library, driver
        self._handle = handle
        self._turn = turn
        self._state = c_void_p()
        self._prepared: tuple[int, int] | None = None
        self._made: dict[int, npt.NDArray[np.uint64]] = {}  # nvjpegDecodeParams_t, by output format
        self._event = load_cupy().cuda.Event(block=True, disable_timing=True) if training_beside() else None
        with turn.held:
            _check(library.nvjpegJpegStateCreate(handle, byref(self._state)), "nvjpegJpegStateCreate")

    def decode(
        self,
        sources: npt.NDArray[np.uint64],
        sizes: npt.NDArray[np.uint64],
        images: npt.NDArray[Any],
        starts: npt.NDArray[np.int64],
        shapes: npt.NDArray[np.int64],
        output: int,
        stream: Any,
    ) -> None:
        """Decode a batch. Arguments as those of `NvjpegDecoder.decode`.

        Raises:
            NvjpegError: a call failed; it is to be freed then.
            CudaError: so did a call of CUDA.
        """
        if self._event is not None:
            with cuda_call("cudaEventSynchronize"):  # the turn is others' while this waits, for the training maybe
                self._event.record(stream)
                self._event.synchronize()
        batch = (sources, sizes, images, self._parameters(output, starts, shapes))
        prepare = (len(sources), output)
        wanted = None if self._prepared == prepare else prepare
        event = 0 if self._event is None else self._event.ptr
        prepared, decoded, waited = self._turn.decode(
            self._library, self._driver, self._handle, self._state, wanted, batch, stream.ptr, event
        )
        if waited:
            with cuda_call("cudaEventSynchronize"):  # fails again, and says why
                stream.synchronize()
        _check(prepared, "nvjpegDecodeBatchedInitialize")
        _check(decoded, "nvjpegDecodeBatchedEx")
        self._prepared = prepare

    def free(self) -> None:
        """Free it. What it was last used for may not run any more, or have failed."""
        made = [parameters for each in self._made.values() for parameters in each.tolist()]
        with self._turn.held:
            self._library.nvjpegJpegStateDestroy(self._state)
            for parameters in made:
                self._library.nvjpegDecodeParamsDestroy(parameters)

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
            raise DeviceError(f"libnvjpeg is too old: it lacks {name}")
        function.argtypes, function.restype = arguments, c_int
    return library


def _bind_driver() -> ctypes.CDLL:
    """Declare the functions of libcuda that are called.

    Raises:
        DeviceError: when there is no libcuda.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"no CUDA driver: {error}") from error
    driver.cuEventRecord.argtypes, driver.cuEventSynchronize.argtypes = [c_void_p] * 2, [c_void_p]
    return driver


def _check(status: int, function: str) -> None:
    if status:
        raise NvjpegError(f"{function} failed: {_words(status)}")


def _words(status: int) -> str:
    return f"{_STATUS.get(status, 'unknown reason')} (status {status})"
