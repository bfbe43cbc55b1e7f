"""Random graphs on the GPU: chains of operators as one expression return the bits of the separate operators.

Without a GPU, host memory stands for its memory and a host compiler builds the kernels: see `tests.host_cupy`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.rules.equal_operators import EqualOperators
from dali_proxy.pipeline._compiler.steps import step
from dali_proxy.pipeline._compiler.steps.step import OperatorStep, PixelStep
from pipeline import Pipeline, fn, math, types
from pipeline.errors import OperatorError
from tests.thorough import thorough_except

BATCH = 5
Operator = Callable[[Any, np.random.Generator], Any]


def between(rng: np.random.Generator, low: float, high: float) -> Any:
    """Return a constant, or a number for each sample."""
    return fn.random.uniform(range=(low, high)) if rng.random() < 0.6 else float(rng.uniform(low, high))


def coin(rng: np.random.Generator) -> Any:
    return fn.random.coin_flip() if rng.random() < 0.6 else int(rng.integers(2))


def cropped(x: Any, rng: np.random.Generator) -> Any:
    policy = str(rng.choice(["pad", "trim_to_shape"]))
    crop = tuple(int(extent) for extent in rng.integers(9, 30, 2))
    return fn.crop(x, crop=crop, crop_pos_x=between(rng, 0, 1), out_of_bounds_policy=policy, fill_values=[7.0])


def resized(x: Any, rng: np.random.Generator) -> Any:
    size = tuple(int(extent) for extent in rng.integers(8, 30, 2))
    kinds = [types.INTERP_LINEAR, types.INTERP_NN, types.INTERP_CUBIC, types.INTERP_TRIANGULAR]
    return fn.resize(x, size=size, interp_type=kinds[rng.integers(len(kinds))], antialias=bool(rng.integers(2)))


def rotated(x: Any, rng: np.random.Generator) -> Any:
    fill = {"fill_value": 9} if rng.random() < 0.5 else {}
    return fn.rotate(x, angle=between(rng, -40, 40), keep_size=bool(rng.integers(2)), **fill)


OPERATORS: list[Operator] = [
    lambda x, rng: fn.color_twist(x, hue=between(rng, -40, 40), saturation=between(rng, 0.5, 1.5)),
    lambda x, rng: fn.brightness_contrast(x, brightness=between(rng, 0.5, 1.5), contrast=between(rng, 0.5, 1.5)),
    lambda x, rng: fn.hsv(x, hue=between(rng, -40, 40), dtype=types.UINT8),
    lambda x, rng: fn.flip(x, horizontal=coin(rng), vertical=coin(rng)),
    lambda x, rng: fn.cast(fn.cast(x, dtype=types.FLOAT), dtype=types.UINT8),
    lambda x, rng: fn.color_space_conversion(x, image_type=types.RGB, output_type=types.YCbCr),
    cropped,
    resized,
    rotated,
    lambda x, rng: fn.slice(x, 0.2, 0.7, axes=[0]),
    lambda x, rng: fn.random_resized_crop(x, size=(20, 17)),
    lambda x, rng: fn.grid_mask(x, tile=7, angle=between(rng, -1, 1)),
    lambda x, rng: fn.sphere(x, interp_type=types.INTERP_LINEAR),
    lambda x, rng: fn.experimental.dilate(x, mask_size=(2, 3), border_mode="wrap"),
    lambda x, rng: fn.gaussian_blur(x, sigma=between(rng, 0.5, 1.5)),
    lambda x, rng: fn.laplacian(x, window_size=[3, 5], smoothing_size=int(rng.integers(3)) * 2 + 1, dtype=types.UINT8),
    lambda x, rng: fn.transpose(fn.transpose(x, perm=[2, 0, 1]), perm=[1, 2, 0]),
    lambda x, rng: fn.erase(
        x, anchor=fn.random.uniform(range=(0.0, 20.0), shape=4), shape=[3, 5, 4, 6], fill_value=[9, 1, 5]
    ),
    lambda x, rng: fn.noise.gaussian(x, stddev=between(rng, 1, 9)),
    lambda x, rng: fn.noise.salt_and_pepper(x, prob=between(rng, 0, 0.5), per_channel=bool(rng.integers(2))),
    lambda x, rng: fn.cast((x - 100) * fn.random.uniform(range=(0.5, 1.5)).gpu(), dtype=types.UINT8),
    lambda x, rng: fn.cast(x / 2.0 + types.Constant([3.5, 0.0, 9.0]), dtype=types.UINT8),
]


def graph(rng: np.random.Generator, images: Any) -> tuple[Any, ...]:
    """Return outputs of a random graph of up to 12 operators. Some values have two readers."""
    values = [images]
    for _ in range(int(rng.integers(3, 11))):
        operator = OPERATORS[rng.integers(len(OPERATORS))]
        values.append(operator(values[-1 if rng.random() < 0.85 else rng.integers(len(values))], rng))
    last = fn.crop_mirror_normalize(
        values[-1], mirror=coin(rng), mean=[120.0, 110.0, 100.0], std=[60.0, 61.0, 62.0],
        output_layout=str(rng.choice(["CHW", "HWC"])), dtype=types.FLOAT if rng.random() < 0.7 else types.FLOAT16,
    )  # fmt: skip
    return last, values[rng.integers(1, len(values))]


def run(seed: int, views: int = 1) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    ragged = rng.random() < 0.7
    images = [
        rng.integers(0, 256, (30 + 5 * index * ragged, 44 - 3 * index * ragged, 3), np.uint8) for index in range(BATCH)
    ]
    pipe = Pipeline(batch_size=BATCH, num_threads=1, device_id=0, seed=seed)
    with pipe:
        source = fn.external_source(name="images", layout="HWC").gpu()
        pipe.set_outputs(*[output for copy in [deepcopy(rng) for _ in range(views)] for output in graph(copy, source)])
    pipe.build()
    try:
        return [np.array(sample) for output in pipe.run(images=images) for sample in output.as_cpu()]
    finally:
        pipe.close()


@pytest.mark.parametrize("seed", thorough_except(range(5), 0, 1))
def test_expressions_have_the_bits_of_their_operators(device: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together = run(seed)
    monkeypatch.setattr(PixelStep, "_run", OperatorStep._run)
    for index, (one, other) in enumerate(zip(together, run(seed), strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"sample {index}", strict=True)


@pytest.mark.parametrize("seed", thorough_except(range(6), 0, 1))
def test_views_have_the_bits_of_separate_operators(device: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together = run(seed, views=3)
    monkeypatch.setattr(EqualOperators, "run_as_one", lambda *_: False)
    for index, (one, other) in enumerate(zip(together, run(seed, views=3), strict=True)):
        np.testing.assert_array_equal(one, other, err_msg=f"sample {index}", strict=True)


def run_graph(
    define: Callable[[Any], Any], images: list[np.ndarray[Any, Any]], *, on_gpu: bool = True, layout: str = "HWC"
) -> list[np.ndarray[Any, Any]]:
    pipe = Pipeline(batch_size=len(images), num_threads=1, device_id=0, seed=1)
    with pipe:
        source = fn.external_source(name="images", layout=layout)
        outputs = define(source.gpu() if on_gpu else source)
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    pipe.build()
    try:
        return [np.array(sample) for output in pipe.run(images=images) for sample in output.as_cpu()]
    finally:
        pipe.close()


def test_arithmetic_has_the_bits_of_the_cpu(device: str) -> None:
    rng = np.random.default_rng(1)
    images = [rng.integers(0, 256, (9 + index, 7, 3), np.uint8) for index in range(3)]

    def define(x: Any) -> Any:
        on_gpu = x.device == "gpu"
        weight = fn.random.uniform(range=(0.0, 1.0), seed=3)
        weight = weight.gpu() if on_gpu else weight
        cropped = fn.crop(x, crop=(5, 6))
        mixed = cropped * weight + fn.permute_batch(cropped, indices=[2, 0, 1]) * (1 - weight)
        column = fn.slice(x, 2, 1, axes=[2], normalized_anchor=False, normalized_shape=False)
        return mixed, x - column, x * types.Constant(np.int32([2, -3, 4])), x + x, math.max(x, 100), weight * 2 + 1

    on_cpu, on_gpu = (run_graph(define, images, on_gpu=on_gpu) for on_gpu in (False, True))
    for one, other in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("HWC", (9, 20, 3)),
        ("CDHW", (1, 5, 6, 7)),
        ("FHWC", (2, 9, 1, 2)),
        ("HWC", (4, 6, 5)),
        ("", (5, 6, 7)),
        ("W", (40,)),
    ],
)
def test_blur_equals_that_on_the_cpu(device: str, layout: str, shape: tuple[int, ...]) -> None:
    samples = [np.random.default_rng(index).random(shape).astype(np.float32) for index in range(2)]

    def define(x: Any) -> Any:
        x = fn.gaussian_blur(fn.reinterpret(x, layout=layout), sigma=fn.random.uniform(range=(0.4, 3.0), seed=5))
        return x, x + 1.0

    on_cpu, on_gpu = (run_graph(define, samples, on_gpu=on_gpu, layout="") for on_gpu in (False, True))
    for one, other in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6, strict=True)


@pytest.mark.parametrize("regions", [0, 1, 3, 9])
def test_erased_regions_have_the_bits_of_the_cpu(device: str, regions: int) -> None:
    images = [np.random.default_rng(index).integers(0, 256, (9 + index, 7, 3), np.uint8) for index in range(3)]

    def define(x: Any) -> Any:
        anchor = fn.random.uniform(range=(-0.2, 1.0), shape=[2 * regions], seed=1)
        return fn.erase(x, anchor=anchor, shape=[0.3, 0.2] * regions, normalized=True, fill_value=[7.5]), fn.erase(
            fn.transpose(x, perm=[2, 0, 1]), anchor=[1, 2], shape=[1, 3], axis_names="CW", fill_value=[1, 2, 3]
        )

    on_cpu, on_gpu = (run_graph(define, images, on_gpu=on_gpu) for on_gpu in (False, True))
    for one, other in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_random_numbers_have_the_bits_of_the_cpu(device: str) -> None:
    def define(x: Any) -> Any:
        on = {"device": x.device, "seed": 7}
        return (
            fn.random.uniform(shape=[3, 5], **on),
            fn.random.uniform(range=types.Constant([0.0, 2.0]) + fn.random.uniform(shape=2, seed=8), **on),
            fn.random.uniform(x, range=(-7.0, 300.0), dtype=types.UINT8, **on),
            fn.random.uniform(range=(1e-3, 1e3), dtype=types.FLOAT64, shape=[17], **on),
            fn.random.uniform(values=[1.5, -2.5, 700.0], dtype=types.INT8, shape=[40], **on),
            fn.random.uniform(values=fn.random.uniform(shape=3, seed=8), shape=[2, 40], **on),
            fn.random.coin_flip(shape=[41], **on),
            fn.random.coin_flip(x, probability=fn.random.uniform(range=(0.0, 1.0), seed=8), dtype=types.BOOL, **on),
            fn.random.normal(shape=[700, 3], **on),
            fn.random.normal(x, mean=fn.random.uniform(seed=8), stddev=1e9, dtype=types.UINT64, **on),
            fn.random.normal(stddev=fn.random.uniform(seed=8), dtype=types.FLOAT64, shape=[700], **on),
            fn.random.normal(dtype=types.FLOAT16, shape=[7], **on),
        )

    images = [np.zeros((9 + index, 7, 3), np.uint8) for index in range(3)]
    on_cpu, on_gpu = (run_graph(define, images, on_gpu=on_gpu) for on_gpu in (False, True))
    for one, other in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_array_equal(one, other, strict=True)


def test_memory_of_an_operator_lives_until_its_launches_are_issued(device: str) -> None:
    """The filter's copy of its input must survive the wait for the window, which is on the GPU."""
    images = [np.full((20, 12, 3), 100, np.uint8)] * 2

    def define(x: Any) -> Any:
        window = fn.constant(fdata=[1.0], shape=[1, 1]).gpu()
        return fn.filter(x[:, 1:5], window), fn.resize(x, size=(90, 40), save_attrs=True)[0]

    for sample in run_graph(define, images):
        assert (sample == 100).all()


def test_window_far_outside_is_filled(device: str) -> None:
    images = [np.full((20, 12, 3), 100, np.uint8)] * 2

    def define(x: Any) -> Any:
        far = fn.slice(x, start=[2**32], shape=[5], axes=[0], out_of_bounds_policy="pad", fill_values=[7.0])
        return fn.flip(far)

    for sample in run_graph(define, images):
        assert (sample == 7).all()


def test_error_of_a_deferred_operator_names_it(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise MemoryError("no memory")

    monkeypatch.setattr(step, "evaluate", fail)
    with pytest.raises(OperatorError, match=r"^fn.flip failed: MemoryError"):
        run_graph(lambda x: fn.reductions.mean(fn.flip(x)), [np.zeros((8, 8, 3), np.uint8)] * 2)
