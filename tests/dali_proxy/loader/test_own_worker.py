"""Exceptions that torch would lose, or that would end a worker: the loop receives them in place of their batch."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset

from dali_proxy import BatchError, DALIServer, DataLoader, WorkerDiedError
from dali_proxy._common.bound_process import with_bound_workers
from dali_proxy._loader.numbered_datasets import WorkerInit
from dali_proxy._loader.own_worker import OwnWorker, ends_process, mark_signal_exits
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine, keep_apart, sample
from tests.environment import with_project
from tests.thorough import thorough_except
from tests.waiting import soon

BAD = 5
EXITS = [SystemExit(3), KeyboardInterrupt("of a library"), asyncio.CancelledError(), GeneratorExit(), StopIteration(7)]


@pytest.fixture(scope="module")
def server() -> Iterator[DALIServer]:
    """Start a server for all tests and connect this process to it."""
    with DALIServer(affine()) as running:
        running.produce_data(running.proxy(sample(0)))
        yield running


def kind_of(error: BaseException) -> type[BaseException]:
    """Return the type of exception that the training loop receives: StopIteration would end a `for`."""
    return RuntimeError if isinstance(error, StopIteration) else type(error)


def text_of(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


class Exiting(IndexDataset):
    """Raises any exception for one index."""

    def __init__(self, length: int, transform: Any, error: BaseException) -> None:
        super().__init__(length, transform)
        self.error = error

    def __getitem__(self, index: int) -> Any:
        if index == BAD:
            raise self.error
        return super().__getitem__(index)


class ExitingStream(IterableDataset[Any]):
    """Its iterator raises any exception for one sample, and then continues."""

    def __init__(self, length: int, transform: Any, error: BaseException) -> None:
        self.length, self.transform, self.error = length, transform, error

    def __iter__(self) -> Iterator[Any]:
        self.place = -1
        return self

    def __next__(self) -> Any:
        self.place += 1
        if self.place == BAD:
            raise self.error
        if self.place >= self.length:
            raise StopIteration
        return self.transform(sample(self.place)), self.place


class ExitingCollate:
    """Raises any exception for the batch with one index."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, samples: list[Any]) -> Any:
        if any(index == BAD for _, index in samples):
            raise self.error
        return torch.utils.data.default_collate(samples)


