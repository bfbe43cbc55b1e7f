"""The process of a server's dataset workers: it imports torch once, forks them, and replaces those that die."""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import sys
import time
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from dali_proxy._common.process_exit import describe_exit
from dali_proxy._pool.dataset_worker import run
from dali_proxy._transport.endpoint import Endpoint, open_channel
from dali_proxy.errors import ProxyError
from pipeline._ipc.channel import Channel
from pipeline._ipc.interpreter import listen_to_signals, restore_python_path

__all__ = ["Settings", "main"]

_PRELOADED = "dali_proxy._loader.pool_loader"  # the readers' module, and all that it imports; a higher layer
_CALM = 10.0  # seconds
_DEATHS = 10  # deaths of each worker, on average, in that time, after which the pool gives up


class Settings(NamedTuple):
    """What the pool's process needs to know.

    Attributes:
        endpoint: the server.
        number_of_workers: number of workers.
        directory: working directory of the user's process; empty if it has none.
        sys_path: its `sys.path`.
    """

    endpoint: Endpoint
    number_of_workers: int
    directory: str
    sys_path: tuple[str, ...]


def main() -> None:
    """Run the workers that standard input describes, until it is closed or the server ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the user's process decides
    listen_to_signals()
    settings = Settings(*pickle.load(sys.stdin.buffer))
    if settings.directory:
        with suppress(OSError):
            os.chdir(settings.directory)
    sys.path[:] = settings.sys_path
    restore_python_path()
    try:
        channel, _ = open_channel(settings.endpoint, "pool", "pool")
    except ProxyError:
        return  # the server is gone
    with channel:
        _supervise(settings, channel)


def _supervise(settings: Settings, channel: Channel) -> None:
    """Keep the workers running until the server or the user's process ends."""
    importlib.import_module(_PRELOADED)
    gc.collect()
    gc.freeze()  # a worker that collected inherited objects would copy their pages
    workers = {number: _start(settings, number) for number in range(settings.number_of_workers)}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    patience, deaths = time.monotonic() + _CALM, 0
    while True:
        ends = [sys.stdin.fileno(), channel.fileno()]
        ready = wait([*ends, *(worker.sentinel for worker in workers.values())])
        if any(end in ready for end in ends):  # closed, or the server's goodbye
            break
        if time.monotonic() > patience:
            patience, deaths = time.monotonic() + _CALM, 0
        for number, worker in workers.items():
            worker.join(0)
            if worker.exitcode is None:
                continue
            deaths += 1
            what = f"dali-proxy: a dataset worker (pid {worker.pid}) {describe_exit(worker.exitcode)}"
            if deaths > _DEATHS * settings.number_of_workers:
                sys.stderr.write(f"{what}; too many have died within {_CALM:g} s, so no other one starts\n")
                return
            if channel.alive():
                sys.stderr.write(f"{what}; another one starts\n")
                sys.stderr.flush()
                workers[number] = _start(settings, number)
    for worker in workers.values():
        worker.kill()
        worker.join()


def _start(settings: Settings, number: int) -> BaseProcess:
    worker = multiprocessing.get_context("fork").Process(
        target=run,
        args=(settings.endpoint, number, settings.number_of_workers),
        name=f"dataset worker {number}",
        daemon=True,
    )
    worker.start()
    return worker
