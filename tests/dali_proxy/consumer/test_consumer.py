"""Events that interrupt a process while it fetches results: finalizers, signals and other threads."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import default_collate

from dali_proxy import DALIServer, DataLoader
from dali_proxy._consumer import pending_requests
from dali_proxy._consumer.consumer import ConsumerClient
from dali_proxy._consumer.pending_requests import FetchAhead
from dali_proxy._transport.opener import OutputFunctions, ResultOpener
from dali_proxy._transport.protocol import Advance
from dali_proxy.errors import ProxyError
from dali_proxy.pipeline._concurrency.checked_lock import as_interruption
from dali_proxy.pipeline._ipc.channel import Channel
from dali_proxy.pipeline._ipc.frames import Outgoing, close_all
from tests.dali_proxy.indexed import IndexDataset, affine, affine_of, check_affine, sample
from tests.waiting import wait_until

PATIENCE_S = 60.0


@pytest.fixture
def server() -> Iterator[DALIServer]:
    with DALIServer(affine(), mode="thread", timeout=PATIENCE_S) as running:
        yield running


def one_batch(server: DALIServer, index: int = 3) -> Any:
    return default_collate([server.proxy(sample(index))])


def check_one(made: Any, index: int = 3) -> None:
    assert made.tolist() == [[affine_of(index)] * 3]


def test_session_ended_by_a_finalizer_leaves_others_alone(server: DALIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer may run at any point of the thread that fetches."""
    left = iter(DataLoader(server, IndexDataset(40, server.proxy), batch_size=4))
    next(left)
    session = left._session

    class Interrupted(FetchAhead):
        def forget(self, key: Any) -> None:
            as_interruption(lambda: server.consumer.close_session(session))
            assert session in self.sessions, "it ended while the holder of the lock iterates over the sessions"
            super().forget(key)

    monkeypatch.setattr(server.consumer._ahead, "__class__", Interrupted)
    other = iter(DataLoader(server, IndexDataset(40, server.proxy), batch_size=4))
    assert check_affine(*next(other)) == [0, 1, 2, 3]
    monkeypatch.undo()
    assert check_affine(*next(other)) == [4, 5, 6, 7]
    assert session not in server.consumer._ahead.sessions, "the server learns of it with the next request, or earlier"


def test_releases_of_a_finalizer_are_sent_without_a_request(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=1, prefetch_factor=8)
    iterator = iter(loader)
    next(iterator)
    wait_until(lambda: server.stats().batches >= 8)
    wait_until(lambda: next(iterator) is not None and bool(server.consumer._requests))  # the next one was fetched
    consumer = server.consumer
    consumer._releases.add_batch(1 << 20, 0)
    next(iterator)
    assert not consumer._releases.waiting


def test_early_result_of_a_session_that_ended_is_dropped(server: DALIServer) -> None:
    iterator = iter(DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=1, prefetch_factor=8))
    next(iterator)
    consumer = server.consumer
    consumer._requests.forget_session(iterator._session)  # as if its end came before results that are on their way
    wait_until(lambda: server.stats().batches >= 8)  # this receives them
    wait_until(lambda: bool(server.stats()) and not [key for key in consumer._requests if key[0] == "batch"])


