"""Connections to a server that ends at the same time."""

from __future__ import annotations

import secrets
import threading
from pathlib import Path

import pytest

from dali_proxy import ServerClosedError
from dali_proxy._transport.endpoint import Endpoint, open_channel
from dali_proxy._transport.protocol import CODEC, Goodbye
from pipeline._ipc.channel_server import ChannelServer


def test_goodbye_in_answer_to_a_greeting_means_a_closed_server(tmp_path: Path) -> None:
    """The loader restarts a closed server. Any other error would end the training."""
    key = secrets.token_bytes(32)
    server = ChannelServer(
        str(tmp_path / "socket"),
        key,
        CODEC,
        on_open=lambda channel: channel.post(Goodbye("it was stopped")),
        on_message=lambda channel, received: received.close_fds(),
        on_close=lambda channel, error: None,
    )
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
