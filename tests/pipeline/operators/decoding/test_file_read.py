"""The batch version of `io.file.read`: its use, and the same results as the sample version."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn
from pipeline._compiler.plan import BatchStep, make_plan
from pipeline._declaration import registry
from pipeline._operators.decoding.io_file_read import BatchFileRead, FileRead


def path_of(path: Path | str) -> np.ndarray:
    return np.frombuffer(os.fsencode(str(path)), np.uint8)


@pytest.fixture(params=[FileRead, BatchFileRead])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """Run a test with the sample version and the batch version."""
    monkeypatch.setattr(registry, "_IMPLEMENTATIONS", dict(registry._IMPLEMENTATIONS))
    registry._IMPLEMENTATIONS["io.file.read", "cpu"] = request.param
    return request.param


def read(paths: Sequence[np.ndarray]) -> list[bytes]:
    with Pipeline(batch_size=len(paths), num_threads=2, device_id=None) as pipe:
        pipe.set_outputs(fn.io.file.read(fn.external_source(name="path")))
    try:
        pipe.feed_input("path", list(paths))
        (made,) = pipe.run()
        assert made.ndim == 1
        return [bytes(np.asarray(sample)) for sample in made]
    finally:
        pipe.close()


def test_forms_read_the_same(form: type, jpeg_folder: Path) -> None:
    paths = sorted(jpeg_folder.rglob("*.jpg"))[:40]
    given = [path_of(path) if number % 2 else path_of(f"file://{path}\0") for number, path in enumerate(paths)]
    assert read(given) == [path.read_bytes() for path in paths]
    assert read([each.view(np.int8) for each in given[:3]]) == [path.read_bytes() for path in paths[:3]]


def test_forms_name_the_samples_that_fail(form: type, jpeg_folder: Path) -> None:
    good = path_of(next(jpeg_folder.rglob("*.jpg")))
    with pytest.raises(errors.OperatorError, match=r"for sample 17: .*no-a.*1 more sample ") as caught:
        read([good] * 17 + [path_of("/no-a"), good, path_of("/no-b")])
    assert [failure.sample for failure in caught.value.failures] == [17, 19]
    with pytest.raises(errors.OperatorError, match="must be an array of uint8"):
        read([good.astype(np.int32)])


@pytest.mark.parametrize(("device", "whole"), [("cpu", False), ("mixed", True)])
def test_batches_are_read_at_once_where_a_gpu_decodes(device: str, whole: bool) -> None:
    with Pipeline(batch_size=4, num_threads=1, device_id=0) as pipe:
        encoded = fn.io.file.read(fn.external_source(name="path"))
        pipe.set_outputs(fn.decoders.image(encoded, device=device), fn.peek_image_shape(encoded))
    steps = [step for phase in make_plan(pipe._internals.graph).phases for step in phase.steps]
    alone = [
        node for step in steps if isinstance(step, BatchStep) for node in step.nodes if node.operator == "io.file.read"
    ]
    assert bool(alone) == whole
