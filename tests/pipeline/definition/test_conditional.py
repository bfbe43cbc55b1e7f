"""`if` on data nodes: the same graph functions here and in NVIDIA DALI."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._definition.conditional import convert
from pipeline import do_not_convert, fn, pipeline_def, types
from pipeline.errors import GraphError, OperatorError, PipelineError

IMAGES = [np.random.default_rng(number).integers(0, 100, (3, 4, 1)).astype(np.uint8) for number in range(6)]
WAYS = np.array([0, 1, 2, 0, 2, 1], np.int32)


def assigns(fn: Any, types: Any, x: Any, way: Any) -> Any:
    mark = types.Constant(np.int32(0), device="cpu")
    result = x
    if way == 0:
        result = fn.flip(x)
        mark = types.Constant(np.int32(5), device="cpu")
    elif way == 1:
        result = fn.brightness(x, brightness=2.0)
    else:
        mark = way + 1
    return result, mark


def helper(fn: Any, x: Any, flag: Any) -> Any:
    if flag:
        return fn.flip(x)
    turned = fn.flip(x, horizontal=0, vertical=1)
    return turned


def returns_from_helpers(fn: Any, types: Any, x: Any, way: Any) -> Any:
    return helper(fn, x, way == 2), helper(fn, x, True)


def logic(fn: Any, types: Any, x: Any, way: Any) -> Any:
    low = way < 2
    return low and not way == 0, low or way == 7, not low, not ((low and way != 1) or way == 2)  # noqa: SIM201


def nested(fn: Any, types: Any, x: Any, way: Any) -> Any:
    total = way
    for step in range(3):
        if way > 0:
            if way == step:  # noqa: SIM108 - DALI has no `x if way else y` for nodes
                total = total + 10
            else:
                total = total + step
        if step == 1:
            total = total * 2
    return total


def chosen(fn: Any, types: Any, x: Any, way: Any) -> Any:
    return (fn.flip(x) if way == 1 else x), (way + 1 if way > 0 else way - 1)


def pairs(fn: Any, types: Any, x: Any, way: Any) -> Any:
    if way == 1:  # noqa: SIM108
        result = (x, way)
    else:
        result = (fn.flip(x), way * 2)
    left, right = result
    return left, right


def returns_early(fn: Any, types: Any, x: Any, way: Any) -> Any:
    result = way
    if way == 1:
        result = way + 5
        if result == 7:
            return result
    elif way == 2:
        return result * 3
    result = result * 10
    return result


def only_known_conditions(fn: Any, types: Any, x: Any, way: Any) -> Any:
    done = []
    for number in range(5):
        if number == 3:
            break
        if number:
            done.append(number)
    label = "many" if len(done) == 2 and not False else "few"
    return (fn.flip(x) if label == "many" else x), way


GRAPHS = (assigns, returns_from_helpers, logic, nested, pairs, only_known_conditions)


def run(side: str, graph: Callable[..., Any]) -> list[Any]:
    pytest.importorskip(side)
    root = importlib.import_module(side)

    @root.pipeline_def(batch_size=6, num_threads=2, device_id=None, seed=3, enable_conditionals=True)  # type: ignore[untyped-decorator]
    def described() -> Any:
        x = root.fn.external_source(name="x", layout="HWC")
        way = root.fn.external_source(name="way")
        result = graph(root.fn, root.types, x, way)
        several = result if isinstance(result, tuple) else (result,)
        return (*several, x, way)

    pipe = described()
    try:
        pipe.build()
        pipe.feed_input("x", IMAGES)
        pipe.feed_input("way", WAYS)
        return [[np.array(output.at(number)) for number in range(6)] for output in pipe.run()[:-2]]
    finally:
        if side == "pipeline":
            pipe.close()


@pytest.mark.parity
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.__name__)
def test_graphs_compute_the_same_as_in_dali(graph: Callable[..., Any]) -> None:
    for ours, theirs in zip(run("pipeline", graph), run("nvidia.dali", graph), strict=True):
        for our, their in zip(ours, theirs, strict=True):
            assert our.dtype == their.dtype
            assert np.array_equal(our, their)


def test_returns_from_some_branches() -> None:
    (result,) = run("pipeline", returns_early)
    assert [sample.item() for sample in result] == [{0: 0, 1: 60, 2: 6}[way] for way in WAYS.tolist()]


def test_expressions_choose_too() -> None:
    images, numbers = run("pipeline", chosen)
    for number, way in enumerate(WAYS.tolist()):
        assert np.array_equal(images[number], IMAGES[number][:, ::-1] if way == 1 else IMAGES[number])
        assert numbers[number] == (way + 1 if way > 0 else way - 1)


def test_branch_runs_its_samples_only() -> None:
    def fails_elsewhere(fn: Any, types: Any, x: Any, way: Any) -> Any:
        def size(sample: Any) -> Any:
            assert sample.item() == 2
            return sample

        result = way
        if way == 2:
            result = fn.python_function(way, function=size)
        return result

    (result,) = run("pipeline", fails_elsewhere)
    assert [sample.item() for sample in result] == WAYS.tolist()


@pytest.mark.parametrize("operator", ["subscript", "python_function"])
def test_errors_of_batch_operators_in_a_branch_name_the_index_in_the_batch(operator: str) -> None:
    def third(fn: Any, numbers: Any) -> Any:
        if operator == "subscript":
            return numbers[2]
        return fn.python_function(numbers, function=lambda sample: np.array(sample[2]))

    @pipeline_def(batch_size=6, num_threads=2, device_id=None, enable_conditionals=True)
    def described() -> Any:
        numbers, way = fn.external_source(name="numbers"), fn.external_source(name="way")
        result = way
        if way > 0:
            result = way * 1 if way == 1 else third(fn, numbers)
        return result

    pipe = described()
    try:
        # Sample 4 is the second of the inner branch, and the third of the outer one.
        numbers = [np.arange(length, dtype=np.int32) for length in (9, 1, 9, 1, 2, 1)]
        with pytest.raises(OperatorError, match="for sample 4") as caught:
            pipe.run(numbers=numbers, way=WAYS)
        assert [failure.sample for failure in caught.value.failures] == [4]
        (result,) = pipe.run(numbers=[np.arange(9, dtype=np.int32)] * 6, way=WAYS)
        assert np.array_equal(result.as_array(), WAYS)
    finally:
        pipe.close()


def test_variables_without_a_value_in_each_branch() -> None:
    def half(fn: Any, types: Any, x: Any, way: Any) -> Any:
        if way == 1:
            only = fn.flip(x)
        return only

    with pytest.raises(GraphError, match=r"Variable 'only' must also be initialized in the `else` branch"):
        run("pipeline", half)


def test_incompatible_branches_are_refused() -> None:
    def words(fn: Any, types: Any, x: Any, way: Any) -> Any:
        word = "a"
        if way == 1:
            word = "b"
        return word

    with pytest.raises(GraphError, match="the variable 'word' differs between the branches"):
        run("pipeline", words)

    def dtypes(fn: Any, types: Any, x: Any, way: Any) -> Any:
        return x if way == 1 else x + 1

    with pytest.raises(PipelineError, match="Found distinct types: int32 and uint8"):
        run("pipeline", dtypes)


def test_conditionals_must_be_enabled() -> None:
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def described() -> Any:
        x = fn.external_source(name="x")
        return fn.flip(x) if x else x

    with pytest.raises(TypeError, match="specify `enable_conditionals=True`"):
        described()


def test_source_that_cannot_be_found() -> None:
    space: dict[str, Any] = {}
    exec("def graph():\n    return 1\n", space)
    with pytest.raises(GraphError, match="needs the source of graph"):
        convert(space["graph"])


def test_closures_defaults_and_marked_functions() -> None:
    factor = 3

    def scaled(value: int, *, more: int = 4) -> int:
        nonlocal factor
        if value and more:
            factor += 1
        return value * factor + more

    result = convert(scaled)
    assert result(2) == 2 * 4 + 4
    assert factor == 4
    assert convert(result) is result
    assert result.__name__ == "scaled"

    @do_not_convert
    def unchanged() -> bool:
        return not True

    assert convert(unchanged) is unchanged


def numbers() -> Any:
    return fn.external_source(lambda info: np.int32(info.idx_in_batch), batch=False)


def outputs(graph: Any, enable_conditionals: bool = True) -> list[list[Any]]:
    pipe = pipeline_def(graph)(
        batch_size=4, num_threads=1, device_id=None, seed=1, enable_conditionals=enable_conditionals
    )
    try:
        return [[np.asarray(sample).tolist() for sample in batch] for batch in pipe.run()]
    finally:
        pipe.close()


def test_attributes_and_items_belong_to_the_branch_that_assigns_them() -> None:
    def graph() -> Any:
        holder, sizes = SimpleNamespace(size=1), {"a": 1}
        if numbers() > 1:
            holder.size = 2
            sizes["a"] = 3
            holder.new = 5
        else:
            sizes["a"] += 6
            holder.new = 6
        return holder.size, sizes["a"], holder.new

    assert outputs(graph) == [[1, 1, 2, 2], [7, 7, 3, 3], [6, 6, 5, 5]]


def test_chained_comparisons_are_conditions() -> None:
    def graph() -> Any:
        x = numbers()
        return 0 < x < 3, x > 0

    assert outputs(graph) == [[False, True, True, False], [False, True, True, True]]


def test_variables_that_are_not_read_may_hold_anything() -> None:
    def graph() -> Any:
        if numbers() > 1:
            text, only = "a", 1  # noqa: F841 - they aren't read
        else:
            text = None  # noqa: F841
        return 5

    assert outputs(graph) == [[5] * 4]


def test_python_condition_that_leaves_a_variable_out() -> None:
    def graph() -> Any:
        if graph is None:
            only = 1
        return only

    with pytest.raises(UnboundLocalError, match="'only' is used before assignment"):
        outputs(graph)


def returns_in_one_branch() -> Any:
    if numbers() > 1:
        return 1


def node_in_one_branch() -> Any:
    if numbers() > 1:
        return numbers()


def dimensions() -> Any:
    return fn.reshape(numbers(), shape=[1, -1]) if numbers() > 1 else numbers()


def structures() -> Any:
    value = {"a": 1, "b": 2} if numbers() > 1 else {"a": 3}
    return value["a"]


def lengths() -> Any:
    if numbers() > 1:
        return 1, 2
    return 3


def stacked_condition() -> Any:
    x = numbers()
    return x if fn.stack(x, x) else 2


def stacked_negation() -> Any:
    x = numbers()
    return not fn.stack(x, x)


def integer_on_the_right() -> Any:
    return (numbers() > 1) and numbers()


def integer_on_the_left() -> Any:
    return numbers() or (numbers() > 1)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (node_in_one_branch, "The `else` branch must also have a return statement"),
        (dimensions, "Found distinct sample dimensions: 0 and 2"),
        (returns_in_one_branch, "The `else` branch must also have a return statement"),
        (structures, r"(?s)same nesting structure .*'If' output structure: {'a': \*, 'b': \*}"),
        (lengths, r"(?s)'If' output structure: \(\*, \*\).*'Else' output structure: \*"),
        (stacked_condition, "`if` statements are restricted .* Got a 1-d input"),
        (stacked_negation, "`not` is restricted to scalar .* Got a 1-d input"),
        (integer_on_the_right, "`and` is restricted .* type `int32` as the right argument"),
        (integer_on_the_left, "`or` is restricted .* type `int32` as the left argument"),
    ],
)
def test_wrong_conditions_and_branches_are_errors(graph: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        outputs(graph)


def test_layouts_of_branches_must_be_equal() -> None:
    def graph() -> Any:
        x = types.Constant([1, 2], layout="A")
        if numbers() > 1:
            x = types.Constant([1, 2])
        return x

    with pytest.raises(RuntimeError, match='Found distinct layouts: "A" and ""'):
        outputs(graph)


def test_split_and_merge_work_without_conditionals() -> None:
    def merged() -> Any:
        x = numbers()
        large = x > 1
        true, false = fn._conditional.split(x, predicate=large)
        return fn._conditional.merge(true * 10, -false, predicate=large), fn._conditional.not_(large)

    assert outputs(merged, enable_conditionals=False) == [[0, -1, 20, 30], [True, True, False, False]]


def test_permutation_in_a_branch_permutes_the_samples_of_the_branch() -> None:
    def graph() -> Any:
        x = numbers()
        if x < 3:
            x = fn.batch_permutation()
        return x

    (result,) = outputs(graph)
    assert sorted(result[:3]) == [0, 1, 2]
    assert result[3] == 3


def outer(swap: bool) -> Any:
    return lambda x: (not x) if swap else (x and x)


LAMBDAS: dict[str, tuple[Any, list[bool]]] = {
    "not": (lambda x: not x, [False, True, True, True]),
    "and": (lambda x: x and x == 1, [True, False, False, False]),
    "or": (lambda x: x or x == 0, [True, True, True, True]),
    "several lines": (
        lambda x, *, missing=False: missing if x else True,
        [False, True, True, True],
    ),
    "closure": (outer(True), [False, True, True, True]),
    "other closure": (outer(False), [True, False, False, False]),
}


@pytest.mark.parametrize("name", LAMBDAS)
def test_lambdas_that_graph_functions_call_are_converted(name: str) -> None:
    function, expected = LAMBDAS[name]

    def graph() -> Any:
        return function(numbers() == 0)

    assert outputs(graph) == [expected]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code has no columns")
def test_lambdas_of_one_line_are_distinguished() -> None:
    both = (lambda x: not x, lambda x: x and x)

    def graph() -> Any:
        return both[0](numbers() == 0), both[1](numbers() == 0)

    assert outputs(graph) == [[False, True, True, True], [True, False, False, False]]


@pytest.mark.parity
@pytest.mark.parametrize("side", ["ours", "dali"])
def test_branches_are_described_in_the_order_of_their_lines(side: str) -> None:
    dali = importlib.import_module("pipeline") if side == "ours" else pytest.importorskip("nvidia.dali")
    described: list[str] = []

    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None, enable_conditionals=True)
    def pipe() -> Any:
        way = dali.fn.external_source(name="way")
        if way == 0:
            described.append("if")
            result = way + 1
        elif way == 1:
            described.append("elif")
            result = way + 2
        else:
            described.append("else")
            result = way + 3
        return result

    made = pipe()
    made.build()
    assert described == ["if", "elif", "else"]
    if side == "ours":
        made.close()
