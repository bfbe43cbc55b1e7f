"""Errors describe the samples that failed."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dali_proxy import BatchError, DALIServer, DataLoader, SampleTypeError, ServerClosedError
from tests.dali_proxy.indexed import IndexDataset, affine, check_affine, decoded, error_of, jpeg


class Named:
    """A dataset whose indices are arbitrary objects and become sample names; a few refer to a corrupt file."""

    def __init__(self, transform: Any, bad: Callable[[Any], bool]) -> None:
        self.transform = transform
        self.bad = bad

    def __getitem__(self, index: Any) -> Any:
        return self.transform(b"not an image" if self.bad(index) else jpeg(7), sample_name=f"{index}.jpg")

    def __len__(self) -> int:
        return 16


@pytest.fixture(scope="module")
def decoder() -> Iterator[DALIServer]:
    """Run a server that decodes images."""
    with DALIServer(decoded(batch_size=128)) as running:
        running.produce_data(running.proxy(jpeg(1)))
        yield running


@pytest.mark.parametrize("num_workers", [0, 1])
def test_dataset_indices_are_what_the_sampler_drew(decoder: DALIServer, num_workers: int) -> None:
    drawn = [("a", 1), 2, "3", ("b", 4)]
    dataset = Named(decoder.proxy, lambda index: index != 2)
    context = "fork" if num_workers else None  # a lambda can't be pickled
    loader = DataLoader(
        decoder, dataset, sampler=drawn, batch_size=4, num_workers=num_workers, multiprocessing_context=context
    )
    error = error_of(iter(loader))
    assert isinstance(error, BatchError)
    assert error.dataset_indices == (("a", 1), "3", ("b", 4))
    assert error.dataset_index == ("a", 1)
    assert error.samples == (0, 2, 3)
    assert error.sample_names == ("('a', 1).jpg", "3.jpg", "('b', 4).jpg")
    assert "sample name: ('a', 1).jpg, 3.jpg, ('b', 4).jpg" in str(error)


def test_secrets_of_urls_are_hidden_in_all_that_an_error_and_the_statistics_say() -> None:
    from pipeline import fn, pipeline_def

    url = "https://me:PASSWORD@host/a.jpg?Signature=SECRET"

    def fail(data: Any) -> Any:
        raise ValueError(f"can't decode {url}")

    @pipeline_def(num_threads=1, device_id=None, batch_size=4)
    def failing() -> Any:
        read = fn.io.file.read(fn.external_source(name="path"))
        return fn.python_function(fn.external_source(name="x"), function=fail), read

    with DALIServer(failing()) as server:
        for path, x in ((url.replace("https", "unknown"), 1), (__file__, 1)):
            with pytest.raises(BatchError, match=r"\*\*\*") as caught:
                server.produce_data(server.proxy(path=path.encode(), x=x, sample_name=url))
            text = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
            text += json.dumps(server.stats().to_dict())
            assert "PASSWORD" not in text
            assert "SECRET" not in text


def test_failed_samples_are_all_known_and_a_few_are_in_the_text(decoder: DALIServer) -> None:
    dataset = Named(decoder.proxy, lambda index: True)
    with pytest.raises(BatchError, match="and 92 more") as caught:
        next(iter(DataLoader(decoder, dataset, sampler=range(100), batch_size=100)))
    assert caught.value.dataset_indices == tuple(range(100))


def test_sample_name_may_be_an_input_of_the_pipeline() -> None:
    from pipeline import fn, pipeline_def

    @pipeline_def(num_threads=1, device_id=None, batch_size=4)
    def of_name() -> Any:
        return fn.external_source(name="sample_name") + 1

    with DALIServer(of_name(), mode="thread") as server:
        assert server.produce_data(server.proxy(sample_name=[1, 2])).tolist() == [2, 3]


def test_errors_of_the_proxy_and_of_collation_have_the_name(server: DALIServer) -> None:
    with pytest.raises(SampleTypeError, match=r"sample name: a/b\.jpg"):
        server.proxy("text", sample_name=b"a/b.jpg")
    one, two = server.proxy([1], sample_name="one"), server.proxy([1.0], sample_name="two")
    with pytest.raises(SampleTypeError, match=r"sample 0 \(named one\) .* sample 1 \(named two\)"):
        one.sample.client.submit([one.sample, two.sample])


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("restart", ["never", "on-failure"])
def test_loop_over_a_server_that_was_stopped_and_started_says_so_at_once(num_workers: int, restart: Any) -> None:
    from tests.waiting import soon

    with DALIServer(affine(), mode="thread", restart=restart) as server:
        loader = DataLoader(server, IndexDataset(16, server.proxy), batch_size=2, num_workers=num_workers)
        iterator = iter(loader)
        check_affine(*next(iterator))
        server.stop()
        server.start()
        with soon():
            for _ in range(2):
                with pytest.raises(ServerClosedError, match=r"stopped and started again.* iter\(loader\)"):
                    next(iterator)
        assert [index for batch in loader for index in check_affine(*batch)] == list(range(16))
        del iterator
        assert server.stats().waiting_results == 0


@pytest.mark.parametrize("num_workers", [0, 1])
def test_sample_larger_than_all_shared_memory_says_so_with_its_size_and_index(num_workers: int) -> None:
    class Large:
        def __init__(self, transform: Any) -> None:
            self.transform = transform

        def __getitem__(self, index: int) -> Any:
            return self.transform(np.zeros(1 << 17 if index == 5 else 4), sample_name=f"file {index}")

        def __len__(self) -> int:
            return 8

    with DALIServer(affine(), arena_bytes=1 << 16, arena_bytes_limit=1 << 18) as server:
        context = "fork" if num_workers else None
        loader = DataLoader(
            server, Large(server.proxy), batch_size=4, num_workers=num_workers, multiprocessing_context=context
        )
        batches = iter(loader)
        next(batches)
        text = str(error_of(batches))
    assert f"a sample of {1 << 20} bytes is larger than" in text
    assert f"{1 << 18} bytes: raise arena_bytes_limit (dataset index: 5, sample name: file 5)" in text