class ExitingBatches:
    """A batch sampler whose iterator raises before its second batch, and then continues."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __iter__(self) -> Iterator[list[int]]:
        self.place = 0
        return self

    def __next__(self) -> list[int]:
        self.place += 1
        if self.place == 2:
            raise self.error
        if self.place > 4:
            raise StopIteration
        first = 4 * (self.place - 1 - (self.place > 2))
        return list(range(first, first + 4))

    def __len__(self) -> int:
        return 3


def indices_and_error(loader: Any) -> tuple[list[int], BaseException]:
    """Iterate to the end. Return the indices and the only exception."""
    indices: list[int] = []
    errors: list[BaseException] = []
    with soon():
        iterator = iter(loader)
        while True:
            try:
                indices += check_affine(*next(iterator))
            except StopIteration:
                break
            except BaseException as error:  # noqa: BLE001
                errors.append(error)
    (error,) = errors
    return indices, error


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("error", EXITS, ids=repr)
def test_dataset_that_raises_an_exit(server: DALIServer, error: BaseException, num_workers: int) -> None:
    dataset = Exiting(12, server.proxy, error)
    indices, raised = indices_and_error(DataLoader(server, dataset, batch_size=4, num_workers=num_workers))
    assert indices == [0, 1, 2, 3, 8, 9, 10, 11]
    assert type(raised) is kind_of(error)
    assert f"dataset index {BAD}" in text_of(raised)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("error", EXITS[::4], ids=repr)
def test_collate_fn_that_raises_an_exit(server: DALIServer, error: BaseException, num_workers: int) -> None:
    dataset = IndexDataset(12, server.proxy)
    loader = DataLoader(server, dataset, 4, num_workers=num_workers, collate_fn=ExitingCollate(error))
    indices, raised = indices_and_error(loader)
    assert indices == [0, 1, 2, 3, 8, 9, 10, 11]
    assert type(raised) is kind_of(error)
    assert "batch 1 of epoch 0 (dataset indices [4, 5, 6, 7])" in text_of(raised)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_stream_that_raises_an_exit_continues(server: DALIServer, num_workers: int) -> None:
    dataset = ExitingStream(12, server.proxy, SystemExit(3))
    indices, raised = indices_and_error(DataLoader(server, dataset, batch_size=4, num_workers=num_workers))
    assert indices == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]  # the next batch begins after the sample that failed
    assert type(raised) is SystemExit
    assert f"sample {BAD}" in text_of(raised)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_collate_fn_of_a_stream_does_not_end_it(server: DALIServer, num_workers: int) -> None:
    dataset = ExitingStream(12, server.proxy, StopIteration())  # from the iterator, so it ends the stream
    loader = DataLoader(server, dataset, 2, num_workers=num_workers, collate_fn=stop_at_two)
    indices, raised = indices_and_error(loader)
    assert indices == [0, 1, 4]
    assert type(raised) is RuntimeError
    assert "StopIteration was raised for batch 1 of epoch 0" in text_of(raised)


def stop_at_two(samples: list[Any]) -> Any:
    if samples[0][1] == 2:
        raise StopIteration
    return torch.utils.data.default_collate(samples)


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("error", [*EXITS[:2], OSError("no disk")], ids=repr)
def test_sampler_that_raises_loses_no_batch(server: DALIServer, error: BaseException, num_workers: int) -> None:
    dataset = IndexDataset(12, server.proxy)
    loader = DataLoader(server, dataset, batch_sampler=ExitingBatches(error), num_workers=num_workers)
    indices, raised = indices_and_error(loader)
    assert indices == list(range(12))
    assert raised is error


def test_exits_are_never_left_out(server: DALIServer) -> None:
    errors: list[BatchError] = []
    dataset = Exiting(12, server.proxy, KeyboardInterrupt())
    loader = DataLoader(server, dataset, batch_size=4, on_error=errors.append)
    assert type(indices_and_error(loader)[1]) is KeyboardInterrupt
    assert not errors
    loader = DataLoader(server, Exiting(12, server.proxy, StopIteration()), batch_size=4, on_error="skip")
    with pytest.warns(RuntimeWarning, match="1 samples skipped"):
        assert [index for batch in loader for index in check_affine(*batch)] == [*range(5), *range(6, 12)]


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError(), MemoryError(), TimeoutError("x")],
    ids=repr,
)
def test_only_subclasses_of_exception_are_skipped(server: DALIServer, error: BaseException, num_workers: int) -> None:
    dataset = Exiting(12, server.proxy, error)
    loader = DataLoader(server, dataset, batch_size=4, num_workers=num_workers, on_error="skip")
    if isinstance(error, Exception):
        with pytest.warns(RuntimeWarning, match="samples skipped"):
            assert [index for batch in loader for index in check_affine(*batch)] == [*range(5), *range(6, 12)]
    else:
        indices, raised = indices_and_error(loader)
        assert type(raised) is type(error)
        assert indices == [0, 1, 2, 3, 8, 9, 10, 11]


@pytest.mark.parametrize("error", EXITS[::4], ids=repr)
def test_callback_on_error_may_raise_an_exit(server: DALIServer, error: BaseException) -> None:
    def fail(_: BatchError) -> None:
        raise error

    loader = DataLoader(server, Exiting(12, server.proxy, ValueError()), batch_size=4, on_error=fail)
    indices, raised = indices_and_error(loader)
    assert indices == [0, 1, 2, 3, 8, 9, 10, 11]
    assert type(raised) is kind_of(error)


def exit_at_once(worker_id: int) -> None:
    sys.exit(f"worker {worker_id} has no licence")


def test_worker_init_fn_that_exits(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(8, server.proxy), 4, num_workers=1, worker_init_fn=exit_at_once)
    iterator = iter(loader)
    for _ in range(2):
        with pytest.raises(SystemExit, match="worker 0 has no licence"):
            next(iterator)


def test_exception_of_a_local_class_arrives_as_its_base(server: DALIServer) -> None:
    class LocalError(LookupError):
        pass

    dataset = Exiting(12, server.proxy, LocalError("gone"))
    indices, raised = indices_and_error(DataLoader(server, dataset, batch_size=4, num_workers=1))
    assert indices == [0, 1, 2, 3, 8, 9, 10, 11]
    assert type(raised) is LookupError
    assert "LocalError: gone" in str(raised)


class Interrupted(IndexDataset):
    """Sends a signal to its own process for one index."""

    number = signal.SIGINT

    def __getitem__(self, index: int) -> Any:
        if index == BAD:
            os.kill(os.getpid(), self.number)
        return super().__getitem__(index)


def test_signal_that_ends_a_worker_ends_it(server: DALIServer) -> None:
    iterator = iter(DataLoader(server, Interrupted(12, server.proxy), batch_size=4, num_workers=1))
    check_affine(*next(iterator))
    with soon(), pytest.raises(WorkerDiedError):
        next(iterator)


def test_interrupted_worker_that_starts_ends_without_an_error() -> None:
    def start() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            WorkerInit(None, OwnWorker())(0)
        except KeyboardInterrupt:  # as in torch's loop, which calls it
            os._exit(0)
        os._exit(1)

    worker = with_bound_workers(multiprocessing.get_context("fork")).Process(target=start)  # type: ignore[attr-defined]
    worker.start()
    worker.join()
    assert worker.exitcode == 0


FORKSERVER = """
import multiprocessing, os, signal
from multiprocessing import forkserver, resource_tracker
from dali_proxy._common.bound_process import with_bound_workers

