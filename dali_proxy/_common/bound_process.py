"""Worker processes that end with the process that started them, even if they hang in the user's code."""

from __future__ import annotations

import copy
import ctypes
import os
import select
import signal
import sys
import threading
from functools import cache
from multiprocessing import current_process, forkserver, resource_tracker
from multiprocessing.context import BaseContext, get_spawning_popen
from multiprocessing.process import BaseProcess
from typing import Any

from dali_proxy.pipeline._concurrency.finalizers import THREAD_PREFIX
from dali_proxy.pipeline._concurrency.interrupts import blocked_interrupts

_PR_SET_PDEATHSIG = 1


def with_bound_workers(context: BaseContext) -> BaseContext:
    """Return a copy of `context` whose processes the system kills when their parent ends.

    SIGINT is blocked in them until they call `unblock_interrupts`.

    torch's workers look for their parent only between batches: a worker that hangs in the dataset, or before it has
    begun, would remain forever. Return `context` itself on other systems than Linux, or if its processes are special.
    """
    process = getattr(context, "Process", None)
    if sys.platform != "linux" or getattr(process, "__module__", "") != "multiprocessing.context":
        return context
    context = copy.copy(context)
    context.Process = _bound(process)  # type: ignore[attr-defined]
    return context


@cache
def _bound(process: Any) -> Any:
    class BoundProcess(process):  # type: ignore[misc]
        """A process that ends with its parent."""

        def start(self) -> None:
            # The system reports the end of the thread that starts a process. Only the main thread lives long enough.
            in_main_thread = threading.get_native_id() == os.getpid()
            self._parent = os.getpid(), in_main_thread and process._start_method != "forkserver"
            # Helpers of multiprocessing that start now would inherit the mask, and with them all later processes.
            if process._start_method == "forkserver":
                forkserver.ensure_running()
            if process._start_method != "fork":
                resource_tracker.ensure_running()
            with blocked_interrupts() as self._blocked:
                super().start()

        def run(self) -> None:
            _end_with(*self._parent)
            super().run()

        def __reduce__(self) -> tuple[Any, ...]:
            if get_spawning_popen() is None:
                raise TypeError(f"{self.name} is a process: it can't be copied or pickled, and neither can its loop")
            # The call comes before the state, which contains the dataset, is unpickled.
            return _unpickled, (process, self._parent), vars(self)

    return BoundProcess


def unblock_interrupts() -> None:
    """Unblock SIGINT in a worker, which was blocked while it started."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, getattr(current_process(), "_blocked", set()))


def _unpickled(process: Any, parent: tuple[int, bool]) -> BaseProcess:
    _end_with(*parent)
    bound: type[BaseProcess] = _bound(process)
    return bound.__new__(bound)


@cache
def _end_with(parent: int, by_signal: bool) -> None:
    """End this process with its parent: by a signal of the system, or by a thread, which needs the GIL for it."""
    if by_signal:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it has ended already
            os._exit(1)
        return
    try:
        parent_fd = os.pidfd_open(parent)
    except ProcessLookupError:
        os._exit(1)
    except OSError:  # an old kernel
        return
    threading.Thread(target=_watch, args=(parent_fd,), name=f"{THREAD_PREFIX}parent", daemon=True).start()


def _watch(parent_fd: int) -> None:
    poll = select.poll()
    poll.register(parent_fd, select.POLLIN)
    poll.poll()
    os._exit(1)
