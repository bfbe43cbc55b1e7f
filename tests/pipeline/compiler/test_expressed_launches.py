"""Steps of pixel operators whose launches are prepared once: the arguments of each batch count."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.expressed_launches import ExpressedLaunches, _Launches
from dali_proxy.pipeline._compiler.rules import prepared_step
from dali_proxy.pipeline._cuda import compiler
from dali_proxy.pipeline._cuda.errors import KernelCompileError
from dali_proxy.pipeline._operators.boxes import linear_maps
from dali_proxy.pipeline._operators.geometry.flip import FlipGpu
from pipeline import fn, pipeline_def, types
from pipeline.auto_aug.core.magnitudes import take
from pipeline.errors import OperatorError, PipelineError
from tests import host_cupy
from tests.pipeline.compiler.gpu_batches import images, run_batches
from tests.thorough import thorough_except

Define = Callable[[Any], tuple[Any, ...]]


@pytest.fixture
def issued(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows with each batch whose launches were prepared."""
    batches: list[Any] = []
    run = _Launches.run

    def noted(launches: _Launches, *arguments: Any) -> Any:
        batches.append(launches)
        return run(launches, *arguments)

    monkeypatch.setattr(_Launches, "run", noted)
    return batches


def number(low: float, high: float) -> Any:
    return fn.random.uniform(range=(low, high))


def colors(data: Any) -> tuple[Any, ...]:
    bright = fn.brightness(data, brightness=number(0.5, 1.5))
    return fn.hsv(bright, hue=number(0, 90), saturation=number(0.5, 1.5)), bright


def flips(data: Any) -> tuple[Any, ...]:
    return (fn.flip(data, horizontal=fn.random.coin_flip(), vertical=fn.random.coin_flip()),)


def noise(data: Any) -> tuple[Any, ...]:
    return fn.noise.gaussian(data, stddev=number(1, 9)), fn.noise.salt_and_pepper(data)


def warped(data: Any) -> tuple[Any, ...]:
    turned = fn.rotate(data, angle=number(-90, 90), fill_value=3)  # each sample has its own size
    return turned, fn.cast(fn.rotate(data, angle=number(-9, 9), keep_size=True), dtype=types.FLOAT)


def windows(data: Any) -> tuple[Any, ...]:
    cut = fn.slice(data, rel_start=fn.random.uniform(range=(0.0, 0.4), shape=2), rel_shape=[0.5, 0.5], axes=[0, 1])
    mirrored = fn.crop_mirror_normalize(
        data,
        crop=(4, 4),
        crop_pos_x=number(0, 1),
        mirror=fn.random.coin_flip(),
        mean=[9.0, 8.0, 7.0],
        dtype=types.FLOAT,
    )
    position = {"crop_pos_x": number(0, 1), "crop_pos_y": number(0, 1), "mirror": fn.random.coin_flip()}
    moved = fn.crop_mirror_normalize(fn.flip(data), crop=(3, 2), mean=[9.0], **position)
    bright = fn.brightness(data, brightness=2.0)
    return cut, mirrored, moved, fn.crop_mirror_normalize(bright, crop=(3, 2), mean=[9.0], **position)


def slices(data: Any) -> tuple[Any, ...]:
    anchor, shape = (fn.random.uniform(range=bounds, shape=2) for bounds in ((0.0, 0.4), (0.3, 0.6)))
    cut = fn.slice(data, anchor, shape, axis_names="HW")
    constant = fn.slice(data, types.Constant(np.float32([0.1, 0.2])), types.Constant(np.float32([0.5, 0.5])))
    return fn.resize(cut, size=(4, 5)), constant, fn.crop_mirror_normalize(cut, mirror=fn.random.coin_flip())


def mirrored(data: Any) -> tuple[Any, ...]:
    mirror = fn.random.coin_flip()
    normalized = {"mirror": mirror, "mean": [9.0, 8.0, 7.0], "std": [2.0, 3.0, 4.0]}
    return (
        fn.crop_mirror_normalize(data, crop=(4, 3), dtype=types.FLOAT, output_layout="HWC", **normalized),
        fn.crop_mirror_normalize(data, crop=(9, 7), out_of_bounds_policy="pad", fill_values=[3.0], **normalized),
        fn.resize_crop_mirror(data, resize_shorter=9, crop=(8, 7), mirror=mirror + 2),
    )


