"""Resuming after any batch: the remaining batches are identical to the bit, and skipped samples aren't read."""

from __future__ import annotations

import io
import os
import pickle
import random
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedRandomSampler,
    get_worker_info,
)
from torch.utils.data.datapipes.iter import IterableWrapper

from dali_proxy import DALIServer, DataLoader, LastBatchPolicy
from pipeline import fn, pipeline_def
from pipeline.errors import ArgumentMismatchError
from tests.dali_proxy.indexed import IndexDataset, IndexStream, RaisingDataset, noisy, sample
from tests.thorough import thorough_except

SAMPLES, BATCH = 22, 4


@pytest.fixture(scope="module")
def noise() -> Iterator[DALIServer]:
    """Start a server with random results, which reveal a batch that has a wrong number."""
    with DALIServer(noisy()) as server:
        server.produce_data(server.proxy(sample(0)))  # connect here, so that the file descriptors belong to the module
        yield server


class ShuffledByPython(Sampler[int]):
    """Draws from Python's generator and has no state."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.length))
        random.shuffle(order)
        yield from order

    def __len__(self) -> int:
        return self.length


class SamplerWithState(Sampler[int]):
    """Uses a different order in each epoch, which only its state determines."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.epoch_begun = 0
        self.place = 0
        self.drawn = 0  # number of samples that this object has drawn

    def __iter__(self) -> Iterator[int]:
        while self.place < self.length:
            self.place += 1
            self.drawn += 1
            yield (self.place * 7 + self.epoch_begun) % self.length
        self.place = 0
        self.epoch_begun += 1

    def __len__(self) -> int:
        return self.length

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch_begun, "place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch_begun, self.place = state["epoch"], state["place"]


class CountingSampler(SamplerWithState):
    """Like torchdata's sampler: its state counts the samples, also at the end; a loaded state applies at the start."""

    loaded = 0

    def __iter__(self) -> Iterator[int]:
        self.place, self.loaded = self.loaded, 0
        while self.place < self.length:
            self.place += 1
            yield (self.place * 7) % self.length

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.loaded = state["place"]


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


ORDERS: dict[str, Any] = {
    "in order": lambda: {},
    "shuffled": lambda: {"shuffle": True},
    "shuffled with a generator": lambda: {"shuffle": True, "generator": generator()},
    "drawn": lambda: {"sampler": WeightedRandomSampler([1.0] * SAMPLES, 18, generator=generator())},
    "sampler that draws elsewhere": lambda: {"sampler": ShuffledByPython(SAMPLES)},
    "sampler with state": lambda: {"sampler": SamplerWithState(SAMPLES)},
    "sampler that counts": lambda: {"sampler": CountingSampler(SAMPLES)},
    "filled": lambda: {"shuffle": True, "last_batch_policy": LastBatchPolicy.FILL},
    "filled, sampler with state": lambda: {
        "sampler": SamplerWithState(SAMPLES),
        "last_batch_policy": LastBatchPolicy.FILL,
    },
    "dropped": lambda: {"last_batch_policy": LastBatchPolicy.DROP},
    "batches": lambda: {"batch_sampler": BatchSampler(RandomSampler(range(SAMPLES), generator=generator()), 3, False)},
    "single samples": lambda: {"batch_size": None, "sampler": SequentialSampler(range(9))},
    "part of a rank": lambda: {"sampler": DistributedSampler(range(SAMPLES), num_replicas=2, rank=1, seed=4)},
}


def make(server: DALIServer, num_workers: int = 0, dataset: Any = IndexDataset, **options: Any) -> DataLoader:
    if "batch_sampler" not in options:
        options.setdefault("batch_size", BATCH)
    return DataLoader(server, dataset(SAMPLES, server.proxy, 1), num_workers=num_workers, **options)


def bits(batch: Any) -> Any:
    noisy_indices, indices = batch
    return noisy_indices.flatten().tolist(), torch.as_tensor(indices).tolist()


