"""Small batches that run as one have the bits that they have alone: with branches, and if samples are mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._executor import depth
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._operator_api.joined_batches import MergedBatch
from pipeline import Pipeline, fn, pipeline_def, types
from pipeline.auto_aug import auto_augment, rand_augment, trivial_augment
from pipeline.errors import OperatorError
from tests import host_cupy
from tests.pipeline.kernels.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

BATCHES = 16


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(depth, "_WINDOW", 0.0)
    monkeypatch.setattr(depth, "_BATCHES", 1)
    monkeypatch.setattr(depth, "_GAIN", 0.0)
    with host_cupy.installed():
        yield


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(1)
    paths = [tmp_path / f"{number}.png" for number in range(7)]
    for number, path in enumerate(paths):
        Image.fromarray(rng.integers(0, 255, (9 + number, 8, 3), np.uint8)).save(path)
    return [str(path) for path in paths]


def images(files: list[str]) -> Any:
    encoded, _ = fn.readers.file(files=files, random_shuffle=True, name="reader")
    return fn.random_resized_crop(fn.decoders.image(encoded).gpu(), size=(6, 5))


def drawn_in_branches(files: list[str]) -> Any:
    pixels = images(files)
    kind = fn.random.uniform(values=[0, 1, 2], dtype=types.INT32)
    if kind == 0:
        pixels = fn.noise.gaussian(pixels, stddev=20.0)
    elif kind == 1:
        pixels = fn.random_resized_crop(pixels, size=(6, 5))
        if fn.random.coin_flip(dtype=types.BOOL):
            pixels = fn.noise.salt_and_pepper(pixels, prob=0.3)
    else:
        pixels = fn.brightness(pixels, brightness=fn.random.uniform(range=(0.2, 0.8)))
    return pixels


def filtered_in_branches(files: list[str]) -> Any:
    pixels = images(files)
    if fn.random.coin_flip(dtype=types.BOOL):
        window = types.Constant(np.array([[0, 1, 0], [1, -3, 1], [0, 1, 0]], np.float32), device="gpu")
        pixels = fn.filter(pixels, window, dtype=types.UINT8)
    return fn.flip(pixels, horizontal=fn.random.coin_flip())


def equal_branches(files: list[str]) -> Any:
    pixels = images(files)
    if fn.random.coin_flip(dtype=types.BOOL):
        pixels = fn.noise.gaussian(pixels, stddev=20.0)
    else:
        pixels = fn.noise.gaussian(pixels, stddev=20.0)
    return pixels


def auto(files: list[str]) -> Any:
    return auto_augment.auto_augment(images(files), shape=[6, 5])


def rand(files: list[str]) -> Any:
    return rand_augment.rand_augment(images(files), n=2, m=17, shape=[6, 5])


def trivial(files: list[str]) -> Any:
    return trivial_augment.trivial_augment_wide(images(files), shape=[6, 5])


def mixed(files: list[str]) -> Any:
    pixels = fn.crop_mirror_normalize(
        images(files), mirror=fn.random.coin_flip(), mean=[100.0, 90, 80], std=[50.0, 40, 30]
    )
    others = fn.permute_batch(pixels, indices=fn.batch_permutation())
    weight = fn.random.uniform(range=(0.0, 1.0)).gpu()
    return pixels * weight + others * (1 - weight)


def drawn_on_the_gpu(files: list[str]) -> Any:
    return fn.cast(images(files), dtype=types.FLOAT) + fn.random.normal(shape=[6, 5, 3]).gpu() * 2


def batches(define: Callable[[list[str]], Any], files: list[str], size: int) -> list[list[Any]]:
    @pipeline_def(batch_size=size, num_threads=2, device_id=0, seed=3, enable_conditionals=True)
    def definition() -> Any:
        return define(files)

    pipe: Pipeline = definition()
    pipe.build()
    outputs = [[np.asarray(each) for each in pipe.run()[0].as_cpu()] for _ in range(BATCHES)]
    pipe.close()
    return outputs


@pytest.mark.combinations
@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(
    "define",
    [drawn_in_branches, filtered_in_branches, equal_branches, auto, rand, trivial, mixed, drawn_on_the_gpu],
)
def test_merged_batches_have_the_same_bits(
    define: Callable[[list[str]], Any], size: int, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    merged: list[int] = []
    begin = MergedBatch.__init__

    def record(self: MergedBatch, members: Any, edges: Any) -> None:
        begin(self, members, edges)
        merged.append(len(members))

    monkeypatch.setattr(MergedBatch, "__init__", record)
    together = batches(define, files, size)
    assert merged, "no batches ran as one"
    merged.clear()
    monkeypatch.setattr(Executor, "batches_to_merge", 0)
    alone = batches(define, files, size)
    assert not merged
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_equal(one, other)


def test_failure_of_one_merged_batch_does_not_change_the_others(
    files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[Any]:
        @pipeline_def(batch_size=2, num_threads=2, device_id=0, seed=3)
        def definition() -> Any:
            pixels = fn.crop_mirror_normalize(images(files), mirror=fn.random.coin_flip(), mean=[100.0, 90, 80])
            others = fn.permute_batch(pixels, indices=fn.random.uniform(values=[0, 1, 0, 1, 7], dtype=types.INT32))
            return pixels, pixels + others

        pipe: Pipeline = definition()
        pipe.build()
        results: list[Any] = []
        for _ in range(BATCHES):
            try:
                results.append([np.asarray(each) for output in pipe.run() for each in output.as_cpu()])
            except OperatorError as error:
                results.append(str(error))
        pipe.close()
        return results

    together = run()
    monkeypatch.setattr(Executor, "batches_to_merge", 0)
    alone = run()
    assert any(isinstance(each, str) for each in alone)
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_equal(one, other)
