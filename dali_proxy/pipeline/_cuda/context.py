"""State shared by the launches on one device: compiled kernels, staging buffers, scratch memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from dali_proxy.pipeline._closing import Closing
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._cuda.compiler import Kernel, get_kernel
from dali_proxy.pipeline._cuda.errors import CudaError, cuda_call, load_cupy, require_device
from dali_proxy.pipeline._cuda.launch import THREADS, Launch, LaunchPlan, pack_scalars
from dali_proxy.pipeline._cuda.launch_queue import LaunchQueue
from dali_proxy.pipeline._cuda.packed_launches import PackedLaunches, Rows
from dali_proxy.pipeline._cuda.reclaiming import reclaiming
from dali_proxy.pipeline._cuda.staging import StagingPool, padded_size
from dali_proxy.pipeline._native import find_compiled

native = find_compiled("_cuda")


class _Thread(threading.local):
    """What a thread launches: `_Queueing` inside `queued`, its queue once it is open, and the number of launches."""

    queueing: _Queueing | None = None
    queue: LaunchQueue | None = None
    launched = 0


class KernelContext(Closing):
    """Runs launches on one CUDA device, from any thread.

    Args:
        device_id: the CUDA device.

    Raises:
        DeviceError: CuPy is missing, or the device doesn't exist.

    Example:
        >>> with KernelContext(0) as context:  # doctest: +SKIP
        ...     context.run(plan_strided_copy(Samples.from_arrays(sources), Samples.dense(batch)), stream)
    """

    def __init__(self, device_id: int) -> None:
        require_device(device_id)
        self.device_id = device_id
        self._staging = StagingPool(device_id)
        self._scratch: dict[int, Any] = {}
        self._current = _Thread()
        self._lock = new_lock(Level.LEAF, "scratch memory")

    def run(self, launch: Launch, stream: Any) -> None:
        """Enqueue a launch on a `cupy.cuda.Stream`, without waiting for the device in steady state.

        Inside `queued`, the launch is issued by the next `LaunchQueue.flush`.

        Raises:
            KernelCompileError: NVRTC failed to compile the kernel.
            CudaError: the copy of the tables or the launch failed.
        """
        self._current.launched += 1
        queue = self.queue
        if queue is not None and queue.stream is stream:
            get_kernel(launch.file, launch.kernel, launch.defines, self.device_id)  # so that errors come now
            queue.add(launch)
        else:
            self._issue([launch], stream)

    def run_plan(self, plan: LaunchPlan, stream: Any) -> None:
        """Enqueue the launches of a plan, with memory for its results in between; see `run`."""
        for launch in plan.launches(self.scratch(plan.scratch_bytes, stream) if plan.scratch_bytes else 0):
            self.run(launch, stream)

    def repeat(
        self,
        packed: PackedLaunches,
        addresses: tuple[int, ...],
        stream: Any,
        rows: Sequence[Rows] = (),
        scalars: Sequence[tuple[np.generic, ...] | None] = (),
    ) -> None:
        """Enqueue packed launches on a stream at once, after those of this thread that wait.

        Args:
            packed: the launches.
            addresses: addresses of the memory that they use; `PackedLaunches.places` refers to them.
            stream: see `run`.
            rows: rows that replace parts of the tables.
            scalars: see `PackedLaunches.unpacked`.

        Raises:
            CudaError: the copy of the tables or a launch failed.
        """
        self.flush()
        self._current.launched += len(packed.launches)
        items = [] if native is None else packed.items(self.device_id, scalars)
        if native is None or not items:
            self._issue(packed.unpacked(addresses, rows, scalars), stream)
            return
        buffer = self._staging.take(packed.tables.nbytes)
        try:
            device, event = buffer.handles
            failure = native.repeat(
                stream.ptr, event, device, buffer.address, buffer.size,
                packed.tables, list(rows), packed.places, addresses, items,
            )  # fmt: skip
        finally:
            self._staging.give_back(buffer)
        if failure is not None:
            raise _as_error(packed.launches, *failure)

    @property
    def queue(self) -> LaunchQueue | None:
        """The open queue of this thread inside `queued`; None elsewhere, and inside `unqueued`."""
        return self._current.queue

    @property
    def launched(self) -> int:
        """The number of launches that this thread has enqueued; only differences are meaningful."""
        return self._current.launched

    def queued(self, stream: Any) -> AbstractContextManager[None]:
        """Collect the launches of this thread on a stream, so that their tables are copied to the device at once.

        This begins with `open_queue`. On leaving, launches that aren't flushed yet are issued, except after an
        exception. Device memory that the thread allocates in between isn't reused before the launches are issued.
        """
        return _Queueing(self._current, stream, self._issue)

    def open_queue(self) -> None:
        """Begin to collect launches, if this thread is inside `queued`. Work that needs no queue comes before it."""
        if self._current.queueing is not None:
            self._current.queueing.open()

    def flush(self) -> None:
        """Issue the launches of this thread that wait. The memory that they use stays allocated."""
        if self._current.queue is not None:
            self._current.queue.flush()

    @contextmanager
    def unqueued(self) -> Iterator[None]:
        """Issue the launches of this thread that wait, and those inside the block at once: other work reads them.

        This is for use between operators: memory that earlier operators no longer need is released.
        """
        queue = self._current.queue
        if queue is not None:
            queue.flush()
            queue.release()
        self._current.queue = None
        try:
            yield
        finally:
            self._current.queue = queue

    def _issue(self, launches: Sequence[Launch], stream: Any) -> None:
        """Copy the tables of launches to the device in one copy, and enqueue the launches."""
        kernels = [get_kernel(each.file, each.kernel, each.defines, self.device_id) for each in launches]
        if native is not None and all(kernel.handle for kernel in kernels):
            self._issue_at_once(launches, kernels, stream)
            return
        tables = [table for each in launches for table in each.tables]
        with self._device(), stream, self._staging.upload(tables, stream) as pointers:
            addresses = iter(pointers)
            for kernel, launch in zip(kernels, launches, strict=True):
                arguments = [next(addresses) for _ in launch.tables]
                with cuda_call(f"launch of {launch.kernel}"):
                    kernel.launch((*launch.grid, 1), (THREADS, 1, 1), (*arguments, *launch.scalars))

    def _issue_at_once(self, launches: Sequence[Launch], kernels: Sequence[Kernel], stream: Any) -> None:
        """Do the same in one call, which releases the GIL once."""
        assert native is not None
        items = [
            (kernel.handle, *launch.grid, launch.tables, pack_scalars(launch.scalars) if launch.scalars else b"")
            for kernel, launch in zip(kernels, launches, strict=True)
        ]
        size = padded_size([table for each in launches for table in each.tables])
        with self._staging.buffer(size) as buffer:
            device, event = buffer.handles
            failure = native.issue(stream.ptr, event, device, buffer.address, buffer.size, items)
        if failure is not None:
            raise _as_error(launches, *failure)

    def launch(
        self,
        file: str,
        kernel: str,
        defines: tuple[tuple[str, str], ...],
        pointers: Sequence[int],
        grid: tuple[int, int],
        stream: Any,
    ) -> None:
        """Enqueue a launch whose tables are already on the device, without waiting for the device.

        Args:
            file: see `Launch`.
            kernel: see `Launch`.
            defines: see `Launch`.
            pointers: device addresses of the tables; the kernel's arguments.
            grid: see `Launch`.
            stream: a `cupy.cuda.Stream` of this device.

        Raises:
            KernelCompileError: NVRTC failed to compile the kernel.
            CudaError: the launch failed.
        """
        found = get_kernel(file, kernel, defines, self.device_id)
        with self._device(), stream, cuda_call(f"launch of {kernel}"):
            found.launch((*grid, 1), (THREADS, 1, 1), tuple(pointers))

    def scratch(self, nbytes: int, stream: Any) -> int:
        """Return the address of device memory for intermediate results on `stream`.

        The memory grows on demand and is reused. Its contents are valid until the next call for the same stream; stream
        order separates the uses.
        """
        cupy = load_cupy()
        if self._current.queue is not None:
            return int(cupy.cuda.alloc(max(1, nbytes)).ptr)  # the queue keeps it
        with self._lock:
            held = self._scratch.get(stream.ptr)
            if held is None or held.mem.size < nbytes:
                # The old memory returns to this stream's arena in CuPy's pool, so pending kernels can still use it.
                self._scratch.pop(stream.ptr, None)
                del held
                with cuda_call("allocating scratch memory"), self._device(), stream:
                    held = cupy.cuda.alloc(max(1 << 20, nbytes))
                self._scratch[stream.ptr] = held
            return int(held.ptr)

    def close(self) -> None:
        """Wait for all launches, and free the shared resources."""
        with self._device():
            self._staging.close()
            with self._lock:
                self._scratch.clear()

    def _device(self) -> Any:
        return load_cupy().cuda.Device(self.device_id)


def _as_error(launches: Sequence[Launch], index: int, reason: str) -> CudaError:
    """Return the error of a launch that `_native` couldn't issue."""
    if 0 <= index < len(launches):
        return CudaError(f"launch of {launches[index].kernel}", reason)
    return CudaError("staging a launch's tables", reason)


class _Queueing:
    """The context of `KernelContext.queued`: a class, because a generator takes several times as long."""

    def __init__(self, current: _Thread, stream: Any, issue: Callable[[Sequence[Launch], Any], None]) -> None:
        self._current, self._stream, self._issue = current, stream, issue
        self._queue: LaunchQueue | None = None
        self._allocating: Any = None

    def open(self) -> None:
        if self._queue is not None:
            return
        current, stream, issue = self._current, self._stream, self._issue
        queue = LaunchQueue(stream, lambda launches: issue(launches, stream))
        cuda = load_cupy().cuda
        allocate = reclaiming(cuda.get_allocator())

        def keep(nbytes: int) -> Any:
            memory = allocate(nbytes)
            if current.queue is queue:  # work inside `unqueued` is issued at once
                queue.keep(memory)
            return memory

        self._allocating = cuda.using_allocator(keep)
        self._allocating.__enter__()
        current.queue = self._queue = queue

    def __enter__(self) -> None:
        self._current.queueing = self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._current.queueing = None
        if self._queue is None:
            return
        try:
            if error is None:
                self._queue.flush()
        finally:
            self._current.queue = None
            self._allocating.__exit__(kind, error, traceback)