def saved(state: Any) -> Any:
    """Return the state after a round trip through a checkpoint, read with torch's default options."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def set_epoch(loader: DataLoader, epoch: int) -> None:
    if isinstance(loader.sampler, DistributedSampler):
        loader.sampler.set_epoch(epoch)


def run_and_save(loader: DataLoader, epochs: int = 2) -> tuple[list[list[Any]], list[tuple[int, Any, Any]]]:
    """Run epochs. Return their batches, and (epoch, state, random states of the process) before each step."""
    made: list[list[Any]] = []
    states = []

    def save(epoch: int) -> None:
        states.append((epoch, saved(loader.state_dict()), (torch.get_rng_state(), random.getstate())))

    for epoch in range(epochs):
        set_epoch(loader, epoch)
        save(epoch)
        made.append([])
        for batch in loader:
            made[-1].append(bits(batch))
            torch.rand(3)  # a training loop draws random numbers, too
            save(epoch)
    return made, states


def check_the_rest(loader: DataLoader, start: tuple[int, Any, Any], made: list[list[Any]], batches: int) -> None:
    """Check that a loader with a restored state yields the remaining batches of all epochs."""
    epoch, state, (torchs, pythons) = start
    torch.set_rng_state(torchs)
    random.setstate(pythons)
    loader.load_state_dict(state)
    assert_same(loader.state_dict(), state)
    if batches == 0:  # in the middle of an epoch, the state sets the sampler's epoch
        set_epoch(loader, epoch)
    left: list[list[Any]] = []
    for number in range(epoch, len(made)):
        if number > epoch:
            set_epoch(loader, number)
        left.append([])
        for batch in loader:
            left[-1].append(bits(batch))
            torch.rand(3)
    assert left == [made[epoch][batches:], *made[epoch + 1 :]]


def assert_same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=0) if isinstance(one, torch.Tensor) else None
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_same(value, other[name])
    elif not isinstance(one, torch.Tensor):
        assert one == other


@pytest.mark.parametrize("order", ORDERS)
def test_epochs_resume_from_every_batch(noise: DALIServer, order: str) -> None:
    torch.manual_seed(1)
    made, states = run_and_save(make(noise, **ORDERS[order]()))
    assert made[0] != made[1]
    counts = [count for epoch in made for count in range(len(epoch) + 1)]
    for start, count in zip(states, counts, strict=True):
        if count in (0, 1, 3, len(made[0])):
            check_the_rest(make(noise, **ORDERS[order]()), start, made, count)


@pytest.mark.parametrize("order", ["shuffled", "sampler with state", "filled, sampler with state"])
def test_another_number_of_workers(noise: DALIServer, order: str) -> None:
    """Workers are ahead of the yielded batches, and samplers are ahead of the workers."""
    torch.manual_seed(2)
    made, states = run_and_save(make(noise, 2, **ORDERS[order]()))
    check_the_rest(make(noise, 0, **ORDERS[order]()), states[2], made, 2)
    lasting = order != "shuffled"  # torch draws a seed for new workers, so persistent ones change the later order
    check_the_rest(make(noise, 1, **ORDERS[order](), persistent_workers=lasting), states[3], made, 3)
    if order == "shuffled":
        made, states = run_and_save(make(noise, 0, **ORDERS[order]()))
        check_the_rest(make(noise, 2, **ORDERS[order](), prefetch_factor=1), states[1], made, 1)


@pytest.mark.parametrize("order", ["shuffled", "shuffled with a generator"])
def test_persistent_workers_draw_one_seed_for_all_epochs(noise: DALIServer, order: str) -> None:
    torch.manual_seed(3)
    made, states = run_and_save(make(noise, 1, **ORDERS[order](), persistent_workers=True), epochs=3)
    for place, count in ((8, 1), (7, 0)):  # in the second epoch and before it
        check_the_rest(make(noise, 1, **ORDERS[order](), persistent_workers=True), states[place], made, count)


def test_yielded_samples_are_not_read_again(noise: DALIServer) -> None:
    class Counting(IndexDataset):
        read: list[int]

        def __getitem__(self, index: int) -> Any:
            self.read.append(index)
            return super().__getitem__(index)

    loader = make(noise, dataset=Counting)
    loader.dataset.read = []  # type: ignore[attr-defined]
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    again = make(noise, dataset=Counting)
    again.dataset.read = []  # type: ignore[attr-defined]
    again.load_state_dict(loader.state_dict())
    list(again)
    assert again.dataset.read == list(range(12, SAMPLES))  # type: ignore[attr-defined]
    sampler = SamplerWithState(SAMPLES)
    with_state = make(noise, sampler=SamplerWithState(SAMPLES))
    iterator = iter(with_state)
    for _ in range(3):
        next(iterator)
    again = make(noise, sampler=sampler)
    again.load_state_dict(with_state.state_dict())
    list(again)
    assert sampler.drawn == SAMPLES - 2 * BATCH  # the last yielded batch is drawn again


def test_abandoned_loop_and_a_later_iterator(noise: DALIServer) -> None:
    loader = make(noise)
    for _ in loader:
        break
    state = loader.state_dict()
    assert (state["epoch"], state["batches"]) == (0, 1)
    first, second = iter(loader), iter(loader)
    next(first)
    assert (loader.state_dict()["epoch"], loader.state_dict()["batches"]) == (2, 0)  # of the latest iterator
    next(second)
    assert loader.state_dict()["batches"] == 1
    loader.load_state_dict(state)
    assert bits(next(iter(loader)))[1] == [4, 5, 6, 7]
    assert list(loader)
    assert (loader.state_dict()["epoch"], loader.state_dict()["batches"]) == (2, 0)


def test_batches_that_fail(noise: DALIServer) -> None:
    """A failed batch counts as done after a later batch has arrived. If the loop ended with it, it is repeated."""
    loader = make(noise, dataset=RaisingDataset)
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(KeyError):
        next(iterator)
    assert loader.state_dict()["batches"] == 1
    next(iterator)
    again = make(noise)
    again.load_state_dict(loader.state_dict())
    assert bits(next(iter(again)))[1] == [12, 13, 14, 15]


class SlowStart(IndexDataset):
    """Delays the first batch of worker 0, so that it arrives last."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        if info is not None and index == 0:
            self.event.wait(20)  # type: ignore[attr-defined]
        return super().__getitem__(index)


