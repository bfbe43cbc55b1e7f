"""Deprecated names of operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._catalog import all_schemas
from dali_proxy.pipeline._catalog.aliases import ALIASES
from dali_proxy.pipeline._declaration.registry import lookup
from pipeline import Pipeline, fn, ops, types
from tests.pipeline.operators.both import run_ours


def function_of(namespace: Any, name: str) -> Any:
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


@pytest.mark.parametrize("name", ALIASES)
def test_aliases_name_their_operators(name: str) -> None:
    assert ALIASES[name] in function_of(fn, name).__doc__
    assert lookup(name).devices == lookup(ALIASES[name]).devices


@pytest.mark.parity
def test_operators_are_deprecated_as_in_dali() -> None:
    backend = pytest.importorskip("nvidia.dali.backend")
    names = {*backend.RegisteredCPUOps(), *backend.RegisteredGPUOps(), *backend.RegisteredMixedOps()}
    schemas = {name: backend.GetSchema(name) for name in names}
    ours = {schema.name.replace(".", "").replace("_", ""): schema for schema in all_schemas()}
    for name, schema in schemas.items():
        found = ours.get(name.replace("_", "").lower())
        if found is None or found.hidden:
            continue
        assert (found.deprecated is not None) == schema.IsDeprecated(), name
        if schema.IsDeprecated() and schema.DeprecatedInFavorOf():
            instead = ours[schema.DeprecatedInFavorOf().replace("_", "").lower()].name
            assert f"Use `nvidia.dali.fn.{instead}` instead." in str(found.deprecated)


def test_aliases_add_the_operator_and_warn() -> None:
    with pytest.warns(
        DeprecationWarning, match=r"`nvidia.dali.fn.coin_flip` is now deprecated. Use `nvidia.dali.fn.random.coin_flip`"
    ) as caught:
        node = fn.coin_flip(probability=1.0)
    assert caught[0].filename == __file__
    assert node.source.schema.name == "random.coin_flip"


def test_graphs_of_old_names_equal_those_of_new_names() -> None:
    def graph(old: bool) -> Any:
        def describe(fn: Any, _: Any) -> Any:
            return fn.uniform(range=[1, 2], shape=3) if old else fn.random.uniform(range=[1, 2], shape=3)

        return describe

    with pytest.warns(DeprecationWarning, match=r"fn.uniform"):
        (old,) = run_ours(graph(True))
    (new,) = run_ours(graph(False))
    np.testing.assert_array_equal(old.samples, new.samples)


def test_classes_of_old_names_take_inputs() -> None:
    decoder = ops.ImageDecoder(output_type=types.GRAY)
    with (
        Pipeline(batch_size=1, num_threads=1, device_id=None),
        pytest.warns(DeprecationWarning, match="ops.ImageDecoder"),
    ):
        node = decoder(fn.external_source(name="encoded"))
    assert node.source.schema.name == "decoders.image"
