"""Tests of the traits of operators, which are checked when a class is registered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dali_proxy.pipeline._declaration import registry
from dali_proxy.pipeline._declaration.registry import implements, register
from dali_proxy.pipeline._declaration.schema import OperatorSchema
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator
from dali_proxy.pipeline._operator_api.operator import BatchOperator, SampleOperator
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operator_api.traits import Traits


@pytest.mark.parametrize(
    ("base", "traits", "message"),
    [
        (BatchOperator, Traits(any_thread=True, in_order=True), "own can't be both any_thread and in_order: batches"),
        (GpuOperator, replace(GpuOperator.traits, waits=True), "own can't be both waits and repeatable"),
        (PixelOperator, replace(PixelOperator.traits, elementwise=True, gathers=True), "both elementwise and gathers"),
        (SampleOperator, Traits(in_order=True, any_thread=True), "own: its base class has no use for any_thread, in_"),
        (GpuOperator, replace(GpuOperator.traits, planewise=True), "no use for planewise"),
    ],
)
def test_contradicting_traits_are_an_error(
    monkeypatch: pytest.MonkeyPatch, base: type[Any], traits: Traits, message: str
) -> None:
    monkeypatch.setattr(registry, "_SCHEMAS", {})
    monkeypatch.setattr(registry, "_IMPLEMENTATIONS", {})
    schema = register(OperatorSchema("own", "Of a user.", devices=("cpu", "gpu")))
    with pytest.raises(RuntimeError, match=message):
        implements(schema, "cpu")(type("Own", (base,), {"traits": traits}))
    assert not registry.has_implementation("own", "cpu")


def test_traits_of_a_base_class_are_those_of_its_classes() -> None:
    kind: Any = type("Own", (PixelOperator,), {})
    assert kind.traits == Traits(only_launches=True, repeatable=True, per_sample=True)
