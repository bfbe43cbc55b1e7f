"""Which operators the compiler fuses, and where it doesn't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline import Pipeline, fn, types
from pipeline._compiler.fusion import fused_chains
from pipeline._compiler.plan import BatchStep, FusedStep, make_plan

Outputs = Any


def chains(define: Callable[[], Outputs]) -> list[list[str]]:
    """Return the operators of each chain of a graph."""
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipe:
        made = define()
        pipe.set_outputs(*(made if isinstance(made, tuple) else (made,)))
    return [[node.operator for node in chain] for chain in fused_chains(pipe._internals.graph)]


def encoded() -> Any:
    return fn.external_source(name="encoded", ndim=1, dtype=types.UINT8)


def decoded(**options: Any) -> Any:
    return fn.decoders.image(encoded(), device="mixed", **options)


def test_main_job_is_one_chain() -> None:
    def define() -> Outputs:
        images = fn.decoders.image_random_crop(encoded(), device="mixed")
        images = fn.resize(images, size=(224, 224))
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip())

    assert chains(define) == [["decoders.image_random_crop", "resize", "crop_mirror_normalize"]]


def test_uploaded_images_are_a_chain_without_a_decoder() -> None:
    def define() -> Outputs:
        images = fn.external_source(name="images", ndim=3, dtype=types.UINT8).gpu()
        return fn.crop_mirror_normalize(fn.random_resized_crop(images, size=(8, 8)))

    assert chains(define) == [["random_resized_crop", "crop_mirror_normalize"]]


def test_operators_on_the_cpu_are_not_fused() -> None:
    def define() -> Outputs:
        images = fn.resize(fn.decoders.image(encoded()), size=(8, 8))
        return fn.crop_mirror_normalize(images)

    assert chains(define) == []


@pytest.mark.parametrize(
    ("resize", "normalize"),
    [
        ({"save_attrs": True}, {}),
        ({}, {"pad_output": True}),
        ({}, {"out_of_bounds_policy": "pad"}),
        ({}, {"output_layout": "WHC"}),
    ],
)
def test_operators_beyond_the_kernel_are_not_fused(resize: dict[str, Any], normalize: dict[str, Any]) -> None:
    def define() -> Outputs:
        images = fn.resize(decoded(), size=(8, 8), **resize)
        images = images[0] if resize else images
        return fn.crop_mirror_normalize(images, **normalize)

    assert chains(define) == []


def test_outputs_with_several_readers_are_not_fused() -> None:
    def resized_is_an_output() -> Outputs:
        images = fn.resize(decoded(), size=(8, 8))
        return fn.crop_mirror_normalize(images), images

    def decoded_is_read_twice() -> Outputs:
        images = decoded()
        return fn.crop_mirror_normalize(fn.resize(images, size=(8, 8))), fn.flip(images)

    assert chains(resized_is_an_output) == []
    assert chains(decoded_is_read_twice) == [["resize", "crop_mirror_normalize"]]


def test_floats_are_decoded_separately() -> None:
    def define() -> Outputs:
        return fn.crop_mirror_normalize(fn.resize(decoded(dtype=types.FLOAT), size=(8, 8)))

    assert chains(define) == [["resize", "crop_mirror_normalize"]]


def test_steps_of_the_plan() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipe:
        images = fn.crop_mirror_normalize(fn.resize(decoded(), size=(8, 8)))
        pipe.set_outputs(images, fn.constant(idata=[1]).gpu())
    (gpu,) = (phase for phase in make_plan(pipe._internals.graph).phases if phase.device == "gpu")
    assert [type(step) for step in gpu.steps].count(FusedStep) == 1
    assert all(len(step.nodes) == 1 for step in gpu.steps if isinstance(step, BatchStep))
    (gpu,) = (phase for phase in make_plan(pipe._internals.graph, fuse=False).phases if phase.device == "gpu")
    assert not any(isinstance(step, FusedStep) for step in gpu.steps)
    assert [len(step.nodes) for step in gpu.steps] == [1, 1, 1, 1]
