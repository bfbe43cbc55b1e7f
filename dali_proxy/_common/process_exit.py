"""Descriptions of how processes ended."""

from __future__ import annotations

import re
import select
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess

from dali_proxy._common.signals import blocked_signal
from dali_proxy.errors import ProxyError, WorkerDiedError

TERMINATED = 128 + signal.SIGTERM
"""Exit code of a process that ended in order because of SIGTERM, as in shells."""

_HINTS = {
    signal.SIGKILL: "; unless a user killed it, the system was out of memory (see dmesg)",
    signal.SIGBUS: "; shared memory may be full: torch's workers use /dev/shm for tensors",
}
_REPORT = re.compile(r"DataLoader worker \(pid \d+\) ")
_PATIENCE = 0.5  # seconds to wait for the exit status of a process whose sockets have closed
_INTERVAL = 1.0  # seconds between two reads of the exit codes of workers


def describe_exit(code: int) -> str:
    """Describe an exit code; negative ones are signals.

    Example:
        >>> describe_exit(3)
        'ended with exit code 3'
    """
    if code == TERMINATED:
        return "was terminated by SIGTERM"
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        number = signal.Signals(-code)
    except ValueError:  # real-time signals have no names
        return f"was killed by signal {-code}"
    return f"was killed by {number.name}{_HINTS.get(number, '')}"


def dead_worker(workers: Sequence[BaseProcess], error: Exception | None = None) -> WorkerDiedError | None:
    """Return the exception to raise if a worker has died; None if none has or `error` has another cause.

    The workers are in the order of their numbers.
    """
    if isinstance(error, ConnectionError | EOFError | FileNotFoundError):  # an incomplete message of a dying process
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and all(worker.exitcode is None for worker in workers):
            time.sleep(0.005)
    elif error is not None and RuntimeError not in (type(error), type(error.__cause__)):
        return None  # torch raises a RuntimeError if a worker dies
    unexpected = "unexpectedly" in str(error)
    dead = [
        f"worker {number} (pid {worker.pid}) {describe_exit(code)}"
        for number, worker in enumerate(workers)
        if (code := worker.exitcode) is not None and (code or unexpected)
    ]
    if not dead:
        return None
    lost = (
        "The batches that it was making are lost: start the epoch again, or continue it from the last state_dict() of "
        "the loader, with load_state_dict()"
    )
    died = WorkerDiedError(f"{'; '.join(dead)}. {lost}{_advice(workers)}")
    died.__cause__ = error
    return died


class EndedWorkers:
    """Finds out whether a worker has ended, usually by one system call for all workers.

    It also reads their exit codes now and then: where workers fork, a process that a worker has started keeps the pipe
    open whose end shows that of the worker.
    """

    def __init__(self) -> None:
        self._workers: Sequence[BaseProcess] = ()
        self._poll = select.poll()
        self._read_at = 0.0  # time at which the exit codes were read

    def any_of(self, workers: Sequence[BaseProcess]) -> bool:
        """Return whether any of a loader's workers has ended. It is fast as long as these are the same list."""
        if workers is not self._workers:
            self._workers, self._poll = workers, select.poll()
            for worker in workers:
                self._poll.register(worker.sentinel, select.POLLIN)
        if not workers or self._poll.poll(0):
            return bool(workers)
        now = time.monotonic()
        if now - self._read_at < _INTERVAL:
            return False
        self._read_at = now
        return any(worker.exitcode is not None for worker in workers)


def reports_dead_worker(error: BaseException) -> bool:
    """Return whether torch's handler of SIGCHLD raised an exception.

    The handler reports dead workers of any loader. Python runs it wherever the main thread is.
    """
    return type(error) is RuntimeError and _REPORT.match(str(error)) is not None


def _advice(workers: Sequence[BaseProcess]) -> str:
    """Return more advice if a worker exited with an error code."""
    ended = [worker for worker in workers if (worker.exitcode or 0) > 0]
    if not ended:
        return ""
    advice = ". See its output for the reason"
    if getattr(ended[0], "_start_method", "fork") == "fork":  # there is no public attribute
        return advice
    return f'{advice}; a script whose workers don\'t fork needs `if __name__ == "__main__":` before it starts a loop'


def end_workers(workers: Sequence[BaseProcess]) -> None:
    """Kill the workers that a dead one has left: they may wait for its lock, and torch would wait for them.

    Threads other than the main one leave them alive.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # torch's handler would raise in the main thread
    with blocked_signal(signal.SIGCHLD):
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.join(_PATIENCE)


def hanging_worker(workers: Sequence[BaseProcess], timeout: float, error: Exception) -> ProxyError | None:
    """Return the exception to raise if `error` is the one that torch raises for a loader's timeout; else None."""
    if type(error) is not RuntimeError or "timed out" not in str(error):
        return None
    alive = ", ".join(f"worker {number} (pid {worker.pid})" for number, worker in enumerate(workers))
    hanging = ProxyError(
        f"the next batch didn't arrive within {timeout:g} s (the loader's timeout=): the dataset is slow, or it hangs "
        f"in one of these workers: {alive}"
    )
    hanging.__cause__ = error
    return hanging
