"""Steps on the GPU whose launches are recorded and repeated: the outputs are those of the operators."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.recorded_launches import _owners, _packed, _Recording
from dali_proxy.pipeline._compiler.rules.prepared_step import PreparedStep
from dali_proxy.pipeline._cuda.launch import ADDRESS, Launch
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operators.geometry.flip import FlipGpu
from dali_proxy.pipeline._strict import STRICT
from pipeline import Pipeline, fn, types
from pipeline.errors import PipelineError
from tests.pipeline.compiler.gpu_batches import images, run_batches


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows with each batch that repeats recorded launches."""
    batches: list[Any] = []
    scalars = _Recording.scalars

    def noted(recording: _Recording, *arguments: Any) -> Any:
        batches.append(recording)
        return scalars(recording, *arguments)

    monkeypatch.setattr(_Recording, "scalars", noted)
    return batches


def constant_chain(data: Any) -> tuple[Any, ...]:
    flipped = fn.crop(fn.flip(data, horizontal=1), crop=(4, 4), crop_pos_x=0.2)
    drawn = fn.random.uniform(range=(0.0, 9.0), shape=[3, 2], seed=7, device=data.device) * 2 + 1
    normal = fn.random.normal(stddev=3.0, shape=5, seed=8, device=data.device)
    listed = fn.random.uniform(values=[1.0, 5.0, 2.0], shape=[2, 2], seed=9, device=data.device)
    flips = fn.random.coin_flip(shape=[2, 2], seed=9, device=data.device) + listed
    normalized = fn.crop_mirror_normalize(flipped, mean=[1.0, 2.0, 3.0], mirror=1)
    return normalized, drawn, normal, flips, fn.cast(data, dtype=types.FLOAT)


def test_repeated_launches_have_the_bits_of_the_operators(device: str, repeated: list[Any]) -> None:
    batches = images(8)
    on_cpu, on_gpu = (run_batches(constant_chain, batches, on_gpu=on_gpu) for on_gpu in (False, True))
    assert len(repeated) >= 6  # two batches are recorded
    for one, other in zip(on_cpu, on_gpu, strict=True):
        for expected, found in zip(one, other, strict=True):
            np.testing.assert_array_equal(expected, found, strict=True)


def constant_behind_drawn(data: Any) -> tuple[Any, ...]:
    flipped = fn.flip(data, horizontal=fn.random.coin_flip())
    normalized = fn.normalize(flipped)
    return normalized, fn.cast(normalized * 3, dtype=types.INT16), fn.crop(flipped, crop=(4, 4)), flipped * 2


