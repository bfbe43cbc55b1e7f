"""Exceptions of signal handlers leave the loop, and the loop can continue. Loops whose server is stopped."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import psutil
import pytest

from dali_proxy import BatchError, DALIServer, DataLoader, ProxyError
from dali_proxy._host import ProcessHost
from dali_proxy._loader.iterator import LoaderIterator
from dali_proxy._transport import endpoint
from dali_proxy._transport.protocol import StatsRequest
from dali_proxy._worker.worker import WorkerClient, worker_client
from tests.dali_proxy.indexed import IndexDataset, RaisingDataset, affine, check_affine, sample
from tests.waiting import PATIENCE_S, soon, wait_until

OURS = tuple(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(__file__))), name, "") for name in
             ("dali_proxy", "pipeline"))  # fmt: skip


class LateError(TimeoutError):
    """Error of a user's alarm, which is also an `OSError`."""


class StopNowError(BaseException):
    """Error of another alarm, which isn't an `Exception`."""


def is_in_our_code(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith(OURS):
            return True
        frame = frame.f_back
    return False


@contextmanager
def alarms(error: type[BaseException]) -> Iterator[list[int]]:
    """Let alarms raise anywhere in the library's code. Yield a list with the number of raised errors."""
    raised = [0]

    def interrupt(_number: int, frame: FrameType | None) -> None:
        if is_in_our_code(frame):
            raised[0] += 1
            raise error

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield raised
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("num_workers", "error"), [(0, LateError), (2, LateError), (2, StopNowError)])
def test_handlers_that_raise_anywhere_in_a_loop(
    server: DALIServer, num_workers: int, error: type[BaseException]
) -> None:
    loader = DataLoader(server, IndexDataset(600, server.proxy), batch_size=4, num_workers=num_workers)
    next(iter(loader))  # triggers all late imports
    moments = random.Random(num_workers)
    iterator, indices, ended = iter(loader), [], False
    with alarms(error) as raised:
        while not ended:
            try:
                signal.setitimer(signal.ITIMER_REAL, moments.choice((1e-5, 5e-5, 2e-4, 1e-3)))
                for batch in iterator:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    indices += check_affine(*batch)
                    signal.setitimer(signal.ITIMER_REAL, moments.choice((1e-5, 5e-5, 2e-4, 1e-3)))
                ended = True
            except error:
                pass
    assert indices == list(range(600))
    assert raised[0] > 10


@pytest.mark.parametrize("num_workers", [0, 1])
def test_handler_that_raises_in_place_of_the_error_of_a_batch(
    server: DALIServer, num_workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = DataLoader(server, RaisingDataset(16, server.proxy), batch_size=4, num_workers=num_workers)
    explained = LoaderIterator._explained

    def interrupt(iterator: LoaderIterator, error: Exception) -> Exception:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGALRM)  # it is handled when the error leaves the loop
        return explained(iterator, error)

    iterator = iter(loader)
    assert check_affine(*next(iterator)) == [0, 1, 2, 3]
    monkeypatch.setattr(LoaderIterator, "_explained", interrupt)
    with alarms(LateError) as raised:
        with pytest.raises(LateError):
            next(iterator)
        with pytest.raises(KeyError, match="sample 5 is bad"):
            next(iterator)
    assert raised == [1]
    assert [index for batch in iterator for index in check_affine(*batch)] == list(range(8, 16))


