"""Functions behind the loader: they run once per batch, with random numbers that belong to the batch."""

from __future__ import annotations

import random
import signal
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch

from dali_proxy import CutMix, DALIServer, DataLoader, MixUp
from pipeline.errors import ArgumentTypeError, ArgumentValueError
from tests.dali_proxy.indexed import IndexDataset, check_affine

Named = namedtuple("Named", "x y")


def drawn(batch: Any) -> tuple[list[int], float, float, float]:
    """Return the indices of a batch, and a number of each generator."""
    return check_affine(*batch), random.random(), float(np.random.rand()), float(torch.rand(()))


def run(server: DALIServer, num_workers: int, epochs: int = 2, **options: Any) -> list[Any]:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    dataset = IndexDataset(14, server.proxy)
    loader = DataLoader(server, dataset, 4, shuffle=True, num_workers=num_workers, batch_transform=drawn, **options)
    return [batch for _ in range(epochs) for batch in loader]


def test_random_numbers_belong_to_the_batch(server: DALIServer) -> None:
    expected = run(server, 0)
    assert len({numbers for _, *numbers in map(tuple, expected) for numbers in numbers}) == 3 * 8
    assert run(server, 2) == expected


def test_generators_of_the_training_stay_as_they_are(server: DALIServer) -> None:
    loader = DataLoader(server, IndexDataset(8, server.proxy), 4, batch_transform=drawn)
    iterator = iter(loader)
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]
    next(iterator)
    assert states == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())  # type: ignore[index]


def test_random_numbers_continue_after_a_checkpoint(server: DALIServer) -> None:
    expected = run(server, 1)

    def make() -> DataLoader:
        return DataLoader(server, IndexDataset(14, server.proxy), 4, shuffle=True, batch_transform=drawn)

    torch.manual_seed(3)
    loader = make()
    iterator = iter(loader)
    found = [next(iterator), next(iterator)]
    state = loader.state_dict()
    torch.manual_seed(99)
    loader = make()
    loader.load_state_dict(state)
    assert found + list(loader) == expected[:4]


def test_errors_cost_their_batch_and_interrupts_none(server: DALIServer) -> None:
    calls: list[list[int]] = []

    def transform(batch: Any) -> list[int]:
        calls.append(check_affine(*batch))
        if len(calls) == 1:
            raise LookupError("a bad batch")
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return calls[-1]

    iterator = iter(DataLoader(server, IndexDataset(12, server.proxy), 4, batch_transform=transform))
    with pytest.raises(LookupError, match="a bad batch"):
        next(iterator)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert list(iterator) == [[4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize("num_workers", [0, 1])
def test_stop_iteration_does_not_end_the_epoch(num_workers: int, server: DALIServer) -> None:
    shorter = iter([1, 2])
    loader = DataLoader(
        server,
        IndexDataset(12, server.proxy),
        4,
        num_workers=num_workers,
        batch_transform=lambda batch: (check_affine(*batch), next(shorter)),
    )
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [([0, 1, 2, 3], 1), ([4, 5, 6, 7], 2)]
    with pytest.raises(RuntimeError, match="raised by batch_transform, which would end the epoch") as caught:
        next(iterator)
    assert isinstance(caught.value.__cause__, StopIteration)
    assert list(iterator) == []


def test_transform_must_be_a_function(server: DALIServer) -> None:
    with pytest.raises(ArgumentTypeError, match=r"batch_transform must be a function .*, not str \('mixup'\)"):
        DataLoader(server, IndexDataset(4, server.proxy), batch_transform="mixup")  # type: ignore[arg-type]


@pytest.mark.parametrize("mix", [MixUp(5, 0.5), CutMix(5)])
def test_images_are_mixed_as_their_labels(mix: Any) -> None:
    torch.manual_seed(1)
    labels = torch.tensor([0, 3, 1])
    images = labels.float()[:, None, None, None].expand(3, 2, 40, 30).contiguous()
    batch = {"image": images, "label": labels, "name": list("abc")}
    mix.images, mix.labels = "image", "label"
    mixed = mix(batch)
    assert mixed["name"] == list("abc")
    assert torch.equal(batch["image"], images)
    shares = mixed["label"]
    assert shares.shape == (3, 5)
    assert 0 < shares[0, 0] < 1
    assert torch.allclose(shares.sum(1), torch.ones(3))
    # The mean of the pixels is that of the classes.
    assert torch.allclose(mixed["image"].mean((1, 2, 3)), (shares * torch.arange(5)).sum(1), atol=1e-4)


@pytest.mark.parametrize("mix", [MixUp(images=["a", "b"], labels="y"), CutMix(images=["a", "b"], labels="y")])
def test_several_images_are_mixed_alike(mix: Any) -> None:
    torch.manual_seed(4)
    batch = {"a": torch.rand(3, 1, 40, 30), "y": torch.eye(3)}
    batch["b"] = batch["a"] * 2
    mixed = mix(batch)
    assert torch.allclose(mixed["b"], mixed["a"] * 2)
    assert not torch.equal(mixed["a"], batch["a"])
    with pytest.raises(ArgumentTypeError, match="no tensor at 'b'"):
        mix({"a": batch["a"], "y": batch["y"]})


def test_mixed_bytes_are_rounded() -> None:
    torch.manual_seed(2)
    mixed, rows = MixUp()((torch.tensor([0, 255]).byte()[:, None, None, None], torch.eye(2)))
    assert mixed[:, 0, 0, 0].tolist() == (rows[:, 1] * 255).round().tolist()


def test_batches_keep_their_type() -> None:
    images, rows = torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.eye(2)
    assert isinstance(MixUp()([images, rows]), list)
    mixed = CutMix(images=1, labels=0)(Named(rows, images))
    assert isinstance(mixed, Named)
    assert mixed.y.dtype == torch.uint8


@pytest.mark.parametrize(
    ("mix", "batch", "error", "message"),
    [
        (
            MixUp(),
            (torch.zeros(2, 1, 4, 4), torch.tensor([0, 1])),
            ArgumentValueError,
            "num_classes to mix class numbers",
        ),
        (MixUp(2), (torch.zeros(2, 4, 4), torch.tensor([0, 1])), ArgumentValueError, r"images \(N, C, H, W\)"),
        (CutMix(2), (torch.zeros(2, 8, 9, 3), torch.tensor([0, 1])), ArgumentValueError, r"\(N, H, W, C\).*transpose"),
        (MixUp(2), (torch.zeros(2, 1, 4, 4), torch.tensor([0, 3])), ArgumentValueError, "MixUp got the class 3.* to 1"),
        (CutMix(2), (torch.zeros(2, 1, 4, 4), torch.zeros(2)), ArgumentValueError, r"class numbers \(N,\)"),
        (CutMix(2), {"image": 1}, ArgumentTypeError, r"no tensor at 0 of the batch \(dict\)"),
    ],
)
def test_bad_batches_are_refused(mix: Any, batch: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mix(batch)


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"num_classes": 0}])
def test_bad_numbers_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentValueError, match="must be positive"):
        MixUp(**options)
