"""Several hosts in processes of their own, which share the batches of one server."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import replace

from dali_proxy._common.folders import make_folder
from dali_proxy._host.options import HostOptions
from dali_proxy._host.process import CLOSING, ProcessHost, open_process
from dali_proxy._transport.endpoint import path_of_process
from dali_proxy._transport.exchange import LocalExchange
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.errors import IPCError
from dali_proxy.pipeline._ipc.signals import deferred_signals

_GLANCE = 0.01  # seconds between checks of the processes


class HostGroup:
    """Has the interface of `ProcessHost` for several processes. If one of them ends, the group isn't alive any more.

    Args:
        pipeline: the pipeline of each process, from `serialize_for_host`.
        options: settings of the server; each process has a socket and a token of its own.
        count: number of processes.

    Raises:
        BuildError: the pipeline can't run here.
        ServerDiedError: a process ended before it served.
        ProxyError: it doesn't serve in time.

    Attributes:
        hosts: the processes, by their numbers.
        local: None: results on a GPU are shared between the processes.
    """

    local: LocalExchange | None = None

    def __init__(self, pipeline: bytes, options: HostOptions, count: int) -> None:
        self.hosts: list[ProcessHost] = []
        each = replace(options, unclaimed_bytes=max(options.unclaimed_bytes // count, 1))
        paths = [path_of_process(options.path, number) for number in range(count)]
        with ExitStack() as failure, ExitStack() as folders:
            failure.callback(self.stop, "it couldn't start")
            with deferred_signals:  # they import their modules at the same time
                opened = []
                for path in paths:
                    if path != options.path:
                        folders.enter_context(make_folder(os.path.dirname(path)))
                    opened.append(open_process(os.path.dirname(path), options.hides_gpus))
                    failure.callback(_end, opened[-1])
            # The first one last: monitors look for it.
            for path, process in reversed([*zip(paths, opened, strict=True)]):
                siblings = tuple(other.pid for other, _ in opened if other is not process[0])
                own = replace(each, path=path, server=secrets.token_bytes(16), siblings=siblings)
                self.hosts.insert(0, ProcessHost(pipeline, own, opened=process))
            failure.pop_all()

    @property
    def pid(self) -> int:
        """ID of the first process."""
        return self.hosts[0].pid

    @property
    def alive(self) -> bool:
        """Whether all processes run."""
        return all(host.alive for host in self.hosts)

    def describe_exit(self, patience: float = 5.0) -> str:
        """Return how the first process that ended did, or why one is ending; empty while all run."""
        end = time.monotonic() + min(patience, CLOSING)
        while not (ending := [host for host in self.hosts if host.is_ending]) and time.monotonic() < end:
            time.sleep(_GLANCE)
        first = min(ending, key=lambda host: host.alive, default=None)
        return "" if first is None else first.describe_exit(patience)

    def stop(self, reason: str) -> None:
        """Stop all processes, at the same time: else a worker that lost one would count as dead, and be replaced."""
        with ExitStack() as steps:
            for host in self.hosts:
                steps.callback(host.stop, reason)
            for host in self.hosts:
                with suppress(IPCError):  # it has ended already
                    host.ask_to_stop()


def _end(opened: tuple[subprocess.Popen[bytes], Channel]) -> None:
    process, control = opened
    control.close()
    process.kill()
    process.wait()
