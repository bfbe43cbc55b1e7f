"""The GPU of an executor: streams, events, and the release of memory that the GPU reads."""

from __future__ import annotations

import itertools
import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX, call_back
from dali_proxy.pipeline._concurrency.switching import begin_short_turns, end_short_turns
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._cuda.errors import cuda_call
from dali_proxy.pipeline._cuda.kernel_cache import guard_disk_cache
from dali_proxy.pipeline._cuda.streams import ignore_captures, is_idle, new_stream
from dali_proxy.pipeline._graph.graph import Graph
from dali_proxy.pipeline._operator_api.request import ExecutorConfig
from dali_proxy.pipeline.errors import DeviceError

_PATIENCE = 0.5  # seconds that the driver may take to say whether a stream is idle
_INSTALL = "install dali-proxy with the extra for your CUDA version: pip install 'dali-proxy[cuda13]' or [cuda12]"
_ON_CPU = "set the environment variable DALI_PROXY_DEVICE=cpu, or run the script with `dali-proxy run --device cpu`"


def open_device(graph: Graph, config: ExecutorConfig, stream: Any = None) -> Device:
    """Open the GPU that a graph needs: CUDA's current device if the pipeline has no `device_id`.

    Args:
        graph: the graph.
        config: configuration of the executor.
        stream: CUDA stream for all batches; None for new ones.

    Raises:
        DeviceError: CuPy, the driver or the GPU is missing.
    """
    node = next(node for node in graph.nodes if node.device != "cpu")
    guard_disk_cache()
    try:
        import cupy
    except ImportError as error:
        raise DeviceError(
            f"{node.display} needs a GPU, but CuPy isn't installed: {_INSTALL}; to use the CPU, {_ON_CPU}"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(
            f"{node.display} needs a GPU, but CUDA doesn't find one ({error}): to use the CPU, {_ON_CPU}, or "
            f"pass device='cpu' to the operators\n"
            f"  at {node.location}"
        ) from error
    device_id = cupy.cuda.runtime.getDevice() if config.device_id is None else config.device_id
    if not 0 <= device_id < count:
        raise DeviceError(f"device_id={device_id} is invalid: this machine has {count} GPU(s), numbered from 0")
    return Device(device_id, config.gpu_streams, config.stream_priority, stream)


class BatchStream:
    """A CUDA stream that batches use in turn. It executes the work of its batches in order."""

    def __init__(self, stream: Any, device: Device, number: int) -> None:
        self.stream = stream
        self.name = f"GPU {device.device_id} stream {number}"
        self._device = device

    def record(self) -> Any:
        """Record and return an event that completes with all work issued so far. The GPU must be the current device."""
        import cupy

        event = cupy.cuda.Event(block=True, disable_timing=True)
        event.record(self.stream)
        return event

    def retire(self, keep_alive: list[Any], callbacks: Sequence[Callable[[], None]], event: Any) -> None:
        """Release what a batch, or several that ran as one, have read, when their work is done.

        Args:
            keep_alive: list of objects; it is cleared.
            callbacks: called when all work that was issued so far is done.
            event: the event of the batch's last work; None if it couldn't be recorded.
        """
        if not keep_alive and not callbacks:
            return  # without waking the thread that waits for events
        last = event
        if event is None or callbacks:
            try:
                last = self.record()
            except Exception:  # noqa: BLE001 - CUDA is in an error state: synchronize the stream itself
                last = self.stream
        self._device.when_done(last, keep_alive, callbacks)


class Device:
    """A GPU: its streams, and a thread that waits for events, so that no other thread has to.

    Args:
        device_id: number of the GPU.
        streams: number of streams, which batches use in turn.
        priority: priority of the streams.
        stream: CUDA stream to use instead of new ones, or None.
    """

    def __init__(self, device_id: int, streams: int, priority: int, stream: Any = None) -> None:
        import cupy

        self._cupy = cupy
        self.device_id = device_id
        with cuda_call(f"opening GPU {device_id}"), cupy.cuda.Device(device_id):
            own = [new_stream(priority) for _ in range(max(1, streams))] if stream is None else [stream]
            self._streams = [BatchStream(each, self, number) for number, each in enumerate(own)]
        #: The context that launches the kernels of all operators.
        self.kernels = KernelContext(device_id)
        self._turns = itertools.count()
        self._pending: queue.SimpleQueue[tuple[Any, list[Any], Sequence[Callable[[], None]]] | None] = (
            queue.SimpleQueue()
        )
        #: Events and objects that nothing but their release waits for, oldest first.
        self._held: deque[tuple[Any, list[Any]]] = deque()
        self._reaper = threading.Thread(target=self._reap, name=f"{THREAD_PREFIX}gpu-events", daemon=True)
        self._reaper.start()
        begin_short_turns()

    def reserve(self, nbytes: int, count: int) -> None:
        """Fill CuPy's memory pools with `count` blocks for later batches, distributed over the streams."""
        for stream in self._streams:
            with self._cupy.cuda.Device(self.device_id), stream.stream:
                blocks = [self._cupy.cuda.alloc(nbytes) for _ in range(-(-count // len(self._streams)))]
                del blocks  # the pool keeps them

    def building(self) -> AbstractContextManager[None]:
        """Return a context that converts CuPy's errors while a pipeline is built."""
        return cuda_call("building the pipeline")

    def current(self) -> Any:
        """Return a context in which this GPU is the current device of the calling thread."""
        return self._cupy.cuda.Device(self.device_id)

    def acquire(self) -> BatchStream:
        """Return the next stream in turn. This never waits: a stream executes its batches one after another."""
        return self._streams[next(self._turns) % len(self._streams)]

    def when_done(self, event: Any, keep_alive: list[Any], callbacks: Sequence[Callable[[], None]]) -> None:
        """Release `keep_alive` and call `callbacks` after the event completes, or once CUDA reports an error.

        Without callbacks, no thread waits for the event: a later call, or `close`, finds it complete.
        """
        if callbacks:
            self._pending.put((event, keep_alive, callbacks))
            return
        self._held.append((event, keep_alive))
        try:
            while True:
                oldest = self._held.popleft()
                if not _is_done(oldest[0]):
                    self._held.appendleft(oldest)
                    return
                oldest[1].clear()
        except IndexError:  # no more; another thread may take the last one
            return

    def is_busy(self) -> bool:
        """Return whether a stream has work left, or the driver doesn't answer. A GPU in an error state has none."""
        answer: queue.SimpleQueue[bool] = queue.SimpleQueue()

        def ask() -> None:
            busy = False
            with suppress(Exception), self.current():  # the GPU is in an error state
                busy = not all(is_idle(each.stream) for each in self._streams)
            answer.put(busy)

        threading.Thread(target=ask, name=f"{THREAD_PREFIX}gpu-idle", daemon=True).start()
        try:
            return answer.get(timeout=_PATIENCE)
        except queue.Empty:  # another thread waits inside the driver for a kernel, which may never end
            return True

    def close(self) -> None:
        """Wait for all pending events, then end the thread."""
        end_short_turns()
        self._pending.put(None)
        self._reaper.join()
        for event, keep_alive in self._held:
            with suppress(Exception):  # as in `_reap`
                event.synchronize()
            keep_alive.clear()
        self._held.clear()
        self.kernels.close()

    def _reap(self) -> None:
        with suppress(Exception):  # the GPU is in an error state, as below
            self.current().use()
            ignore_captures()
        while (entry := self._pending.get()) is not None:
            event, keep_alive, callbacks = entry
            with suppress(Exception):  # a GPU in an error state reads no memory any more; the batches report the error
                event.synchronize()
            keep_alive.clear()
            for callback in callbacks:
                call_back(callback)
            del entry, event, keep_alive, callbacks, callback  # don't keep the last batch alive while this waits


def _is_done(event: Any) -> bool:
    try:
        return bool(event.done)
    except Exception:  # noqa: BLE001 - a GPU in an error state reads no memory any more; the batches report the error
        return True
