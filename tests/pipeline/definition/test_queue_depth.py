"""More batches are in flight than `prefetch_queue_depth`, where small ones merge and the user's code can't see it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dali_proxy.pipeline._executor import depth
from pipeline import Pipeline, fn
from tests import host_cupy
from tests.pipeline.kernels.emulator import COMPILER

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")

BATCHES = 60


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


def build(files: list[str], *, user_code: bool = False, **options: Any) -> Pipeline:
    pipe = Pipeline(**{"batch_size": 2, "num_threads": 2, "device_id": 0, "seed": 3, **options})
    with pipe:
        encoded, labels = fn.readers.file(files=files, random_shuffle=True, name="reader")
        images = fn.decoders.image(encoded)
        if user_code:
            images = fn.python_function(images, function=lambda image: image)
        pipe.set_outputs(fn.random_resized_crop(images.gpu(), size=(4, 5)), labels.gpu())
    pipe.build()
    return pipe


def batches(pipe: Pipeline) -> tuple[list[Any], int]:
    """Return the outputs of some batches, and the largest number of batches in flight."""
    outputs, most = [], 0
    for _ in range(BATCHES):
        outputs.append([np.asarray(sample) for output in pipe.run() for sample in output.as_cpu()])
        most = max(most, len(pipe._internals.runner._started))
    return outputs, most


def test_depth_grows_where_small_batches_merge(files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with build(files) as pipe:
        grown, most = batches(pipe)
    assert most > 16
    monkeypatch.setattr(depth.Depth, "finish", lambda self, limits, nbytes: None)
    with build(files) as pipe:
        fixed, most = batches(pipe)
    assert most <= 4
    for one, other in zip(grown, fixed, strict=True):
        np.testing.assert_equal(one, other)


def test_depth_of_a_checkpoint_is_that_of_the_batches_taken(files: list[str]) -> None:
    with build(files, enable_checkpointing=True) as pipe:
        batches(pipe)
        saved = pipe.checkpoint()
        expected, _ = batches(pipe)
    restored = Pipeline(batch_size=2, num_threads=2, device_id=0, seed=3, enable_checkpointing=True, checkpoint=saved)
    with restored:
        encoded, labels = fn.readers.file(files=files, random_shuffle=True, name="reader")
        restored.set_outputs(fn.random_resized_crop(fn.decoders.image(encoded).gpu(), size=(4, 5)), labels.gpu())
    restored.build()
    with restored:
        found, _ = batches(restored)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_equal(one, other)


@pytest.mark.parametrize(
    "options",
    [{"user_code": True}, {"batch_size": 200}, {"exec_async": False, "exec_pipelined": False}],
    ids=["user code", "large batches", "synchronous"],
)
def test_depth_stays_elsewhere(files: list[str], options: dict[str, Any]) -> None:
    with build(files, **options) as pipe:
        assert pipe._internals.runner._search is None


def test_depth_stays_if_a_source_is_called() -> None:
    pipe = Pipeline(batch_size=2, num_threads=2, device_id=0, prefetch_queue_depth=2)
    with pipe:
        pipe.set_outputs(fn.external_source(source=lambda: np.ones((2, 3)), batch=True).gpu())
    pipe.build()
    assert pipe._internals.runner._search is None
    pipe.close()
