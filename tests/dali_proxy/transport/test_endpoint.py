"""Connections to a server that ends at the same time."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgpack
import pytest

from dali_proxy import DALIServer, ProxyError, ServerClosedError
from dali_proxy._monitor.servers import Servers
from dali_proxy._transport import endpoint as endpoints
from dali_proxy._transport.endpoint import Endpoint, open_channel, open_monitor
from dali_proxy._transport.protocol import CODEC, VERSION, Goodbye, Hello, Welcome
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.channel_server import ChannelServer
from dali_proxy.pipeline._ipc.connecting import connect
from pipeline import Pipeline, fn


def test_goodbye_in_answer_to_a_greeting_means_a_closed_server(tmp_path: Path) -> None:
    """The loader restarts a closed server. Any other error would end the training."""
    key = secrets.token_bytes(32)
    server = ChannelServer(
        CODEC,
        on_message=lambda channel, received: received.close_fds(),
        on_close=lambda channel, error: None,
    )
    server.listen(str(tmp_path / "socket"), key, lambda channel: channel.post(Goodbye("it was stopped")))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        endpoint = Endpoint(str(tmp_path / "socket"), key, inputs=(), outputs=1, max_batch_size=1)
        with pytest.raises(ServerClosedError, match="it was stopped"):
            open_channel(endpoint, "worker", "test")
    finally:
        server.stop()
        thread.join(60)
        server.close()


@pytest.fixture(scope="module")
def server() -> Iterator[DALIServer]:
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.external_source(name="x") + 1)
    with DALIServer(pipe, mode="thread") as server:
        yield server


def open_one(server: DALIServer, role: str) -> Channel:
    if role == "monitor":
        return open_monitor(server.endpoint.path)
    channel, received = open_channel(server.endpoint, role, "test")
    received.close_fds()
    return channel


@pytest.mark.parametrize("role", ["worker", "consumer", "dataset worker", "pool", "monitor"])
def test_client_of_another_release_is_refused(role: str, server: DALIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    open_one(server, role).close()
    monkeypatch.setattr(endpoints, "Hello", partial(Hello, version=VERSION + 1))
    monkeypatch.setattr(endpoints, "VERSION", VERSION + 1)
    expected = f"the server speaks version {VERSION} of the protocol, this process {VERSION + 1}: use the same release"
    with pytest.raises(ProxyError, match=expected) as error:
        open_one(server, role)
    assert not isinstance(error.value, ServerClosedError)  # the loader would start it again


def test_monitor_names_servers_of_another_release_once(server: DALIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "VERSION", VERSION + 1)
    servers = Servers(server.endpoint.path)
    with pytest.warns(RuntimeWarning, match="a server isn't shown: the server speaks version"):
        assert servers.observations(newer=True) == []
    assert servers.observations(newer=True) == []  # without a warning, which would be an error here
    servers.close()


def test_server_says_why_it_refuses_a_client_of_another_release(server: DALIServer) -> None:
    channel = connect(server.endpoint.path, server.endpoint.key, CODEC)
    channel.send(Hello(version=VERSION + 1, role="worker"))
    assert channel.receive(timeout=60).message == Welcome()
    reason = channel.receive(timeout=60).message.reason
    assert f"the server speaks version {VERSION} of the protocol, process" in reason
    channel.close()


@pytest.mark.parametrize("message", [Hello(version=7, role="worker"), Welcome(version=7)])
def test_version_of_another_release_can_be_read(message: Hello | Welcome) -> None:
    """Other releases may have more fields or fewer ones."""
    number, body = CODEC.encode(message)
    fields = msgpack.unpackb(body)
    for others in ([7], [*fields, {"new": [1]}, None]):
        assert CODEC.decode(number, msgpack.packb(others)).version == 7