def blurred(data: Any) -> tuple[Any, ...]:
    blurred = fn.gaussian_blur(fn.brightness(data, brightness=number(0.5, 1.5)), sigma=number(0.5, 2))
    return fn.contrast(blurred, contrast=number(0.5, 1.5)), fn.gaussian_blur(data, window_size=3, dtype=types.FLOAT)


def turned(data: Any) -> tuple[Any, ...]:
    once = fn.rotate(data, angle=number(-9, 9))
    twice = fn.rotate(fn.contrast(once, contrast=number(0.5, 1.5)), angle=number(-9, 9))
    return fn.gaussian_blur(twice, sigma=number(0.5, 2)), fn.flip(data, horizontal=fn.random.coin_flip())


def edges(data: Any) -> tuple[Any, ...]:
    bright = fn.brightness(data, brightness=number(0.5, 1.5))  # the kernel reads these pixels for each derivative
    return fn.laplacian(bright, window_size=3), fn.laplacian(data, window_size=5, scale=number(0.5, 1.5))


GRAPHS: list[Define] = [colors, flips, noise, warped, windows, slices, mirrored, blurred, turned, edges]


@pytest.mark.combinations
@pytest.mark.parametrize("define", GRAPHS)
@pytest.mark.parametrize("size", ["one size", "several sizes"])
def test_batches_have_the_bits_of_the_operators(
    device: str, issued: list[Any], monkeypatch: pytest.MonkeyPatch, define: Define, size: str
) -> None:
    batches = images(8)
    if size == "several sizes":  # of images in one batch, and the same in all batches
        for batch in batches:
            batch[1] = batch[1][:5, 1:]
    found = run_batches(define, batches)
    assert len(issued) >= len(batches)
    with monkeypatch.context() as patches:
        patches.setattr(ExpressedLaunches, "fits", lambda *arguments: False)
        expected = run_batches(define, batches)
    for one, other in zip(expected, found, strict=True):
        for apart, prepared in zip(one, other, strict=True):
            np.testing.assert_array_equal(apart, prepared, strict=True)
    assert any(not np.array_equal(one, other) for one, other in zip(found[-1], found[-2], strict=True))


def boxes(data: Any) -> tuple[Any, ...]:
    return fn.bb_flip(data, horizontal=fn.random.coin_flip()), fn.bb_flip(data, vertical=fn.random.coin_flip())


def transformed(data: Any) -> tuple[Any, ...]:
    return (fn.coord_transform(data, M=fn.random.uniform(shape=8), T=fn.random.uniform(shape=2)),)


def flipped(data: Any) -> tuple[Any, ...]:
    flips = {f"flip_{axis}": fn.random.coin_flip() for axis in "xy"}
    return (fn.coord_flip(fn.reshape(data, shape=[-1, 2]), **flips, center_x=number(0, 1)),)


@pytest.mark.parametrize("define", [boxes, transformed, flipped])
@pytest.mark.parametrize("size", ["one size", "several sizes"])
def test_points_have_the_bits_of_a_launch_of_their_own(
    device: str, issued: list[Any], monkeypatch: pytest.MonkeyPatch, define: Define, size: str
) -> None:
    rng = np.random.default_rng(0)
    batches = [[rng.random((4, 3, 4), np.float32) for _ in range(3)] for _ in range(6)]
    if size == "several sizes":
        for batch in batches:
            batch[1] = batch[1][:2]
    found = run_batches(define, batches)
    assert issued or define is flipped  # its step has another operator, too
    with monkeypatch.context() as patches:
        patches.setattr(linear_maps, "as_vectors", lambda pixels: None)
        expected = run_batches(define, batches)
    for one, other in zip(expected, found, strict=True):
        for apart, prepared in zip(one, other, strict=True):
            np.testing.assert_array_equal(apart, prepared, strict=True)


