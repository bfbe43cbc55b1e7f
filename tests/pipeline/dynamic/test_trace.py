"""Tests of tracing: functions of tensors become pipelines with the same bits."""

from __future__ import annotations

import random

import numpy as np
import pytest

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


def repeats(x: dynamic.Tensor) -> dynamic.Tensor:
    return dynamic.cast(dynamic.zeros(shape=(2,), batch_size=3), dtype=dynamic.uint8)


def own_generator(x: dynamic.Tensor) -> dynamic.Tensor:
    return x + dynamic.random.uniform(rng=dynamic.random.RNG(3))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (branches, "truth value"),
        (reads_shape, "shape of a tensor"),
        (converts, "reads the data"),
        (flips, "reads the data"),
        (draws, "different arguments"),
        (repeats, "for a batch"),
        (own_generator, "called with rng"),
    ],
)
def test_code_that_cannot_be_traced_is_an_error_that_names_its_line(function: object, reason: str) -> None:
    line = f"test_trace.py:{function.__code__.co_firstlineno + 1}"  # type: ignore[attr-defined]
    with pytest.raises(dynamic.TracingError, match=reason) as raised:
        dynamic.trace(function)
    assert line in str(raised.value)


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