def test_constant_operators_behind_others_are_repeated(
    device: str, repeated: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = images(8)
    together = run_batches(constant_behind_drawn, batches)
    assert len(repeated) >= 3
    monkeypatch.setattr(PreparedStep, "run_as_one", lambda *_: False)
    for one, other in zip(run_batches(constant_behind_drawn, batches), together, strict=True):
        for expected, found in zip(one, other, strict=True):
            np.testing.assert_array_equal(expected, found, strict=True)


def test_program_belongs_to_one_shape(device: str, repeated: list[Any]) -> None:
    small, large = images(12), images(12, (9, 7))
    batches = [batch for pair in zip(small, large, strict=True) for batch in pair]
    on_cpu, on_gpu = (run_batches(constant_chain, batches, on_gpu=on_gpu) for on_gpu in (False, True))
    assert len(set(map(id, repeated))) == 2
    for one, other in zip(on_cpu, on_gpu, strict=True):
        for expected, found in zip(one, other, strict=True):
            np.testing.assert_array_equal(expected, found, strict=True)


@pytest.mark.parametrize(
    "define",
    [
        lambda data: (fn.flip(data, horizontal=fn.random.coin_flip()),),
        lambda data: (fn.noise.gaussian(data, stddev=3.0),),
        lambda data: (fn.random.uniform(shape=2, dtype=types.FLOAT16, device=data.device), data * 2),
    ],
    ids=["drawn argument", "drawn seed", "numbers from the CPU"],
)
def test_step_with_other_launches_for_each_batch_is_not_repeated(
    device: str, repeated: list[Any], define: Callable[[Any], Any]
) -> None:
    batches = [images(1)[0]] * 8
    first, *others = run_batches(define, batches)
    assert not repeated
    assert any(not np.array_equal(one, two) for other in others for one, two in zip(first, other, strict=True))


def test_images_of_many_shapes_are_not_repeated(device: str, repeated: list[Any]) -> None:
    batches = [[np.full((3 + number, 4 + index, 1), index, np.uint8) for index in range(2)] for number in range(20)]
    for number, batch in enumerate(run_batches(lambda data: (fn.flip(data, vertical=1),), batches)):
        assert [sample.shape for sample in batch] == [(3 + number, 4 + index, 1) for index in range(2)]
    assert not repeated


def test_address_in_two_inputs_belongs_to_one() -> None:
    assert _owners(np.array([7, 120], np.uint64), [(100, 50), (100, 50), (110, 50)]).tolist() == [-1, 0]


def test_allocated_memory_between_images_of_an_input_isnt_part_of_the_input() -> None:
    assert _owners(np.array([100, 150, 155, 199], np.uint64), [(150, 10), (100, 100)]).tolist() == [1, 0, 0, 1]


def launch_of(row: list[tuple[str, Any, int]]) -> Launch:
    table = np.zeros(1, np.dtype([(name, kind) for name, kind, _ in row]))
    for name, _, value in row:
        table[name] = value
    return Launch("reduce.cu", "reduce_parts", (), (table,), (1, 1))


def test_declared_addresses_become_offsets() -> None:
    row = [("src", ADDRESS, 1000), ("count", "u8", 7), ("dst", ADDRESS, 2010), ("mean", ADDRESS, 0)]
    packed = _packed([launch_of(row)], [(990, 100), (2000, 100)])
    assert packed is not None
    assert packed.tables.view(np.int64)[:4].tolist() == [10, 7, 10, 0]
    assert packed.places.tolist() == [[0, 0], [16, 1]]


def test_address_in_other_memory_is_not_repeated() -> None:
    assert _packed([launch_of([("src", ADDRESS, 1000)])], [(2000, 100)]) is None


def test_address_that_is_not_declared_is_an_error_in_strict_mode() -> None:
    with pytest.raises(PipelineError, match=r"'reduce_parts'.* an address that it doesn't declare"):
        _packed([launch_of([("count", "u8", 1000)])], [(990, 100)])


def test_operator_whose_launches_differ_is_an_error_in_strict_mode(
    device: str, repeated: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, amounts = FlipGpu.express, count()

    def unsteady(operator: FlipGpu, batch: Any, pixels: PixelExpression) -> Any:
        result = run(operator, batch, pixels)
        return None if result is None else result.normalize(next(amounts), 1.0, pixels.dtype)

    monkeypatch.setattr(FlipGpu, "express", unsteady)
    with pytest.raises(PipelineError, match="prepared launches failed"):
        run_batches(lambda data: (fn.flip(data, horizontal=1),), images(8))
    monkeypatch.setenv(STRICT, "0")
    assert len(run_batches(lambda data: (fn.flip(data, horizontal=1),), images(8))) == 8
    assert not repeated


def test_one_tensor_for_two_inputs(device: str, repeated: list[Any]) -> None:
    import cupy

    pipe = Pipeline(batch_size=4, num_threads=1, device_id=0, seed=3, prefetch_queue_depth=1)
    with pipe:
        one, other = (fn.external_source(name=name, device="gpu", layout="HWC", no_copy=True) for name in "ab")
        pipe.set_outputs(fn.flip(one, horizontal=1), fn.brightness(other, brightness=0.5))
    held = []
    for number in range(8):
        data = np.random.default_rng(number).integers(0, 255, (3, 6, 5, 3), np.uint8)
        given = cupy.asarray(data)
        for name in "ab":
            pipe.feed_input(name, given, cuda_stream=-1)
        flipped, dark = (output.as_cpu().as_array() for output in pipe.run())
        np.testing.assert_array_equal(flipped, data[:, :, ::-1])
        np.testing.assert_array_equal(dark, (data + 1) // 2)
        held.append(given)  # so that later batches have other addresses
    pipe.close()
    assert repeated
