"""Several sets of inputs in one call: the results, and their common random numbers."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._graph import DataNode
from pipeline import Pipeline, fn, types
from tests.pipeline.graphs import graph_of

IMAGES = np.random.default_rng(0).integers(0, 255, (2, 12, 16, 3), np.uint8)


def library(name: str) -> Any:
    parts = {part: importlib.import_module(f"{name}.{part}") for part in ("fn", "ops", "types")}
    return SimpleNamespace(Pipeline=importlib.import_module(name).Pipeline, **parts)


def shape_of(made: Any) -> Any:
    return [shape_of(item) for item in made] if isinstance(made, list | tuple) else type(made).__name__


def flat(made: Any) -> list[Any]:
    return [node for item in made for node in flat(item)] if isinstance(made, list | tuple) else [made]


def run(d: Any, graph: Any) -> tuple[Any, list[Any]]:
    pipe = d.Pipeline(batch_size=2, num_threads=1, device_id=None, seed=7)
    with pipe:
        a = d.fn.external_source(lambda: IMAGES, layout="HWC")
        b = d.fn.external_source(lambda: IMAGES[:, ::-1].copy(), layout="HWC")
        made = graph(d, a, b)
        pipe.set_outputs(*flat(made))
    pipe.build()
    try:
        return shape_of(made), [np.asarray(batch[1]).tolist() for batch in pipe.run()]
    finally:
        getattr(pipe, "close", lambda: None)()


@pytest.mark.parity
@pytest.mark.parametrize(
    "graph",
    [
        lambda d, a, b: d.fn.flip([a, b], horizontal=1),
        lambda d, a, b: d.fn.flip([a], vertical=1),
        lambda d, a, b: d.fn.crop([b, a], crop=(3, 4), crop_pos_x=d.fn.random.uniform(values=[0.25])),
        lambda d, a, b: d.fn.cat([a, b], b, [b, a], axis=1),
        lambda d, a, b: d.ops.Flip(horizontal=0)([a, b], vertical=1),
        lambda d, a, b: d.fn.cast([a, b], dtype=d.types.INT16, name="several"),
        lambda d, a, b: d.fn.resize([a, b], size=(12, 16), save_attrs=True),
    ],
    ids=["two", "one", "one argument for all", "several inputs", "class", "name", "several outputs"],
)
def test_results_equal_dali(graph: Any) -> None:
    ours, theirs = run(library("pipeline"), graph), run(library("nvidia.dali"), graph)
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]


@pytest.mark.parity
def test_sets_have_the_same_random_numbers() -> None:
    def graph(d: Any, a: Any, b: Any) -> Any:
        return d.fn.noise.gaussian([a, a], stddev=30.0)

    for name in ("pipeline", "nvidia.dali"):
        first, second = run(library(name), graph)[1]
        assert first == second != IMAGES[1].tolist()


def described() -> tuple[DataNode, ...]:
    x = fn.external_source(name="x", layout="HWC")
    return (*fn.noise.gaussian([x, x, x], stddev=30.0, name="noise"), fn.noise.gaussian(x, stddev=30.0))


def test_random_numbers_stay_the_same_when_a_set_is_pruned_and_in_bytes() -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None, seed=3)
    pipe.set_outputs(*described()[1:])
    for each in (pipe, Pipeline.deserialize(pipe.serialize())):
        second, third, other = (batch.as_array() for batch in each.run(x=IMAGES))
        np.testing.assert_array_equal(second, third)
        assert (second != other).any()
        each.close()


def test_first_set_has_the_name() -> None:
    assert "noise" in [node.name for node in graph_of(described()).nodes if node.operator == "noise.gaussian"]


def test_lists_without_nodes_are_constants() -> None:
    assert isinstance(fn.cast([1, 2, 3], dtype=types.FLOAT), DataNode)
