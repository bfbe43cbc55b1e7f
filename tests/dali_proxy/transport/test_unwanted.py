"""The server is notified of released batches and sessions, even after an exception."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from torch.utils.data import default_collate

from dali_proxy import DALIServer
from dali_proxy._transport.protocol import CloseSession, Release
from dali_proxy._worker.tickets import ReleaseQueue
from tests.dali_proxy.indexed import affine, sample
from tests.waiting import wait_until


def test_unsent_tickets_are_sent_again() -> None:
    releases = ReleaseQueue()
    releases.add_batch(1, 2)
    releases.add_session(7)
    sent: list[Any] = []

    def refuse(message: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        releases.flush(refuse, lambda batches: None, lambda session: None)
    assert releases.waiting
    releases.add_batch(3, 4)
    releases.flush(sent.append, lambda batches: None, lambda session: None)
    assert not releases.waiting
    assert sorted(sent[0].unpack()) == [(1, 2), (3, 4)]
    assert isinstance(sent[0], Release)
    assert sent[1:] == [CloseSession(7)]


class WorkerDiedError(BaseException):
    """Stands for the exception that torch's handler raises when a worker dies."""


def test_tickets_survive_a_signal_handler_that_raises() -> None:
    count, flushing = 1000, False
    sent: set[tuple[int, int]] = set()

    def interrupt(*_: object) -> None:
        if flushing:
            raise WorkerDiedError

    def post(message: Any) -> None:
        sent.update(message.unpack())

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(1500):
            releases = ReleaseQueue()
            sent.clear()
            for seq in range(count):
                releases.add_batch(1, seq)
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 100))  # interrupts at any point
            try:
                flushing = True
                releases.flush(post)
            except WorkerDiedError:
                pass
            finally:
                flushing = False
            releases.flush(post)
            assert len(sent) == count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_tickets_dropped_by_a_worker_go_with_its_next_batch() -> None:
    with DALIServer(affine(), mode="thread") as server:
        for index in range(3):  # nothing is fetched: the worker notifies the server with its next batch
            batch = default_collate([server.proxy(sample(index))])
            del batch
        wait_until(lambda: server.stats().dropped >= 2)
