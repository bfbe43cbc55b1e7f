"""Calls of the proxy."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from torch.utils.data import default_collate

from dali_proxy import BatchSizeError, DALIServer, ProxyCallError, SampleTypeError, ServerClosedError
from dali_proxy._worker.batch_context import BatchContext, this_thread
from dali_proxy.errors import StaleReferenceError
from tests.dali_proxy.indexed import affine, sample, sum_and_difference


@pytest.fixture
def two_inputs() -> Iterator[DALIServer]:
    """Start a server of a pipeline with two inputs and two outputs."""
    with DALIServer(sum_and_difference(), mode="thread") as server:
        yield server


def test_signature(server: DALIServer, two_inputs: DALIServer) -> None:
    assert list(inspect.signature(server.proxy).parameters) == ["x", "sample_name"]
    parameters = inspect.signature(two_inputs.proxy).parameters
    assert list(parameters) == ["a", "b", "sample_name"]
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters.values())
    assert "a" in repr(two_inputs.proxy)
    assert server.proxy is server.proxy


def test_input_by_position_and_by_name(server: DALIServer) -> None:
    for ref in (server.proxy(sample(2)), server.proxy(x=sample(2))):
        assert server.produce_data(ref).tolist() == [13, 13, 13]


def test_several_inputs_by_name_in_any_order(two_inputs: DALIServer) -> None:
    refs = two_inputs.proxy(b=sample(1), a=sample(5))
    total, difference = two_inputs.produce_data(refs)
    assert (total.tolist(), difference.tolist()) == ([6, 6, 6], [4, 4, 4])


def test_samples_of_two_servers_in_one_batch_are_two_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both processes number their clients and samples alike."""
    with DALIServer(affine(), mode="thread") as one, DALIServer(affine(), mode="thread") as other:
        monkeypatch.setattr(this_thread, "context", BatchContext())
        refs = [default_collate([server.proxy(sample(number))]) for number, server in enumerate((one, other), 2)]
        assert (refs[0].ticket.client, refs[0].ticket.seq) == (refs[1].ticket.client, refs[1].ticket.seq)
        assert one.produce_data(refs[0]).tolist() == [[13, 13, 13]]
        assert other.produce_data(refs[1]).tolist() == [[16, 16, 16]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda proxy: proxy(), "missing: x"),
        (lambda proxy: proxy(1, 2), "one input, 'x', but the proxy got 2"),
        (lambda proxy: proxy(1, x=2), "one input"),
        (lambda proxy: proxy(y=2), "unknown: y; missing: x"),
        (lambda proxy: proxy(x=1, y=2), "unknown: y"),
    ],
)
def test_wrong_calls_with_one_input(server: DALIServer, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ProxyCallError, match=message) as caught:
        call(server.proxy)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda proxy: proxy(1, 2), r"by name, proxy\(a=..., b=...\)"),
        (lambda proxy: proxy(1, b=2), "by name"),
        (lambda proxy: proxy(a=1), "missing: b"),
        (lambda proxy: proxy(a=1, b=2, c=3), "unknown: c"),
    ],
)
def test_wrong_calls_with_two_inputs(two_inputs: DALIServer, call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ProxyCallError, match=message):
        call(two_inputs.proxy)


def test_pickled_proxy_works(server: DALIServer) -> None:
    proxy = pickle.loads(pickle.dumps(server.proxy))
    assert server.produce_data(proxy(sample(3))).tolist() == [16, 16, 16]


def test_proxy_of_a_server_that_does_not_run(mode: str) -> None:
    server = DALIServer(affine(), mode=mode)  # type: ignore[arg-type]
    with pytest.raises(ServerClosedError, match="with DALIServer"):
        server.proxy(sample(1))
    with server:
        server.proxy(sample(1))
    with pytest.raises(ServerClosedError, match="with DALIServer"):
        server.proxy(sample(1))
    with pytest.raises(ServerClosedError, match="with DALIServer"):
        server.produce_data(1)
    with pytest.raises(ServerClosedError, match="with DALIServer"):
        server.stats()


