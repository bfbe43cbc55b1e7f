"""Idle cores decode some images of a batch, while the JPEG engine decodes the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline._bulk.buffer_pool import BufferPool
from pipeline._concurrency.thread_pool import ThreadPool
from pipeline._cuda.errors import cuda_call, load_cupy
from pipeline._imaging.jpeg_region import decode_regions

__all__ = ["CoreDecoding", "CoreShare", "IdleCores"]

Int64s = npt.NDArray[np.int64]

_LEAST, _MOST = 1 / 32, 1 / 2  # shares of a batch
_STEP = 1.2  # largest factor by which the share changes from batch to batch
_ON_CORE = 0.8  # least part of the time that a thread is on a core, if nothing else needs the cores
_SETTLING, _MEASURED = 16, 24  # batches before a measurement, and in it
_GAIN = 1.04  # with cores, it must be so much faster, else they only take energy
_LASTING = 2048  # batches until the rates are measured again
_REST = 256  # the same if cores didn't help; doubled each time
_BATCHES = 2  # that are decoded at the same time, and share the threads
_MOST_THREADS = 64


@dataclass(frozen=True)
class IdleCores:
    """Threads that may decode images beside the engine.

    Attributes:
        pool: the threads.
        keep: function that keeps an object alive until the GPU has executed the batch's work.
    """

    pool: ThreadPool
    keep: Callable[[Any], object]


class CoreShare:
    """The share of a batch for the cores: as many images as they decode while the engine decodes the others.

    It follows measured times. While batches wait for the engine, the rates with and without cores are measured in turn,
    and cores decode only if that is faster. Two threads may use it at once: a measurement is then a batch off.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.value = _LEAST
        self._clock = clock
        self._uses = False  # whether cores decode at present
        self._batches, self._images, self._begin = 0, 0, 0.0  # of this measurement
        self._alone = 0.0  # rate without cores
        self._rest, self._next_rest = 0, _REST  # batches until the next measurement

    def count(self, images: int) -> int:
        """Return the number of images of the next batch that cores decode."""
        return round(self.value * images) if self._uses else 0

    def learn(self, engine: float, cores: float, on_core: float) -> None:
        """Change the share after a batch.

        Args:
            engine: seconds from the start until the engine had decoded its images.
            cores: seconds from the start until the cores had decoded theirs.
            on_core: part of the time that the threads were on a core.
        """
        factor = engine / max(cores, 1e-9) if on_core >= _ON_CORE else 0.0
        self.value = min(max(self.value * min(max(factor, 1 / _STEP), _STEP), _LEAST), _MOST)

    def finish(self, images: int) -> None:
        """Record that a batch was decoded while others waited for the engine."""
        if self._rest:
            self._rest -= 1
            self._uses = self._uses and self._rest > 0
            return
        self._batches += 1
        self._images += images
        if self._batches == _SETTLING:
            self._images, self._begin = 0, self._clock()
        elif self._batches == _SETTLING + _MEASURED:
            self._judge(self._images / max(self._clock() - self._begin, 1e-9))
            self._batches = 0

    def interrupt(self) -> None:
        """Record that a batch didn't wait for the engine: the rate is that of something else."""
        self._batches = 0

    def _judge(self, rate: float) -> None:
        if not self._uses:
            self._alone, self._uses = rate, True
        elif rate >= _GAIN * self._alone:
            self._rest, self._next_rest = _LASTING, _REST
        else:
            self._uses, self._rest, self._next_rest = False, self._next_rest, 2 * self._next_rest


class CoreDecoding:
    """Decodes the last images of a batch on cores. The constructor starts the threads.

    Args:
        cores: the threads. One of them starts as many threads that don't need the GIL.
        pointers: (N,) addresses of these JPEGs, which the caller keeps until the threads are done.
        lengths: (N,) sizes of the JPEGs in bytes.
        windows: (N, 4) first row and column, height and width of each.
        places: (N,) their addresses on the device, one after another.
        nbytes: size of these places together.
        buffers: allocator of memory on the host.
    """

    def __init__(
        self,
        cores: IdleCores,
        pointers: Int64s,
        lengths: Int64s,
        windows: Int64s,
        places: Int64s,
        nbytes: int,
        buffers: BufferPool,
    ) -> None:
        self._memory, _ = buffers.memory(nbytes)
        self._place = int(places[0])
        self._keep = cores.keep
        targets = places - self._place + self._memory.ctypes.data
        threads = min(max(cores.pool.num_threads // _BATCHES, 1), _MOST_THREADS)
        times: list[tuple[int, int, int]] = []
        self._times = times

        def decode(_: int) -> None:
            self._decoded = decode_regions(
                pointers, lengths, windows, targets, fancy_upsampling=False, threads=threads, times=times
            )

        self._begin = time.monotonic_ns()
        self._job = cores.pool.start(decode, 1)

    def wait(self) -> None:
        """Wait for the threads.

        Raises:
            BaseException: they failed. An image that can't be decoded is no failure.
        """
        self._job.join()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return (time.monotonic_ns() - self._begin) / 1e9

    @property
    def seconds(self) -> float:
        """The time from the start until all images were decoded, after `wait`."""
        return (self._times[0][0] - self._begin) / 1e9

    @property
    def on_core(self) -> float:
        """The part of their time that the threads were on a core, after `wait`."""
        _, elapsed, on_core = self._times[0]
        return on_core / max(elapsed, 1)

    def copy(self, stream: Any) -> npt.NDArray[np.bool_]:
        """Copy the images to the device, in the order of a stream; return whether each was decoded."""
        runtime = load_cupy().cuda.runtime
        with cuda_call("cudaMemcpyAsync"):
            runtime.memcpyAsync(
                self._place,
                self._memory.ctypes.data,
                self._memory.nbytes,
                runtime.memcpyHostToDevice,
                stream.ptr,
            )
        self._keep(self._memory)
        return self._decoded
