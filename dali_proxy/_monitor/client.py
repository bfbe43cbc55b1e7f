"""A connection to a server for reading its reports."""

from __future__ import annotations

import itertools
import json
import os
import time
from dataclasses import replace
from typing import Any

from dali_proxy._common.in_flight import InFlight
from dali_proxy._common.latency import Latency
from dali_proxy._common.report_sums import summed
from dali_proxy._server.telemetry import OF_LOOPS, ServerStats, slowest_of
from dali_proxy._transport.endpoint import open_monitor, path_of_process, server_errors
from dali_proxy._transport.protocol import Stats, StatsRequest
from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._ipc.errors import ChannelTimeoutError

_TIMEOUT = 5.0  # seconds


class MonitorClient:
    """Reads the reports of a server that any process of this user has started. Thread-safe.

    Raises:
        ProxyError: no server of this version runs there.

    Attributes:
        pid: ID of the server's process.
        others: connections to the other processes that share its batches.
        host_id: number of the host within this process, once `stats` was called. Jobs may share a host.
    """

    def __init__(self, path: str) -> None:
        self._channel = open_monitor(path)
        self.pid = self._channel.peer_pid
        self.host_id = 0
        self._lock = new_lock(Level.MONITOR_CLIENT, "monitor client")
        self._tokens = itertools.count(1)
        self._late: dict[int, str] = {}  # requests whose answers didn't come in time: their subjects, by token
        self._reports: dict[str, dict[str, Any]] = {}  # late answers, by subject
        self.others: list[MonitorClient] = []
        try:
            for number in itertools.count(1):
                other = path_of_process(path, number)
                if not os.path.exists(other):
                    break
                self.others.append(MonitorClient(other))
        except BaseException:
            self.close()
            raise

    @property
    def ended(self) -> bool:
        """Whether the connection has ended."""
        return not self._channel.alive() or any(other.ended for other in self.others)

    def request(self, subject: str, timeout: float = _TIMEOUT) -> dict[str, Any]:
        """Return a report; see `StatsRequest`.

        An answer that comes too late is returned by the next call: the batch that it shows is the last one.

        Raises:
            ServerDiedError: the server is gone.
            ProxyError: it doesn't answer in time.
        """
        with self._lock, server_errors():
            if subject not in self._late.values():
                token = next(self._tokens)
                self._channel.send(StatsRequest(token, subject), timeout=_TIMEOUT)
                self._late[token] = subject
            deadline = time.monotonic() + timeout
            while subject not in self._reports:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ChannelTimeoutError(f"no answer within {timeout:g} s")
                message = self._channel.receive(timeout=left).message
                if isinstance(message, Stats) and message.token in self._late:  # else a farewell
                    self._reports[self._late.pop(message.token)] = json.loads(message.text)
            return self._reports.pop(subject)

    def stats(self) -> ServerStats:
        """Return the server's counters, with the sums of the loops of all processes that fetch from it.

        Raises:
            ProxyError: the server is gone or doesn't answer.
        """
        first = self.request("stats")
        loops, self.host_id = first.pop("loops"), first.pop("host_id")
        others = [other.request("stats") for other in self.others]
        report = summed([first, *others], here=True)
        latency: dict[str, Latency] = {}
        slowest: dict[str, float] = {}
        for each in loops:
            found = {stage: Latency(dict(counts)) for stage, counts in each["latency"]}
            latency |= {stage: latency.get(stage, Latency()) + added for stage, added in found.items()}
            slowest |= {index: max(seconds, slowest.get(index, 0.0)) for index, seconds in each["slowest"]}
        stats = ServerStats.from_report(report, latency, slowest=slowest_of(slowest))
        counted = (*OF_LOOPS, "skipped", "replaced", "restarts")
        sums = {name: sum(each[name] for each in loops) for name in counted}
        if loops:
            last = loops[-1]
            sums |= {name: last[name] for name in ("num_workers_reason", "num_threads_reason")}
            sums["placement"], sums["placement_reason"] = last["placement"], last["placement_reason"]
            sums["in_flight"] = {name: InFlight(batches, reason) for name, batches, reason in last["in_flight"]}
        return replace(stats, **sums)

    def close(self) -> None:
        """Disconnect."""
        self._channel.close()
        for other in self.others:
            other.close()
