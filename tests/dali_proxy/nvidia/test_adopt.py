"""Pipelines of NVIDIA's package in `DALIServer`: NVIDIA's operators with our transport, order and errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import BatchError, DALIServer, DataLoader
from pipeline.errors import SerializationError

dali = pytest.importorskip("nvidia.dali")


@dali.pipeline_def
def double() -> Any:
    numbers = dali.fn.external_source(name="numbers", no_copy=True)
    return numbers * 2, dali.fn.external_source(name="more")


@dali.pipeline_def
def decoded() -> Any:
    images = dali.fn.external_source(name="images", no_copy=True)
    return dali.fn.decoders.image(images)


class Numbers(torch.utils.data.Dataset[Any]):
    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        numbers, more = self.transform(
            numbers=np.full((3, 2), index, np.float32), more=np.arange(index, dtype=np.int32)
        )
        return numbers, more, index


@pytest.fixture(params=["process", "thread"])
def server(request: pytest.FixtureRequest) -> Iterator[DALIServer]:
    with DALIServer(double(batch_size=8, num_threads=2, device_id=None), mode=request.param) as server:
        yield server


def keep_ragged(samples: list[Any]) -> Any:
    numbers, more, indices = zip(*samples, strict=True)
    return torch.utils.data.default_collate(numbers), list(more), list(indices)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_of_the_adopted_pipeline_come_in_order(server: DALIServer, num_workers: int) -> None:
    loader = DataLoader(
        server, Numbers(server.proxy), batch_size=8, num_workers=num_workers, collate_fn=keep_ragged, shuffle=True
    )
    for _ in range(2):
        seen = []
        for numbers, more, indices in loader:
            seen += indices
            assert numbers.shape == (len(indices), 3, 2)
            assert numbers[:, 0, 0].tolist() == [2 * index for index in indices]
            assert [part.tolist() for part in more] == [list(range(index)) for index in indices]
        assert sorted(seen) == list(range(50))


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_corrupt_image_costs_its_batch_only(jpeg_folder: Any, mode: Any) -> None:
    """DALI's own pipeline and its proxy can't continue after an error."""
    good = [np.fromfile(path, np.uint8) for path in sorted(jpeg_folder.rglob("*.jpg"))[:4]]
    with DALIServer(decoded(batch_size=4, num_threads=2, device_id=None), mode=mode) as server:
        for _ in range(2):
            images = [server.proxy(image) for image in good]
            bad = [images[0], server.proxy(good[1][:100])]
            with pytest.raises(BatchError, match="NVIDIA DALI"):
                server.produce_data(bad)
            from PIL import Image

            for image, path in zip(server.produce_data(images), sorted(jpeg_folder.rglob("*.jpg")), strict=False):
                with Image.open(path) as original:
                    assert image.shape == (original.height, original.width, 3)


def test_subclass_with_define_graph() -> None:
    class Halves(dali.Pipeline):  # type: ignore[misc]
        def define_graph(self) -> Any:
            return dali.fn.external_source(name="x") / 2

    with DALIServer(Halves(batch_size=4, num_threads=1, device_id=None)) as server:
        assert server.produce_data(server.proxy(np.array([3.0], np.float32))).tolist() == [1.5]


def test_callables_are_refused_at_once() -> None:
    @dali.pipeline_def
    def sourced() -> Any:
        return dali.fn.external_source(source=lambda: [np.zeros(1)], batch=True)

    @dali.pipeline_def
    def function() -> Any:
        return dali.fn.python_function(dali.fn.external_source(name="x"), function=lambda x: x)

    for graph, reason in ((sourced, "leave the source out"), (function, "Python callables")):
        with pytest.raises(SerializationError, match=reason):
            DALIServer(graph(batch_size=1, num_threads=1, device_id=None))


def test_pipeline_runs_in_the_servers_process(server: DALIServer) -> None:
    with open(f"/proc/{server.pid}/maps") as maps:
        assert "libdali" in maps.read()
    assert (server.pid == os.getpid()) == (server.mode == "thread")
