"""Tests of tracing: functions of tensors become pipelines with the same bits."""

from __future__ import annotations

import contextlib
import cProfile
import itertools
import random
import sys
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pipeline import dynamic

IMAGES = [np.random.default_rng(n).integers(0, 255, (20 + n, 30, 3), dtype=np.uint8) for n in range(3)]
SCALE = dynamic.tensor([1.0, 2.0, 3.0])


def augment(image: dynamic.Tensor, label: dynamic.Tensor) -> tuple[dynamic.Tensor, dynamic.Tensor]:
    image = dynamic.random_resized_crop(image, size=(8, 8))
    image = dynamic.flip(image, horizontal=dynamic.random.coin_flip())
    image = image * SCALE + dynamic.random.normal()
    return dynamic.as_tensor(image, dtype=dynamic.float32)[2:6], label


def test_traced_function_has_the_bits_of_calls_sample_by_sample() -> None:
    pipe = dynamic.trace(augment, batch_size=3, num_threads=2, seed=7)
    for iteration in range(2):
        images, labels = pipe.run(image=IMAGES, label=np.arange(3))
        for sample, data in enumerate(IMAGES):
            with dynamic.random.SampleRNG(7, iteration=iteration, sample=sample):
                image, label = augment(data, sample)
            assert np.array_equal(image, images.at(sample))
            assert label == labels.at(sample)
    pipe.close()


def test_function_is_traced_under_a_profiler_which_goes_on() -> None:
    profile = cProfile.Profile()
    with profile:
        dynamic.trace(augment, batch_size=3, num_threads=1).close()
        uuid.UUID(int=7)  # a call after the trace
    assert any("uuid" in entry.code.co_filename for entry in profile.getstats() if hasattr(entry.code, "co_filename"))


def branches(x: dynamic.Tensor) -> dynamic.Tensor:
    return x if x > 3 else -x


def reads_shape(x: dynamic.Tensor) -> dynamic.Tensor:
    return dynamic.crop(x, crop=(x.shape[0] // 2, 2))


def converts(x: dynamic.Tensor) -> dynamic.Tensor:
    return dynamic.as_tensor(np.sort(np.asarray(x)))


def flips(x: dynamic.Tensor) -> dynamic.Tensor:
    return dynamic.as_tensor(np.flip(x, 1))  # a function of NumPy in Python, which is not the user's line


def draws(x: dynamic.Tensor) -> dynamic.Tensor:
    return dynamic.rotate(x, angle=random.random())


NUMBERS = itertools.count()


def counts(x: dynamic.Tensor) -> dynamic.Tensor:
    return dynamic.rotate(x, angle=next(NUMBERS))


def repeats(x: dynamic.Tensor) -> dynamic.Tensor:
    return dynamic.cast(dynamic.zeros(shape=(2,), batch_size=3), dtype=dynamic.uint8)


def own_generator(x: dynamic.Tensor) -> dynamic.Tensor:
    return x + dynamic.random.uniform(rng=dynamic.random.RNG(3))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="notes exist since Python 3.11")
def test_error_of_another_library_has_a_note_on_tracing() -> None:
    def bars(x: dynamic.Tensor) -> dynamic.Tensor:
        return memoryview(x)  # type: ignore[arg-type, return-value]

    with pytest.raises(TypeError) as raised:
        dynamic.trace(bars, batch_size=1)
    assert any("bars was traced" in note and "@operator_def" in note for note in raised.value.__notes__)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (branches, "truth value"),
        (reads_shape, "shape of a tensor"),
        (converts, "reads the data"),
        (flips, "reads the data"),
        (draws, "draws random numbers"),
        (counts, "different arguments"),
        (repeats, "for a batch"),
        (own_generator, "called with rng"),
    ],
)
def test_code_that_cannot_be_traced_is_an_error_that_names_its_line(function: object, reason: str) -> None:
    line = f"test_trace.py:{function.__code__.co_firstlineno + 1}"  # type: ignore[attr-defined]
    with pytest.raises(dynamic.TracingError, match=reason) as raised:
        dynamic.trace(function)
    assert line in str(raised.value)


OWN = (random.Random(1), np.random.default_rng(1), np.random.RandomState(1), torch.Generator())
KEPT: list[float] = []


