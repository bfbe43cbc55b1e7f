"""Decodes batches of JPEGs on the hardware engine, with one call of libnvjpeg per batch and no work per image.

Binds the few functions of libnvjpeg's batched decoder (``nvjpegDecodeBatchedEx``, documented at
https://docs.nvidia.com/cuda/nvjpeg), which nvImageCodec can only use image by image.
"""

from __future__ import annotations

import ctypes
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_int, c_uint, c_void_p
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._arrays import Array, Int64s, UInt64s
from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._codecs.missing import load_nvjpeg
from dali_proxy.pipeline._codecs.native import compiled
from dali_proxy.pipeline._codecs.turns import Turn
from dali_proxy.pipeline._concurrency.locks import Level, new_condition, new_rlock
from dali_proxy.pipeline._concurrency.stuck_calls import StuckCalls
from dali_proxy.pipeline._cuda.connections import few_connections
from dali_proxy.pipeline._cuda.errors import CudaError, cuda_call, load_cupy, require_device
from dali_proxy.pipeline._cuda.reclaiming import is_full, reclaiming
from dali_proxy.pipeline._cuda.streams import new_stream
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline.errors import DeviceError, PipelineError
from dali_proxy.pipeline.types import BGR, GRAY, RGB, DALIImageType

_STATUS = {
    -1: "an earlier call didn't return",
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
_log = logging.getLogger("dali_proxy")
_STUCK = -1
_LIMIT = 30.0  # seconds for a call and the wait for its turn: a batch takes milliseconds, with other processes seconds
_OUT_OF_MEMORY = 5
_BACKEND_HARDWARE = 3
#: nvjpegOutputFormat_t: interleaved, except one channel.
_OUTPUTS = {RGB: 5, BGR: 6, GRAY: 2}
#: nvjpegImage_t: a pointer and a pitch for each of four planes.
_IMAGE = np.dtype([("channel", "u8", 4), ("pitch", "u8", 4)])


class NvjpegError(PipelineError):
    """A call of libnvjpeg failed: because of an image of the batch, or because the GPU's memory is full.

    Attributes:
        function: name of the function.
        status: nvjpegStatus_t.
    """

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function} failed: {_words(status)}")
        self.function, self.status = function, status

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.status)


