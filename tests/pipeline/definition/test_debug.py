"""Debug mode: the graph function runs for every batch, and its nodes have data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, pipeline_def, types

ARGUMENTS = {"batch_size": 4, "num_threads": 1, "device_id": None, "seed": 7}


def samples(batch: Any) -> list[Any]:
    return [np.asarray(sample).tolist() for sample in batch]


@contextmanager
def debugged(graph: Callable[..., Any], *values: Any, **arguments: Any) -> Iterator[Pipeline]:
    pipe = pipeline_def(graph)(*values, debug=True, **{**ARGUMENTS, **arguments})
    try:
        yield pipe
    finally:
        pipe.close()


def numbers() -> Any:
    return fn.external_source(lambda info: np.int32(info.idx_in_epoch), batch=False)


def arithmetic() -> Any:
    x = numbers()
    noise = fn.random.normal(x * 1.0)
    stacked = fn.stack(x, x + 1) * types.Constant(2)
    return x, noise, stacked, stacked[1], fn.random.coin_flip(), np.array([1, 2])


def branches() -> Any:
    x = numbers()
    if fn.random.coin_flip(dtype=types.BOOL):
        result = fn.random.uniform(range=[0.0, 1.0]) + x
        if x > 2:
            result = result + 1
        label = 3
    else:
        result = fn.random.normal(x * 1.0)
        label = 4
    return result, label, x > 1 and x < 3


def halves() -> Any:
    x = numbers()
    chosen = fn.random.coin_flip()
    odd, even = fn._conditional.split(x, predicate=chosen)
    return chosen, fn._conditional.merge(odd * 2, -even, predicate=chosen)


@pytest.mark.parametrize("graph", [arithmetic, branches, halves])
def test_results_are_the_same_without_debug(graph: Callable[..., Any]) -> None:
    plain = pipeline_def(graph)(enable_conditionals=graph is branches, **ARGUMENTS)
    with debugged(graph, enable_conditionals=graph is branches) as pipe:
        for _ in range(3):
            for expected, output in zip(plain.run(), pipe.run(), strict=True):
                assert samples(output) == samples(expected)
                assert output.dtype == expected.dtype
    plain.close()


def test_nodes_have_data() -> None:
    seen = []

    def graph() -> Any:
        x = numbers()
        seen.append((x.get().as_array().tolist(), x.shape(), str(x)))
        return x

    with debugged(graph) as pipe:
        pipe.run()
        pipe.run()
    assert [data for data, _, _ in seen] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert seen[0][1] == [()] * 4
    assert "2" in seen[0][2]


def test_error_comes_from_the_line_that_calls_the_operator() -> None:
    reached = []

    def graph() -> Any:
        x = numbers()
        reached.append("before")
        x = x // 0
        reached.append("after")
        return x

    with debugged(graph) as pipe, pytest.raises(errors.OperatorError, match="division by zero"):
        pipe.run()
    assert reached == ["before"]


def test_batches_of_the_user_are_inputs() -> None:
    def graph() -> Any:
        x = numbers()
        changed = [np.array(np.asarray(sample) * 10) for sample in x.get()]
        return fn.stack(x, changed), fn.copy(x.get())

    with debugged(graph) as pipe:
        stacked, copied = pipe.run()
    assert samples(stacked) == [[0, 0], [1, 10], [2, 20], [3, 30]]
    assert samples(copied) == [0, 1, 2, 3]
    with debugged(graph, enable_conditionals=True) as pipe, pytest.raises(ValueError, match="as an input, got list"):
        pipe.run()


def test_readers_and_fed_inputs_continue_from_batch_to_batch(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / str(number)).write_bytes(bytes([number]))

    def graph() -> Any:
        files, _ = fn.readers.file(files=[str(tmp_path / str(number)) for number in range(6)], name="files")
        return files, fn.external_source(name="x") * 2

    with debugged(graph, batch_size=2) as pipe:
        pipe.feed_input("x", np.array([1, 2]))
        pipe.feed_input("x", np.array([3, 4]))
        assert [samples(out) for out in pipe.run()] == [[[0], [1]], [2, 4]]
        assert pipe.epoch_size("files") == 6
        assert [samples(out) for out in pipe.run()] == [[[2], [3]], [6, 8]]
        with pytest.raises(IndexError, match="has no data"):
            pipe.run()


def test_epoch_ends_and_begins_again() -> None:
    def graph() -> Any:
        return fn.external_source([np.array([1, 2]), np.array([3])], cycle="raise")

    with debugged(graph) as pipe:
        for _ in range(2):
            assert [samples(pipe.run()[0]) for _ in range(2)] == [[1, 2], [3]]
            with pytest.raises(StopIteration):
                pipe.run()
            pipe.reset()


def test_several_outputs_of_a_source_are_read_together() -> None:
    def graph() -> Any:
        return tuple(fn.external_source(((np.full(4, n), np.full(4, -n)) for n in range(1, 9)), num_outputs=2))

    with debugged(graph) as pipe:
        outputs = [[samples(out)[0] for out in pipe.run()] for _ in range(2)]
    assert outputs == [[1, -1], [2, -2]]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (lambda n: fn.random.coin_flip() if n else fn.random.uniform(), "Unexpected operator 'random.coin_flip'"),
        (lambda n: fn.cat(*[[np.zeros(1)] * 4] * (n + 1)), "different number of inputs than when it was built"),
        (lambda n: fn.random.uniform(**({"seed": 1} if n else {})), "different number of keyword arguments"),
        (lambda n: fn.copy([np.zeros(1)] * 4 if n else 3), "Input 0 for operator 'copy' is on CPU but was a constant"),
        (
            lambda n: fn.random.coin_flip(probability=[np.zeros((), np.float32)] * 4 if n else 0.5),
            "Argument 'probability' for operator 'random.coin_flip' is on CPU but was a constant",
        ),
        (lambda n: fn.constant(fdata=float(n)), "'fdata' for operator 'constant' unexpectedly changed value from"),
    ],
)
def test_change_of_the_graph_is_an_error(graph: Callable[[int], Any], message: str) -> None:
    counts = iter(range(2))
    with debugged(lambda: graph(next(counts))) as pipe:
        pipe.run()
        with pytest.raises(RuntimeError, match=message):
            pipe.run()


def test_batch_size_is_one_for_all_operators_of_a_batch() -> None:
    def graph() -> Any:
        return fn.external_source([np.zeros(3)]), fn.random.uniform()

    with debugged(graph) as pipe:
        assert [len(out) for out in pipe.run()] == [3, 3]

    def reverse() -> Any:
        uniform = fn.random.uniform()
        return uniform, fn.external_source([np.zeros(3)])

    with debugged(reverse) as pipe, pytest.raises(RuntimeError, match="Batch size must be uniform across an iteration"):
        pipe.run()


def test_serialization_needs_a_graph() -> None:
    with debugged(numbers) as pipe:
        pipe.build()
        with pytest.raises(errors.GraphError, match="debug=True has no graph"):
            pipe.serialize()
        with pytest.raises(errors.PipelineError, match="no checkpoints"):
            pipe.checkpoint()
