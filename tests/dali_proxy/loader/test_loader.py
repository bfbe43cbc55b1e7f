"""The loader: every sample arrives once and in order, with any workers, samplers and collation."""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.utils.data
from torch.utils.data import (
    BatchSampler,
    IterableDataset,
    IterDataPipe,
    RandomSampler,
    SequentialSampler,
    WeightedRandomSampler,
    default_collate,
)

from dali_proxy import BatchError, DALIServer, DataLoader, ServerClosedError, StaleReferenceError
from pipeline import fn, pipeline_def
from pipeline.errors import DecodeError
from tests.dali_proxy.indexed import (
    BatchedIndexDataset,
    DictDataset,
    IndexDataset,
    IndexStream,
    JpegDataset,
    RaisingDataset,
    TwoInputDataset,
    TwoViewsDataset,
    WatchfulDataset,
    affine,
    affine_of,
    check_affine,
    decoded,
    keep_apart,
    mark_dataset,
    noisy,
    sample,
    sum_and_difference,
)

WORKERS = (0, 1, 3)


def indices_of(loader: Any) -> list[int]:
    """Run an epoch, check every sample, and return the indices in order."""
    return [index for images, indices in loader for index in check_affine(images, indices)]


@pytest.mark.combinations
@pytest.mark.parametrize("num_workers", WORKERS)
def test_samples_arrive_in_order(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, IndexDataset(53, server.proxy), batch_size=8, num_workers=num_workers)
    for _ in range(2):
        assert indices_of(loader) == list(range(53))
    assert len(loader) == 7


@pytest.mark.parametrize("num_workers", [0, 2])
def test_drop_last(server: DALIServer, num_workers: int) -> None:
    dataset = IndexDataset(21, server.proxy)
    assert indices_of(DataLoader(server, dataset, 8, num_workers=num_workers, drop_last=True)) == list(range(16))


