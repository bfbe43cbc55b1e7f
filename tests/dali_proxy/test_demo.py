"""Tests of the demo and its components."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image

from dali_proxy._demo import Settings, run_demo
from dali_proxy._demo.compare import Comparison, EndlessSampler, compare
from dali_proxy._demo.data import CROP_SIZE, HELD_OUT_BAND, Crops, crop_box, photograph_paths, write_crops
from dali_proxy._demo.pillow import pillow_augment
from dali_proxy._new.kinds.classification import SIZE, Samples

CROPS = Crops(photographs=4, train_per_photograph=16, held_out_per_photograph=8)


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the photographs of scikit-image, independent of the environment."""
    monkeypatch.delenv("DALI_EXTRA_PATH", raising=False)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch train on one thread: several threads on busy cores take twice the CPU time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.usefixtures("bundled", "one_thread")
def test_demo_learns_and_says_so(tmp_path: Path, temporary_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "batch.png"
    settings = Settings(
        device="cpu", picture=picture, crops=CROPS, epochs=6, batch_size=16, rounds=2, seconds=0.2, quiet=True
    )
    summary = run_demo(settings)

    assert summary.chance == 1 / 4
    assert summary.accuracy > 0.6
    assert summary.training.images == 6 * 64
    assert summary.training.waiting > 0
    assert summary.training.computing > 0
    assert summary.limited_by in ("training", "pipeline", "workers")
    assert len(summary.comparison.ratios) == 2
    assert summary.comparison.median_ratio > 0
    with Image.open(picture) as grid:
        assert grid.format == "PNG"
        assert grid.size == (8 * (SIZE + 4) + 4, 2 * (SIZE + 14 + 4) + 4)
    assert not list(temporary_folder.glob("dali-proxy-demo-*"))

    said = capsys.readouterr().out
    assert "guessing would reach 25.0%" in said
    assert "What limited the speed: the" in said
    assert "torch DataLoader, pillow" in said
    assert str(picture) in said


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.usefixtures("bundled", "one_thread")
def test_demo_draws_its_images_without_scikit_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    settings = Settings(
        device="cpu", picture=tmp_path / "batch.png", crops=CROPS, epochs=6, batch_size=16, rounds=1, seconds=0.2,
        data=tmp_path / "images", quiet=True,
    )  # fmt: skip
    summary = run_demo(settings)
    assert summary.accuracy > 0.6
    assert "Images: drawings." in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "images/train").iterdir()) == [f"drawing 0{n}" for n in range(4)]


@pytest.mark.usefixtures("bundled")
def test_photographs_need_no_download() -> None:
    paths = photograph_paths(12)
    assert len(paths) == 12
    assert all(path.is_file() for path in paths.values())


def test_photographs_of_dali_extra(dali_extra: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if dali_extra is None:
        pytest.skip("needs DALI_extra")
    monkeypatch.setenv("DALI_EXTRA_PATH", str(dali_extra))
    assert all(path.is_relative_to(dali_extra) for path in photograph_paths(12).values())


def test_too_few_photographs_are_an_error_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DALI_EXTRA_PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="needs 12 photographs and found 0: install scikit-image"):
        photograph_paths(12)


@pytest.mark.parametrize("size", [(512, 512), (640, 300), (300, 640)])
def test_training_crops_never_touch_the_held_out_band(size: tuple[int, int]) -> None:
    dice = random.Random(0)
    begin, end = (part * size[0] for part in HELD_OUT_BAND)
    for _ in range(200):
        left, top, right, bottom = crop_box(size, held_out=False, dice=dice)
        assert right <= begin or left >= end
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
        left, top, right, bottom = crop_box(size, held_out=True, dice=dice)
        assert begin <= left < right <= end
        assert 0 <= top < bottom <= size[1]
        assert (right - left) / (bottom - top) == pytest.approx(CROP_SIZE[0] / CROP_SIZE[1])


@pytest.mark.usefixtures("bundled")
def test_seed_decides_the_written_images(tmp_path: Path) -> None:
    crops = Crops(photographs=2, train_per_photograph=2, held_out_per_photograph=1)
    first = [path.read_bytes() for path in write_crops(tmp_path / "a", crops)]
    again = [path.read_bytes() for path in write_crops(tmp_path / "b", crops)]
    assert len(first) == 6
    assert first == again
    dataset = Samples(tmp_path / "a" / "train", pillow_augment)
    assert len(dataset) == 4
    assert [dataset[index][1] for index in range(4)] == [0, 0, 1, 1]


def test_pillow_equals_the_pipeline(jpeg_folder: Path) -> None:
    image, _ = Samples(jpeg_folder, pillow_augment)[0]
    assert image.shape == (3, SIZE, SIZE)
    assert image.dtype == torch.float32
    assert -3 < image.min() < image.max() < 3


def test_rounds_of_the_two_loaders_alternate() -> None:
    order: list[str] = []

    def loader(name: str) -> object:
        while True:
            if order[-1:] != [name]:
                order.append(name)
            yield torch.zeros(4), None

    found = compare(loader("ours"), loader("plain"), seconds=0.01, rounds=3)  # type: ignore[arg-type]
    assert order == ["ours", "plain", "ours", "plain"]
    assert len(found.ratios) == 3


def test_ratio_is_computed_round_by_round() -> None:
    found = Comparison(ours=(200.0, 100.0, 90.0), plain=(100.0, 50.0, 30.0))
    assert found.ratios == (2.0, 2.0, 3.0)
    assert found.median_ratio == 2.0


def test_endless_sampler_goes_through_every_sample_again_and_again() -> None:
    indices = iter(EndlessSampler(5, seed=1))
    rounds = [[next(indices) for _ in range(5)] for _ in range(3)]
    assert [sorted(one) for one in rounds] == [[0, 1, 2, 3, 4]] * 3
    assert rounds[0] != rounds[1] or rounds[1] != rounds[2]


def test_unknown_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="unknown device 'tpu': use auto, cpu or cuda:0"):
        run_demo(Settings(device="tpu", picture=tmp_path / "x.png"))