if __name__ == "__main__":
    resource_tracker.ensure_running()  # it unblocks SIGINT when it starts
    context = multiprocessing.get_context("forkserver")
    worker = with_bound_workers(context).Process(target=os.getpid)
    worker.start()
    worker.join()
    with open(f"/proc/{forkserver._forkserver._forkserver_pid}/status") as status:
        (mask,) = (line.split()[1] for line in status if line.startswith("SigBlk"))
    print(int(mask, 16) >> signal.SIGINT - 1 & 1)
"""


def test_forkserver_that_a_worker_starts_gets_interrupts(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(FORKSERVER)
    found = subprocess.run([sys.executable, script], env=with_project(), capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "0"


def test_exit_of_a_signal_handler_is_known() -> None:
    usual = signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(1))
    try:
        mark_signal_exits()
        with pytest.raises(SystemExit) as caught:
            os.kill(os.getpid(), signal.SIGHUP)
        assert ends_process(caught.value)
        try:
            raise caught.value
        except SystemExit:
            with pytest.raises(OSError, match="while it ended") as later:
                raise OSError("while it ended")  # noqa: B904
        assert ends_process(later.value)
    finally:
        signal.signal(signal.SIGHUP, usual)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert not ends_process(SystemExit(1))


KEEPS_RUNNING_AT_SIGTERM = """
import signal, sys
from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, affine

signal.signal(signal.SIGTERM, lambda *_: print("a worker called the handler"))
server = DALIServer(affine()).__enter__()
loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=4, num_workers=2, persistent_workers=True)
print(len(list(loader)))
sys.modules["kept until the end"] = loader
"""


@pytest.mark.parametrize("compiled", thorough_except([True, False], True))
def test_workers_end_for_any_handler_of_sigterm_of_the_program(compiled: bool) -> None:
    """Like torch's handler: Lightning, for example, sets a handler that only records the signal."""
    command = [sys.executable, "-c", KEEPS_RUNNING_AT_SIGTERM]
    variables = {} if compiled else {"DALI_PROXY_NATIVE": "0"}
    ended = subprocess.run(
        command, env=with_project(**variables), capture_output=True, text=True, timeout=150, check=True
    )
    assert ended.stdout == "2\n"


def test_unchanged_samples_may_be_lists(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(4, server.proxy), 2, collate_fn=keep_apart)
    assert [index for batch in loader for _, index in batch] == [0, 1, 2, 3]
