"""Tests of servers for functions of dynamic mode."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image

import dali_proxy
from pipeline import dynamic, fn, pipeline_def
from pipeline.errors import ArgumentTypeError
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


def test_help_of_serve_explains_all_its_arguments() -> None:
    text = inspect.getdoc(dali_proxy.serve)
    assert text is not None
    for name in inspect.signature(dali_proxy.serve).parameters:
        assert len(re.findall(rf"^    (?:\*\*)?{name}: ", text, re.MULTILINE)) == 1, name


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


@dataclasses.dataclass(frozen=True)
class Views:
    large: Any
    small: Any


class Pair(NamedTuple):
    first: Any
    second: Any


def nested(image: dynamic.Tensor) -> dict[str, Any]:
    small = dynamic.crop(image, crop=(2, 2))
    views = Views(image + 1, [small, {"twice": small, "again": image * 3}])
    return {"views": views, "pair": Pair(image, (small,)), "image": image}


@pytest.mark.combinations
@pytest.mark.parametrize(("mode", "workers"), [("thread", 0), ("process", 2)])
@pytest.mark.parametrize("placed", ["server", "pool"])
def test_structure_of_a_functions_result(mode: Any, workers: int, placed: str) -> None:
    pool = {"num_workers": 1} if placed == "pool" else {}
    with dali_proxy.serve(nested, batch_size=3, num_threads=1, mode=mode, **pool) as server:
        loader = dali_proxy.DataLoader(server, Noisy(server.proxy), batch_size=3, num_workers=workers)
        batches = list(loader)
        assert len(loader) == len(batches) == 2
    for number, batch in enumerate(batches):
        image = batch["image"]
        assert image.shape == (3, 4, 4, 3)
        assert image[:, 0, 0, 0].tolist() == [3 * number, 3 * number + 1, 3 * number + 2]
        assert isinstance(batch["views"], Views)
        assert isinstance(batch["pair"], Pair)
        assert torch.equal(batch["pair"].first, image)
        assert torch.equal(batch["views"].large, (image + 1).to(batch["views"].large.dtype))
        small, others = batch["views"].small
        assert torch.equal(small, image[:, 1:3, 1:3])
        assert torch.equal(others["twice"], small)
        assert torch.equal(batch["pair"].second[0], small)
        assert torch.equal(others["again"], (image * 3).to(others["again"].dtype))


def test_structure_with_one_output_and_other_loaders() -> None:
    with dali_proxy.serve(lambda image: {"image": image}, batch_size=3, num_threads=1, mode="thread") as server:
        loader = torch.utils.data.DataLoader(Noisy(server.proxy), batch_size=3)
        for batch in loader:
            assert set(batch) == {"image"}
            assert server.produce_data(batch)["image"].shape == (3, 4, 4, 3)
        alone = server.produce_data(Noisy(server.proxy)[5])
        assert alone["image"][0, 0, 0] == 5


def test_results_without_a_tensor_are_errors() -> None:
    with pytest.raises(ArgumentTypeError, match=r"returned str at \['a'\]\[1\], but a traced function returns"):
        dynamic.trace(lambda x: {"a": [x, "name"]})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ArgumentTypeError, match="returned list at"):
        dynamic.trace(lambda x: [x, endless])
    calls = itertools.count()
    with pytest.raises(dynamic.TracingError, match="another structure when it was traced again"):
        dynamic.trace(lambda x: {next(calls): x})


def test_pipeline_of_a_function_returns_the_outputs_in_order() -> None:
    pipe = dynamic.trace(nested, batch_size=1, num_threads=1)
    outputs = pipe.run(image=[np.ones((4, 4, 3), np.uint8)])
    assert [each.as_array().shape[1] for each in outputs] == [4, 2, 4, 4]
    pipe.close()
