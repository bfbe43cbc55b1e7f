"""`EvalContext` and `EvalMode`: where and when operators of dynamic mode run."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from enum import Enum
from typing import Any

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX, Finalizer
from dali_proxy.pipeline._concurrency.thread_pool import ThreadPool as Threads
from dali_proxy.pipeline._definition.cpu_only import cpu_is_requested
from dali_proxy.pipeline._dynamic.checkpoints import Checkpoint
from dali_proxy.pipeline._dynamic.devices import current_gpu, use_gpu
from dali_proxy.pipeline._dynamic.operations import operations
from dali_proxy.pipeline._dynamic.streams import Stream, set_thread_stream, stream, stream_of
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._executor.shared import SharedResources
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._graph.subgraph import Subgraph
from dali_proxy.pipeline._operator_api.request import BatchRequest, ExecutorConfig, TensorList
from dali_proxy.pipeline._rng import RandomState
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError, OperatorError, PipelineError

#: Number of executors that a context keeps, for calls of the same operators with the same constants.
_EXECUTORS = 256


class _Local(threading.local):
    def __init__(self) -> None:
        self.modes: list[EvalMode] = []
        self.contexts: list[EvalContext] = []
        self.default: EvalContext | None = None


_LOCAL = _Local()


class EvalMode(Enum):
    """When operators run. In the `with` block of a mode, it is the current mode of the thread.

    Attributes:
        deferred: when their results are needed; a chain of operators is compiled and runs as one.
        eager: at once; work on a GPU may still continue when the call returns.
        sync_cpu: like `eager`; errors are raised as they are, without the context of an evaluation.
        sync_full: like `sync_cpu`; the call also waits for the GPU.
        default: `eager`.
    """

    deferred = 1
    eager = 2
    sync_cpu = 3
    sync_full = 4
    default = 2

    @staticmethod
    def current() -> EvalMode:
        """Return the current mode of this thread."""
        return _LOCAL.modes[-1] if _LOCAL.modes else EvalMode.eager

    def __enter__(self) -> EvalMode:
        _LOCAL.modes.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _LOCAL.modes.pop()


class ThreadPool:
    """Threads for the operators of contexts.

    Args:
        num_threads: number of threads.
    """

    def __init__(self, num_threads: int) -> None:
        self.threads = Threads(_checked(num_threads), f"{THREAD_PREFIX}cpu")
        self._finalizer = Finalizer(self, self.threads.close)

    @property
    def num_threads(self) -> int:
        """Number of threads."""
        return self.threads.num_threads

    def close(self) -> None:
        """End the threads."""
        self._finalizer.run()


class _DefaultPool:
    """The threads of all contexts without own ones. They start when they are first needed."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._pools: dict[int, ThreadPool] = {}  # by process: threads don't survive a fork

    def get(self) -> ThreadPool:
        process = os.getpid()
        # Of threads that come at the same time, all get the pool of the first one; the others are dropped.
        return self._pools.get(process) or self._pools.setdefault(process, ThreadPool(get_num_threads()))

    def set(self, number: int | None) -> None:
        self.number = number
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.close()


_POOL = _DefaultPool()


def _checked(number: Any) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ArgumentTypeError(f"The number of threads must be an int, not {type(number).__name__}")
    if number < 1:
        raise ArgumentValueError(f"The number of threads must be positive; got {number}.")
    most = 100 * (os.cpu_count() or 1)
    if number > most:
        raise ArgumentValueError(f"The number of threads must not exceed {most}; got {number}.")
    return number


def get_num_threads() -> int:
    """Return the number of default threads.

    It is the number of `set_num_threads`, else of the environment variable DALI_NUM_THREADS, else of the CPU cores that
    this process may use.
    """
    if _POOL.number is not None:
        return _POOL.number
    with suppress(KeyError, ValueError):
        return max(1, int(os.environ["DALI_NUM_THREADS"]))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_num_threads(n: int | None) -> None:
    """Set the number of default threads; None restores the default. The present threads end.

    Raises:
        ArgumentTypeError, ArgumentValueError: it isn't a positive integer, or it is too large.
    """
    _POOL.set(None if n is None else _checked(n))


