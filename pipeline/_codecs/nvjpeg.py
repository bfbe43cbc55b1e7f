"""Decodes batches of JPEGs on the hardware engine, with one call of libnvjpeg per batch and no work per image.

Binds the few functions of libnvjpeg's batched decoder (``nvjpegDecodeBatchedEx``, documented at
https://docs.nvidia.com/cuda/nvjpeg), which nvImageCodec can only use image by image.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, byref, c_int, c_uint, c_void_p
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._codecs.missing import load_nvjpeg
from pipeline._codecs.native import compiled
from pipeline._codecs.turns import Turn, training_possible
from pipeline._concurrency.locks import Level, new_rlock
from pipeline._cuda.errors import CudaError, cuda_call, load_cupy, require_device
from pipeline._cuda.reclaiming import reclaiming
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


class NvjpegDecoder:
    """The hardware JPEG engine of one device. Any thread may call it; the calls of all decoders are serialized.

    A call takes about as long as the engine works. Other work for a batch should run on another thread, so that the
    next call is prepared when one ends. Concurrent calls, with any states, deadlocked in tests, and so did a call in a
    process whose training replayed a CUDA graph (libnvjpeg 13.3 on an H100). If this process may also train, a call
    therefore begins on an idle stream and lasts until the batch is decoded.

    The engine supports baseline JPEGs of one scan with one or three components, except 4:1:1 and 4:1:0. A batch that
    contains any other data fails as a whole.

    Args:
        device_id: the CUDA device.

    Raises:
        DeviceError: libnvjpeg is missing or too old, CuPy or the device is missing, or the device has no JPEG engine.
        CudaError: CUDA failed, or the GPU's memory is full.

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
        self._unused: list[_Decoding] = []  # no stream has used them
        self._owned: Counter[int] = Counter()  # number of states, by the stream's address
        self._most_owned = 2  # of one stream: a thread prepares a batch while the engine decodes another one
        self._users = 0
        self._changed = threading.Condition(new_rlock(Level.LEAF, "nvJPEG users"))
        with cuda_call("opening the JPEG engine"), load_cupy().cuda.Device(device_id), self._turn.held:
            status = self._library.nvjpegCreateEx(_BACKEND_HARDWARE, None, None, 0, byref(self._handle))
        if status == _OUT_OF_MEMORY:
            raise CudaError("opening the JPEG engine", _words(status))
        if status:
            self._handle = None
            raise DeviceError(f"device {device_id} has no JPEG engine that libnvjpeg can use: {_words(status)}")

    def reserve(self, streams: int, batch_size: int, output_type: DALIImageType) -> None:
        """Create the states for a number of streams now. Each takes about 0.1 s, in which nothing is decoded.

        Args:
            streams: number of streams on which batches will be decoded.
            batch_size: usual number of images of a batch.
            output_type: RGB, BGR or GRAY.

        Raises:
            NvjpegError: the engine refused the parameters, or the GPU's memory is full.
        """
        if streams > 1:
            self._most_owned = 1  # a thread that waits for a state of one stream would wait for the engine anyway
        with load_cupy().cuda.Device(self.device_id), self._use() as handle:
            for _ in range(streams):
                decoding = self._create(handle)
                try:
                    decoding.prepare(batch_size, _OUTPUTS[output_type])
                except NvjpegError:
                    decoding.free()
                    raise
                self._unused.append(decoding)

    def decode(
        self,
        pointers: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        target: Samples,
        output_type: DALIImageType,
        stream: Any,
    ) -> None:
        """Decode windows of a batch of JPEGs. The pixels are ready in stream order.

        Args:
            pointers: (N,) host addresses of the JPEGs' bytes, which must not change until the stream has finished
                decoding. From pinned memory, decoding is a third faster.
            lengths: (N,) sizes of the JPEGs in bytes.
            starts: (N, 2), first row and column of each window.
            target: uint8 HWC images on the device with the sizes of the windows: packed pixels, rows that may be
                padded. The windows must lie inside their JPEGs; this isn't checked.
            output_type: RGB, BGR or GRAY.
            stream: `cupy.cuda.Stream` to decode on.

        Raises:
            NvjpegError: the engine refused the batch, without reporting which image is at fault, or the GPU's memory is
                full.
            CudaError: CUDA failed.
        """
        images = np.zeros(len(pointers), _IMAGE)
        images["channel"][:, 0] = target.pointers
        images["pitch"][:, 0] = target.strides[:, 0]
        sources = np.ascontiguousarray(pointers, np.uint64)
        sizes = np.ascontiguousarray(lengths, np.uint64)
        with load_cupy().cuda.Device(self.device_id), self._use() as handle:
            decoding, usable = self._take(handle, stream), False
            try:
                decoding.decode(sources, sizes, images, starts, target.shapes, _OUTPUTS[output_type], stream)
                usable = True
            except NvjpegError:  # a state that failed once keeps failing
                with cuda_call("cudaStreamSynchronize"):
                    stream.synchronize()  # earlier batches may still use it
                decoding.free()
                raise
            finally:
                self._give(stream, decoding if usable else None)

    def close(self) -> None:
        """Wait for calls and for the device, then free the decoder unless the device is in error. Idempotent."""
        with self._changed:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            self._changed.wait_for(lambda: not self._users)
        # On a GPU in error nothing can be freed any more, and the caller must be able to close other objects.
        with suppress(CudaError), cuda_call("cudaDeviceSynchronize"), load_cupy().cuda.Device(self.device_id) as device:
            device.synchronize()
            for decodings in (self._unused, *self._idle.values()):
                for decoding in decodings:
                    decoding.free()
                decodings.clear()
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

    def _take(self, handle: c_void_p, stream: Any) -> _Decoding:
        """Return an idle state of a stream, whose order separates the batches, or another one that no stream used."""
        address = int(stream.ptr)
        with self._changed:
            self._changed.wait_for(lambda: self._idle.get(address) or self._owned[address] < self._most_owned)
            if self._idle.get(address):
                return self._idle[address].pop()
            self._owned[address] += 1
            if self._unused:
                return self._unused.pop()
        try:
            return self._create(handle)
        except BaseException:
            self._give(stream, None)
            raise

    def _create(self, handle: c_void_p) -> _Decoding:
        """Return a new state."""
        return reclaiming(_Decoding, _says_full)(self._library, self._driver, handle, self._turn)

    def _give(self, stream: Any, decoding: _Decoding | None) -> None:
        """Take back a state of a stream; None if it was freed."""
        with self._changed:
            if decoding is None:
                self._owned[int(stream.ptr)] -= 1
            else:
                self._idle.setdefault(int(stream.ptr), []).append(decoding)
            self._changed.notify_all()