class NvjpegDecoder(Closing):
    """The hardware JPEG engine of one device. Any thread may call it; the calls of all decoders are serialized.

    A call takes about as long as the engine works. Other work for a batch should run on another thread, so that the
    next call is prepared when one ends.

    With libnvjpeg 13.3 on an H100, concurrent calls deadlocked. Calls on a stream that still had work also deadlocked,
    beside other processes that used the engine or a CUDA graph of the same process. So each state has its own stream,
    which is idle when a call begins.

    The engine supports baseline JPEGs of one scan with one or three components, except 4:1:1 and 4:1:0. A batch that
    contains any other data fails as a whole.

    Args:
        device_id: the CUDA device.
        stream_priority: priority of the streams.

    Raises:
        DeviceError: libnvjpeg is missing or too old, CuPy or the device is missing, or the device has no JPEG engine.
        CudaError: CUDA failed, or the GPU's memory is full.

    Example:
        >>> with NvjpegDecoder(0) as decoder:  # doctest: +SKIP
        ...     decoder.decode(pointers, lengths, starts, target, RGB, stream)
    """

    def __init__(self, device_id: int, stream_priority: int = 0) -> None:
        self.device_id = device_id
        self._stream_priority = stream_priority
        self._library = _bind(load_nvjpeg())
        require_device(device_id)
        if reason := few_connections():
            _log.warning("%s", reason)
        self._handle: c_void_p | None = c_void_p()
        self._turn = Turn(device_id)
        self._idle: deque[_Decoding] = deque()  # the one whose last batch is the oldest first
        self._count = 0
        self._most = 2  # a thread prepares a batch while the engine decodes another one
        self._users = 0
        self._changed = new_condition(new_rlock(Level.LEAF, "nvJPEG users"))
        self._calls: StuckCalls | None = None
        with cuda_call("opening the JPEG engine"), load_cupy().cuda.Device(device_id), self._turn.held:
            status = self._library.nvjpegCreateEx(_BACKEND_HARDWARE, None, None, 0, byref(self._handle))
        if status == _OUT_OF_MEMORY:
            raise CudaError("opening the JPEG engine", _words(status))
        if status:
            self._handle = None
            raise DeviceError(f"device {device_id} has no JPEG engine that libnvjpeg can use: {_words(status)}")
        self._calls = StuckCalls(
            f"the JPEG engine of GPU {device_id} didn't return in {_LIMIT:g} s. Later batches are decoded without it. "
            "Its call may occupy a core until the process ends",
            _LIMIT,
        )

    def reserve(self, batches: int, batch_size: int, output_type: DALIImageType) -> None:
        """Create the states for a number of batches now. Each takes about 0.1 s, in which nothing is decoded.

        Args:
            batches: number of batches that may be decoded, or wait for their turn, at the same time.
            batch_size: usual number of images of a batch.
            output_type: RGB, BGR or GRAY.

        Raises:
            NvjpegError: the engine refused the parameters, or the GPU's memory is full.
        """
        with self._changed:
            self._most = max(self._most, batches)
        with load_cupy().cuda.Device(self.device_id), self._use() as handle:
            for _ in range(batches):
                decoding = self._create(handle)
                try:
                    decoding.prepare(batch_size, _OUTPUTS[output_type])
                except NvjpegError:
                    decoding.free()
                    raise
                with self._changed:
                    self._count += 1
                    self._idle.append(decoding)

    def decode(
        self,
        pointers: Int64s,
        lengths: Int64s,
        starts: Int64s,
        target: Samples,
        output_type: DALIImageType,
        stream: Any,
    ) -> None:
        """Decode windows of a batch of JPEGs. The pixels are ready in the order of the stream.

        The engine may start before earlier work on the stream has finished.

        Args:
            pointers: (N,) host addresses of the JPEGs' bytes, which must not change until the pixels are ready. From
                pinned memory, decoding is a third faster.
            lengths: (N,) sizes of the JPEGs in bytes.
            starts: (N, 2), first row and column of each window.
            target: uint8 HWC images on the device with the sizes of the windows: packed pixels, rows that may be
                padded, in memory that no earlier work uses. The windows must lie inside their JPEGs; this isn't
                checked.
            output_type: RGB, BGR or GRAY.
            stream: `cupy.cuda.Stream` that waits for the pixels.

        Raises:
            NvjpegError: the engine refused the batch, without reporting which image is at fault, or the GPU's memory is
                full.
            CudaError: CUDA failed.
        """
        assert self._calls is not None  # the constructor has not failed
        if self._calls.found:
            raise NvjpegError("nvjpegDecodeBatchedEx", _STUCK)
        images = np.zeros(len(pointers), _IMAGE)
        images["channel"][:, 0] = target.pointers
        images["pitch"][:, 0] = target.strides[:, 0]
        sources = np.ascontiguousarray(pointers, np.uint64)
        sizes = np.ascontiguousarray(lengths, np.uint64)
        with load_cupy().cuda.Device(self.device_id), self._use() as handle, self._calls.watched():
            decoding, usable = self._take(handle), False
            try:
                decoding.decode(sources, sizes, images, starts, target.shapes, _OUTPUTS[output_type], stream)
                usable = True
            finally:
                try:
                    if not usable:  # a state that failed once keeps failing
                        decoding.free()
                finally:
                    self._give(decoding if usable else None)

    def close(self) -> None:
        """Wait for calls and for the device, then free the decoder unless the device is in error. Idempotent.

        If a call didn't return, nothing is freed.
        """
        with self._changed:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            self._changed.wait_for(lambda: not self._users or self._is_stuck())
        if self._calls is not None:
            self._calls.close()
        if self._is_stuck():
            return
        # On a GPU in error nothing can be freed any more, and the caller must be able to close other objects.
        with suppress(CudaError), cuda_call("cudaDeviceSynchronize"), load_cupy().cuda.Device(self.device_id) as device:
            device.synchronize()
            for decoding in self._idle:
                decoding.free()
            self._idle.clear()
            with self._turn.held:
                self._library.nvjpegDestroy(handle)

    def _is_stuck(self) -> bool:
        return self._calls is not None and self._calls.found

    @contextmanager
    def _use(self) -> Iterator[c_void_p]:
        """Keep the handle open within the context, even if `close` is called."""
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

    def _take(self, handle: c_void_p) -> _Decoding:
        """Return the state that has been idle for the longest time, or a new one."""
        with self._changed:
            self._changed.wait_for(lambda: self._idle or self._count < self._most)
            if self._idle:
                return self._idle.popleft()
            self._count += 1
        try:
            return self._create(handle)
        except BaseException:
            self._give(None)
            raise

    def _create(self, handle: c_void_p) -> _Decoding:
        """Return a new state."""
        return reclaiming(_Decoding, _says_full)(self._library, handle, self._turn, self._stream_priority)

    def _give(self, decoding: _Decoding | None) -> None:
        """Take back a state; None if it was freed."""
        with self._changed:
            if decoding is None:
                self._count -= 1
            else:
                self._idle.append(decoding)
            self._changed.notify_all()


