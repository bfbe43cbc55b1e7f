"""The process of a server's dataset workers: it imports torch once, forks as many as wanted, and replaces the dead."""

from __future__ import annotations

import gc
import importlib
import itertools
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import time
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from dali_proxy._common.bound_process import with_bound_workers
from dali_proxy._common.process_exit import describe_exit
from dali_proxy._pool.dataset_worker import LET_GO, run
from dali_proxy._transport.endpoint import Endpoint, open_channel
from dali_proxy._transport.protocol import DatasetWorkers
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import IPCError
from dali_proxy.pipeline._ipc.interpreter import adopt_import_path, listen_to_signals

_PRELOADED = "dali_proxy._loader.batch_reader"  # the readers' module, and all that it imports; a higher layer
_CALM = 10.0  # seconds
_DEATHS = 10  # deaths of each worker, on average, in that time, after which the pool gives up


class Settings(NamedTuple):
    """What the pool's process needs to know.

    Attributes:
        endpoint: the server.
        number_of_workers: number of workers, until the server wants another one.
        directory: working directory of the user's process; empty if it has none.
        sys_path: its `sys.path`.
        modules: modules of its datasets, which the workers need. Imported here, once, they cost each worker nothing.
    """

    endpoint: Endpoint
    number_of_workers: int
    directory: str
    sys_path: tuple[str, ...]
    modules: tuple[str, ...] = ()


def main() -> None:
    """Run the workers until the user's process or the server ends.

    The argument of the program is the descriptor of a socket: the user's process writes the settings, and reads a byte
    when the workers have started.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the user's process decides
    listen_to_signals()
    parent = socket.socket(fileno=int(sys.argv[1]))
    try:
        with parent.makefile("rb") as file:
            settings = Settings(*pickle.load(file))
    except (EOFError, ConnectionError):
        return  # the server couldn't start
    if settings.directory:
        with suppress(OSError):
            os.chdir(settings.directory)
    adopt_import_path(settings.sys_path)
    try:
        channel, _ = open_channel(settings.endpoint, "pool", "pool")
    except ProxyError:
        return  # the server is gone
    with channel:
        _supervise(settings, channel, parent)


def _supervise(settings: Settings, channel: Channel, parent: socket.socket) -> None:
    """Keep the workers running until the server or the user's process ends."""
    importlib.import_module(_PRELOADED)
    for name in settings.modules:
        with suppress(Exception, SystemExit):  # the workers report what is missing
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a worker that collected inherited objects would copy their pages
    workers: dict[int, BaseProcess] = {}
    wanted = settings.number_of_workers
    _fill(settings, workers, wanted)
    with suppress(ConnectionError):  # the parent has ended: the loop notices
        parent.sendall(b"1")
    patience, deaths = time.monotonic() + _CALM, 0
    ready: list[Any] = []
    while parent.fileno() not in ready:
        try:
            received = [each.message for each in channel.receive_ready()]  # the first ones came with the greeting
        except IPCError:
            break
        if not all(isinstance(message, DatasetWorkers) for message in received):  # the server's goodbye
            break
        wanted = next((message.count for message in reversed(received)), wanted)
        if time.monotonic() > patience:
            patience, deaths = time.monotonic() + _CALM, 0
        for number, worker in [*workers.items()]:
            worker.join(0)
            if worker.exitcode is None:
                continue
            del workers[number]
            if worker.exitcode == LET_GO:
                continue
            deaths += 1
            what = f"dali-proxy: a dataset worker (pid {worker.pid}) {describe_exit(worker.exitcode)}"
            if deaths > _DEATHS * max(wanted, 1):
                sys.stderr.write(f"{what}; too many have died within {_CALM:g} s, so no other one starts\n")
                return
            if channel.alive():
                sys.stderr.write(f"{what}{'; another one starts' if len(workers) < wanted else ''}\n")
                sys.stderr.flush()
        if len(workers) < wanted and channel.alive():
            _fill(settings, workers, wanted)
        ready = wait([parent.fileno(), channel.fileno(), *(worker.sentinel for worker in workers.values())])
    for worker in workers.values():
        worker.kill()
        worker.join()


def _fill(settings: Settings, workers: dict[int, BaseProcess], wanted: int) -> None:
    """Start workers until there are as many as wanted."""
    numbers = (number for number in itertools.count() if number not in workers)
    while len(workers) < wanted:
        number = next(numbers)
        workers[number] = _start(settings, number, wanted)


def _start(settings: Settings, number: int, count: int) -> BaseProcess:
    context: Any = with_bound_workers(multiprocessing.get_context("fork"))
    worker: BaseProcess = context.Process(
        target=run,
        args=(settings.endpoint, number, count),
        name=f"dataset worker {number}",
        daemon=True,
    )
    worker.start()
    return worker
