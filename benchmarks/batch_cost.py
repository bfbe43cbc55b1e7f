"""Measure what a batch of 64-byte samples costs each process: ``python -m benchmarks.batch_cost --help``.

For each thread of the training process, the server and the workers, it prints the processor time and the number of
times that it slept, per batch; and what one message, one wake-up of a process and one handover of the GIL cost on this
machine. Torch's own loader over the same dataset is the yardstick. All are measured in turn, so that other load on the
machine affects them alike.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing import Pipe, Process
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import dali_proxy
from benchmarks.graph import make_pipeline
from benchmarks.steadiness import Tiny
from benchmarks.workload import Setup

WARM_UP = 300
"""Batches before the measurement, in which the number in flight adapts."""

SHOWN = 0.002
"""Milliseconds per batch from which a thread is listed."""

SLEEPS = "voluntary_ctxt_switches:"

Tasks = dict[tuple[str, str], tuple[str, float, int]]
"""For each process and thread: the thread's name, its processor time in ms, and how often it slept."""


class Loader:
    """A loader in its steady state.

    Args:
        name: Its name in the table.
        batches: Its batches.
        pids: Its processes, by name.
    """

    def __init__(self, name: str, batches: Iterator[Any], pids: dict[str, int]) -> None:
        self.name = name
        self.batches = batches
        self.pids = pids
        self.totals: list[float] = []
        for _ in range(WARM_UP):
            next(batches)

    def measure(self, seconds: float) -> None:
        """Take batches for a while and print what they cost."""
        before, count, end = self._tasks(), 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            next(self.batches)
            count += 1
        costs = {}
        for task, (name, used, slept) in self._tasks().items():
            _, used_before, slept_before = before.get(task, (name, 0.0, 0))
            costs[task] = name, (used - used_before) / count, (slept - slept_before) / count
        self.totals.append(sum(used for _, used, _ in costs.values()))
        print(f"{self.name}: {self.totals[-1]:.3f} ms per batch, {count / seconds:,.0f} batches/s")
        for (process, _), (name, used, slept) in costs.items():
            if used >= SHOWN:
                print(f"    {process:<10}{name:<18}{used:8.3f} ms, sleeps {slept:.2f} times")

    def _tasks(self) -> Tasks:
        found: Tasks = {}
        for process, pid in self.pids.items():
            for task in Path(f"/proc/{pid}/task").iterdir():
                used = int((task / "schedstat").read_text().split()[0]) / 1e6
                slept = int((task / "status").read_text().partition(SLEEPS)[2].split()[0])
                found[process, task.name] = (task / "comm").read_text().strip(), used, slept
        return found


def ours(stack: ExitStack, setup: Setup) -> Loader:
    """Return our loader, with a server in its own process."""
    import pipeline

    server = stack.enter_context(dali_proxy.DALIServer(make_pipeline(pipeline, setup)))
    dataset = Tiny(1 << 30, server.proxy)
    batches = iter(dali_proxy.DataLoader(server, dataset, setup.batch_size, num_workers=setup.workers))
    workers = {f"worker {number}": each.pid for number, each in enumerate(batches._loop.workers)}
    return Loader("dali-proxy", batches, {"training": os.getpid(), "server": server.pid or 0, **workers})


def of_torch(setup: Setup) -> Loader:
    """Return torch's loader, which passes the samples through unchanged."""
    batches: Any = iter(DataLoader(Tiny(1 << 30, _same), setup.batch_size, num_workers=setup.workers))
    workers = {f"worker {number}": each.pid for number, each in enumerate(batches._workers)}
    return Loader("torch", batches, {"training": os.getpid(), **workers})


def _same(sample: torch.Tensor) -> torch.Tensor:
    return sample


def message_cost() -> float:
    """Return the microseconds for a message to a process that doesn't wait, and for reading it."""
    one, other = socket.socketpair()
    with one, other:
        return _per_call(lambda: (one.sendmsg([b"x" * 200]), other.recv(1000)))


def wake_up_cost() -> float:
    """Return the microseconds of processor time, in both processes, for a message that wakes a process."""
    ours, theirs = Pipe()
    process = Process(target=_answer, args=(theirs,), daemon=True)
    process.start()
    begin, count = time.process_time(), 2000
    for _ in range(count):
        ours.send_bytes(b"x")
        ours.recv_bytes()
    mine = time.process_time() - begin
    ours.send_bytes(b"")
    both = mine + ours.recv()
    process.join()
    return both / (2 * count) * 1e6


def _answer(connection: Any) -> None:
    begin = time.process_time()
    while connection.recv_bytes():
        connection.send_bytes(b"x")
    connection.send(time.process_time() - begin)


def handover_cost() -> float:
    """Return the microseconds of processor time until another thread of the process has run."""
    there, back = threading.Semaphore(0), threading.Semaphore(0)
    count = 2000

    def answer() -> None:
        for _ in range(count):
            there.acquire()
            back.release()

    thread = threading.Thread(target=answer)
    thread.start()
    begin = time.process_time()
    for _ in range(count):
        there.release()
        back.acquire()
    used = time.process_time() - begin
    thread.join()
    return used / (2 * count) * 1e6


def _per_call(call: Callable[[], object], count: int = 2000) -> float:
    begin = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begin) / count * 1e6


def main() -> None:
    """Measure and print."""
    options = parser().parse_args()
    print(
        f"a message {message_cost():.1f} us, a wake-up of a process {wake_up_cost():.1f} us, "
        f"a handover to a thread {handover_cost():.1f} us"
    )
    for batch_size in options.batch_sizes:
        setup = Setup("arrays-64B", Path(), batch_size, options.workers, 2)
        print(f"\nbatches of {batch_size}, {options.workers} workers")
        with ExitStack() as stack:
            loaders = [ours(stack, setup), of_torch(setup)]
            for _ in range(options.rounds):
                for loader in loaders:
                    loader.measure(options.seconds)
            for loader in loaders:
                print(f"{loader.name}: {statistics.median(loader.totals):.3f} ms per batch (median)")
            del loader, loaders  # ends the workers before their server


def parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.batch_cost",
        description="Print the processor time of a batch of 64-byte samples, by process and thread.",
    )
    made.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 16, 64], help="(default: %(default)s)")
    made.add_argument("--workers", type=int, default=2, help="worker processes (default: %(default)s)")
    made.add_argument("--rounds", type=int, default=3, help="measurements of each loader (default: %(default)s)")
    made.add_argument("--seconds", type=float, default=2.0, help="length of a measurement (default: %(default)s)")
    return made


if __name__ == "__main__":
    main()