def test_launches_are_prepared_once_for_inputs_of_one_shape(device: str, issued: list[Any]) -> None:
    small, large = images(8), images(8, (9, 7))
    batches = [batch for pair in zip(small, large, strict=True) for batch in pair]
    run_batches(lambda data: (fn.brightness(data, brightness=number(0.5, 1.5)),), batches)
    assert len(set(map(id, issued))) == 2


def many_sizes(count: int) -> list[list[Any]]:
    rng = np.random.default_rng(1)
    sizes = rng.integers(5, 12, (count, 3, 2))
    return [[rng.integers(0, 255, (*size, 3), np.uint8) for size in batch] for batch in sizes]


def cut_and_blurred(data: Any) -> tuple[Any, ...]:
    resized = fn.random_resized_crop(data, size=(6, 5))
    normalized = fn.crop_mirror_normalize(data, crop=(4, 3), mirror=fn.random.coin_flip(), mean=[9.0, 8.0, 7.0])
    return fn.gaussian_blur(fn.brightness(resized, brightness=number(0.5, 1.5)), sigma=number(0.5, 2)), normalized


def cut_and_more(data: Any) -> tuple[Any, ...]:
    def cut(width: int) -> Any:  # so the pixels have one shape, in each batch
        return fn.random_resized_crop(data, size=(6, width))

    flipped = fn.noise.gaussian(fn.flip(cut(4), horizontal=fn.random.coin_flip()), stddev=9.0)
    normalized: dict[str, Any] = {"mean": [9.0, 8.0, 7.0], "std": [2.0, 3.0, 4.0]}
    mirrored = fn.crop_mirror_normalize(cut(5), crop=(4, 3), mirror=fn.random.coin_flip(), **normalized)
    plain = fn.cast(fn.crop_mirror_normalize(fn.hsv(cut(6), hue=number(0, 90)), **normalized), dtype=types.INT16)
    edges = fn.brightness(fn.laplacian(fn.contrast(data, contrast=1.5), window_size=3), brightness=0.5)
    return flipped, mirrored, plain, edges, fn.brightness(fn.rotate(data, angle=10, size=(7, 6)), brightness=1.5)


def constant_arguments(data: Any) -> tuple[Any, ...]:
    return fn.crop_mirror_normalize(fn.resize(data, resize_shorter=6), crop=(4, 4)), fn.flip(data, horizontal=1)


@pytest.mark.parametrize(
    "define",
    thorough_except(
        [*GRAPHS, cut_and_blurred, cut_and_more, constant_arguments],
        GRAPHS[0],
        cut_and_blurred,
        cut_and_more,
        constant_arguments,
    ),
)
def test_images_of_many_sizes_have_the_bits_of_the_operators(
    device: str, issued: list[Any], monkeypatch: pytest.MonkeyPatch, define: Define
) -> None:
    monkeypatch.setattr(prepared_step, "_MOST_KINDS", 2)
    batches = many_sizes(12)
    found = run_batches(define, batches)
    assert len(issued) >= 6
    with monkeypatch.context() as patches:
        patches.setattr(ExpressedLaunches, "fits", lambda *arguments: False)
        expected = run_batches(define, batches)
    for one, other in zip(expected, found, strict=True):
        for apart, prepared in zip(one, other, strict=True):
            np.testing.assert_array_equal(apart, prepared, strict=True)


def test_launches_for_images_of_many_sizes_are_prepared_once(device: str, issued: list[Any]) -> None:
    batches = many_sizes(40)
    run_batches(lambda data: (fn.random_resized_crop(data, size=(6, 5)),), batches)
    assert len(issued) >= 35
    assert len(set(map(id, issued))) == 16 - (40 - len(issued)) + 1  # one for each known kind, and one for the others


