"""The live page: what its HTTP server answers, and to whom."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from dali_proxy import DALIServer, DataLoader
from dali_proxy._monitor.servers import Servers
from dali_proxy._monitor.web import WebServer
from dali_proxy.errors import ProxyError
from tests.dali_proxy.indexed import IndexDataset, affine
from tests.waiting import wait_until


def loop(server: DALIServer) -> None:
    for _ in DataLoader(server, IndexDataset(8, server.proxy), batch_size=4):
        pass


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[DALIServer, WebServer]]:
    with DALIServer(affine()) as server:
        servers = Servers(server.endpoint.path)
        loop(server)  # all connections begin here
        servers.observe()
        servers.request(server.pid or 0, "graph")
        with WebServer(servers) as web:
            thread = threading.Thread(target=web.serve_forever)
            thread.start()
            yield server, web
            web.shutdown()
            thread.join()
        servers.close()


def get(web: WebServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", web.server_port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def test_page_needs_no_other_site(served: tuple[DALIServer, WebServer]) -> None:
    web = served[1]
    status, body, headers = get(web, f"/?token={web.token}")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "https://" not in body
    assert body.count('nonce="') == 2
    assert "NONCE" not in body


@pytest.mark.parametrize("path", ["/", "/servers", "/graph?server=1", "/samples?server=1"])
def test_token_is_needed(served: tuple[DALIServer, WebServer], path: str) -> None:
    web = served[1]
    joined = "&" if "?" in path else "?"
    for query in ("", f"{joined}token=", f"{joined}token={web.token[:-1]}", f"{joined}token=%C3%A9"):
        assert get(web, path + query)[0] == 403


def test_address_that_cannot_be_parsed_is_refused_silently(
    served: tuple[DALIServer, WebServer], capfd: pytest.CaptureFixture[str]
) -> None:
    web = served[1]
    for address in (b"http://[::1", b"//[", b"/?token=%ff%00&" + b"a=1&" * 2000, b"\xff://["):
        with socket.create_connection(("127.0.0.1", web.server_port), timeout=60) as connection:
            connection.sendall(b"GET " + address + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(64).split()[1] in (b"400", b"403")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", ""])
def test_names_of_other_sites_are_refused(served: tuple[DALIServer, WebServer], host: str) -> None:
    web = served[1]
    path = f"/servers?token={web.token}"
    assert get(web, path, Host=host.format(port=web.server_port))[0] == 403
    assert get(web, path, Host=f"localhost:{web.server_port}")[0] == 200


def test_reports_are_json(served: tuple[DALIServer, WebServer]) -> None:
    server, web = served
    answers: dict[str, Any] = {}

    def ask(path: str) -> None:
        status, body, _ = get(web, f"{path}&token={web.token}")
        answers[path] = status, json.loads(body)

    ask("/servers?")
    assert [each["pid"] for each in answers["/servers?"][1]] == [server.pid]
    graph = f"/graph?server={server.pid}"
    ask(graph)
    names = [node["name"] for node in answers[graph][1]["nodes"]]
    assert "fn.external_source (name='x')" in names
    samples = f"/samples?server={server.pid}"
    asking = threading.Thread(target=ask, args=(samples,))
    asking.start()
    while asking.is_alive():  # the next batch answers
        loop(server)
    status, report = answers[samples]
    assert status == 200
    assert report["batch"]["samples"] == 4
    ask("/graph?server=1")
    assert "no server runs in process 1" in answers["/graph?server=1"][1]["unavailable"]
    assert get(web, f"/other?token={web.token}")[0] == 404
    assert get(web, f"/?token={web.token}", "POST")[0] == 501


def test_page_of_a_server_ends_with_it() -> None:
    with DALIServer(affine(), mode="thread") as server:
        dashboard = server.dashboard()
        address = urlsplit(dashboard.url)
        assert address.hostname == "127.0.0.1"
        with pytest.raises(ProxyError, match="can't start"):
            server.dashboard(port=address.port or 0)
        connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=60)
        connection.request("GET", f"/servers?{address.query}")
        assert json.loads(connection.getresponse().read())[0]["total"]["batches"] == 0
        connection.close()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=60).connect()
    with pytest.raises(ProxyError):
        server.dashboard()


def test_page_ends_with_the_process_that_opened_it() -> None:
    program = "from dali_proxy._monitor.web import main; main()"
    page = subprocess.Popen(
        [sys.executable, "-c", program, "/missing/socket", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert page.stdin is not None
    assert page.stdout is not None
    with page.stdout, page.stdin:
        assert page.stdout.readline().startswith(b"http://127.0.0.1:")
        page.stdin.close()
        wait_until(lambda: page.poll() is not None)
