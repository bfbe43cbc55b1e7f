"""Operator calls that compute the same share a node of the graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.selecting import select
from pipeline import Pipeline, fn, pipeline_def, types
from tests.pipeline.graphs import graph_of


def nodes_of(*outputs: Any) -> list[int]:
    """Return the number of the node of each output."""
    return [edge.node for edge in graph_of(outputs).outputs]


@pytest.mark.parametrize(
    ("describe", "shared"),
    [
        (lambda x: fn.cast(x, dtype=types.FLOAT), True),
        (lambda x: fn.resize(x, size=(3, 4)), True),
        (lambda x: fn.resize(x, size=fn.random.uniform(range=(3, 4), shape=(2,), seed=2)), True),
        (lambda x: fn.random.uniform(range=(0, 1)), False),
        (lambda x: fn.random.uniform(range=(0, 1), seed=3), True),
        (lambda x: fn.random_resized_crop(x, size=(3, 3)), False),
        (lambda x: x[0] + types.Constant(np.ones(2, np.float32)), True),
        (lambda x: fn.cast(x, dtype=types.FLOAT, preserve=True), False),
        (lambda x: fn.python_function(x, function=id), False),
        (lambda x: fn.external_source(lambda: [np.zeros(1)], batch=True), False),
    ],
)
def test_equal_calls_share_a_node(describe: Any, shared: bool) -> None:
    with Pipeline(batch_size=1, num_threads=1, device_id=None):
        images = fn.external_source(name="images", layout="HWC")
        first, second = nodes_of(describe(images), describe(images))
        assert (first == second) is shared


def test_calls_that_differ_keep_their_nodes() -> None:
    images = fn.external_source(name="images")
    seeded = fn.random.uniform(range=(0, 1), seed=3)
    calls = [
        *(fn.cast(images, dtype=types.FLOAT), fn.cast(images, dtype=types.INT32), fn.cast(seeded, dtype=types.FLOAT)),
        *(fn.random.uniform(range=(0, 1), seed=3, name="own"), fn.random.uniform(range=(0, 1), seed=4), seeded),
        *(fn.reshape(images, shape=[1]), fn.reshape(images, shape=[1.0]) + 1, fn.reshape(images, shape=[1]) + True),
    ]
    assert len(set(nodes_of(*calls))) == len(calls)


def test_reader_with_a_seed_is_shared(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    read = [fn.readers.file(files=[str(tmp_path / "file")], seed=seed)[0] for seed in (1, 1, -1, -1)]
    first, second, *others = nodes_of(*read)
    assert first == second
    assert len({first, *others}) == 3


def test_merged_calls_return_the_same_batch() -> None:
    @pipeline_def(batch_size=4, num_threads=1, device_id=None, enable_conditionals=True)
    def conditional() -> Any:
        first, second = (fn.random.uniform(range=(0, 1), shape=(1,), seed=1) for _ in range(2))
        if first[0] > 0.5:  # noqa: SIM108 - conditional execution needs the statement
            chosen = first
        else:
            chosen = second
        return first, second, chosen, first + second, second + first

    pipe = conditional()
    first, second, chosen, total, reverse = pipe.run()
    pointers = [output.data_ptr() for output in (first, second, chosen, total, reverse)]
    assert pointers[0] == pointers[1] == pointers[2]
    assert pointers[3] == pointers[4]
    np.testing.assert_array_equal(total.as_array(), 2 * first.as_array())
    pipe.close()


def test_arithmetic_on_random_scalars_leaves_its_branch() -> None:
    def describe(images: Any, sign: Any) -> list[Any]:
        return [images + 1, sign * 31 + 9, sign // 2]

    images, sign = fn.external_source(name="images"), fn.random.coin_flip()
    results = select(fn.random.coin_flip(), [lambda: tuple(describe(images, sign)) for _ in range(2)])
    graph = graph_of(list(results))
    inside = [node.arguments["operation"] for node in graph.find(Role.ARITHMETIC) if node.branch]
    assert sorted(inside) == ["add", "add", "floordiv", "floordiv"]
    assert [node.arguments["operation"] for node in graph.find(Role.ARITHMETIC) if not node.branch] == ["mul", "add"]
