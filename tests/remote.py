"""A web server for a folder, with ranges, listings, latency and faults."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["WebServer", "serving"]


class _Handler(SimpleHTTPRequestHandler):
    server: WebServer

    def log_message(self, *arguments: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(head=True)

    def do_GET(self) -> None:
        self._answer(head=False)

    def _answer(self, head: bool) -> None:
        self.server.enter()
        with self.server.lock:
            self.server.requests[self.path] += 1
            fault = self.server.faults.get(self.path, [])
            fault_now = fault.pop(0) if fault else None
        if isinstance(fault_now, int):
            self.send_error(fault_now)
            return
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            (super().do_HEAD if head else super().do_GET)()
            return
        content = path.read_bytes()
        size, status = len(content), 200
        wanted = self.headers.get("Range") if self.server.ranges else None
        if wanted is not None:
            first, last = wanted.removeprefix("bytes=").split("-")
            content = content[int(first) : int(last) + 1 if last else None]
            status = 206
        self.send_response(status)
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if not head:
            self.wfile.write(content[: len(content) // 2] if fault_now == "truncate" else content)


class WebServer(ThreadingHTTPServer):
    """Serves a folder on a free port of this machine.

    Attributes:
        latency: seconds that each answer takes.
        gate: number of requests that must have arrived before the first one is answered.
        most_at_once: largest number of requests at once so far, while there was a gate.
        faults: answers in place of the next ones, by path: statuses of HTTP, or "truncate".
        requests: number of requests, by path.
        ranges: whether it knows ranges.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self.lock = threading.Lock()
        self.latency = 0.0
        self.gate = 0
        self.most_at_once = 0
        self._arrived = threading.Condition(self.lock)
        self.faults: dict[str, list[int | str]] = {}
        self.requests: Counter[str] = Counter()
        self.ranges = True

    def enter(self) -> None:
        """Wait as long as an answer takes."""
        time.sleep(self.latency)
        with self._arrived:
            self.most_at_once += 1
            self._arrived.notify_all()
            assert self._arrived.wait_for(lambda: self.most_at_once >= self.gate, timeout=60)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(folder: Path) -> Iterator[WebServer]:
    """Serve a folder within the block."""
    with WebServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="web server")
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