class EvalContext:
    """The threads, the GPU and the stream with which operators run. In its `with` block, it is the current context.

    Args:
        num_threads: number of own threads; by default, all contexts share the default threads.
        device_id: number of the GPU; by default, CUDA's current device.
        cuda_stream: CUDA stream of the operators on the GPU; by default that of `set_current_stream`, of
            `set_default_stream`, or a new one.
        thread_pool: threads that several contexts share, instead of `num_threads`.

    Raises:
        ArgumentValueError: both `num_threads` and `thread_pool` are given.
    """

    def __init__(
        self,
        *,
        num_threads: int | None = None,
        device_id: int | None = None,
        cuda_stream: Any = None,
        thread_pool: ThreadPool | None = None,
    ) -> None:
        if num_threads is not None and thread_pool is not None:
            raise ArgumentValueError("EvalContext: pass num_threads or thread_pool, not both")
        self._own_pool = thread_pool if num_threads is None else ThreadPool(num_threads)
        self._device_id = device_id
        self._stream = stream(stream=cuda_stream, device_id=device_id)
        self._checkpoint = Checkpoint()
        self._active: int | None = None
        self._used: tuple[Any, Any] = (None, None)
        self._state = _Executors()
        self._finalizer = Finalizer(self, self._state.close)

    @staticmethod
    def default() -> EvalContext:
        """Return the default context of this thread."""
        if _LOCAL.default is None:
            _LOCAL.default = EvalContext()
        return _LOCAL.default

    @staticmethod
    def current() -> EvalContext:
        """Return the current context of this thread."""
        return _LOCAL.contexts[-1] if _LOCAL.contexts else EvalContext.default()

    @property
    def thread_pool(self) -> ThreadPool:
        """The threads."""
        return self._own_pool or _POOL.get()

    @property
    def num_threads(self) -> int:
        """Number of threads."""
        return get_num_threads() if self._own_pool is None else self._own_pool.num_threads

    @property
    def device_id(self) -> int | None:
        """Number of the GPU; None without a GPU, or if all devices are the CPU."""
        if cpu_is_requested():
            return None
        if self._device_id is not None:
            return self._device_id
        try:
            return current_gpu()
        except Exception:  # noqa: BLE001 - no CuPy, no driver or no GPU
            return None

    @property
    def cuda_stream(self) -> Stream | None:
        """The CUDA stream; None without a GPU."""
        number = self.device_id
        if number is None:
            return None
        if self._stream is not None and self._stream.device_id == number:
            return self._stream
        chosen = stream_of(number)
        if chosen is None:
            chosen = self._stream = stream(device_id=number)
        return chosen

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint of this context. Call its `clear` before other objects use it."""
        return self._checkpoint

    def evaluate_all(self) -> None:
        """Evaluate all results that are pending in this thread."""
        operations.evaluate_pending()

    def run(
        self,
        subgraph: Subgraph,
        outputs: Sequence[Edge],
        data: Sequence[TensorList],
        size: int,
        states: Mapping[int, RandomState],
    ) -> tuple[TensorList, ...]:
        """Run operators and return their outputs.

        Raises:
            PipelineError: an operator failed.
        """
        executor = self.executor(subgraph, outputs, size)
        names = map(Subgraph.input_name, range(len(data)))
        request = BatchRequest(size, dict(zip(names, data, strict=True)), random_states=states)
        try:
            with nullcontext() if executor.device_id is None else use_gpu(executor.device_id):
                return executor.run(request)
        except PipelineError as error:
            _correct_location(error, executor, subgraph)
            raise

    def close(self) -> None:
        """Free the executors, and end the threads that belong to this context."""
        self._state.close()
        if self._own_pool is not None:
            self._own_pool.close()

    def __enter__(self) -> EvalContext:
        thread = threading.get_ident()
        if self._active not in (None, thread):
            raise PipelineError("this EvalContext is active in another thread: create one for each thread")
        self._active = thread
        _LOCAL.contexts.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _LOCAL.contexts.pop()
        if self not in _LOCAL.contexts:
            self._active = None

    def repeated_calls(self, uses_gpu: bool) -> dict[Any, Any]:
        """Return what is known of repeated calls, for the current threads and stream."""
        return self._executors(uses_gpu).repeated_calls

    def executor(self, subgraph: Subgraph, outputs: Sequence[Edge], size: int) -> Executor:
        """Return an executor for a subgraph, which later subgraphs of the same structure use again."""
        uses_gpu = any(call.device != "cpu" for call in subgraph.calls)
        executors = self._executors(uses_gpu)
        most = max(64, 1 << (size - 1).bit_length())
        number = self.thread_pool.threads.num_threads
        config = ExecutorConfig(most, number, self.device_id if uses_gpu else None, 0, 1, 1, 1)
        return executors.get((most, tuple(outputs), subgraph.key), subgraph, outputs, config)

    def _executors(self, uses_gpu: bool) -> _Executors:
        """Return the executors for the current threads and stream."""
        pool = self.thread_pool.threads
        chosen = self.cuda_stream if uses_gpu else None
        if pool is not self._used[0] or (uses_gpu and chosen is not self._used[1]):
            self._state.close()
            self._used = (pool, chosen)
            self._state = _Executors(SharedResources(pool.num_threads, pool, None if chosen is None else chosen.stream))
            self._finalizer.cancel()
            self._finalizer = Finalizer(self, self._state.close)
        return self._state


class _Executors:
    """The executors of a context, which share threads and a GPU. Those that were used last are kept."""

    def __init__(self, shared: SharedResources | None = None) -> None:
        self._shared = shared
        self._executors: OrderedDict[Any, Executor] = OrderedDict()
        #: By kind of call: how to run it.
        self.repeated_calls: dict[Any, Any] = {}

    def get(self, key: Any, subgraph: Subgraph, outputs: Sequence[Edge], config: ExecutorConfig) -> Executor:
        found = self._executors.get(key)
        if found is not None:
            self._executors.move_to_end(key)
            return found
        found = self._executors[key] = Executor(subgraph.graph(outputs), config, self._shared)
        if len(self._executors) > _EXECUTORS:
            self.repeated_calls.clear()  # some use the executor that is closed
            self._executors.popitem(last=False)[1].close()
        return found

    def close(self) -> None:
        executors, self._executors = self._executors, OrderedDict()
        for executor in executors.values():
            executor.close()
        if self._shared is not None:
            self._shared.close()
            self._shared = None


def _correct_location(error: PipelineError, executor: Executor, subgraph: Subgraph) -> None:
    """Put the user's line of this call into an error, in place of the line of the first call of the same operators."""
    if not isinstance(error, OperatorError):
        return
    for node, call in zip(executor.graph.nodes[len(subgraph.fed) :], subgraph.calls, strict=True):
        before, now = str(node.location), str(call.location)
        if before and before == error.location:
            error.args = (str(error).replace(before, now), *error.args[1:])
            error.location = now
            return


def get_current_stream() -> Stream | None:
    """Return the CUDA stream of this thread's default context."""
    return EvalContext.default().cuda_stream


def set_current_stream(cuda_stream: Any, /) -> None:
    """Set the CUDA stream of this thread's default context and of contexts that it creates; None removes it."""
    set_thread_stream(cuda_stream)
    EvalContext.default()._stream = None
