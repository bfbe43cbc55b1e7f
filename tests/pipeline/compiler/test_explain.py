"""`Pipeline.explain`: which operators run together, and why others don't."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, fn
from tests import host_cupy
from tests.pipeline.kernels import emulator


def explained(define: Any) -> list[str]:
    """Return the lines of the explanation, without line numbers."""
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipe:
        outputs = define(fn.external_source(name="x", layout="HWC"))
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return re.sub(r" \(line \d+\)", "", pipe.explain()).splitlines()


def test_chain_on_the_gpu_is_one_kernel() -> None:
    def define(x: Any) -> Any:
        images = fn.color_twist(fn.flip(fn.resize(x.gpu(), size=(8, 8))), hue=20.0)
        return fn.crop_mirror_normalize(images)

    assert explained(define)[-4:] == [
        "phase 2, between CPU and GPU:",
        "  copy_to_gpu",
        "phase 3, on the GPU:",
        "  fn.resize -> fn.flip -> fn.color_twist -> fn.crop_mirror_normalize; as one kernel",
    ]


def test_reasons_against_running_together() -> None:
    def define(x: Any) -> Any:
        resized = fn.resize(x.gpu(), size=(8, 8))
        turned = fn.rotate(resized, angle=10.0)
        return fn.crop_mirror_normalize(fn.jpeg_compression_distortion(turned)), fn.flip(resized)

    lines = explained(define)
    assert "  fn.rotate (its input has several readers, so it is computed once)" in lines
    assert "  fn.jpeg_compression_distortion (not an expression of pixels)" in lines
    assert "  fn.crop_mirror_normalize" in lines

    def twice(x: Any) -> Any:
        return fn.rotate(fn.resize(x.gpu(), size=(8, 8)), angle=10.0)

    reason = "its input is computed first, because both read several pixels for each output pixel"
    assert f"  fn.rotate ({reason})" in explained(twice)


def test_steps_of_a_built_pipeline_are_shown_with_their_rules_and_times() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        data, mirror = fn.external_source(name="x", layout="HWC"), fn.random.coin_flip()
        pipe.set_outputs(fn.crop_mirror_normalize(fn.resize(data, size=(8, 8)), mirror=mirror))
    assert "rule" not in pipe.explain()
    pipe.build()
    before = pipe.explain().splitlines()
    pipe.run(x=[np.zeros((9, 9, 3), np.uint8)] * 2)
    after = pipe.explain().splitlines()
    pipe.close()
    assert "    rule 'joint draws': fn.random.coin_flip" in before
    begin = before.index("  step fn.resize → fn.crop_mirror_normalize")
    assert before[begin + 1 :] == ["    rule 'resize and crop_mirror_normalize': fn.resize → fn.crop_mirror_normalize"]
    assert re.fullmatch(r"    \d+ µs of the host for each batch, 0 launches, 1536 bytes of results", after[-1])


def test_rules_that_do_not_apply_say_why() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        low = fn.random.uniform()
        resized = fn.resize(fn.external_source(name="x", layout="HWC"), size=(8, 8))
        pipe.set_outputs(fn.crop_mirror_normalize(resized), resized, fn.random.uniform(range=fn.stack(low, low + 1)))
    pipe.build()
    text = pipe.explain()
    pipe.close()
    assert "not 'joint draws': fn.random.uniform has inputs or arguments, a branch, or another dtype" in text
    assert "not 'resize and crop_mirror_normalize': the chain consists of other operators" in text


def test_launches_of_a_step_are_counted() -> None:
    if emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed():
        pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
        with pipe:
            images = fn.external_source(name="x", layout="HWC").gpu()
            pipe.set_outputs(fn.rotate(fn.resize(images, size=(8, 8)), angle=fn.random.uniform(), keep_size=True))
        try:
            pipe.run(x=[np.zeros((9, 9, 3), np.uint8)] * 2)
            text = pipe.explain()
        finally:
            pipe.close()
    assert "rule 'prepared launches': fn.resize → fn.rotate" in text
    assert "2 launches, 384 bytes of results" in text