class Watched:
    """A lock that notes whether a thread asked for it."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.asked = lock, False

    def __enter__(self) -> None:
        self.asked = True
        self.lock.__enter__()

    def __exit__(self, *exc_info: Any) -> None:
        self.lock.__exit__(*exc_info)


def test_thread_requests_a_batch_that_another_one_is_opening(
    server: DALIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, consumer = one_batch(server), server.consumer
    made: list[Any] = []
    tensors = OutputFunctions.tensors

    def slow(opened: OutputFunctions) -> Any:
        monkeypatch.setattr(OutputFunctions, "tensors", tensors)
        lock = Watched(consumer._taking)
        monkeypatch.setattr(consumer, "_taking", lock)
        made.append(threads.submit(server.produce_data, batch))
        wait_until(lambda: made[0].done() or lock.asked)
        assert not made[0].done(), "it waits for this thread"
        return tensors(opened)

    monkeypatch.setattr(OutputFunctions, "tensors", slow)
    with ThreadPoolExecutor(1) as threads:
        taken = server.produce_data(batch)
        check_one(taken)
        assert made[0].result() is taken


def test_thread_requests_a_batch_that_another_one_has_just_opened(
    server: DALIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = one_batch(server)
    ask = ConsumerClient._ask

    def late(consumer: ConsumerClient, key: Any, message: Any, *more: Any) -> Any:
        monkeypatch.setattr(ConsumerClient, "_ask", ask)
        check_one(server.produce_data(batch))
        return ask(consumer, key, message, *more)

    monkeypatch.setattr(ConsumerClient, "_ask", late)
    check_one(server.produce_data(batch))
    assert not server.consumer._requests


def test_answer_is_not_replaced(server: DALIServer) -> None:
    """An interrupt makes the client send a request twice; the server refuses the second one."""
    batch = one_batch(server)
    wait_until(lambda: server.stats().batches == 1)
    channel = server.consumer._channel
    send, receive_one = channel.send, channel._receive_one

    def twice(message: Any, timeout: float | None) -> None:
        send(message, timeout)
        send(message, timeout)

    def receive_both(left: float | None = None) -> None:
        receive_one()
        receive_one()

    channel.send = twice  # type: ignore[method-assign]
    channel._receive_one = receive_both  # type: ignore[method-assign]
    check_one(server.produce_data(batch))


def test_interrupt_after_a_batch_arrived(server: DALIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt loses one batch, which has no consumer afterwards."""
    batch, following = one_batch(server), one_batch(server, 4)

    def interrupted(_opener: ResultOpener, _result: Any, fds: tuple[int, ...]) -> None:
        close_all(fds)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ResultOpener, "receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            server.produce_data(batch)
    with pytest.raises(ProxyError, match="lost while it was received"):
        server.produce_data(batch)
    check_one(server.produce_data(following), 4)


def test_client_is_freed_when_the_server_stops(server: DALIServer) -> None:
    """Without the garbage collector, which may come much later."""
    check_one(server.produce_data(one_batch(server)))
    client = weakref.ref(server.consumer)
    gc.collect()
    gc.disable()
    try:
        server.stop()
        assert client() is None
    finally:
        gc.enable()


def test_posted_messages_continue_when_the_server_reads_again(
    server: DALIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer that waits for an early result sends nothing to the server."""
    post, push = Channel.post, Outgoing._push
    busy = []

    def post_to_busy(channel: Channel, message: Any, *more: Any, **options: Any) -> None:
        if not isinstance(message, Advance):
            return post(channel, message, *more, **options)
        with monkeypatch.context() as patched:
            patched.setattr(Outgoing, "_push", lambda out, *more: out is not channel._outgoing and push(out, *more))
            post(channel, message, *more, **options)
        busy.append(channel.backlog)
        return None

    loader = DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=1, prefetch_factor=8)
    iterator = iter(loader)
    indices = check_affine(*next(iterator))
    wait_until(lambda: server.stats().batches >= 8)
    monkeypatch.setattr(Channel, "post", post_to_busy)
    for images, labels in iterator:
        indices += check_affine(images, labels)
    assert indices == list(range(40))
    assert any(busy)


def test_deadline_does_not_count_the_time_for_which_the_process_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(pending_requests, "time", SimpleNamespace(monotonic=lambda: now))
    deadline = pending_requests.Deadline(3.0, "the server is")
    now = 100.0
    deadline.check()
    assert deadline.left == 2.0
    now = 101.0
    assert deadline.left == 1.0
    now = 102.0
    with pytest.raises(ProxyError, match="within 3 s"):
        deadline.check()
