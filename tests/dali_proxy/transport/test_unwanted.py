"""What nobody wants is told to the server, also after something was raised."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from torch.utils.data import default_collate

from dali_proxy import DALIServer
from dali_proxy._transport.protocol import CloseSession, Release
from dali_proxy._transport.release_queue import Unwanted
from tests.dali_proxy.indexed import affine, sample
from tests.waiting import wait_until


def test_what_was_not_told_is_told_again() -> None:
    unwanted = Unwanted()
    unwanted.add_batch(1, 2)
    unwanted.add_session(7)
    told: list[Any] = []

    def refuse(message: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unwanted.tell(refuse, lambda batches: None, lambda session: None)
    assert unwanted
    unwanted.add_batch(3, 4)
    unwanted.tell(told.append, lambda batches: None, lambda session: None)
    assert not unwanted
    assert sorted(told[0].unpack()) == [(1, 2), (3, 4)]
    assert isinstance(told[0], Release)
    assert told[1:] == [CloseSession(7)]


class WorkerDiedError(BaseException):
    """As torch's handler raises when a worker dies."""


def test_nothing_is_lost_where_a_signal_handler_raises() -> None:
    count, telling = 1000, False
    told: set[tuple[int, int]] = set()

    def interrupt(*_: object) -> None:
        if telling:
            raise WorkerDiedError

    def post(message: Any) -> None:
        told.update(message.unpack())

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for number in range(1500):
            unwanted = Unwanted()
            told.clear()
            for seq in range(count):
                unwanted.add_batch(1, seq)
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number % 100))  # comes at any place
            try:
                telling = True
                unwanted.tell(post)
            except WorkerDiedError:
                pass
            finally:
                telling = False
            unwanted.tell(post)
            assert len(told) == count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_what_a_worker_drops_is_told_with_its_next_batch() -> None:
    with DALIServer(affine(), mode="thread") as server:
        for index in range(3):  # nobody fetches anything: what comes next is told by who submits it
            batch = default_collate([server.proxy(sample(index))])
            del batch
        wait_until(lambda: server.stats().dropped >= 2)
