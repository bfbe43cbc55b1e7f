"""A page in the browser that shows running servers: the HTTP server behind it.

Only programs on this machine can connect. The page needs a token, so that other users and pages of other sites can't
read it. A name of another site that resolves to 127.0.0.1 (DNS rebinding) is refused by the `Host` header.
"""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dali_proxy._monitor.servers import Servers
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._cached_property import cached_property

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TIMEOUT = 10.0  # seconds that a browser may take for a request


class WebServer(ThreadingHTTPServer):
    """Serves the page on the loopback interface.

    Args:
        servers: the servers to show.
        port: TCP port; 0 for a free one.

    Attributes:
        token: secret that a request must contain.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, servers: Servers, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.servers = servers
        self.token = secrets.token_urlsafe(16)

    @property
    def url(self) -> str:
        """Address of the page, with the token."""
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """Values of the header `Host` that are accepted."""
        return f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a browser that went away; report other errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: WebServer
    timeout = _TIMEOUT
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dali-proxy", ""

    def do_GET(self) -> None:  # http.server chooses the name
        try:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
        except ValueError:
            self._refuse(400, "this isn't an address")
            return
        token = query.get("token", "").encode()
        if self.headers.get("Host", "") not in self.server.hosts:
            self._refuse(403, "this name isn't this machine's")
        elif not secrets.compare_digest(token, self.server.token.encode()):
            self._refuse(403, "the token is missing or wrong: open the address that was printed")
        elif address.path == "/":
            self._send_page()
        else:
            reports = self.server.servers
            subjects: dict[str, Callable[[], Any]] = {
                "/servers": reports.observe,
                "/graph": lambda: reports.request(int(query.get("server", "0")), "graph"),
                "/samples": lambda: reports.request(int(query.get("server", "0")), "samples"),
            }
            subject = subjects.get(address.path)
            if subject is None:
                self._refuse(404, "there is no such page")
                return
            try:
                report = subject()
            except (ProxyError, ValueError) as error:
                report = {"unavailable": str(error)}  # with another status, browsers log an error
            self._send(200, "application/json", json.dumps(report).encode())

    def _send_page(self) -> None:
        nonce = secrets.token_urlsafe(16)
        page = files("dali_proxy._monitor").joinpath("page.html").read_text(encoding="utf-8").replace("NONCE", nonce)
        self._send(
            200, "text/html; charset=utf-8", page.encode(), {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        )

    def _refuse(self, status: int, reason: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"dali-proxy: {reason}\n".encode())

    def _send(self, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: addresses contain the token."""


def main() -> None:
    """Serve the page for one server until standard input ends: `DALIServer.dashboard` starts this program.

    The arguments are the path of the server's socket and a port. The page's address is written to standard output.
    """
    path, port = sys.argv[1:]
    servers = Servers(path)
    try:
        web = WebServer(servers, int(port))
    except OSError as error:
        sys.stdout.write(f"error: {error}\n")
        return
    sys.stdout.write(f"{web.url}\n")
    sys.stdout.flush()
    threading.Thread(target=web.serve_forever, name="dali-web", daemon=True).start()
    sys.stdin.buffer.read()  # ends with the process that started this one, at the latest