@pytest.mark.parametrize(
    "draw",
    [
        random.random,
        lambda: random.choice([0.25, 0.75]),
        np.random.rand,
        lambda: torch.rand(1).item(),
        OWN[0].random,
        OWN[1].random,
        OWN[2].rand,
        lambda: torch.rand(1, generator=OWN[3]).item(),
        lambda: random.Random().random(),
        lambda: np.random.default_rng().random(),
        lambda: np.random.RandomState().rand(),
        lambda: random.SystemRandom().random(),
        lambda: uuid.uuid4().int / 2**128,
        lambda: next(map(random.uniform, [0], [1])),
    ],
)
def test_function_that_draws_is_an_error_also_if_all_calls_do_the_same(draw: Callable[[], float]) -> None:
    def augment(x: dynamic.Tensor) -> dynamic.Tensor:
        if draw() > 0.9999:
            x = dynamic.flip(x)
        return x + 1

    with pytest.raises(dynamic.TracingError, match="augment draws random numbers") as raised:
        dynamic.trace(augment)
    assert "test_trace.py:" in str(raised.value)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: random.Random(3).random(),
        lambda: np.random.default_rng(3).random(),
        lambda: torch.rand(1, generator=torch.Generator().manual_seed(3)).item(),
        lambda: KEPT[0] if KEPT else KEPT.append(random.random()) or KEPT[0],
    ],
)
def test_random_numbers_that_are_the_same_in_each_call_are_constants(draw: Callable[[], float]) -> None:
    assert dynamic.trace(lambda x: x + draw(), batch_size=1, num_threads=1).run(x=np.zeros((1, 1), np.float32))


def reads_shape_if_it_can(x: dynamic.Tensor) -> dynamic.Tensor:
    try:
        return x + x.shape[0]
    except Exception:  # noqa: BLE001 - as code of users does
        return x


def ignores_errors(x: dynamic.Tensor) -> dynamic.Tensor:
    with contextlib.suppress(TypeError):
        np.asarray(x)
    return x


@pytest.mark.parametrize("function", [reads_shape_if_it_can, ignores_errors])
def test_error_that_the_function_catches_is_raised_at_its_end(function: Any) -> None:
    with pytest.raises(dynamic.TracingError, match="reads the data or the shape") as raised:
        dynamic.trace(function)
    assert f"test_trace.py:{function.__code__.co_firstlineno + 2}" in str(raised.value)


@pytest.mark.parametrize(
    "function", [lambda: 3, lambda *images: images, lambda x: "text", lambda x: dynamic.Batch([1])]
)
def test_functions_without_inputs_or_tensors_are_refused(function: object) -> None:
    with pytest.raises(TypeError):
        dynamic.trace(function)


def test_python_functions_are_operators_of_a_graph() -> None:
    pipe = dynamic.trace(lambda x: dynamic.python_function(x, function=np.sort), batch_size=2, num_threads=1)
    assert pipe.run(x=np.int32([[2, 1], [4, 3]]))[0].as_array().tolist() == [[1, 2], [3, 4]]
    pipe.close()
    assert dynamic.python_function([2, 1], function=np.sort).numpy().tolist() == [1, 2]


def cuts_alike(image: dynamic.Tensor, mask: dynamic.Tensor) -> tuple[dynamic.Tensor, dynamic.Tensor]:
    image, mask = dynamic.random_resized_crop([image, mask], size=(8, 8))
    return dynamic.flip([image, mask], horizontal=dynamic.random.coin_flip())


def test_several_inputs_in_one_call_of_an_operator() -> None:
    pipe = dynamic.trace(cuts_alike, batch_size=3, num_threads=2, seed=7)
    images, masks = pipe.run(image=IMAGES, mask=[image[..., :1].copy() for image in IMAGES])
    assert np.array_equal(images.as_array()[..., :1], masks.as_array())
    for sample, data in enumerate(IMAGES):
        with dynamic.random.SampleRNG(7, sample=sample):
            image, _ = cuts_alike(data, data)
        assert np.array_equal(image, images.at(sample))
    pipe.close()


def test_constant_among_the_results_is_an_error_that_says_where_it_belongs() -> None:
    with pytest.raises(TypeError, match=r"returned int at \['label'\].*; return other values from the dataset"):
        dynamic.trace(lambda x: {"image": x, "label": 1})


def test_starts_that_a_pipeline_draws_from_the_number_of_frames_are_equally_likely() -> None:
    def start(count: dynamic.Tensor) -> dynamic.Tensor:
        drawn = dynamic.math.floor(dynamic.random.uniform(range=(0, 1)) * (count - 8 + 1))
        return dynamic.cast(drawn, dtype=dynamic.int32)

    with dynamic.trace(start, batch_size=3000, num_threads=1, seed=1) as pipe:
        (starts,) = pipe.run(count=np.full(3000, 10, np.int32))
        numbers, counts = np.unique(starts.as_array(), return_counts=True)
    assert numbers.tolist() == [0, 1, 2]
    assert abs(counts - 1000).max() < 110  # 4.2 standard deviations
