"""Which parts of a graph a cache concerns, and what `explain` says about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dali_proxy.pipeline._compiler.cached_parts import cached_parts
from pipeline import Pipeline, fn, pipeline_def, types


def graph_of(describe: Callable[[Any], Any], **arguments: Any) -> Pipeline:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, seed=1, **arguments)
    with pipe:
        outputs = describe(fn.external_source(name="encoded"))
        pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
    return pipe


def parts_of(describe: Callable[[Any], Any]) -> list[list[str]]:
    parts = cached_parts(graph_of(describe)._internals.graph)
    return [[node.operator.rpartition(".")[2] for node in part.nodes] for part in parts]


def normalized(images: Any, **arguments: Any) -> Any:
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT, **arguments)


def drawn() -> Any:
    return fn.random.uniform(range=(10, 20))


@pytest.mark.parametrize(
    ("describe", "expected"),
    [
        (lambda x: fn.decoders.image(x), [["image"]]),
        (lambda x: fn.resize(fn.decoders.image(x), size=(8, 8)), [["image", "resize"]]),
        (lambda x: normalized(fn.resize(fn.decoders.image(x), size=(8, 8))), [["image", "resize"]]),
        (lambda x: fn.resize(fn.decoders.image(x), resize_x=drawn()), [["image"]]),
        (lambda x: fn.random_resized_crop(fn.decoders.image(x), size=8), [["image"]]),
        (
            lambda x: fn.gaussian_blur(fn.flip(fn.decoders.image(x)), window_size=3),
            [["image", "flip", "gaussian_blur"]],
        ),
        (lambda x: fn.decoders.image_crop(x, crop=(8, 8)), [["image_crop"]]),
        (lambda x: fn.decoders.image_random_crop(x), []),
        (lambda x: fn.decoders.image_crop(x, crop=(8, 8), crop_pos_x=drawn()), []),
        (lambda x: fn.pad(fn.decoders.image(x)), [["image"]]),  # to the largest image of the batch
        (lambda x: fn.python_function(fn.decoders.image(x), function=lambda image: image), [["image"]]),
        (lambda x: fn.decoders.image(fn.python_function(x, function=lambda data: data)), []),
        (
            lambda x: fn.python_function(fn.decoders.image(x), function=len, deterministic=True),
            [["image", "python_function"]],
        ),
        (
            lambda x: fn.decoders.image(fn.python_function(x, function=len, deterministic=True)),
            [["python_function", "image"]],
        ),
        (lambda x: fn.python_function(drawn(), function=len, deterministic=True), []),
        (lambda x: fn.permute_batch(fn.decoders.image(x), indices=[0, 0]), [["image"]]),
        (lambda x: fn.resize(x, size=(8, 8)), []),
    ],
)
def test_part_has_a_decoder_and_the_deterministic_operators_behind_it(
    describe: Callable[[Any], Any], expected: list[list[str]]
) -> None:
    assert parts_of(describe) == expected


def test_decoders_of_one_sample_are_separate_parts() -> None:
    assert parts_of(lambda x: (fn.decoders.image(x), fn.decoders.image(x, output_type=types.GRAY))) == [
        ["image"],
        ["image"],
    ]


def test_operator_that_reads_two_decoders_makes_them_one_part() -> None:
    def describe(x: Any) -> Any:
        gray = fn.decoders.image(x, output_type=types.GRAY)
        return fn.resize(fn.cat(fn.decoders.image(x), gray, axis=2), size=(8, 8))

    assert parts_of(describe) == [["image", "image", "cat", "resize"]]


def test_operator_that_needs_a_result_of_the_part_from_outside_is_behind_the_part() -> None:
    def describe(x: Any) -> Any:
        images = fn.decoders.image(x)
        return fn.resize(images, size=fn.cast(images.shape()[:2], dtype=types.FLOAT) / 2)

    assert parts_of(describe) == [["image"]]


def test_decoder_in_a_branch_is_not_cached() -> None:
    @pipeline_def(batch_size=2, num_threads=1, device_id=None, enable_conditionals=True)
    def branches() -> Any:
        data = fn.external_source(name="encoded")
        if fn.external_source(name="gray"):
            images = fn.decoders.image(data, output_type=types.GRAY)
        else:
            images = fn.decoders.image(data)
        return images

    assert cached_parts(branches()._internals.graph) == []


@pytest.mark.parametrize(
    ("describe", "line"),
    [
        (lambda x: fn.decoders.image(x), "fn.decoders.image (line 22); only for samples that aren't in the cache"),
        (
            lambda x: fn.decoders.image_random_crop(x),
            "not cached: fn.decoders.image_random_crop decodes another window in each epoch. fn.decoders.image, with ",
        ),
        (
            lambda x: fn.decoders.image(fn.python_function(x, function=lambda data: data)),
            "not cached: fn.decoders.image reads data that may change in each epoch",
        ),
    ],
)
def test_explain_says_what_is_cached_and_why_not(describe: Callable[[Any], Any], line: str) -> None:
    pipe = graph_of(describe, cache="1MB")
    pipe.build()
    assert line.partition(" (line")[0] in pipe.explain()
    assert line.rpartition(")")[2] in pipe.explain()
