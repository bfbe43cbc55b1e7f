"""Queues without threads: messages arrive in order, even if a thread must send them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import select
import struct
import subprocess
import sys
import threading
from multiprocessing.context import BaseContext
from multiprocessing.queues import Queue
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import _finalizer_registry  # type: ignore[attr-defined]
from pathlib import Path
from queue import Empty, Full
from typing import Any

import numpy as np
import psutil
import pytest
import torch.multiprocessing

import dali_proxy
import pipeline
from dali_proxy._loader.queues import _AT_ONCE, DirectQueue, with_direct_queues
from pipeline import fn
from tests.environment import with_project
from tests.thorough import thorough_except
from tests.waiting import PATIENCE_S

METHODS = ("fork", "spawn", "forkserver")


def _make(context: BaseContext | None = None) -> DirectQueue:
    queue = with_direct_queues(context).Queue()
    assert isinstance(queue, DirectQueue)
    return queue


def _feeders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "dali-long-messages"]


def _double(taken: Any, given: Any) -> None:
    for item in iter(taken.get, None):
        given.put(item * 2)


@pytest.mark.parametrize("method", thorough_except(METHODS, "fork", "spawn"))
def test_messages_between_processes(method: str) -> None:
    context = with_direct_queues(multiprocessing.get_context(method))
    there, back = context.Queue(), context.Queue()
    process = context.Process(target=_double, args=(there, back))  # type: ignore[attr-defined]
    process.start()
    for item in ("short", "long" * 10_000, 1, None):
        there.put(item)
    assert [back.get(timeout=150) for _ in range(3)] == ["shortshort", "long" * 20_000, 2]
    process.join(60)
    assert process.exitcode == 0


def test_short_messages_need_no_thread() -> None:
    queue = _make()
    for number in range(100):
        queue.put(number)
    assert not _feeders()
    assert [queue.get() for _ in range(100)] == list(range(100))


def test_messages_up_to_the_limit_of_a_pipe_are_written_immediately() -> None:
    """POSIX guarantees atomic writes of up to PIPE_BUF bytes; 4 or 12 of them are the length field."""
    overhead = len(ForkingPickler.dumps(b"x" * 1000)) - 1000
    for size, threads in ((_AT_ONCE - overhead, 0), (_AT_ONCE - overhead + 1, 1)):
        queue = _make()
        queue.put(b"x" * size)
        assert len(_feeders()) == threads
        assert len(queue.get(timeout=60)) == size
        queue.close()
        queue.join_thread()
    assert _AT_ONCE + 4 <= select.PIPE_BUF


@pytest.mark.parametrize("size", [10, 4000, 4078, 4080, 4096, 5000, 200_000])
def test_messages_of_all_sizes_arrive_in_order(size: int) -> None:
    queue = _make()
    sent = [np.full(size, number, np.uint8) for number in range(3)]
    for array in sent:
        queue.put(array)
    for array in sent:
        assert np.array_equal(queue.get(timeout=60), array)
    queue.close()
    queue.join_thread()


def test_messages_that_arrived_together_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = _make()
    for number in range(3):
        queue.put(number)
    assert queue.get(timeout=PATIENCE_S) == 0
    monkeypatch.setattr(os, "read", None)
    assert [queue.get(timeout=0.0) for _ in range(2)] == [1, 2]
    with pytest.raises(Empty):
        queue.get(timeout=0.0)


def test_queue_with_a_part_of_a_message_is_empty() -> None:
    queue = _make()
    data = ForkingPickler.dumps("arrives in two parts")
    queue.put("first")
    os.write(queue._writer.fileno(), struct.pack("!i", len(data)) + bytes(data[:5]))
    assert queue.get(timeout=PATIENCE_S) == "first"
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    os.write(queue._writer.fileno(), data[5:])
    assert queue.get(timeout=PATIENCE_S) == "arrives in two parts"


@pytest.mark.parametrize("head", ["!i", "!iQ"])
@pytest.mark.parametrize("there", [2, 4, 7, 12, 15])
def test_part_of_a_message_whose_writer_was_killed_is_not_awaited(head: str, there: int) -> None:
    queue = _make()
    data = bytes(ForkingPickler.dumps("arrives in two parts"))
    message = struct.pack(head, *[-1] * (head == "!iQ"), len(data)) + data
    os.write(queue._writer.fileno(), message[:there])
    for _ in range(2):
        with pytest.raises(Empty):
            queue.get(timeout=0.01)
    os.write(queue._writer.fileno(), message[there:])
    assert queue.get(timeout=PATIENCE_S) == "arrives in two parts"


def test_full_pipe_does_not_block() -> None:
    queue = _make()
    for number in range(5_000):  # about 400 bytes each; a pipe holds 64 KiB
        queue.put((number, "x" * 400))
    assert [queue.get(timeout=60)[0] for _ in range(5_000)] == list(range(5_000))
    queue.close()
    queue.join_thread()


def test_message_does_not_wait_for_the_lock() -> None:
    """A thread of another process holds the lock while it waits for free space in the pipe."""
    queue = _make()
    queue.put(0)
    held, freed = threading.Event(), threading.Event()

    def hold() -> None:
        with queue._lock:
            held.set()
            freed.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    for number in range(1, 4):  # would wait forever
        queue.put(number)
    freed.set()
    assert [queue.get(timeout=60) for _ in range(4)] == [0, 1, 2, 3]
    holder.join()
    queue.close()
    queue.join_thread()


_PARENT = """
import multiprocessing
import os
import sys
from queue import Empty, Full

