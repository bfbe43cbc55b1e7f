"""Measure the costs per start and per batch that don't depend on the batch: start-up, and the server's own work."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.datasets import make_dataset
from benchmarks.graph import make_pipeline
from benchmarks.measurement import WARM_UP
from benchmarks.workload import Setup

PATIENCE = 120.0
"""Seconds after which a start counts as failed."""

START_UPS = {
    "first-batch": ("first_batch_seconds",),
    "workers-ours": ("workers_start_seconds", "workers_start_later_seconds"),
    "workers-torch": ("workers_start_torch_seconds", "workers_start_later_torch_seconds"),
}
"""The measurements of ``benchmarks.startup``, each in a separate interpreter, and the names of their figures."""


def measure_costs(setup: Setup, rounds: int, seconds: float, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Measure all costs on the CPU.

    Args:
        setup: Folder, batch size, workers and threads.
        rounds: Number of measurements of each cost.
        seconds: Duration of the measurement of the server's work, in each round.
        say: Called with progress messages.

    Returns:
        One figure per round: ``server_ms_per_batch``, the server's CPU time for a batch of 64-byte arrays;
        the seconds of ``START_UPS``; and torch's times divided by ours, ``workers_start_ratio`` and
        ``workers_start_later_ratio``.
    """
    say("costs: the server's own work")
    costs = {"server_ms_per_batch": server_costs(setup, rounds, seconds)}
    for number in range(rounds):
        say(f"costs: start {number + 1} of {rounds}")
        times = {}
        for what, names in sorted(START_UPS.items(), reverse=number % 2 == 1):
            times.update(zip(names, startup_times(what, setup), strict=True))
        for name in ("workers_start", "workers_start_later"):
            times[f"{name}_ratio"] = times[f"{name}_torch_seconds"] / times[f"{name}_seconds"]
        for name, value in times.items():
            costs.setdefault(name, []).append(value)
    return {name: [round(value, 4) for value in values] for name, values in costs.items()}


def server_costs(setup: Setup, rounds: int, seconds: float) -> list[float]:
    """Return the CPU milliseconds, of all threads, that the server's process uses for one batch of tiny arrays."""
    # Imported here, because the process of every rival imports this module.
    import dali_proxy
    import pipeline

    setup = Setup("arrays-64B", setup.folder, setup.batch_size, setup.workers, setup.threads)
    found = []
    with dali_proxy.DALIServer(make_pipeline(pipeline, setup)) as server:
        dataset = make_dataset(setup, server.proxy)
        batches = iter(dali_proxy.DataLoader(server, dataset, setup.batch_size, num_workers=setup.workers))
        process = psutil.Process(server.pid)
        for _ in range(WARM_UP):
            next(batches)
        for _ in range(rounds):
            used, count = sum(process.cpu_times()[:2]), 0
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                next(batches)
                count += 1
            found.append((sum(process.cpu_times()[:2]) - used) / count * 1e3)
    return found


def startup_times(what: str, setup: Setup) -> list[float]:
    """Run ``benchmarks.startup`` in a fresh interpreter.

    Args:
        what: Name of one of its measurements.
        setup: Folder, batch size, workers and threads.

    Returns:
        The measured seconds.
    """
    sizes = map(str, (setup.batch_size, setup.workers, setup.threads))
    command = [sys.executable, "-m", "benchmarks.startup", what, str(setup.folder), *sizes]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=True)
    return [float(word) for word in done.stdout.split()]
