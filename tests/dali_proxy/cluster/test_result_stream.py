"""The direct connection of a server in a cluster: only the training process, which knows the key, gets results."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import numpy as np

from dali_proxy._cluster.result_stream import ResultReceiver, ResultSender, _read
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


class Counting:
    """A socket that counts the calls that read."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.calls = 0

    def recv_into(self, *arguments: Any) -> int:
        self.calls += 1
        return self.connection.recv_into(*arguments)


def test_large_buffers_take_few_calls() -> None:
    """A call ends with a wait for the GIL, which a training loop may hold."""
    sent = [np.arange(size, dtype=np.uint8) for size in (1 << 24, 1, 1 << 22)]
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as thread:
        sending = thread.submit(lambda: [ours.sendall(each) for each in sent])
        counting = Counting(theirs)
        for each in sent:
            assert np.array_equal(_read(cast("socket.socket", counting), np.empty_like(each)), each)
        assert counting.calls == len(sent)
        sending.result()


def test_end_of_the_connection_is_noticed_unless_it_was_closed_here() -> None:
    senders, receiver, ended = [ResultSender("127.0.0.1") for _ in range(2)], ResultReceiver(), list[int]()
    for number, sender in enumerate(senders):
        assert receiver.connect(sender.address, lambda *_: None, partial(ended.append, number))
    wait_until(lambda: all(sender._connection for sender in senders))
    first, second = (cast("socket.socket", sender._connection) for sender in senders)
    first.sendall(bytes(7))  # a part of the counts
    first.close()
    wait_until(lambda: ended)
    receiver.close()
    second.close()
    assert ended == [0]
    assert not receiver.connect(senders[0].address, lambda *_: None, lambda: None)


def test_connection_to_a_machine_without_power_ends() -> None:
    """A machine that lost its power sends nothing, so only unanswered probes show that it is gone."""
    sender, receiver = ResultSender("127.0.0.1"), ResultReceiver()
    try:
        assert receiver.connect(sender.address, lambda *_: None, lambda: None)
        ((connection, _),) = receiver._connections
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        seconds = [
            connection.getsockopt(socket.IPPROTO_TCP, name) for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL)
        ]
        assert max(seconds) <= 10
        wait_until(lambda: sender._connection is not None)
    finally:
        receiver.close()
        if sender._connection is not None:
            sender._connection.close()
