"""The direct connection of a server in a cluster: only the training process, which knows the key, gets results."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np

from dali_proxy._cluster.result_stream import ResultReceiver, ResultSender
from tests.waiting import PATIENCE_S, wait_until


def test_only_a_client_with_the_key_gets_results() -> None:
    sender, receiver = ResultSender("127.0.0.1"), ResultReceiver()
    buffers = [np.arange(200_000, dtype=np.uint8)]
    address, arrived = sender.address, list[tuple[int, Any]]()
    try:
        for proof in (bytes(32), address.key[:31] + b"?", address.key[:-1]):
            with socket.create_connection((address.host, address.port), PATIENCE_S) as stranger:
                stranger.sendall(proof)
                if len(proof) < 32:
                    stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
        assert not sender.send(1, buffers)  # Ray carries them
        assert receiver.connect(address, lambda *result: arrived.append(result), lambda: None)
        wait_until(lambda: sender.send(2, buffers))
        wait_until(lambda: arrived)
        assert [number for number, _ in arrived] == [2]
        assert np.array_equal(arrived[0][1][0], buffers[0])
    finally:
        receiver.close()
        if sender._connection is not None:
            sender._connection.close()
