"""Loaders of torch that other code makes from the parts of our loader: they yield tensors, or an error says why not."""

from __future__ import annotations

import copy
import gc
import pickle
import random
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest
import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import Dataset, _utils, default_collate, get_worker_info

from dali_proxy import BatchError, DALIServer, DataLoader, LastBatchPolicy, PlaceholderError, RayCluster
from dali_proxy._loader import resolving_collate
from dali_proxy._loader.resolving_collate import ResolvingCollate
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentMismatchError
from tests.dali_proxy.indexed import SCALE, SHIFT, DictDataset, IndexDataset, IndexStream, affine, decoded, jpeg

WORKERS = pytest.mark.parametrize("num_workers", [0, 2])


@pytest.fixture(autouse=True)
def _workers_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """End torch's workers after each test. Garbage collection closes their queues first, and torch then waits 5 s."""
    iterators: list[Any] = []

    class Recorded(torch.utils.data.dataloader._MultiProcessingDataLoaderIter):
        def __init__(self, loader: Any) -> None:
            super().__init__(loader)
            iterators.append(self)

    monkeypatch.setattr(torch.utils.data.dataloader, "_MultiProcessingDataLoaderIter", Recorded)
    yield
    for each in iterators:
        each._shutdown_workers()


def rebuilt(loader: DataLoader, **options: Any) -> torch.utils.data.DataLoader[Any]:
    """A loader of torch, made as frameworks do."""
    return torch.utils.data.DataLoader(
        loader.dataset, batch_sampler=loader.batch_sampler, collate_fn=loader.collate_fn, **options
    )


def labels_of(batches: Any) -> list[list[int]]:
    """Return the indices of batches after a check of their tensors."""
    found = []
    for values, labels in batches:
        assert torch.equal(values, labels[:, None].expand(-1, 3) * SCALE + SHIFT)
        found.append(labels.tolist())
    return found


