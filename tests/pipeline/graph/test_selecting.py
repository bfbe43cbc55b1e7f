"""Branches: each sample passes through one of them, together with the other samples of that branch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._graph.branches import branch
from dali_proxy.pipeline._graph.selecting import merge, select
from pipeline import Pipeline, fn, types
from pipeline.errors import ArgumentValueError, GraphError, OperatorError

WAYS = [
    np.array([0, 1, 2, 0, 1, 2], np.int32),
    np.array([2] * 6, np.int32),
    np.array([1, 1, 0, 0, 0, 0], np.int32),
]
RAGGED = [np.random.default_rng(number).integers(0, 200, (3 + number, 4, 1)).astype(np.uint8) for number in range(6)]
DENSE = [sample[:3] for sample in RAGGED]


def run(describe: Any, *batches: dict[str, Any], **options: Any) -> list[tuple[Any, ...]]:
    pipe = Pipeline(batch_size=6, **{"num_threads": 2, "device_id": None, "seed": 3, **options})
    with pipe:
        inputs = fn.external_source(name="x", layout="HWC"), fn.external_source(name="way")
        pipe.set_outputs(*describe(*inputs), *inputs)  # an unused input would be pruned
    try:
        return [pipe.run(**batch)[:-2] for batch in batches]
    finally:
        pipe.close()


def batches(feed: list[Any]) -> list[dict[str, Any]]:
    return [{"x": feed, "way": way} for way in WAYS]


@pytest.mark.parametrize("feed", [RAGGED, DENSE], ids=["ragged", "dense"])
@pytest.mark.parametrize("memory", [False, True])
def test_samples_take_their_branches(feed: list[Any], memory: bool) -> None:
    def describe(x: Any, way: Any) -> Any:
        shift = fn.cast(way, dtype=types.UINT8) + np.uint8(1)  # read in a branch, described outside of it
        turned = fn.flip(x, horizontal=0, vertical=1)  # forms a chain with the next operators
        result = select(
            way,
            [
                lambda: fn.cast(turned + shift, dtype=types.UINT8),
                lambda: fn.brightness(fn.flip(turned), brightness=fn.cast(way, dtype=types.FLOAT) * 2),
                lambda: turned,
            ],
        )
        return result, fn.flip(result)  # the merged batch is an output, and read in the same chain

    for (result, flipped), way in zip(run(describe, *batches(feed), enable_memory_stats=memory), WAYS, strict=True):
        assert result.layout() == "HWC"
        for number, chosen in enumerate(way):
            turned = feed[number][::-1]
            expected = [turned + 1, np.minimum(turned[:, ::-1].astype(int) * 2, 255), turned][chosen]
            assert np.array_equal(result.at(number), expected)
            assert np.array_equal(flipped.at(number), expected[:, ::-1])


def test_branches_in_branches() -> None:
    def describe(x: Any, way: Any) -> Any:
        size = x.shape()[0]
        inner = lambda: select(size > 5, [lambda: (x + np.uint8(1), 1), lambda: (x + np.uint8(2), 2)])  # noqa: E731
        return select(way, [inner, lambda: (fn.flip(x), 3), lambda: (x, way + 2)])

    for (result, mark), way in zip(run(describe, *batches(RAGGED)), WAYS, strict=True):
        for number, chosen in enumerate(way):
            image = RAGGED[number]
            more = 2 if len(image) > 5 else 1
            expected = [(image + more, more), (image[:, ::-1], 3), (image, 4)][chosen]
            assert np.array_equal(result.at(number), expected[0])
            assert mark.at(number) == expected[1]


def test_random_numbers_without_inputs_do_not_depend_on_the_branch() -> None:
    def describe(x: Any, way: Any) -> Any:
        drawn = lambda: fn.random.uniform(seed=5)  # noqa: E731
        return select(way, [drawn, drawn, drawn]), fn.random.uniform(seed=5)

    for result, outside in run(describe, *batches(RAGGED)):
        assert np.array_equal(result.as_array(), outside.as_array())


def test_failures_name_the_samples_of_the_whole_batch() -> None:
    def in_chain(x: Any, way: Any) -> Any:
        return (select(way, [lambda: fn.crop(x, crop=(5, 2)), lambda: x, lambda: x]),)

    def in_batch(x: Any, way: Any) -> Any:
        return (select(way, [lambda: fn.cast(x // (x * np.uint8(0)), dtype=types.UINT8), lambda: x, lambda: x]),)

    for describe in (in_chain, in_batch):
        with pytest.raises(OperatorError) as caught:
            run(describe, {"x": DENSE, "way": np.array([1, 2, 1, 0, 1, 0], np.int32)})
        assert [failure.sample for failure in caught.value.failures] == [3, 5]


def test_graph_travels(tmp_path: Any) -> None:
    pipe = Pipeline(batch_size=6, num_threads=1, device_id=None)
    with pipe:
        x, way = fn.external_source(name="x", layout="HWC"), fn.external_source(name="way")
        pipe.set_outputs(select(way, [lambda: x, lambda: fn.flip(x), lambda: fn.flip(x, vertical=1)]))
    (here,) = pipe.run(x=DENSE, way=WAYS[0])
    copy = Pipeline.deserialize(pipe.serialize())
    (there,) = copy.run(x=DENSE, way=WAYS[0])
    assert np.array_equal(here.as_array(), there.as_array())
    pipe.close()
    copy.close()


def test_values_of_a_branch_are_local() -> None:
    x, way = fn.external_source(name="x", layout="HWC"), fn.external_source(name="way")
    with branch(way, 0):
        inner = fn.flip(x)
    with pytest.raises(ArgumentValueError, match="described in a branch and has only its samples"):
        fn.flip(inner)
    with branch(way, 1), pytest.raises(ArgumentValueError, match="described in a branch"):
        fn.flip(x, horizontal=inner)
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(inner)
    with pytest.raises(GraphError, match=r"the pipeline returns the output of fn\.flip, which has only the samples"):
        pipe.build()


@pytest.mark.parametrize(
    ("describe", "match"),
    [
        (lambda x, way: select(way, [lambda: x, lambda: x + 1, lambda: x]), "return samples of int32 and uint8"),
        (lambda x, way: select(way, [lambda: x, lambda: fn.flip(x)]), "branch 2 is chosen, but there are 2"),
        (lambda x, way: select(x, [lambda: x, lambda: fn.flip(x)]), "one number per sample"),
    ],
)
def test_branches_that_cannot_be_merged_are_refused(describe: Any, match: str) -> None:
    with pytest.raises(OperatorError, match=match):
        run(lambda *nodes: (describe(*nodes),), *batches(DENSE))


def test_branches_must_return_the_same_number_of_outputs() -> None:
    x, way = fn.external_source(name="x"), fn.external_source(name="way")
    with pytest.raises(ArgumentValueError, match="different numbers of outputs"):
        select(way, [lambda: (x, x), lambda: x])
    assert merge(way, [x, x]) is x