def test_references_of_an_earlier_start_are_refused(mode: str) -> None:
    server = DALIServer(affine(), mode=mode)  # type: ignore[arg-type]
    with server:
        old = server.proxy(sample(1))
        batch = default_collate([server.proxy(sample(2)), server.proxy(sample(3))])
    with server:
        new = server.proxy(sample(1))
        with pytest.raises(StaleReferenceError):
            default_collate([new, old])
        with pytest.raises(StaleReferenceError):
            server.produce_data(batch)
        with pytest.raises(StaleReferenceError):
            server.produce_data(old)
        assert server.produce_data(new).tolist() == [10, 10, 10]


def test_batch_over_the_maximum(server: DALIServer) -> None:
    refs = [server.proxy(sample(index)) for index in range(17)]
    with pytest.raises(BatchSizeError, match=r"batch of 17 samples .* batch_size=16") as caught:
        default_collate(refs)
    assert isinstance(caught.value, ValueError)
    assert server.produce_data(default_collate(refs[:16])).shape == (16, 3)


def test_samples_that_do_not_go_together(server: DALIServer) -> None:
    with pytest.raises(SampleTypeError, match=r"int32 with 1 dimensions.*float64 with 1 dimensions"):
        default_collate([server.proxy(sample(1)), server.proxy(np.ones(3))])
    with pytest.raises(SampleTypeError, match="int32 with 2 dimensions"):
        default_collate([server.proxy(sample(1)), server.proxy(sample(1)[None])])
    gray, colors = np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(SampleTypeError, match=r"for a gray image among images with colors, .*convert\('RGB'\)"):
        default_collate([server.proxy(colors), server.proxy(gray)])


def test_ragged_samples_come_back_as_a_list(server: DALIServer) -> None:
    batch = default_collate([server.proxy(sample(index, width=index + 1)) for index in range(4)])
    made = server.produce_data(batch, ragged="list")
    assert [tensor.tolist() for tensor in made] == [[7], [10] * 2, [13] * 3, [16] * 4]


def test_cached_references_are_run_again(server: DALIServer) -> None:
    refs = [server.proxy(sample(index)) for index in range(3)]
    before = server.stats().batches
    for _ in range(3):
        images = server.produce_data(default_collate(refs))
        assert images[:, 0].tolist() == [7, 10, 13]
    assert server.stats().batches == before + 3


def test_sample_in_many_places_of_a_batch_is_one_request(server: DALIServer) -> None:
    refs = [server.proxy(sample(index)) for index in range(3)]
    before = server.stats().batches
    one, two = default_collate([(ref, ref) for ref in refs])
    assert one.ticket is two.ticket
    tensors = server.produce_data([one, two, one])
    assert tensors[0] is tensors[1] is tensors[2]
    assert server.stats().batches == before + 1
    again = default_collate([refs[0], refs[0], refs[2]])
    assert server.produce_data(again)[:, 0].tolist() == [7, 7, 13]


def test_produce_data_twice_gives_the_same_tensors(server: DALIServer) -> None:
    batch = {"images": default_collate([server.proxy(sample(1))]), "labels": [1]}
    assert server.produce_data(batch)["images"] is server.produce_data(batch)["images"]


def test_batch_larger_than_the_arena() -> None:
    with DALIServer(affine(), mode="thread", arena_bytes=1 << 16) as server:
        refs = [server.proxy(np.full(1 << 14, index, np.int32)) for index in range(16)]  # 1 MB
        assert server.produce_data(default_collate(refs))[:, -1].tolist() == [3 * index + 7 for index in range(16)]
        large = server.produce_data(server.proxy(np.full(1 << 20, 5, np.int32)))
        assert large.unique().tolist() == [22]