def test_ensure_server_listening_starts_the_server() -> None:
    server = DALIServer(affine(), mode="thread")
    loader = DataLoader(server, [0], batch_size=1)
    assert not server.running
    loader.ensure_server_listening()
    loader.ensure_server_listening()
    assert server.running
    server.stop()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_order_is_that_of_the_loader_of_torch(server: DALIServer, num_workers: int) -> None:
    def orders(loader: Any) -> list[list[int]]:
        return [[int(index) for batch in loader for index in batch[1]] for _ in range(2)]

    dataset = IndexDataset(40, server.proxy)
    plain: Any = IndexDataset(40, torch.as_tensor)
    options: dict[str, Any] = {"batch_size": 7, "shuffle": True, "num_workers": num_workers}
    theirs = orders(torch.utils.data.DataLoader(plain, generator=torch.Generator().manual_seed(1), **options))
    ours = orders(DataLoader(server, dataset, generator=torch.Generator().manual_seed(1), **options))
    assert ours == theirs
    assert ours[0] != ours[1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_samplers(server: DALIServer, num_workers: int) -> None:
    dataset = IndexDataset(30, server.proxy)
    weighted = WeightedRandomSampler([1.0] * 30, 50, generator=torch.Generator().manual_seed(2))
    loader = DataLoader(server, dataset, batch_size=16, sampler=weighted, num_workers=num_workers)
    assert len(indices_of(loader)) == 50  # with repeated samples, also within a batch
    assert loader.sampler is weighted
    batches = BatchSampler(RandomSampler(range(30), generator=torch.Generator().manual_seed(3)), 4, drop_last=False)
    loader = DataLoader(server, dataset, batch_sampler=batches, num_workers=num_workers)
    assert sorted(indices_of(loader)) == list(range(30))
    assert loader.batch_sampler is batches
    assert loader.batch_size is None


def test_batches_of_unequal_sizes(server: DALIServer) -> None:
    batches: Any = [[0, 1, 2], [3], [4, 5, 6, 7, 8], [0]]
    loader = DataLoader(server, IndexDataset(9, server.proxy), batch_sampler=batches, num_workers=2)
    assert [len(indices) for _, indices in loader] == [3, 1, 5, 1]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batch_size_none_gives_single_samples(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, IndexDataset(9, server.proxy), batch_size=None, num_workers=num_workers)
    samples = list(loader)
    assert [index for _, index in samples] == list(range(9))
    for image, index in samples:
        assert image.tolist() == [affine_of(index)] * 3
    stream = DataLoader(server, IndexStream(9, server.proxy), batch_size=None, num_workers=num_workers)
    assert sorted(int(image[0]) for image, _ in stream) == [affine_of(index) for index in range(9)]


@pytest.mark.combinations
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("num_workers", WORKERS)
def test_iterable_dataset(server: DALIServer, num_workers: int, drop_last: bool) -> None:
    loader = DataLoader(
        server, IndexStream(31, server.proxy), batch_size=4, num_workers=num_workers, drop_last=drop_last
    )
    parts = max(num_workers, 1)
    whole = sum(len(range(part, 31, parts)) // 4 * 4 for part in range(parts))
    for _ in range(3):
        seen = indices_of(loader)
        assert len(set(seen)) == len(seen) == (whole if drop_last else 31)


@pytest.mark.parametrize("dataset", [IndexDataset, IndexStream])
def test_persistent_workers(server: DALIServer, dataset: Any) -> None:
    loader = DataLoader(server, dataset(40, server.proxy), batch_size=5, num_workers=2, persistent_workers=True)
    first = iter(loader)
    assert sorted(index for images, indices in first for index in check_affine(images, indices)) == list(range(40))
    second = iter(loader)
    assert second is first  # as in torch
    check_affine(*next(second))
    for _ in range(2):  # the previous epoch was stopped early
        assert sorted(indices_of(loader)) == list(range(40))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_abandoned_loop_does_not_affect_later_ones(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, IndexDataset(64, server.proxy), batch_size=4, num_workers=num_workers, shuffle=True)
    for _ in range(4):
        for number, batch in enumerate(loader):
            check_affine(*batch)
            if number == 2:
                break
    assert sorted(indices_of(loader)) == list(range(64))
    assert server.stats().waiting_results == 0


@pytest.mark.parametrize("num_workers", [0, 2])
def test_loaders_and_iterators_take_turns(server: DALIServer, num_workers: int) -> None:
    one = DataLoader(server, IndexDataset(24, server.proxy), batch_size=4, num_workers=num_workers)
    other = DataLoader(server, IndexDataset(24, server.proxy, width=5), batch_size=6, num_workers=num_workers)
    iterators = [iter(one), iter(one)]
    others = iter(other)
    for images, indices in iterators[0]:
        check_affine(images, indices)
        check_affine(*next(iterators[1]))
        batch = next(others, None)
        if batch is not None:
            check_affine(*batch, width=5)
    with pytest.raises(StopIteration):
        next(iterators[1])


def test_getitems_of_the_dataset_is_used(server: DALIServer) -> None:
    assert indices_of(DataLoader(server, BatchedIndexDataset(20, server.proxy), 8, num_workers=2)) == list(range(20))


def test_nested_samples(server: DALIServer) -> None:
    for batch in DataLoader(server, DictDataset(20, server.proxy), batch_size=8, num_workers=2):
        indices = check_affine(batch["image"], batch["label"])
        assert batch["meta"]["name"] == [f"sample {index}" for index in indices]
        assert torch.equal(batch["meta"]["weights"], batch["label"][:, None] * torch.ones(2))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_proxy_called_twice_for_a_sample(server: DALIServer, num_workers: int) -> None:
    for one, two, indices in DataLoader(server, TwoViewsDataset(20, server.proxy), 8, num_workers=num_workers):
        check_affine(one, indices)
        check_affine(two, indices + 1000)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_collate_that_keeps_samples_apart(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(
        server, TwoViewsDataset(20, server.proxy), batch_size=12, num_workers=num_workers, collate_fn=keep_apart
    )
    seen = []
    for batch in loader:
        for one, two, index in batch:
            assert one.tolist() == [affine_of(index)] * 3
            assert two.tolist() == [affine_of(index + 1000)] * 3
            seen.append(index)
    assert seen == list(range(20))


def collate_ends(samples: list[Any]) -> Any:
    return torch.utils.data.default_collate([samples[0], samples[-1], samples[0]])


def test_collate_that_uses_some_samples_twice_and_drops_others(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(24, server.proxy), batch_size=8, num_workers=2, collate_fn=collate_ends)
    assert indices_of(loader) == [0, 7, 0, 8, 15, 8, 16, 23, 16]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_server_with_two_inputs_and_two_outputs(serve: Callable[..., DALIServer], num_workers: int) -> None:
    server = serve(sum_and_difference())
    loader = DataLoader(server, TwoInputDataset(20, server.proxy), batch_size=8, num_workers=num_workers)
    seen = []
    for total, difference, indices in loader:
        assert torch.equal(total, (indices[:, None] + 1).expand(-1, 3).int())
        assert torch.equal(difference, (indices[:, None] - 1).expand(-1, 3).int())
        seen += indices.tolist()
    assert seen == list(range(20))
    assert server.stats().batches == 3  # one request produces both outputs


@pytest.mark.parametrize("num_workers", [0, 2])
def test_dataset_that_raises(server: DALIServer, num_workers: int) -> None:
    iterator = iter(DataLoader(server, RaisingDataset(16, server.proxy), batch_size=4, num_workers=num_workers))
    check_affine(*next(iterator))
    with pytest.raises(KeyError, match="sample 5 is bad"):
        next(iterator)
    assert check_affine(*next(iterator)) == [8, 9, 10, 11]
    assert check_affine(*next(iterator)) == [12, 13, 14, 15]


def check_images(images: torch.Tensor, indices: torch.Tensor) -> None:
    assert images.shape == (len(indices), 16, 16, 3)
    assert (images.int() - indices[:, None, None, None]).abs().max() <= 1


def error_of(iterator: Any) -> BatchError:
    """Return the error that `next` raises. The traceback in `pytest.raises` would keep the iterator alive."""
    try:
        next(iterator)
    except BatchError as error:
        raised_in = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        failure = error.with_traceback(None)
    else:
        pytest.fail("no error came")
    assert raised_in == ["error_of", "__next__", "_advance"]
    return failure


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batch_that_fails(serve: Callable[..., DALIServer], num_workers: int) -> None:
    server = serve(decoded())
    iterator = iter(DataLoader(server, JpegDataset(24, server.proxy), batch_size=8, num_workers=num_workers))
    check_images(*next(iterator))
    error = error_of(iterator)
    assert error.dataset_index == JpegDataset.bad
    assert error.samples == (5,)
    assert "indexed.py" in error.source_line
    assert error.worker.startswith("worker 1" if num_workers else "main")
    assert error.remote_traceback
    assert isinstance(error.__cause__, DecodeError)
    assert error.__cause__.__cause__ is None  # the message says everything
    check_images(*next(iterator))
    assert server.stats().errors == 1


def test_proxy_of_another_server(serve: Callable[..., DALIServer], monkeypatch: pytest.MonkeyPatch) -> None:
    server, other = serve(affine()), serve(affine())
    loader = DataLoader(server, IndexDataset(8, other.proxy), batch_size=8, num_workers=1)
    monkeypatch.setattr(
        server, "explain", lambda gone: pytest.fail("no process died, so the loop doesn't wait for one")
    )
    with pytest.raises(StaleReferenceError, match="or to the proxy of another server"):
        next(iter(loader))


def test_worker_info_and_worker_init_fn_see_the_users_dataset(server: DALIServer) -> None:
    dataset = WatchfulDataset(8, server.proxy)
    loader = DataLoader(server, dataset, batch_size=4, num_workers=2, worker_init_fn=mark_dataset)
    assert loader.dataset is dataset
    for number, (_, _, is_shown, marked) in enumerate(loader):
        assert is_shown.all()
        assert marked.tolist() == [100 + number] * 4


class Garbage:
    """A cycle that only the process that created it may collect, like a dropped iterator of torch."""

    def __init__(self) -> None:
        self.circle = self
        self.pid = os.getpid()

    def __del__(self) -> None:
        assert os.getpid() == self.pid, "can only end in its own process"


class CollectingDataset(IndexDataset):
    """Collects garbage before each sample, and yields the number of failed finalizers."""

    def __getitem__(self, index: int) -> Any:
        failed: list[Any] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "unraisablehook", failed.append)
            gc.collect()
        return (*super().__getitem__(index), len(failed))


def test_workers_leave_garbage_of_the_training_process_alone(server: DALIServer) -> None:
    gc.disable()
    try:
        Garbage()
        loader = DataLoader(server, CollectingDataset(8, server.proxy), batch_size=4, num_workers=2)
        for images, indices, failed in loader:
            check_affine(images, indices)
            assert not failed.any()
    finally:
        gc.enable()


@pipeline_def(num_threads=1, device_id=None, batch_size=16)
def same_noise_twice() -> Any:
    noise = fn.external_source(name="x") * 0.0 + fn.random.uniform(range=(0.0, 1.0))
    return noise + 0.0, noise + 0.0


def test_outputs_of_a_batch_stay_together_while_another_thread_runs_one(serve: Callable[..., DALIServer]) -> None:
    server = serve(same_noise_twice())
    dataset = IndexDataset(4, server.proxy)

    def collate(samples: list[Any]) -> Any:
        one = default_collate([outputs[0] for outputs, _ in samples])
        with ThreadPoolExecutor(1) as other:
            other.submit(list, DataLoader(server, dataset, batch_size=4)).result()
        return one, default_collate([outputs[1] for outputs, _ in samples])

    for one, two in DataLoader(server, dataset, batch_size=4, collate_fn=collate):
        assert torch.equal(one, two)


class IndexPipe(IterDataPipe[Any]):
    """A datapipe. torch checks its type, so it can't be wrapped."""

    def __init__(self, length: int, transform: Any) -> None:
        self.stream = IndexStream(length, transform)

    def __iter__(self) -> Any:
        return iter(self.stream)


def test_random_numbers_of_datapipes(serve: Callable[..., DALIServer]) -> None:
    server = serve(noisy())
    loader = DataLoader(server, IndexPipe(16, server.proxy), batch_size=4, num_workers=2)
    noise = [float(image[0] - index) for _ in range(2) for batch in loader for image, index in zip(*batch, strict=True)]
    assert len(set(noise)) == 32


def test_spawned_workers() -> None:
    server = DALIServer(sum_and_difference())
    with server:
        loader = DataLoader(
            server,
            TwoInputDataset(12, server.proxy),
            batch_size=4,
            num_workers=1,
            multiprocessing_context="spawn",
            worker_init_fn=mark_dataset,
        )
        assert [index for total, _, indices in loader for index in (total[:, 0] - 1).tolist()] == list(range(12))


def test_loader_starts_and_restarts_the_server(mode: str) -> None:
    server = DALIServer(noisy(), mode=mode)  # type: ignore[arg-type]
    loader = DataLoader(server, IndexDataset(12, server.proxy), batch_size=4, num_workers=1, persistent_workers=True)
    for begun in range(3):
        assert not server.running
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            if begun == 2:
                server.start()
            assert [int(index) for _, indices in loader for index in indices] == list(range(12))
        said = [each for each in caught if "the server was stopped, and this loop starts it again" in str(each.message)]
        assert [each.filename for each in said] == [__file__] * (begun == 1), "only if the user doesn't start it"
        assert server.running
        server.stop()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_server_leaves_with_while_a_loop_runs(mode: str, num_workers: int) -> None:
    server = DALIServer(noisy(), mode=mode)  # type: ignore[arg-type]
    with server:
        iterator = iter(DataLoader(server, IndexDataset(64, server.proxy), 4, num_workers=num_workers))
        kept, _ = next(iterator)
        copied = kept.clone()
    with pytest.raises(ServerClosedError):
        next(iterator)
    with server:
        loader = DataLoader(server, IndexDataset(64, server.proxy), batch_size=4, num_workers=num_workers)
        assert sum(len(indices) for _, indices in loader) == 64
        with pytest.raises(ServerClosedError):
            next(iterator)
    assert torch.equal(kept, copied)  # tensors outlive their server


def test_tensors_stay_unchanged_while_they_are_held(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(64, server.proxy), batch_size=4, num_workers=2)
    held = list(loader)
    for images, _ in held[::2]:
        images += 1  # users may write to them
    for number, (images, indices) in enumerate(held):
        check_affine(images - int(number % 2 == 0), indices)
    del held
    assert indices_of(loader) == list(range(64))


def test_pin_memory_without_a_gpu_warns_as_torch_does(server: DALIServer) -> None:
    if torch.accelerator.is_available():
        pytest.skip("there is one")
    loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=4, num_workers=1, pin_memory=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert indices_of(loader) == list(range(8))
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        list(torch.utils.data.DataLoader([0], num_workers=1, pin_memory=True))  # no warning before torch 2.8
    named = [[warning for warning in each if "pin_memory" in str(warning.message)] for each in (caught, expected)]
    assert len(named[0]) == len(named[1])


def test_arguments_are_those_of_torch(server: DALIServer) -> None:
    dataset = IndexDataset(8, server.proxy)
    with pytest.raises(ValueError, match="persistent_workers"):
        DataLoader(server, dataset, persistent_workers=True)
    with pytest.raises(TypeError, match="DataLoader got an unexpected keyword argument 'no_such_argument'"):
        DataLoader(server, dataset, no_such_argument=1)
    with pytest.raises(TypeError, match=r"'batchsize'. Did you mean 'batch_size'"):
        DataLoader(server, dataset, batchsize=1)
    with pytest.raises(TypeError, match=r"'placment'.*Did you mean 'placement'"):
        DALIServer(lambda x: x, placment="auto")
    with pytest.raises(TypeError, match="needs a DALIServer first"):
        DataLoader(dataset, batch_size=4)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs a dataset"):
        DataLoader(server, batch_size=4)
    with pytest.raises(ValueError, match=r'num_workers must be a number\. "auto" is for the server'):
        DataLoader(server, dataset, num_workers="auto")
    loader = DataLoader(server, dataset, 4, False, SequentialSampler(dataset))
    assert (loader.batch_size, loader.num_workers) == (4, 0)


def test_loader_can_be_made_again_from_its_public_attributes(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(8, server.proxy), 4, ragged="list")
    names = [name for name in vars(loader) if not name.startswith("_")]
    replaced = ("batch_size", "sampler", "drop_last", "batch_sampler")
    options = {name: getattr(loader, name) for name in names if name not in replaced}
    again = type(loader)(**options, batch_sampler=BatchSampler(range(2, 8), 3, False))
    assert [check_affine(*batch) for batch in again] == [[2, 3, 4], [5, 6, 7]]


class Endless(DataLoader):
    """Repeats its batches with the same workers, as detection trainers do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.batches = super().__iter__()

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.batches)

    def reset(self) -> None:
        self.batches = self._get_iterator()


def test_subclass_that_overrides_iter_gets_iterators(server: DALIServer) -> None:
    loader = Endless(server, IndexDataset(8, server.proxy), 4)
    for _ in range(2):
        assert [check_affine(*batch) for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        loader.reset()


class SizedStream(IterableDataset[Any]):
    """Every worker reads everything."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        yield from (self.transform(sample(index)) for index in range(4))


def test_more_samples_than_the_length_of_a_stream_are_warned_of(server: DALIServer) -> None:
    loader = DataLoader(server, SizedStream(server.proxy), 1, num_workers=2)
    assert len(loader) == 4
    with pytest.warns(UserWarning, match=r"Length of IterableDataset .*SizedStream.* was reported to be 4.*, but 5"):
        assert len(list(loader)) == 8