@WORKERS
def test_batches_are_tensors_in_order(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, IndexDataset(10, server.proxy), batch_size=4)
    other = rebuilt(loader, num_workers=num_workers)
    assert labels_of(other) == labels_of(other) == labels_of(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_persistent_workers_and_shuffle(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(10, server.proxy), batch_size=4, shuffle=True)
    other = rebuilt(loader, num_workers=2, persistent_workers=True)
    for _ in range(2):
        assert sorted(chain(*labels_of(other))) == list(range(10))


@WORKERS
def test_samples_without_batches(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, IndexDataset(3, server.proxy), batch_size=None)
    other = torch.utils.data.DataLoader(
        loader.dataset, batch_size=None, collate_fn=loader.collate_fn, num_workers=num_workers
    )
    assert [(value.tolist(), label) for value, label in other] == [([SHIFT + SCALE * i] * 3, i) for i in range(3)]


def test_iterable_dataset(server: DALIServer) -> None:
    loader = DataLoader(server, IndexStream(8, server.proxy), batch_size=2)
    other = torch.utils.data.DataLoader(loader.dataset, batch_size=2, collate_fn=loader.collate_fn, num_workers=2)
    assert sorted(chain(*labels_of(other))) == list(range(8))


def keep_apart(samples: list[Any]) -> dict[str, Any]:
    return {"each": [sample["image"] for sample in samples], "labels": [sample["label"] for sample in samples]}


@WORKERS
def test_users_collate_function_is_called(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, DictDataset(4, server.proxy), batch_size=4, collate_fn=keep_apart)
    batch = next(iter(rebuilt(loader, num_workers=num_workers)))
    assert batch["labels"] == [0, 1, 2, 3]
    assert [each.tolist() for each in batch["each"]] == [[SHIFT + SCALE * i] * 3 for i in range(4)]


def test_workers_of_a_fork_server() -> None:
    with DALIServer(affine()) as server:
        loader = DataLoader(server, IndexDataset(6, server.proxy), batch_size=3)
        other = rebuilt(loader, num_workers=1, multiprocessing_context="forkserver")
        assert labels_of(other) == [[0, 1, 2], [3, 4, 5]]


class Images(Dataset[Any]):
    """Image 9 can't be decoded, and 3 can't be read."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        if index == 3:
            raise OSError("no image 3")
        return self.transform(b"x" if index == 9 else jpeg(index)), index


@WORKERS
def test_errors_come_in_order_and_name_the_dataset_index(serve: Callable[..., DALIServer], num_workers: int) -> None:
    server = serve(decoded())
    loader = DataLoader(server, Images(server.proxy), batch_size=2, sampler=[*range(11, -1, -1)])
    batches = iter(rebuilt(loader, num_workers=num_workers))
    assert next(batches)[1].tolist() == [11, 10]
    with pytest.raises(BatchError, match="dataset index: 9 ") as caught:
        next(batches)
    assert caught.value.dataset_index == 9
    assert caught.value.samples == (0,)
    assert [next(batches)[1].tolist() for _ in range(2)] == [[7, 6], [5, 4]]
    with pytest.raises(OSError, match="no image 3"):
        next(batches)
    assert [labels.tolist() for _, labels in batches] == [[1, 0]]


class Ragged(IndexDataset):
    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.full((index % 3 + 1,), index, dtype=torch.int32).numpy()), index


@WORKERS
def test_option_ragged_is_applied(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, Ragged(3, server.proxy), batch_size=3, ragged="pad")
    ((values, _),) = rebuilt(loader, num_workers=num_workers)
    assert values.tolist() == [[7, 0, 0], [10, 10, 0], [13, 13, 13]]


def test_output_that_becomes_ragged_is_an_error(server: DALIServer) -> None:
    loader = DataLoader(server, Ragged(6, server.proxy), sampler=[0, 3, 1, 5], batch_size=2)
    batches = iter(rebuilt(loader))
    assert next(batches)[0].shape == (2, 1)
    with pytest.raises(BatchError, match=r"In earlier batches[^;]*dataset index 1"):
        next(batches)


def test_output_that_becomes_ragged_is_an_error_with_workers(server: DALIServer) -> None:
    loader = DataLoader(server, Ragged(6, server.proxy), sampler=[0, 3, 1, 5], batch_size=2)
    with pytest.raises(BatchError, match="In earlier batches"):
        list(rebuilt(loader, num_workers=2))


@pytest.mark.parametrize(
    ("arrivals", "error"),
    [
        ([(1, "ragged"), (0, "dense")], True),
        ([(1, "dense"), (0, "ragged"), (3, "ragged"), (2, "dense")], False),
        ([(2, "dense"), (1, "ragged"), (0, "dense")], True),
        ([(number, "dense") for number in range(20, 0, -1)] + [(21, "ragged")], True),  # the first worker has no data
        ([(number, "ragged") for number in range(20, 0, -1)] + [(21, "dense")], False),
    ],
)
def test_first_batch_determines_the_form_though_others_arrive_earlier(
    server: DALIServer, arrivals: list[tuple[int, str]], error: bool
) -> None:
    loader = DataLoader(server, Ragged(6, server.proxy))

    def arrive(number: int, kind: str) -> Any:
        data = default_collate([loader.dataset[index] for index in ((0, 3) if kind == "dense" else (1, 5))])
        return resolving_collate._arrived(loader.collate_fn._key, data, 0, number)

    arrived = [arrive(*each) for each in arrivals]
    assert [isinstance(batch, ExceptionWrapper) for batch in arrived] == [False] * (len(arrived) - 1) + [error]
    for batch, (_, kind) in list(zip(arrived, arrivals, strict=True))[:-1]:
        assert isinstance(batch[0], list) == (kind == "ragged")


def with_draw(batch: Any) -> Any:
    return *batch, torch.rand(1).item(), random.random()


@WORKERS
def test_batch_transform_is_applied_with_random_numbers_of_the_batch(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=2, batch_transform=with_draw)
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        loader = DataLoader(server, IndexDataset(8, server.proxy), batch_size=2, batch_transform=with_draw)
        draws.append([(batch[2], batch[3]) for batch in rebuilt(loader, num_workers=num_workers)])
        assert torch.initial_seed() == 5
    assert draws[0] == draws[1]
    assert len(set(draws[0])) == 4


def stop(batch: Any) -> Any:
    if 3 in batch[1]:
        raise StopIteration
    return batch


@WORKERS
def test_stop_iteration_does_not_end_the_epoch(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(server, IndexDataset(6, server.proxy), batch_size=2, batch_transform=stop)
    batches = iter(rebuilt(loader, num_workers=num_workers))
    next(batches)
    with pytest.raises(RuntimeError, match="would end the epoch"):
        next(batches)
    assert next(batches)[1].tolist() == [4, 5]


@WORKERS
@pytest.mark.parametrize(
    "options", [{"on_error": "skip"}, {"last_batch_policy": LastBatchPolicy.FILL}], ids=["on_error", "fill"]
)
def test_option_that_cannot_be_applied_is_an_error(
    server: DALIServer, num_workers: int, options: dict[str, Any]
) -> None:
    loader = DataLoader(server, IndexDataset(6, server.proxy), batch_size=4, **options)
    with pytest.raises(ArgumentMismatchError, match=r"Accelerate's prepare.*iterate over the dali_proxy.DataLoader"):
        next(iter(rebuilt(loader, num_workers=num_workers)))
    assert len(list(loader)) == 2  # its own loop can


def test_servers_in_a_cluster_are_an_error() -> None:
    server = DALIServer(affine(), cluster=RayCluster())
    loader = DataLoader(server, IndexDataset(6, lambda x: x), batch_size=4)
    with pytest.raises(ArgumentMismatchError, match=r"can't use servers in a cluster.*iterate over the dali"):
        next(iter(rebuilt(loader)))


def test_dataset_workers_of_the_server_are_not_needed() -> None:
    with DALIServer(affine(), num_workers=1) as server:
        loader = DataLoader(server, IndexDataset(4, server.proxy), batch_size=2)
        assert labels_of(rebuilt(loader, num_workers=1)) == labels_of(loader) == [[0, 1], [2, 3]]


def test_iterator_of_torch_yields_tensors(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(4, server.proxy), batch_size=2)
    assert labels_of(loader._get_iterator()) == [[0, 1], [2, 3]]


def in_thread_that_pins(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> Any:
    """Call a function in a thread that looks like that of torch, which needs a GPU."""
    results = []
    monkeypatch.setattr(_utils.pin_memory, "_pin_memory_loop", lambda: results.append(call()))
    thread = threading.Thread(target=_utils.pin_memory._pin_memory_loop)
    thread.start()
    thread.join()
    return results[0]


def test_thread_that_pins_resolves_batches_unless_a_transform_would_seed(
    server: DALIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arrive(**options: Any) -> Any:
        loader = DataLoader(server, IndexDataset(2, server.proxy), batch_size=2, **options)
        data = default_collate([loader.dataset[0], loader.dataset[1]])
        key = loader.collate_fn._key
        return in_thread_that_pins(monkeypatch, lambda: resolving_collate._arrived(key, data, 0, 0))

    assert labels_of([arrive()]) == [[0, 1]]
    failure = arrive(batch_transform=with_draw)
    with pytest.raises(ArgumentMismatchError, match="pass pin_memory=False"):
        failure.reraise()


@pipeline_def(num_threads=1, device_id=0, batch_size=4)
def affine_on_gpu() -> Any:
    return fn.external_source(name="x").gpu() * SCALE + SHIFT


@pytest.mark.gpu
@WORKERS
def test_outputs_on_a_gpu_are_not_pinned(num_workers: int) -> None:
    with DALIServer(affine_on_gpu()) as server:
        loader = DataLoader(server, IndexDataset(6, server.proxy), batch_size=4)
        batches = list(rebuilt(loader, num_workers=num_workers))
        assert all(values.is_cuda for values, _ in batches)
        assert labels_of((values.cpu(), labels) for values, labels in batches) == [[0, 1, 2, 3], [4, 5]]
        with pytest.raises((ArgumentMismatchError, RuntimeError), match=r"pass pin_memory=False|cannot pin"):
            next(iter(rebuilt(loader, num_workers=num_workers, pin_memory=True)))


class SumOfInnerLoop(IndexDataset):
    """Loops over a loader of torch inside a worker."""

    def __getitem__(self, index: int) -> Any:
        server = self.transform
        inner = DataLoader(server, IndexDataset(4, server.proxy), batch_size=2)
        return sum(int(values.sum()) for values, _ in rebuilt(inner)), get_worker_info() is not None


def test_loop_inside_a_worker_of_another_loader() -> None:
    with DALIServer(affine()) as server:
        outer = torch.utils.data.DataLoader(SumOfInnerLoop(1, server), num_workers=1)
        ((total, inside),) = outer
        assert inside
        assert total.item() == sum(3 * (SCALE * i + SHIFT) for i in range(4))


class Changed:
    """Changes what another collate function returns, in the worker."""

    def __init__(self, collate: Any) -> None:
        self.collate = collate

    def __call__(self, samples: Any) -> Any:
        return self.collate(samples)[0] / 255


def test_batch_that_is_changed_in_the_worker_is_an_error(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(2, server.proxy))
    other = torch.utils.data.DataLoader(loader.dataset, collate_fn=Changed(loader.collate_fn), num_workers=1)
    with pytest.raises(PlaceholderError, match=r"collate_fn of dali_proxy\.DataLoader"):
        next(iter(other))


class Padding:
    """A collate function with an attribute."""

    value = 3

    def __call__(self, samples: Any) -> Any:
        return default_collate(samples)


def test_attributes_and_copies_of_the_collate_function(server: DALIServer) -> None:
    function = Padding()
    loader = DataLoader(server, IndexDataset(2, server.proxy), collate_fn=function)
    collate = loader.collate_fn
    assert isinstance(collate, ResolvingCollate)
    assert collate.value == 3
    assert not hasattr(collate, "other")
    assert copy.copy(collate) is copy.deepcopy(collate) is collate
    again = DataLoader(server, loader.dataset, collate_fn=collate)
    assert again.collate_fn.__wrapped__ is function
    again.collate_fn = default_collate
    assert again.collate_fn.__wrapped__ is default_collate
    again.ragged = "pad"
    assert again.collate_fn._ragged == "pad"


def test_batch_that_another_process_unpickles_keeps_its_placeholders(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(2, server.proxy), batch_size=2)
    data = default_collate([loader.dataset[0], loader.dataset[1]])
    pickled = pickle.dumps(resolving_collate.CollatedBatchOfWorker("unknown", data, 0, 0))
    assert labels_of([server.produce_data(pickle.loads(pickled))]) == [[0, 1]]


def test_loader_of_torch_outlives_ours(server: DALIServer) -> None:
    def batches() -> Iterator[Any]:
        return iter(rebuilt(DataLoader(server, IndexDataset(4, server.proxy), batch_size=2), num_workers=1))

    rest = batches()
    gc.collect()
    assert labels_of(rest) == [[0, 1], [2, 3]]


def test_loader_is_made_again_from_its_public_attributes(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(6, server.proxy), batch_size=4, ragged="pad", batch_transform=tuple)
    parts = {name: value for name, value in vars(loader).items() if not name.startswith("_")}
    for name in ("batch_size", "sampler", "drop_last", "batch_sampler"):  # as in ignite's update_dataloader
        parts.pop(name)
    again = type(loader)(**parts, batch_sampler=[[5], [1, 0]])
    assert labels_of(again) == [[5], [1, 0]]
    assert (again.ragged, again.batch_transform) == ("pad", tuple)


def test_copy_with_persistent_workers_has_its_own_epochs(server: DALIServer) -> None:
    dataset = IndexDataset(6, server.proxy)
    loader = DataLoader(server, dataset, batch_size=2, num_workers=1, persistent_workers=True)
    expected = [[0, 1], [2, 3], [4, 5]]
    assert labels_of(loader) == expected
    copied = copy.copy(loader)
    for each in (copied, loader, copied, loader):
        assert labels_of(each) == expected
    interleaved = [labels_of([batch])[0] for pair in zip(loader, copied, strict=True) for batch in pair]
    assert interleaved == [labels for labels in expected for _ in range(2)]
