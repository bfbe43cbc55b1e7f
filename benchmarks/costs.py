"""What is paid once, or for every batch whatever it holds: start-up, and the server's own work."""

from __future__ import annotations

import json
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
"""Seconds that one start may take before something is wrong."""


def measure_costs(setup: Setup, rounds: int, seconds: float, say: Callable[[str], None]) -> dict[str, list[float]]:
    """Measures all costs, on the CPU.

    Args:
        setup: Folder, batch size, workers and threads.
        rounds: How often each is measured.
        seconds: How long the server's work is measured, in each round.
        say: Told what is being done.

    Returns:
        One figure a round: ``server_ms_per_batch``, the processor time of the server for a batch of 64-byte arrays;
        ``first_batch_seconds``, ``workers_start_seconds`` and ``workers_start_torch_seconds``, as ``startup`` measures
        them; and ``workers_start_ratio``, torch's time divided by ours.
    """
    say("costs: the server's own work")
    costs = {"server_ms_per_batch": server_costs(setup, rounds, seconds)}
    for number in range(rounds):
        say(f"costs: start {number + 1} of {rounds}")
        times = startup_times(setup, torch_first=number % 2 == 1)
        times["workers_start_ratio"] = times["workers_start_torch_seconds"] / times["workers_start_seconds"]
        for name, value in times.items():
            costs.setdefault(name, []).append(value)
    return {name: [round(value, 4) for value in values] for name, values in costs.items()}


def server_costs(setup: Setup, rounds: int, seconds: float) -> list[float]:
    """Milliseconds of processor time, of all threads, that the server's process uses for one batch of tiny arrays."""
    # Imported here, because this module is imported in the process of every rival.
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


def startup_times(setup: Setup, torch_first: bool) -> dict[str, float]:
    """Runs ``benchmarks.startup`` in a fresh interpreter.

    Args:
        setup: Folder, batch size, workers and threads.
        torch_first: Whether torch's workers are started before ours.

    Returns:
        Seconds by name.
    """
    sizes = map(str, (setup.batch_size, setup.workers, setup.threads))
    command = [sys.executable, "-m", "benchmarks.startup", str(setup.folder), *sizes, str(int(torch_first))]
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=PATIENCE, check=True)
    times: dict[str, float] = json.loads(done.stdout)
    return times