class _Decoding:
    """The resources of one call: a state (nvjpegJpegState_t), parameters of windows, a stream, and its last event."""

    def __init__(self, library: Any, handle: c_void_p, turn: Turn, stream_priority: int) -> None:
        self._library = library
        self._handle = handle
        self._turn = turn
        self._state = c_void_p()
        self._prepared: tuple[int, int] | None = None
        self._created: dict[int, UInt64s] = {}  # nvjpegDecodeParams_t, by output format
        with _full_as_nvjpeg_error("cudaStreamCreateWithPriority"):
            self._stream = new_stream(stream_priority)
            self._decoded = load_cupy().cuda.Event(block=True, disable_timing=True)
        with turn.held:
            _check(library.nvjpegJpegStateCreate(handle, byref(self._state)), "nvjpegJpegStateCreate")

    def prepare(self, count: int, output: int) -> None:
        """Allocate memory for batches of a number of images, in an output format.

        Raises:
            NvjpegError: libnvjpeg refused them.
        """
        with self._turn.held:
            status = self._library.nvjpegDecodeBatchedInitialize(self._handle, self._state, count, 1, output)
        _check(status, "nvjpegDecodeBatchedInitialize")
        self._prepared = (count, output)

    def decode(
        self, sources: UInt64s, sizes: UInt64s, images: Array, starts: Int64s, shapes: Int64s, output: int, stream: Any
    ) -> None:
        """Decode a batch. For the arguments see `NvjpegDecoder.decode`.

        Raises:
            NvjpegError: a call of libnvjpeg failed. The caller must free this object.
            CudaError: CUDA failed.
        """
        with cuda_call("cudaEventSynchronize"):
            self._decoded.synchronize()  # of the previous batch: the stream must be idle
        prepare = (len(sources), output)
        batch = (sources, sizes, images, self._parameters(output, starts, shapes))
        wanted = None if self._prepared == prepare else prepare
        prepared, decoded = self._turn.decode(self._library, self._handle, self._state, wanted, batch, self._stream.ptr)
        _check(prepared, "nvjpegDecodeBatchedInitialize")
        _check(decoded, "nvjpegDecodeBatchedEx")
        self._prepared = prepare
        with cuda_call("cudaEventRecord"):
            self._decoded.record(self._stream)
            stream.wait_event(self._decoded)

    def free(self) -> None:
        """Wait for the last batch, then free the resources unless the GPU is in error."""
        created = [parameters for each in self._created.values() for parameters in each.tolist()]
        with suppress(CudaError), cuda_call("cudaStreamSynchronize"):
            self._stream.synchronize()
            with self._turn.held:
                self._library.nvjpegJpegStateDestroy(self._state)
                for parameters in created:
                    self._library.nvjpegDecodeParamsDestroy(parameters)

    def _parameters(self, output: int, starts: Int64s, shapes: Int64s) -> UInt64s:
        """Return the parameters of the windows, valid until the next call."""
        created = self._created.get(output, np.empty(0, np.uint64))
        if len(created) < len(starts):
            more = [self._create_parameters(output) for _ in range(len(starts) - len(created))]
            created = self._created[output] = np.concatenate([created, np.array(more, np.uint64)])
        regions = np.concatenate([starts[:, ::-1], shapes[:, 1::-1]], axis=1).astype(np.int32)  # x, y, width, height
        _check(_set_regions(self._library.nvjpegDecodeParamsSetROI, created, regions), "nvjpegDecodeParamsSetROI")
        return created

    def _create_parameters(self, output: int) -> int:
        parameters = c_void_p()
        _check(self._library.nvjpegDecodeParamsCreate(self._handle, byref(parameters)), "nvjpegDecodeParamsCreate")
        _check(self._library.nvjpegDecodeParamsSetOutputFormat(parameters, output), "nvjpegDecodeParamsSetOutputFormat")
        assert parameters.value is not None
        return parameters.value


def _set_regions(function: Any, parameters: UInt64s, regions: npt.NDArray[np.int32]) -> int:
    """Call nvjpegDecodeParamsSetROI for each region. Return the first status that isn't 0, else 0."""
    if compiled is not None:
        address = ctypes.cast(function, c_void_p).value
        return int(compiled.set_regions(address, parameters, regions))
    rows = zip(parameters.tolist(), regions.tolist(), strict=False)
    return next((status for one, region in rows if (status := function(one, *region))), 0)


def _bind(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the functions of libnvjpeg.

    Raises:
        DeviceError: the library is too old and lacks a function.
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


@contextmanager
def _full_as_nvjpeg_error(function: str) -> Iterator[None]:
    """Raise `NvjpegError` if the GPU's memory is full, and `CudaError` after other errors of CUDA."""
    try:
        with cuda_call(function):
            yield
    except CudaError as error:
        if isinstance(error.__cause__, Exception) and is_full(error.__cause__):
            raise NvjpegError(function, _OUT_OF_MEMORY) from error
        raise


def _says_full(error: Exception) -> bool:
    return isinstance(error, NvjpegError) and error.status == _OUT_OF_MEMORY


def _check(status: int, function: str) -> None:
    if status:
        raise NvjpegError(function, status)


def _words(status: int) -> str:
    return f"{_STATUS.get(status, 'unknown reason')} (status {status})"