class _Decoding:
    """The resources of one call: a state (nvjpegJpegState_t), parameters of windows, and an event if needed."""

    def __init__(self, library: Any, driver: Any, handle: c_void_p, turn: Turn) -> None:
        self._library, self._driver = library, driver
        self._handle = handle
        self._turn = turn
        self._state = c_void_p()
        self._prepared: tuple[int, int] | None = None
        self._created: dict[int, npt.NDArray[np.uint64]] = {}  # nvjpegDecodeParams_t, by output format
        self._event = load_cupy().cuda.Event(block=True, disable_timing=True) if training_possible() else None
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
        self,
        sources: npt.NDArray[np.uint64],
        sizes: npt.NDArray[np.uint64],
        images: npt.NDArray[Any],
        starts: npt.NDArray[np.int64],
        shapes: npt.NDArray[np.int64],
        output: int,
        stream: Any,
    ) -> None:
        """Decode a batch. For the arguments see `NvjpegDecoder.decode`.

        Raises:
            NvjpegError: a call of libnvjpeg failed. The caller must free this object.
            CudaError: CUDA failed.
        """
        if self._event is not None:
            with cuda_call("cudaEventSynchronize"):  # wait without the turn: the stream may wait for the training
                self._event.record(stream)
                self._event.synchronize()
        prepare = (len(sources), output)
        if self._event is None and self._prepared not in (None, prepare):
            with cuda_call("cudaStreamSynchronize"):  # the GPU may still use the memory that is allocated anew
                stream.synchronize()
        batch = (sources, sizes, images, self._parameters(output, starts, shapes))
        wanted = None if self._prepared == prepare else prepare
        event = 0 if self._event is None else self._event.ptr
        prepared, decoded, waited = self._turn.decode(
            self._library, self._driver, self._handle, self._state, wanted, batch, stream.ptr, event
        )
        if waited:
            with cuda_call("cudaEventSynchronize"):  # fails again and raises the reason
                stream.synchronize()
        _check(prepared, "nvjpegDecodeBatchedInitialize")
        _check(decoded, "nvjpegDecodeBatchedEx")
        self._prepared = prepare

    def free(self) -> None:
        """Free the resources. Their last use must have finished or failed."""
        created = [parameters for each in self._created.values() for parameters in each.tolist()]
        with self._turn.held:
            self._library.nvjpegJpegStateDestroy(self._state)
            for parameters in created:
                self._library.nvjpegDecodeParamsDestroy(parameters)

    def _parameters(
        self, output: int, starts: npt.NDArray[np.int64], shapes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint64]:
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


def _set_regions(function: Any, parameters: npt.NDArray[np.uint64], regions: npt.NDArray[np.int32]) -> int:
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


def _bind_driver() -> ctypes.CDLL:
    """Load libcuda and declare its functions.

    Raises:
        DeviceError: libcuda is missing.
    """
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise DeviceError(f"no CUDA driver: {error}") from error
    driver.cuEventRecord.argtypes, driver.cuEventSynchronize.argtypes = [c_void_p] * 2, [c_void_p]
    return driver


def _says_full(error: Exception) -> bool:
    return isinstance(error, NvjpegError) and error.status == _OUT_OF_MEMORY


def _check(status: int, function: str) -> None:
    if status:
        raise NvjpegError(function, status)


def _words(status: int) -> str:
    return f"{_STATUS.get(status, 'unknown reason')} (status {status})"