@pytest.mark.parametrize("others", [True, False])
def test_dead_worker_that_is_reported_while_an_error_leaves_the_loop(
    server: DALIServer, others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = DataLoader(server, RaisingDataset(16, server.proxy), batch_size=4)
    explained = LoaderIterator._explained
    numbers = [signal.SIGCHLD, signal.SIGALRM][: 1 + others]

    def interrupt(iterator: LoaderIterator, error: Exception) -> Exception:
        monkeypatch.undo()
        for number in numbers:
            signal.raise_signal(number)
        return explained(iterator, error)

    def report(_number: int, _frame: FrameType | None) -> None:
        raise RuntimeError("DataLoader worker (pid 123456) is killed by signal: Killed. ")  # as torch's handler

    iterator = iter(loader)
    assert check_affine(*next(iterator)) == [0, 1, 2, 3]
    monkeypatch.setattr(LoaderIterator, "_explained", interrupt)
    before = signal.signal(signal.SIGCHLD, report)
    try:
        with alarms(LateError) as raised:
            if others:  # both handlers raise, the second while the exception of the first is handled
                with pytest.raises(LateError):
                    next(iterator)
            with pytest.raises(KeyError, match="sample 5 is bad"):
                next(iterator)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert raised == [int(others)]
    assert [index for batch in iterator for index in check_affine(*batch)] == list(range(8, 16))


def test_state_after_a_handler_that_raised_in_place_of_the_end_of_an_epoch(
    server: DALIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = DataLoader(server, IndexDataset(4, server.proxy), batch_size=4)
    close = LoaderIterator.close

    def interrupt(iterator: LoaderIterator) -> None:
        monkeypatch.undo()
        close(iterator)
        signal.raise_signal(signal.SIGALRM)

    iterator = iter(loader)
    assert check_affine(*next(iterator)) == [0, 1, 2, 3]
    monkeypatch.setattr(LoaderIterator, "close", interrupt)
    with alarms(LateError), pytest.raises(LateError):
        next(iterator)
    resumed = DataLoader(server, IndexDataset(4, server.proxy), batch_size=4)
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == []  # the loop hasn't seen the end of this epoch yet
    assert list(iterator) == []
    assert loader.state_dict()["epoch"] == 1
    assert len(list(loader)) == 1


@pytest.mark.parametrize("waiting", [False, True], ids=["messages", "workers"])
def test_handler_that_raises_while_a_loop_is_left(
    server: DALIServer, waiting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python frees the iterator then, and discards exceptions that leave its finalizer."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise StopNowError

    def leave() -> None:
        for _ in range(2):  # Python calls handlers between two rounds of a loop
            iterators.clear()

    iterators: list[Any] = [iter(DataLoader(server, IndexDataset(400, server.proxy), batch_size=4, num_workers=2))]
    assert check_affine(*next(iterators[0])) == [0, 1, 2, 3]
    loop = iterators[0]._loop
    workers = [psutil.Process(worker.pid) for worker in loop.workers]
    kind, name = (type(loop.batches), "_shutdown_workers") if waiting else (LoaderIterator, "_close_session")
    end = getattr(kind, name)

    def end_and_interrupt(ending: Any) -> None:
        monkeypatch.undo()
        end(ending)
        signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(kind, name, end_and_interrupt)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(StopNowError):
            leave()
    finally:
        signal.signal(signal.SIGALRM, before)
    _, alive = psutil.wait_procs(workers, timeout=PATIENCE_S)
    assert not alive
    wait_until(lambda: server.stats().waiting_results == 0, "the release of its batches")


class ImpatientDataset(IndexDataset):
    """Calls the proxy until a call completes without an alarm."""

    def __getitem__(self, index: int) -> Any:
        with alarms(LateError):
            for attempt in range(1000):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 2e-5 * (attempt + 1))
                    made = super().__getitem__(index)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    return made
                except LateError:
                    pass
        raise AssertionError("alarms came all the time")


@pytest.mark.parametrize("num_workers", [0, 2])
def test_alarms_around_the_proxy(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, ImpatientDataset(200, server.proxy), batch_size=4, num_workers=num_workers)
    assert [index for batch in loader for index in check_affine(*batch)] == list(range(200))


class LoopingDataset(IndexDataset):
    """Runs a separate loop for each sample."""

    def __init__(self, length: int, transform: Any, inner: Any) -> None:
        super().__init__(length, transform)
        self.inner = inner

    def __getitem__(self, index: int) -> Any:
        assert [inside for batch in self.inner for inside in check_affine(*batch)] == list(range(4))
        return super().__getitem__(index)


@pytest.mark.parametrize("error", [LateError, StopNowError])
def test_handlers_that_raise_in_a_loop_inside_a_sample(server: DALIServer, error: type[BaseException]) -> None:
    inner = DataLoader(server, IndexDataset(4, server.proxy), batch_size=2)
    iterator = iter(DataLoader(server, LoopingDataset(40, server.proxy, inner), batch_size=2))
    indices = check_affine(*next(iterator))  # triggers all late imports
    with alarms(error) as raised:
        for delay in [1e-5, 2e-4, 1e-3, 3e-3] * 5:
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                indices += check_affine(*next(iterator))
            except error:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        indices += [index for batch in iterator for index in check_affine(*batch)]
    assert indices == list(range(40))
    assert raised[0] > 4


class InterruptingDataset(IndexDataset):
    """Can't read one sample; a signal arrives while another sample is read for the `reads`-th time."""

    def __init__(self, length: int, transform: Any, bad: int, number: int, reads: int, at: int = 4) -> None:
        super().__init__(length, transform)
        self.bad, self.number, self.reads = bad, number, reads
        self.interrupted = at

    def __getitem__(self, index: int) -> Any:
        if index == self.bad:
            raise ValueError("bad")
        if index == self.interrupted:
            self.reads -= 1
            if not self.reads:
                signal.raise_signal(self.number)
        return super().__getitem__(index)


def test_ctrl_c_in_the_dataset_loses_no_batch(server: DALIServer) -> None:
    dataset = InterruptingDataset(12, server.proxy, bad=-1, number=signal.SIGINT, reads=1)
    iterator = iter(DataLoader(server, dataset, batch_size=4))
    indices = check_affine(*next(iterator))
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    indices += [index for batch in iterator for index in check_affine(*batch)]
    assert indices == list(range(12))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_ctrl_c_while_a_batch_is_repeated_without_its_bad_sample(server: DALIServer, num_workers: int) -> None:
    # A worker reads the sample once in its process; recomputed batches are read in this process.
    reads = 1 if num_workers else 2
    dataset = InterruptingDataset(12, server.proxy, bad=5, number=signal.SIGINT, reads=-1 if num_workers else reads)
    errors: list[BatchError] = []
    loader = DataLoader(server, dataset, batch_size=4, num_workers=num_workers, on_error=errors.append)
    iterator = iter(loader)
    indices = check_affine(*next(iterator))
    if num_workers:
        dataset.reads = reads
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    indices += [index for batch in iterator for index in check_affine(*batch)]
    assert indices == [*range(5), *range(6, 12)]
    assert {type(error.__cause__) for error in errors} == {ValueError}


class CatchingDataset(LoopingDataset):
    """Can't read one sample, and catches the handler's errors in the loops inside the others."""

    caught = 0

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise ValueError("bad")
        try:
            return super().__getitem__(index)
        except LateError:
            self.caught += 1
            return super().__getitem__(index)


def test_handler_that_raises_in_a_loop_inside_a_batch_that_is_repeated(server: DALIServer) -> None:
    # The first reading of the batch ends at its bad sample, after one loop; the signal arrives in the second loop.
    inner = DataLoader(server, InterruptingDataset(4, server.proxy, -1, signal.SIGALRM, reads=2, at=3), batch_size=2)
    dataset = CatchingDataset(8, server.proxy, inner)
    with alarms(LateError) as raised:
        loader = DataLoader(server, dataset, batch_size=4, sampler=[0, 5, 1, 2], on_error=lambda _: "skip")
        assert [index for batch in loader for index in check_affine(*batch)] == [0, 1, 2]
    assert raised[0] == dataset.caught == 1


class ExitingDataset(IndexDataset):
    """Can't read one sample, and exits at another sample of the same batch."""

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise ValueError("bad")
        if index == 6:
            raise SystemExit("no licence")
        return super().__getitem__(index)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_exit_while_a_batch_is_repeated_without_its_bad_sample(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(
        server, ExitingDataset(12, server.proxy), batch_size=4, num_workers=num_workers, on_error="skip"
    )
    iterator = iter(loader)
    indices = check_affine(*next(iterator))
    with pytest.raises(SystemExit, match="no licence"):
        next(iterator)
    with pytest.warns(RuntimeWarning, match="skipped"):
        indices += [index for batch in iterator for index in check_affine(*batch)]
    assert indices == [0, 1, 2, 3, 8, 9, 10, 11]


def test_handler_that_raises_the_error_of_torch(server: DALIServer) -> None:
    """A user's RuntimeError isn't mistaken for the error of a loader's timeout."""

    def interrupt(*_: object) -> None:
        raise RuntimeError("timed out")

    class SlowDataset(IndexDataset):
        def __getitem__(self, index: int) -> Any:
            threading.Event().wait(0.2)
            return super().__getitem__(index)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        iterator = iter(DataLoader(server, SlowDataset(4, server.proxy), batch_size=2, num_workers=1))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(RuntimeError, match=r"^timed out$"):
            next(iterator)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert [index for batch in iterator for index in check_affine(*batch)] == list(range(4))


def test_closed_channel_is_replaced_by_the_next_loop(server: DALIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessHost, "describe_exit", lambda *_: "")  # it would wait for the end of the server
    loader = DataLoader(server, IndexDataset(16, server.proxy), batch_size=4, num_workers=1)
    iterator = iter(loader)
    check_affine(*next(iterator))
    server.consumer._channel._channel.close()
    with pytest.raises(ProxyError):
        list(iterator)
    del iterator
    assert [index for batch in loader for index in check_affine(*batch)] == list(range(16))


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            pass


def limit_waits(iterator: Any, seconds: float) -> None:
    """Set the timeout of a loop, or of its server if the loop has none, from now on: earlier batches may take long."""
    loop = iterator._loop
    if loop.timeout:
        loop.timeout = loop.batches._timeout = seconds  # the second one is torch's, for its workers
    else:
        consumer = iterator._server.consumer
        consumer._endpoint = replace(consumer._endpoint, timeout=seconds)


def test_loaders_timeout_bounds_the_wait_for_results() -> None:
    with DALIServer(affine(), timeout=PATIENCE_S) as server:
        assert server.pid is not None
        loader = DataLoader(server, IndexDataset(400, server.proxy), batch_size=4, num_workers=1, timeout=PATIENCE_S)
        iterator = iter(loader)
        check_affine(*next(iterator))
        limit_waits(iterator, 1)
        with stopped(server.pid), soon(), pytest.raises(ProxyError, match="within 1 s"):
            list(iterator)
        with stopped(server.pid), soon(), pytest.raises(ProxyError, match=r"within 0\.5 s, .* the loader's timeout="):
            server.consumer._ask(("stats", 1 << 20), StatsRequest(1 << 20), 0.5)


class StoppingDataset(IndexDataset):
    """Runs a loop for one sample while the loop's server is stopped."""

    def __init__(self, length: int, transform: Any, inner: Any, pid: int) -> None:
        super().__init__(length, transform)
        self.inner, self.pid = inner, pid

    def __getitem__(self, index: int) -> Any:
        if index < 2:
            assert [inside for batch in self.inner for inside in check_affine(*batch)] == list(range(4))
        if index == 2:
            iterator = iter(self.inner)
            limit_waits(iterator, 2)
            with stopped(self.pid):
                next(iterator)
        return super().__getitem__(index)


# torch's loaders accept a timeout only with workers, which a loop inside a worker can't have.
@pytest.mark.parametrize("num_workers", [0, 1])
def test_timeout_of_a_loop_inside_a_sample_costs_that_batch(num_workers: int) -> None:
    with DALIServer(affine(), mode="thread") as server, DALIServer(affine(), timeout=PATIENCE_S) as other:
        assert other.pid is not None
        workers = {"num_workers": 1, "timeout": PATIENCE_S} if num_workers == 0 else {}
        inner = DataLoader(other, IndexDataset(4, other.proxy), batch_size=2, **workers)
        dataset = StoppingDataset(6, server.proxy, inner, other.pid)
        iterator = iter(DataLoader(server, dataset, batch_size=2, num_workers=num_workers))
        assert check_affine(*next(iterator)) == [0, 1]
        with soon(), pytest.raises(ProxyError, match="within 2 s"):
            next(iterator)
        assert check_affine(*next(iterator)) == [4, 5]


def test_connection_to_a_server_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "connect", partial(endpoint.connect, timeout=0.1))
    with DALIServer(affine()) as server:
        assert server.pid is not None
        with stopped(server.pid), soon(), pytest.raises(ProxyError, match="doesn't answer"):
            server.proxy(sample(1))


def test_stop_of_a_server_that_is_stopped() -> None:
    server = DALIServer(affine())
    server.start()
    assert server.pid is not None
    with stopped(server.pid), soon():
        server.stop()


def submit_for_ever(client: WorkerClient) -> None:
    while True:
        client.submit([client.sample([sample(1)])])


def test_submit_to_a_server_that_does_not_read() -> None:
    with DALIServer(affine(), timeout=0.5) as server:
        assert server.pid is not None
        client = worker_client(server.endpoint)
        with stopped(server.pid), soon(), pytest.raises(ProxyError):
            submit_for_ever(client)


def test_child_takes_a_lock_that_a_thread_held(server: DALIServer) -> None:
    held, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with server._lock, server.consumer._lock:
            held.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        locks = (server._lock, server._life.consumers[os.getppid()]._lock)
        os._exit(0 if all(lock.acquire(timeout=1) for lock in locks) else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
