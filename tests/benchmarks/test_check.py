"""Batches that the benchmarks refuse to time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.check import Statistics, WrongOutputError, check_agreement, check_stream
from benchmarks.rivals.base import Batch
from benchmarks.workload import Setup


def stream(images: torch.Tensor, first: int = 0) -> Iterator[Batch]:
    while True:
        yield images, torch.arange(first, first + len(images))
        first += len(images)


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    return Setup("bytes", tmp_path, batch_size=2)


def test_statistics_of_a_right_stream(setup: Setup) -> None:
    torch.manual_seed(0)
    images = torch.randn(2, 3, 224, 224) * torch.tensor([1.0, 2.0, 3.0]).view(3, 1, 1)
    found = check_stream(stream(images), setup)
    assert found is not None
    assert found.mean == pytest.approx((0, 0, 0), abs=0.1)
    assert found.std == pytest.approx((1, 2, 3), rel=0.05)


@pytest.mark.parametrize(
    ("images", "first", "message"),
    [
        (torch.zeros(2, 3, 224, 224, dtype=torch.uint8), 0, "not float32"),
        (torch.zeros(2, 224, 224, 3), 0, "not float32"),
        (torch.full((2, 3, 224, 224), torch.nan), 0, "not finite"),
        (torch.zeros(2, 3, 224, 224), 2, "batch 0 has the samples"),
    ],
)
def test_wrong_stream_is_refused(setup: Setup, images: torch.Tensor, first: int, message: str) -> None:
    with pytest.raises(WrongOutputError, match=message):
        check_stream(stream(images, first), setup)


def test_rivals_must_agree() -> None:
    same = Statistics((0.0, 0.1, 0.2), (1.0, 1.0, 1.0))
    other = Statistics((0.0, 0.1, 0.6), (1.0, 1.0, 1.0))
    check_agreement({})
    check_agreement({"a": same, "b": same})
    with pytest.raises(WrongOutputError, match="pixels of b"):
        check_agreement({"a": same, "b": other})
