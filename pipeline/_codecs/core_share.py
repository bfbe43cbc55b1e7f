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

_FIRST, _MOST = 1 / 32, 1 / 2  # shares of a batch
_GROWTH, _DECLINE = 1.15, 0.85
_EARLY = 0.05  # of the engine's time: cores that end earlier get more
_ON_CORE = 0.7  # least part of the time that a thread is on a core, if nothing else needs the cores
_GROUP = 8  # images that a thread decodes per call, at most


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
    """The share of a batch for the cores. It follows measured times, so that cores and engine end together.

    Where the threads don't get the cores, because other programs need them, the share becomes small.
    """

    def __init__(self) -> None:
        self.value = _FIRST

    def count(self, images: int) -> int:
        """Return the number of images of a batch that cores decode."""
        return round(self.value * images)

    def learn(self, engine: float, cores: float, on_core: float) -> None:
        """Change the share after a batch.

        Args:
            engine: seconds from the start until the engine had decoded its images.
            cores: seconds from the start until the cores had decoded theirs.
            on_core: part of the time that the threads were on a core.
        """
        if on_core < _ON_CORE:
            self.value = max(self.value / 2, _FIRST)
        elif cores > engine:
            self.value = max(self.value * _DECLINE, _FIRST)
        elif cores < (1 - _EARLY) * engine:
            self.value = min(self.value * _GROWTH, _MOST)


class CoreDecoding:
    """Decodes the last images of a batch on cores. The constructor starts the threads.

    Args:
        cores: the threads.
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
        self._pointers, self._lengths, self._windows = pointers, lengths, windows
        self._memory, _ = buffers.memory(nbytes)
        self._begin = int(places[0])
        self._targets = places - self._begin + self._memory.ctypes.data
        self._keep = cores.keep
        self._decoded = np.zeros(len(pointers), np.bool_)
        self._ends: list[float] = []
        self._elapsed: list[float] = []
        self._processor: list[float] = []
        self.begin = time.perf_counter()
        self._job = cores.pool.start_ranges(self._decode, len(pointers), _GROUP)

    def _decode(self, begin: int, end: int) -> None:
        part = slice(begin, end)
        started, spent = time.perf_counter(), time.thread_time()
        self._decoded[part] = decode_regions(
            self._pointers[part],
            self._lengths[part],
            self._windows[part],
            self._targets[part],
            fancy_upsampling=False,  # as the engine
        )
        self._processor.append(time.thread_time() - spent)
        self._ends.append(time.perf_counter())
        self._elapsed.append(self._ends[-1] - started)

    def wait(self) -> None:
        """Wait for the threads.

        Raises:
            BaseException: a thread failed. An image that can't be decoded is no failure.
        """
        self._job.join()

    @property
    def seconds(self) -> float:
        """The time from the start until all images were decoded."""
        return max(self._ends) - self.begin

    @property
    def on_core(self) -> float:
        """The part of their time that the threads were on a core."""
        return sum(self._processor) / max(sum(self._elapsed), 1e-9)

    def copy(self, stream: Any) -> npt.NDArray[np.bool_]:
        """Copy the images to the device, in the order of a stream; return whether each was decoded."""
        runtime = load_cupy().cuda.runtime
        with cuda_call("cudaMemcpyAsync"):
            runtime.memcpyAsync(
                self._begin,
                self._memory.ctypes.data,
                self._memory.nbytes,
                runtime.memcpyHostToDevice,
                stream.ptr,
            )
        self._keep(self._memory)
        return self._decoded