def test_batches_in_any_order(noise: DALIServer) -> None:
    event = torch.multiprocessing.get_context("fork").Event()
    loader = make(noise, 2, dataset=SlowStart, in_order=False, multiprocessing_context="fork")
    loader.dataset.event = event  # type: ignore[attr-defined]
    iterator = iter(loader)
    early = [bits(next(iterator)) for _ in range(2)]
    state = loader.state_dict()
    event.set()
    late = [bits(batch) for batch in iterator]
    assert state["batches"] == 0
    assert len(state["done"]) == 2
    again = make(noise)
    again.load_state_dict(state)
    assert sorted(map(bits, again)) == sorted(late)  # type: ignore[type-var]
    assert len({indices[0] for _, indices in early + late}) == 6


# Iterable datasets


class StreamWithState(IndexStream):
    """A stream whose state is the position in each worker's samples."""

    at = -1  # index that was yielded last
    begun = 0  # number of iterations that didn't start at the beginning

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for index in range(self.at + step if self.at >= 0 else first, self.length, step):
            self.at = index
            yield self.transform(sample(index, 1)), index
        self.at = -1

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.at = state["at"]


class Counted(Iterator[Any]):
    """An iterator with a state."""

    def __init__(self, stream: IndexStream) -> None:
        worker = get_worker_info()
        self.stream = stream
        self.next, self.step = (0, 1) if worker is None else (worker.id, worker.num_workers)

    def __next__(self) -> Any:
        if self.next >= self.stream.length:
            raise StopIteration
        index, self.next = self.next, self.next + self.step
        return self.stream.transform(sample(index, 1)), index

    def state_dict(self) -> dict[str, int]:
        return {"next": self.next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next = state["next"]


class StreamOfCounted(IndexStream):
    def __iter__(self) -> Iterator[Any]:
        return Counted(self)


class PlainStream(IndexStream):
    def __iter__(self) -> Iterator[Any]:
        for _, index in IndexStream(self.length, torch.as_tensor):
            yield self.transform(sample(index.__index__(), 1)), index


class UnequalParts(IndexStream):
    """Worker w has 8 / (w + 1) samples: workers with higher numbers end early."""

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        assert worker is not None
        for index in range(8 // (worker.id + 1)):
            yield self.transform(sample(100 * worker.id + index, 1)), 100 * worker.id + index


def stream(server: DALIServer, kind: Any, num_workers: int, **options: Any) -> DataLoader:
    return DataLoader(server, kind(18, server.proxy), num_workers=num_workers, **{"batch_size": BATCH, **options})


@pytest.mark.parametrize("kind", [StreamWithState, StreamOfCounted, PlainStream])
def test_iterable_datasets_resume_from_every_batch(noise: DALIServer, kind: Any) -> None:
    made, states = run_and_save(stream(noise, kind, 0))
    assert made[0] != made[1]
    for count in range(6):
        check_the_rest(stream(noise, kind, count % 2), states[count], made, count)  # 0 and 1 workers are equivalent


@pytest.mark.parametrize(
    ("kind", "num_workers", "options"),
    thorough_except(
        [
            (StreamWithState, 2, {}),
            (StreamOfCounted, 2, {"persistent_workers": True}),
            (PlainStream, 2, {"drop_last": True}),
            (UnequalParts, 3, {"batch_size": 2}),
            (StreamWithState, 2, {"batch_size": None}),
        ],
        (StreamOfCounted, 2, {"persistent_workers": True}),
        (UnequalParts, 3, {"batch_size": 2}),
    ),
)
def test_workers_of_iterable_datasets_take_turns_as_before(
    noise: DALIServer, kind: Any, num_workers: int, options: Any
) -> None:
    made, states = run_and_save(stream(noise, kind, num_workers, **options))
    for count in (1, len(made[0]) - 1) if num_workers == 2 else range(1, len(made[0])):
        check_the_rest(stream(noise, kind, num_workers, **options), states[count], made, count)


def test_persistent_workers_resume(noise: DALIServer) -> None:
    loader = stream(noise, StreamWithState, 2, persistent_workers=True)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    rest = [bits(batch) for batch in iterator]
    for _ in range(2):
        loader.load_state_dict(state)
        assert [bits(batch) for batch in loader] == rest


def test_datapipes_start_again(noise: DALIServer) -> None:
    def pipe() -> DataLoader:
        return DataLoader(
            noise, IterableWrapper(range(10)).map(lambda index: (noise.proxy(sample(index, 1)), index)), batch_size=3
        )

    loader = pipe()
    iterator = iter(loader)
    next(iterator)
    state = saved(loader.state_dict())
    rest = [bits(batch) for batch in iterator]
    again = pipe()
    again.load_state_dict(state)
    assert [bits(batch) for batch in again] == rest


def test_lightning_saves_and_restores_the_state(noise: DALIServer, tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)
            self.seen: list[Any] = []

        def training_step(self, batch: Any, number: int) -> Any:
            self.seen.append((self.current_epoch, number, bits(batch)))
            return self.layer(batch[0]).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 1e-4)

    def fit(path: Path | None) -> list[Any]:
        model = Model()
        checkpoints = lightning.pytorch.callbacks.ModelCheckpoint(
            tmp_path, filename="{step}", every_n_train_steps=8, save_top_k=-1
        )
        trainer = lightning.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, callbacks=[checkpoints], enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(model, make(noise, shuffle=True, generator=generator()), ckpt_path=path)
        return model.seen

    whole = fit(None)
    assert fit(tmp_path / "step=8.ckpt") == whole[8:]  # in the second epoch


# Invalid states


def test_states_of_other_loaders_are_refused(noise: DALIServer) -> None:
    def state_of(loader: DataLoader) -> Any:
        return loader.state_dict()

    loader = make(noise)
    loader.load_state_dict({})
    for wrong in ({"epoch": 1}, {**loader.state_dict(), "version": 99}, [1]):
        with pytest.raises(ArgumentMismatchError, match="state"):
            loader.load_state_dict(wrong)  # type: ignore[arg-type]
    for other, message in (
        (make(noise, batch_size=5), "batch_size"),
        (
            DataLoader(noise, IndexDataset(7, noise.proxy), BATCH),
            "dataset length 7, but this loader has dataset length 22",
        ),
        (stream(noise, PlainStream, 0), "kind"),
        (make(noise, shuffle=True, generator=generator()), "generator"),
        (make(noise, sampler=SamplerWithState(SAMPLES)), "sampler SamplerWithState, but this loader has Sequential"),
    ):
        with pytest.raises(ArgumentMismatchError, match=message):
            loader.load_state_dict(state_of(other))
    with pytest.raises(ArgumentMismatchError, match=r"num_workers .*each worker reads its part"):
        stream(noise, PlainStream, 3).load_state_dict(state_of(stream(noise, PlainStream, 2)))
    assert len(list(loader)) == 6  # the failed calls had no effect


def test_another_order_is_refused(noise: DALIServer) -> None:
    state = make(noise).state_dict()
    with pytest.raises(ArgumentMismatchError, match="the sampler SequentialSampler, but this loader has RandomSampler"):
        make(noise, shuffle=True).load_state_dict(state)


def test_another_seed_of_the_pipeline_causes_a_warning(noise: DALIServer) -> None:
    state = make(noise).state_dict()
    assert state["seed"] == noise.seed
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(noise).load_state_dict(state)
        later = ("sampler_class", "seed", "rank")
        make(noise).load_state_dict({name: value for name, value in state.items() if name not in later})
    with (
        DALIServer(noisy(seed=noise.seed + 1)) as other,
        pytest.warns(UserWarning, match=f"Create the pipeline with seed={noise.seed} to get the same") as caught,
    ):
        make(other).load_state_dict(state)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(other).load_state_dict({**state, "rank": 1})  # another rank may have another seed
    with DALIServer(noisy(seed=noise.seed)) as same:
        make(same).load_state_dict(state)
        assert [bits(batch) for batch in make(same)] == [bits(batch) for batch in make(noise)]


@pipeline_def(batch_size=4, num_threads=1, device_id=None)
def seeded(seed: int) -> Any:
    x = fn.external_source(name="x")
    return x + fn.random.uniform(range=(0.0, 0.5), seed=seed)


def test_seed_is_unknown_if_no_operator_uses_it() -> None:
    """Then another pipeline, which has drawn another seed, causes no warning."""
    assert DALIServer(seeded(3)).seed is None
    assert DALIServer(seeded(0)).seed is None
    assert DALIServer(seeded(-1)).seed is not None
    assert DALIServer(noisy()).seed is not None


class RunsCode:
    """When its pickle is read, a folder is created."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self._folder),)


@pytest.mark.parametrize("kind", ["map", "iterable"])
def test_state_from_elsewhere_runs_no_code(noise: DALIServer, kind: str, tmp_path: Path) -> None:
    """torch's default options let bytes pass; they must not be unpickled later."""
    loader = make(noise) if kind == "map" else stream(noise, PlainStream, 0)
    attack = pickle.dumps(RunsCode(tmp_path / "created"))
    state = saved({**loader.state_dict(), "positions": {0: (1, attack)}})
    with suppress(ArgumentMismatchError):
        loader.load_state_dict(state)
        iterator = iter(loader)
        loader.state_dict()
        next(iterator)
        loader.state_dict()
    assert not (tmp_path / "created").exists()


def test_state_is_a_copy(noise: DALIServer) -> None:
    loader = stream(noise, StreamWithState, 0)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    kept = saved(state)
    next(iterator)
    assert_same(state, kept)
    again = stream(noise, StreamWithState, 0)
    again.load_state_dict(state)
    state["positions"].clear()
    assert bits(next(iter(again)))[1] == [4, 5, 6, 7]


def test_dataset_that_does_not_inherit_from_torch_has_a_state(noise: DALIServer) -> None:
    class Bare:
        def __getitem__(self, index: int) -> Any:
            return noise.proxy(sample(index, 1)), index

    loader = DataLoader(noise, Bare(), sampler=range(5), batch_size=2)
    next(iter(loader))
    assert loader.state_dict()["samples"] is None
    assert not isinstance(loader.dataset, IterableDataset)
