"""Recovery of failed batches: they are repeated after the server died, or without their bad samples."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

from dali_proxy import BatchError, DALIServer, DataLoader, ServerClosedError, ServerDiedError
from dali_proxy._consumer.consumer import ConsumerClient
from dali_proxy._consumer.pending_requests import SentAhead
from dali_proxy._transport.opener import ResultOpener
from dali_proxy.distributed import DistributedBatchSampler
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentTypeError, ArgumentValueError
from tests.dali_proxy.indexed import (
    IndexDataset,
    IndexStream,
    JpegDataset,
    RaisingDataset,
    affine,
    check_affine,
    decoded,
    noisy,
    sample,
)


def kill(server: DALIServer) -> None:
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_epoch_continues_after_the_server_died(num_workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._loader.flight._NBYTES", 1000)  # the server dies before all results are here
    with DALIServer(noisy(), restart="on-failure") as server:
        loader = DataLoader(server, IndexDataset(60, server.proxy, 1), batch_size=4, num_workers=num_workers)
        undisturbed = torch.cat([images for images, _ in loader])
        loader = DataLoader(server, IndexDataset(60, server.proxy, 1), batch_size=4, num_workers=num_workers)
        made = []
        for number, (images, indices) in enumerate(loader):
            assert indices.tolist() == list(range(4 * number, 4 * number + 4))
            made.append(images)
            if number in (2, 9):
                kill(server)
        assert torch.equal(torch.cat(made), undisturbed)  # random numbers are identical to the bit
        assert server.stats().restarts == 2


def test_another_thread_starts_the_server_again_while_a_result_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = ResultOpener.receive

    def open_after_a_restart(opener: ResultOpener, *args: Any) -> Any:
        monkeypatch.undo()  # only the first call
        kill(server)
        thread = threading.Thread(target=server.revive, args=(server.stops,))
        thread.start()
        thread.join()
        return receive(opener, *args)

    with DALIServer(affine(), restart="on-failure") as server:
        loader = DataLoader(server, IndexDataset(12, server.proxy), batch_size=4, num_workers=0)
        assert len([None for _ in loader]) == 3  # the next results arrive in memory that is already mapped
        monkeypatch.setattr(ResultOpener, "receive", open_after_a_restart)
        seen = [index for batch in loader for index in check_affine(*batch)]
        assert seen == list(range(12))
        assert server.stats().restarts == 1


@pytest.mark.parametrize("restart", ["on-failure", "never"])
def test_server_that_dies_while_an_epoch_begins(monkeypatch: pytest.MonkeyPatch, restart: Any) -> None:
    open_session = ConsumerClient.open_session

    def open_after_a_death(consumer: ConsumerClient, session: int) -> SentAhead:
        monkeypatch.undo()  # only the first call
        assert server.pid is not None
        pid = server.pid
        kill(server)
        with suppress(ChildProcessError):  # the server's thread may reap the process first
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return open_session(consumer, session)

    with DALIServer(affine(), restart=restart) as server:
        loader = DataLoader(server, IndexDataset(12, server.proxy), batch_size=4, num_workers=1)
        monkeypatch.setattr(ConsumerClient, "open_session", open_after_a_death)
        if restart == "never":
            with pytest.raises(ServerDiedError, match="SIGKILL"):
                iter(loader)
        else:
            seen = [index for batch in loader for index in check_affine(*batch)]
            assert seen == list(range(12))
            assert server.losses.restarts == 1


def test_loops_survive_one_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dali_proxy._loader.flight._NBYTES", 1000)
    with DALIServer(affine(), restart="on-failure") as server:
        loaders = [DataLoader(server, IndexDataset(32, server.proxy), batch_size=4, num_workers=1) for _ in range(2)]
        seen: list[list[int]] = [[], []]
        for number, batches in enumerate(zip(*loaders, strict=True)):
            for indices, batch in zip(seen, batches, strict=True):
                indices += check_affine(*batch)
            if number == 3:
                assert server.pid is not None
                os.kill(server.pid, signal.SIGTERM)  # not requested by this process, so it counts as a death, too
        assert seen == [list(range(32))] * 2
        assert server.losses.restarts == 1


def test_server_that_was_stopped_is_not_started_again() -> None:
    server = DALIServer(affine(), restart="on-failure")
    with server:
        iterator = iter(DataLoader(server, IndexDataset(64, server.proxy), batch_size=4, num_workers=1))
        next(iterator)
    for _ in range(2):
        with pytest.raises(ServerClosedError):
            next(iterator)
    assert not server.running


def test_iterable_dataset_that_lost_its_server() -> None:
    with DALIServer(affine(), restart="on-failure") as server:
        iterator = iter(DataLoader(server, IndexStream(400, server.proxy), batch_size=4, num_workers=1))
        check_affine(*next(iterator))
        kill(server)
        with pytest.raises(ServerDiedError, match="SIGKILL"):
            deque((check_affine(*batch) for batch in iterator), maxlen=0)


def test_loader_of_torch_finds_a_new_server() -> None:
    with DALIServer(affine(), restart="on-failure") as server:
        batch = torch.utils.data.default_collate([server.proxy(sample(1))])
        kill(server)
        with pytest.raises(ServerDiedError, match="SIGKILL"):
            server.produce_data(batch)
        assert server.produce_data(server.proxy(sample(2))).tolist() == [13, 13, 13]


@pipeline_def(num_threads=1, device_id=None, batch_size=4)
def fatal() -> Any:
    """Return a pipeline that ends its process at the tenth sample of an epoch."""

    def last_words(info: Any) -> Any:
        if info.idx_in_epoch == 9:
            os._exit(7)
        return np.float32([info.idx_in_epoch])  # not `sample`: each server would import torch

    return fn.external_source(name="x") * 3 + 7 + 0 * fn.external_source(last_words, batch=False)


def test_batch_that_ends_every_server_is_given_up() -> None:
    with DALIServer(fatal(), restart="on-failure") as server:
        loader = DataLoader(server, IndexDataset(40, server.proxy), batch_size=4, num_workers=0)
        seen = []
        with pytest.raises(ServerDiedError, match=r"batch 2 of .*won't be tried again.*: 8, 9, 10, 11; .*exit code 7"):
            seen.extend(check_affine(*batch) for batch in loader)
        assert seen == [[0, 1, 2, 3], [4, 5, 6, 7]]


def brightness(batch: Any) -> list[int]:
    """Check the images of a batch, and return the indices."""
    images, indices = batch
    assert (images.float().mean(dim=(1, 2, 3)) - indices).abs().max() <= 1
    return [int(index) for index in indices]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_bad_image_fails_alone(serve: Callable[..., DALIServer], num_workers: int) -> None:
    server = serve(decoded())

    def epoch(on_error: Any) -> list[int]:
        dataset = JpegDataset(24, server.proxy)
        loader = DataLoader(server, dataset, batch_size=8, num_workers=num_workers, on_error=on_error)
        return [index for batch in loader for index in brightness(batch)]

    with pytest.warns(RuntimeWarning, match=r"1 samples skipped and 0 replaced.*decoders.image") as caught:
        assert epoch("skip") == [index for index in range(24) if index != JpegDataset.bad]
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="1 replaced"):
        assert epoch("replace") == [14 if index == JpegDataset.bad else index for index in range(24)]
    errors: list[BatchError] = []
    assert len(epoch(errors.append)) == 23
    assert errors[0].dataset_index == JpegDataset.bad
    assert "decoders.image" in errors[0].operator
    stats = server.stats()
    assert (stats.skipped, stats.replaced) == (2, 1)


class ManyRaiseDataset(IndexDataset):
    """Raises for every index of one batch of 4, and for one index of another batch."""

    def __getitem__(self, index: int) -> Any:
        if index in (3, 8, 9, 10, 11):
            raise OSError(f"no file for {index}")
        return super().__getitem__(index)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_samples_that_the_dataset_cannot_read(server: DALIServer, num_workers: int) -> None:
    errors: list[BatchError] = []
    expected = [index for index in range(16) if index not in (3, 8, 9, 10, 11)]
    dataset = ManyRaiseDataset(16, server.proxy)
    skipped = server.losses.skipped
    loader = DataLoader(server, dataset, batch_size=4, num_workers=num_workers, on_error=errors.append)
    batches = [check_affine(*batch) for batch in loader]
    assert [index for batch in batches for index in batch] == expected
    assert [len(batch) for batch in batches] == [3, 4, 4]  # the batch from 8 to 11 is left out
    assert [error.dataset_index for error in errors] == [3, 8, 9, 10, 11]
    assert "no file for 3" in str(errors[0])
    assert "test_rescue.py" in errors[0].remote_traceback
    assert isinstance(errors[0].__cause__, OSError)
    assert errors[0].worker.startswith("worker 0" if num_workers else "main")
    assert server.losses.skipped - skipped == 5


def test_batch_without_its_bad_sample_has_the_same_random_numbers_with_any_number_of_ranks() -> None:
    def epoch(ranks: int) -> dict[int, Any]:
        seen: dict[int, Any] = {}
        for rank in range(ranks):
            sampler = DistributedBatchSampler(16, 4, rank=rank, world_size=ranks)
            dataset = ManyRaiseDataset(16, server.proxy, 1)
            batches = DataLoader(server, dataset, batch_sampler=sampler, on_error=lambda error: "skip")
            for numbers, indices in batches:
                seen.update(zip(indices.tolist(), numbers.tolist(), strict=True))
        return seen

    with DALIServer(noisy()) as server:
        assert len(epoch(1)) == 11
        assert epoch(1) == epoch(2) == epoch(4)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_exception_of_the_dataset_has_the_index_of_its_sample(server: DALIServer, num_workers: int) -> None:
    iterator = iter(DataLoader(server, ManyRaiseDataset(12, server.proxy), batch_size=4, num_workers=num_workers))
    for index in (3, 8):
        with pytest.raises(OSError, match=f"no file for {index}") as caught:
            deque(iterator, 0)
        assert vars(caught.value)["dataset_indices"] == (vars(caught.value)["dataset_index"],) == (index,)


def test_function_decides(server: DALIServer) -> None:
    def decide(error: BatchError) -> str:
        return "replace" if error.dataset_index == 3 else "raise"

    iterator = iter(DataLoader(server, ManyRaiseDataset(16, server.proxy), 4, num_workers=1, on_error=decide))
    assert check_affine(*next(iterator)) == [0, 1, 2, 0]
    assert check_affine(*next(iterator)) == [4, 5, 6, 7]
    with pytest.raises(OSError, match="no file for 8"):
        next(iterator)
    assert check_affine(*next(iterator)) == [12, 13, 14, 15]


def raising_collate(samples: Any) -> Any:
    raise ZeroDivisionError


def test_errors_without_a_sample_are_raised(server: DALIServer) -> None:
    dataset = IndexDataset(8, server.proxy)
    loader = DataLoader(server, dataset, batch_size=4, num_workers=1, collate_fn=raising_collate, on_error="skip")
    with pytest.raises(ZeroDivisionError):
        next(iter(loader))
    single = DataLoader(server, RaisingDataset(8, server.proxy), batch_size=None, num_workers=1, on_error="skip")
    with pytest.warns(RuntimeWarning, match="sample 5 is bad"):
        assert [int(index) for _, index in single] == [0, 1, 2, 3, 4, 6, 7]


def test_policy_must_be_one(server: DALIServer) -> None:
    dataset = IndexDataset(8, server.proxy)
    with pytest.raises(ArgumentValueError, match="on_error"):
        DataLoader(server, dataset, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="on_error"):
        DataLoader(server, dataset, on_error=3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentValueError, match="restart"):
        DALIServer(affine(), restart="always")  # type: ignore[arg-type]


def test_epoch_begins_though_a_server_that_ends_still_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[float] = []
    open_session = ConsumerClient.open_session

    def closed_at_first(self: ConsumerClient, session: int) -> SentAhead:
        ended.append(time.monotonic())
        if ended[-1] - ended[0] < 0.1:
            raise ServerDiedError("the server is gone")
        return open_session(self, session)

    monkeypatch.setattr(ConsumerClient, "open_session", closed_at_first)
    with DALIServer(affine(), mode="thread", restart="on-failure") as server:
        loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=4)
        assert [index for batch in loader for index in check_affine(*batch)] == list(range(8))