def test_images_that_expressions_do_not_support_are_tried_less_and_less_often(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []
    express = FlipGpu.express

    def noted(operator: FlipGpu, *arguments: Any) -> Any:
        tried.append(sys._getframe(1).f_code.co_filename.endswith("expressed_launches.py"))
        return None if tried[-1] else express(operator, *arguments)

    monkeypatch.setattr(FlipGpu, "express", noted)
    monkeypatch.setattr(prepared_step, "_MOST_KINDS", 0)
    results = run_batches(lambda data: (fn.flip(data, horizontal=fn.random.coin_flip()),), many_sizes(30))
    assert len(results) == 30
    assert sum(tried) == 4


@pytest.mark.parametrize(
    "define",
    [
        lambda data: (fn.brightness(fn.equalize(data), brightness=number(0.5, 1.5)),),
        lambda data: (fn.permute_batch(data, indices=fn.batch_permutation()),),
    ],
    ids=["launches in between", "mixed samples"],
)
def test_step_that_needs_more_launches_runs_apart(device: str, issued: list[Any], define: Define) -> None:
    assert len(run_batches(define, images(3))) == 3
    assert not issued


@pytest.mark.parametrize("views", [2, 3])
def test_three_equal_operators_run_as_one(device: str, issued: list[Any], views: int) -> None:
    run_batches(lambda data: tuple(fn.brightness(data, brightness=number(0.5, 1.5)) for _ in range(views)), images(6))
    assert bool(issued) == (views == 2)


def test_step_whose_results_nothing_reads_runs(device: str) -> None:
    def define(data: Any) -> tuple[Any, ...]:
        fn.flip(data, horizontal=fn.random.coin_flip(), preserve=True)
        return (fn.copy(data),)

    assert len(run_batches(define, images(6))) == 6


def test_kernel_that_cannot_be_compiled_names_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise KernelCompileError("compiling evaluate", "a message of NVRTC")

    with host_cupy.installed():
        monkeypatch.setattr(compiler, "_compile", fail)
        with pytest.raises(
            PipelineError, match=r"(?s)fn.brightness failed: .*a message of NVRTC.*test_expressed_launches"
        ):
            run_batches(lambda data: (fn.brightness(data, brightness=number(0.5, 1.5)),), images(1))


def test_invalid_argument_names_the_operator(device: str) -> None:
    drawn = iter([0.5, 0.5, 2.0])

    def define(data: Any) -> tuple[Any, ...]:
        levels = fn.external_source(lambda: np.full(3, next(drawn), np.float32), batch=True)
        return (fn.noise.salt_and_pepper(data, prob=levels),)

    with pytest.raises(
        Exception, match=r"(?s)fn.noise.salt_and_pepper failed: argument 'prob' .*test_expressed_launches"
    ):
        run_batches(define, images(3))


def test_points_of_images_channels_first_are_not_images() -> None:
    def build(device: str) -> list[list[Any]]:
        batch = [np.random.default_rng(number).random((3, 3, 3), np.float32) for number in range(4)]

        @pipeline_def(batch_size=4, num_threads=1, device_id=0 if device == "gpu" else None, seed=5)
        def describe() -> Any:
            data = fn.external_source(source=lambda: batch, layout="CHW", batch=True)
            data = data.gpu() if device == "gpu" else data
            shifts = [fn.random.uniform(range=(0, 1), seed=seed) for seed in (1, 2)]
            views = [fn.coord_transform(data, T=shift) for shift in shifts]
            return tuple(fn.flip(view, horizontal=1) for view in views)

        pipe = describe()
        pipe.build()
        batches = [
            [np.array(output.as_cpu().at(sample)) for output in pipe.run() for sample in range(4)] for _ in range(3)
        ]
        pipe.close()
        return batches

    with host_cupy.installed():
        np.testing.assert_allclose(build("gpu"), build("cpu"), rtol=1e-6)


@pytest.mark.parametrize("wrong", [7, [0, 1]])
def test_error_of_a_table_row_names_the_row(wrong: Any) -> None:
    indices = [np.array(wrong, np.int32)] * 4
    batch = [np.zeros((6, 5, 3), np.uint8)] * 4

    @pipeline_def(batch_size=4, num_threads=1, device_id=0, seed=3)
    def describe() -> Any:
        images = fn.external_source(source=lambda: batch, layout="HWC", batch=True).gpu()
        index = fn.external_source(source=lambda: indices, batch=True)
        return fn.flip(images, horizontal=take(np.array([0, 1, 0]), index))

    with host_cupy.installed():
        pipe = describe()
        pipe.build()
        with pytest.raises(OperatorError) as caught:
            pipe.run()
        pipe.close()
    assert caught.value.operator != "fn.flip"