from dali_proxy._loader.queues import with_direct_queues


def wait_long(queue, when, until):
    if when == "before":
        queue.put("x" * 1_000_000)  # more than a pipe holds, and there is no reader
    print(os.getpid(), flush=True)
    with open(until) as end:
        end.read()
    if when == "after":
        queue.put("x" * 1_000_000)
    while when == "getting":
        try:
            queue.get(timeout=0.01)
        except Empty:
            pass


if __name__ == "__main__":
    method, *arguments = sys.argv[1:]
    context = with_direct_queues(multiprocessing.get_context(method))
    queue = context.Queue()
    process = context.Process(target=wait_long, args=(queue, *arguments))
    process.start()
    process.join()
"""


@pytest.mark.parametrize(
    ("method", "when"), [("fork", "before"), *((method, "after") for method in METHODS), ("forkserver", "getting")]
)
def test_worker_ends_when_its_parent_was_killed(method: str, when: str, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(_PARENT)
    until = str(tmp_path / "until")
    os.mkfifo(until)
    with subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py"), method, when, until],
        env=with_project(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # warnings about semaphores that the killed process leaves behind
    ) as parent:
        assert parent.stdout is not None
        worker = psutil.Process(int(parent.stdout.readline()))
        with open(until, "w"):  # the worker continues when the file is closed
            parent.kill()
            parent.wait()
        worker.wait(PATIENCE_S)


def test_finalizers_of_queues_go_with_them() -> None:
    gc.collect()
    before = len(_finalizer_registry)
    for _ in range(5):
        queue = _make()
        queue.put("x" * 5000)  # long, so a thread sends it
        assert len(queue.get(timeout=60)) == 5000
        queue.close()
        queue.join_thread()
    del queue
    gc.collect()
    assert len(_finalizer_registry) <= before


def test_expired_timeout_does_not_wait_forever() -> None:
    queue = _make()
    with pytest.raises(Empty):
        queue.get(timeout=-1.0)
    queue.put(1)
    assert queue.get(timeout=-1.0) == 1


def test_queue_that_is_dropped_leaves_nothing_open() -> None:
    _make().close()  # the first queue of a forkserver starts a process that Python keeps
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for number in range(5):
            queue = _make()
            queue.put(number)
            queue.close()
        del queue
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


@pytest.mark.parametrize("size", [1, 100_000])
def test_message_that_no_process_can_read_is_dropped(size: int) -> None:
    queue = _make()
    queue._reader.close()
    queue.put("x" * size)
    queue.close()
    queue.join_thread()  # an error of the thread is a warning of pytest, and fails the test


def test_put_raises_the_error_of_pickling() -> None:
    queue = _make()
    with pytest.raises(AttributeError, match="local object"):
        queue.put(lambda: None)
    queue.put(1)
    assert queue.get(timeout=60) == 1


def test_get_from_an_empty_queue() -> None:
    queue = _make()
    with pytest.raises(Empty):
        queue.get(timeout=0.01)
    with pytest.raises(Empty):
        queue.get(block=False)
    queue.put(1)
    assert queue.get(block=False) == 1


def test_closed_queue_refuses_messages() -> None:
    queue = _make()
    queue.close()
    with pytest.raises(ValueError, match="is closed"):
        queue.put(1)


def test_queues_of_the_user_stay() -> None:
    class Own(type(multiprocessing.get_context("fork"))):  # type: ignore[misc]
        def Queue(self, maxsize: int = 0) -> Any:
            raise AssertionError

    context = Own()
    assert with_direct_queues(context) is context


def test_existing_context_stays_unchanged() -> None:
    context = torch.multiprocessing.get_context("fork")
    with_direct_queues(context)
    assert isinstance(context.Queue(), Queue)


def test_queue_with_a_limit_is_that_of_python() -> None:
    queue = with_direct_queues(None).Queue(1)
    queue.put(1)
    with pytest.raises(Full):
        queue.put(2, block=False)
    assert queue.get(timeout=PATIENCE_S) == 1
    queue.close()
    queue.join_thread()


class _Numbers(torch.utils.data.Dataset[Any]):
    def __init__(self, proxy: dali_proxy.DALIServer) -> None:
        self.proxy = proxy

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return self.proxy(np.full(8, index, np.uint8)), index, _feeders()  # type: ignore[operator]


@pipeline.pipeline_def(batch_size=8, num_threads=1, device_id=None)
def _same() -> Any:
    return fn.external_source(name="arrays")


@pytest.mark.timeout(60)
def test_loader_starts_no_thread_for_its_queues() -> None:
    with dali_proxy.DALIServer(_same()) as server:
        seen = []
        for arrays, numbers, feeders in dali_proxy.DataLoader(server, _Numbers(server.proxy), 8, num_workers=2):
            assert arrays[:, 0].tolist() == numbers.tolist()
            assert feeders == []
            assert not _feeders()
            seen += numbers.tolist()
        assert seen == list(range(64))
