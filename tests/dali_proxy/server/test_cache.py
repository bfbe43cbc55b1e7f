"""A server with a cache: equal batches, counters, several loaders, resuming, samples that fail."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import DALIServer, DataLoader, OperatorTimes, ServerStats
from dali_proxy.pipeline._cache.memory_tier import OVERHEAD
from pipeline import Pipeline, fn, pipeline_def, types
from pipeline.errors import ArgumentValueError
from tests.dali_proxy.indexed import JpegDataset, jpeg

COUNT = 40


class GoodDataset(JpegDataset):
    bad = -1


@pipeline_def(num_threads=2, device_id=None, batch_size=8, seed=5)
def cropped() -> Any:
    images = fn.resize(fn.decoders.image(fn.external_source(name="encoded")), size=(12, 12))
    return fn.crop_mirror_normalize(
        images, crop=(8, 8), crop_pos_x=fn.random.uniform(range=(0, 1)), mean=[1.0], dtype=types.FLOAT
    )


def loader_of(server: DALIServer, dataset: Any = GoodDataset, **options: Any) -> DataLoader:
    arguments = {"batch_size": 8, "shuffle": True, "generator": torch.Generator().manual_seed(3), **options}
    return DataLoader(server, dataset(COUNT, server.proxy), **arguments)


def digest(batches: Iterable[Any]) -> str:
    found = hashlib.blake2b()
    for images, indices in batches:
        found.update(images.numpy().tobytes() + np.asarray(indices).tobytes())
    return found.hexdigest()


def epochs(server: DALIServer, count: int = 3, **options: Any) -> list[str]:
    with server:
        loader = loader_of(server, **options)
        return [digest(loader) for _ in range(count)]


def test_epochs_have_the_bits_of_epochs_without_a_cache() -> None:
    server = DALIServer(cropped(), cache="10MB")
    with server:
        loader = loader_of(server)
        found = [digest(loader) for _ in range(3)]
        stats = server.stats()
    assert found == epochs(DALIServer(cropped()))
    assert (stats.cache_hits, stats.cache_misses, stats.cache_values) == (2 * COUNT, COUNT, COUNT)
    assert 0 < stats.cache_bytes < stats.cache_limit == 10 << 20
    assert "67% of 120 samples came from the cache" in stats.cache_advice
    assert stats.cache_advice in str(stats).replace("\n            ", " ")
    assert stats.to_dict()["cache_advice"] == stats.cache_advice


def test_samples_of_later_epochs_are_counted() -> None:
    with DALIServer(cropped()) as server:
        loader = loader_of(server)
        for _ in range(3):
            list(loader)
        assert (server.stats().samples, server.stats().repeated) == (3 * COUNT, 2 * COUNT)


def test_size_of_what_a_cache_would_hold_is_measured_without_one() -> None:
    with DALIServer(cropped()) as server:
        list(loader_of(server))
        stats = server.stats()
    assert stats.cacheable_bytes == 12 * 12 * 3 + OVERHEAD
    cacheable = {name for name, times in stats.operators.items() if times.cacheable}
    assert cacheable == {"fn.decoders.image"}  # the others run as one
    with DALIServer(cropped(), cache="10MB") as server:
        list(loader_of(server))
        assert server.stats().cacheable_bytes == 0


def test_two_loaders_use_one_cache() -> None:
    with DALIServer(cropped(), cache="10MB") as server:
        first, second = digest(loader_of(server)), digest(loader_of(server))
        stats = server.stats()
    assert first == second
    assert stats.cache_misses == stats.cache_hits == COUNT


@pytest.mark.filterwarnings("ignore:on_error")
def test_samples_that_fail_are_skipped_in_each_epoch() -> None:
    options: dict[str, Any] = {"dataset": JpegDataset, "on_error": "skip"}
    with DALIServer(cropped(), cache="10MB") as server:
        loader = loader_of(server, **options)
        found = [digest(loader) for _ in range(3)]
        assert server.stats().cache_values == COUNT - 1
        assert server.stats().skipped == 3
    assert found == epochs(DALIServer(cropped()), **options)


def test_epoch_resumes_with_an_empty_cache() -> None:
    with DALIServer(cropped(), cache="10MB") as server:
        loader = loader_of(server)
        list(loader)
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        rest = digest(batches)
    with DALIServer(cropped(), cache="10MB") as server:
        resumed = loader_of(server)
        resumed.load_state_dict(state)
        assert digest(resumed) == rest


def test_pipeline_may_bring_the_size() -> None:
    with DALIServer(cropped(cache="10MB")) as server:
        assert server.stats().cache_limit == 10 << 20
    with DALIServer(cropped(cache="10MB"), cache="20MB") as server:
        assert server.stats().cache_limit == 20 << 20
    with DALIServer(cropped(cache="10MB"), cache=0) as server:
        assert server.stats().cache_limit == 0


def test_invalid_size_is_an_error() -> None:
    with pytest.raises(ArgumentValueError, match="DALIServer: cache must be a number of bytes"):
        DALIServer(cropped(), cache="a lot")


def test_cache_that_is_larger_than_the_memory_is_an_error() -> None:
    with pytest.raises(ArgumentValueError, match="larger than the memory of this machine"):
        DALIServer(cropped(), cache="900TB").start()


class PathDataset:
    """The paths of JPEGs, which the server reads."""

    def __init__(self, count: int, transform: Any) -> None:
        self.count, self.transform = count, transform
        self.folder = Path()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.folder / f"{index}.jpg"), index


@pipeline_def(num_threads=2, device_id=None, batch_size=8, seed=5)
def cropped_files() -> Any:
    images = fn.decoders.image(fn.io.file.read(fn.external_source(name="path")))
    return fn.crop(images, crop=(8, 8), crop_pos_x=fn.random.uniform(range=(0, 1)))


def test_files_that_are_replaced_between_epochs_have_the_new_data(tmp_path: Path) -> None:
    found = []
    for cache in ("10MB", 0):
        for index in range(COUNT):
            (tmp_path / f"{index}.jpg").write_bytes(jpeg(index))
        with DALIServer(cropped_files(), cache=cache) as server:
            loader = loader_of(server, PathDataset)
            loader.dataset.folder = tmp_path
            found.append([digest(loader)])
            (tmp_path / "new").write_bytes(jpeg(COUNT))
            (tmp_path / "new").rename(tmp_path / "3.jpg")
            (tmp_path / "5.jpg").write_bytes(jpeg(COUNT + 1))
            found[-1].append(digest(loader))
            assert server.stats().cache_misses == (COUNT + 2 if cache else 0)
    assert found[0] == found[1]


def test_server_with_a_folder_serves_the_next_server(tmp_path: Path) -> None:
    cache = {"memory": "1MB", "folder": tmp_path / "cache"}
    found = []
    for loaded in (0, COUNT):
        with DALIServer(cropped(), cache=cache) as server:
            found.append(digest(loader_of(server)))
            assert server.stats().cache_loaded == server.stats().cache_hits == loaded
    assert found[0] == found[1]


def test_server_keeps_the_seed_that_the_pipeline_has_drawn() -> None:
    pipe: Pipeline = cropped(seed=-1)
    server = DALIServer(pipe, cache="10MB")
    assert server.seed == pipe._internals.arguments.drawn_seed
    assert server.given_seed is None


def decoding(seconds: float) -> OperatorTimes:
    return OperatorTimes(9, seconds, cacheable=True)


GB = 1 << 30


@pytest.mark.parametrize(
    ("stats", "text"),
    [
        (ServerStats(), ""),
        (
            ServerStats(
                samples=1000,
                cacheable_bytes=GB / 100,
                operators={"fn.decoders.image": decoding(6.0), "fn.resize": OperatorTimes(9, 4.0)},
            ),
            "60% of the operators' processor time decodes. If epochs or jobs repeat the 1,000 samples so far, 10.0 GB "
            "would hold them, see DALIServer(cache=...).",
        ),
        (
            ServerStats(
                samples=4000,
                repeated=3000,
                cacheable_bytes=GB / 100,
                operators={"fn.decoders.image": decoding(6.0), "fn.resize": decoding(2.0)},
            ),
            "75% of the operators' processor time decodes 1,000 samples that were decoded before: 10.0 GB would hold "
            "them, see DALIServer(cache=...).",
        ),
        (ServerStats(operators={"fn.decoders.image": decoding(2.0), "fn.resize": OperatorTimes(9, 8.0)}), ""),
        (ServerStats(operators={"fn.decoders.image_random_crop": OperatorTimes(9, 8.0)}), ""),
        (ServerStats(cache_limit=8 * GB), "The cache wasn't used: 0 MB of 8.0 GB are in use."),
        (
            ServerStats(cache_limit=8 * GB, cache_misses=10, cache_bytes=GB),
            "The cache has had no sample twice so far; 1.0 GB of 8.0 GB are in use.",
        ),
        (
            ServerStats(cache_limit=8 * GB, cache_misses=10, cache_hits=30, cache_bytes=GB, cache_seconds_saved=12.34),
            "75% of 40 samples came from the cache, which saved 12.3 s; 1.0 GB of 8.0 GB are in use.",
        ),
        (
            ServerStats(cache_limit=8 * GB, cache_misses=60, cache_hits=20, cache_refused=60, cache_bytes=8 * GB),
            "25% of 80 samples came from the cache, which saved 0.0 s; it is full with 8.0 GB. About 32.0 GB would "
            "hold all.",
        ),
    ],
)
def test_advice_says_what_the_cache_saves_and_which_size_would_save_more(stats: ServerStats, text: str) -> None:
    assert stats.cache_advice == text
