"""The running servers, as one object that threads may share."""

from __future__ import annotations

import time
import warnings
from typing import Any

import psutil

from dali_proxy._monitor.client import MonitorClient
from dali_proxy._monitor.discovery import find_sockets
from dali_proxy._monitor.observation import Observation, Observer
from dali_proxy._transport.endpoint import OtherReleaseError
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._concurrency.locks import Level, new_lock

_INTERVAL = 0.9  # seconds; a second request within this time gets the same observations
_PATIENCE = 3.0  # seconds to wait for the next batch


class Servers:
    """Connections to servers. Thread-safe.

    Args:
        path: path of the socket of the only server to observe; None for all servers of this user.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._lock = new_lock(Level.MONITOR, "monitored servers")
        self._connected: dict[str, tuple[MonitorClient, Observer]] = {}
        self._requests: dict[int, MonitorClient] = {}  # other connections, for requests that wait for a batch
        self._refusing: set[str] = set()  # sockets of servers of another release
        self._last: tuple[float, list[Observation]] = (0.0, [])

    def observations(self, *, newer: bool = False) -> list[Observation]:
        """Return an observation of each running server, in the order of their process IDs; jobs that share one are one.

        Args:
            newer: whether to observe now, even if the last observations were made a moment ago.
        """
        with self._lock:
            made, observations = self._last
            if not newer and time.monotonic() < made + _INTERVAL:
                return observations
            self._connect()
            found: dict[tuple[int, int], Observation] = {}
            for path, (client, observer) in list(self._connected.items()):
                try:
                    observed = observer.observe()
                    found.setdefault((client.pid, client.host_id), observed)
                except (ProxyError, psutil.Error):  # it has ended
                    client.close()
                    del self._connected[path]
            observations = sorted(found.values(), key=lambda each: each.pid)
            self._last = time.monotonic(), observations
            return observations

    def observe(self) -> list[dict[str, Any]]:
        """Return `observations` as plain data."""
        return [each.to_dict() for each in self.observations()]

    def request(self, pid: int, subject: str) -> dict[str, Any]:
        """Return a report of a server; see `StatsRequest`.

        Raises:
            ProxyError: there is no such server, or it has no new batch within a few seconds.
        """
        with self._lock:
            paths = [path for path, (client, _) in self._connected.items() if client.pid == pid]
            client = self._requests.get(pid)
            if client is not None and client.ended:
                self._requests.pop(pid).close()
                client = None
            if client is None:
                if not paths:
                    raise ProxyError(f"no server runs in process {pid}")
                client = self._requests[pid] = MonitorClient(paths[0])
        return client.request(subject, _PATIENCE)

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for client in [*[client for client, _ in self._connected.values()], *self._requests.values()]:
                client.close()
            self._connected.clear()
            self._requests.clear()

    def _connect(self) -> None:
        paths = find_sockets() if self._path is None else [self._path]
        for path, (client, _) in list(self._connected.items()):
            if path not in paths or client.ended:
                client.close()
                del self._connected[path]
        for path in paths:
            if path not in self._connected:
                try:
                    client = MonitorClient(path)
                    self._connected[path] = client, Observer(client)
                except OtherReleaseError as error:
                    if path not in self._refusing:
                        self._refusing.add(path)
                        warnings.warn(f"a server isn't shown: {error}", RuntimeWarning, stacklevel=2)
                except (ProxyError, psutil.Error):  # it has ended
                    continue
