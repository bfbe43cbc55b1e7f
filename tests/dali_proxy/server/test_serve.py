"""Tests of servers for functions of dynamic mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import dali_proxy
from pipeline import dynamic, fn, pipeline_def
from pipeline.torchvision import ColorJitter, Compose, RandomApply, RandomCrop, Resize, ToTensor


class Noisy(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self, transform: object) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(np.full((4, 4, 3), index, np.uint8))  # type: ignore[operator,no-any-return]


class Served(torch.utils.data.Dataset[torch.Tensor]):
    def __init__(self, images: list[np.ndarray], transform: object) -> None:
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.transform(Image.fromarray(self.images[index]))  # type: ignore[operator,no-any-return]


def augment(image: dynamic.Tensor) -> dynamic.Tensor:
    shifted = image + dynamic.random.uniform(range=(0, 1), shape=(4, 4, 3))
    return dynamic.flip(shifted, horizontal=dynamic.random.coin_flip())


def test_served_function_has_the_bits_of_calls_sample_by_sample() -> None:
    with dali_proxy.serve(augment, batch_size=3, num_threads=1, seed=5, mode="thread") as server:
        dataset = Noisy(server.proxy)
        batches = list(dali_proxy.DataLoader(server, dataset, batch_size=3))
    plain = Noisy(augment)
    for iteration, batch in enumerate(batches):
        for sample in range(3):
            with dynamic.random.SampleRNG(5, iteration=iteration, sample=sample):
                expected = plain[iteration * 3 + sample]
            assert np.array_equal(batch[sample], expected)
    dynamic.set_num_threads(None)


@pipeline_def
def graph() -> object:
    return fn.external_source(name="x")


def test_server_takes_functions_but_no_uncalled_pipelines() -> None:
    with pytest.raises(TypeError, match="call it"):
        dali_proxy.DALIServer(graph)
    with pytest.raises(TypeError, match="unexpected arguments for a pipeline: seed"):
        dali_proxy.DALIServer(graph(batch_size=1, num_threads=1, device_id=None), seed=3)
    with pytest.raises(dynamic.TracingError, match=r"truth value(.|\n)*test_serve\.py"):
        dali_proxy.DALIServer(lambda image: image if image > 3 else -image)


def test_served_compose_has_the_bits_of_its_calls() -> None:
    compose = Compose([Resize(20), RandomCrop(16), RandomApply([ColorJitter(0.4)]), ToTensor()])
    images = [np.random.default_rng(n).integers(0, 256, (30, 40, 3), np.uint8) for n in range(3)]
    with dali_proxy.serve(compose, batch_size=3, num_threads=1, seed=5, mode="thread") as server:
        proxies = Served(images, server.proxy)
        (batch,) = dali_proxy.DataLoader(server, proxies, batch_size=3)
    for number, image in enumerate(images):
        with dynamic.random.SampleRNG(seed=5, sample=number):
            assert torch.equal(batch[number], compose(Image.fromarray(image)))
    dynamic.set_num_threads(None)
