"""One iterator in several threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from dali_proxy import DALIGenericIterator, DALIServer, DataLoader
from dali_proxy.errors import ProxyError
from pipeline import Pipeline, fn
from tests.dali_proxy.indexed import IndexDataset, check_affine
from tests.waiting import PATIENCE_S

MESSAGE = r"another thread is in next\(\) of this iterator.* Give each thread its own loop"


class Gate:
    """Lets a thread wait inside of the user's code until another one has tried to enter."""

    def __init__(self) -> None:
        self.inside, self.opened = threading.Event(), threading.Event()

    def wait(self) -> None:
        self.inside.set()
        assert self.opened.wait(PATIENCE_S)

    def check(self, iterator: Any) -> Any:
        """Call `next` in a thread and, while it waits, in this one. Return what the thread got."""
        with ThreadPoolExecutor(1) as other:
            first = other.submit(next, iterator)
            assert self.inside.wait(PATIENCE_S)
            try:
                with pytest.raises(ProxyError, match=MESSAGE):
                    next(iterator)
            finally:
                self.opened.set()
            return first.result(PATIENCE_S)


def test_second_thread_gets_an_error_and_no_batch_is_lost(server: DALIServer) -> None:
    gate = Gate()

    def transform(batch: Any) -> list[int]:
        gate.wait()
        return check_affine(*batch)

    iterator = iter(DataLoader(server, IndexDataset(12, server.proxy), 4, batch_transform=transform))
    assert gate.check(iterator) == [0, 1, 2, 3]
    assert list(iterator) == [[4, 5, 6, 7], [8, 9, 10, 11]], "another thread may continue"


def test_threads_that_share_a_lock_get_all_samples(server: DALIServer) -> None:
    iterator = iter(DataLoader(server, IndexDataset(64, server.proxy), 2))
    lock, found = threading.Lock(), []

    def take() -> None:
        while True:
            with lock:
                batch = next(iterator, None)
            if batch is None:
                return
            found.extend(check_affine(*batch))

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(take) for _ in range(3)]:
            done.result(PATIENCE_S)
    assert sorted(found) == list(range(64))


def test_iterator_of_pipelines_refuses_a_second_thread() -> None:
    gate = Gate()

    def source(iteration: int) -> Any:
        if threading.current_thread() is not threading.main_thread():
            gate.wait()
        return np.full((2, 1), iteration, np.float32)

    with Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1) as pipe:
        pipe.set_outputs(fn.external_source(source))
    iterator = DALIGenericIterator(pipe, ["x"])
    assert next(iterator)[0]["x"].tolist() == [[0], [0]]
    assert gate.check(iterator)[0]["x"].tolist() == [[1], [1]]
    assert next(iterator)[0]["x"].tolist() == [[2], [2]]
    pipe.close()
