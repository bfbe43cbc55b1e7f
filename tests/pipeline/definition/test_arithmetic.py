from __future__ import annotations

import operator
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from pipeline import Pipeline, errors, fn, math, types

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]


def evaluate(expression: Any, *inputs: Any) -> Any:
    """Run an expression of batches; return its only output."""
    with Pipeline(batch_size=len(inputs[0]), num_threads=2, device_id=None, seed=1) as pipe:
        nodes = [fn.external_source(name=f"x{number}") for number in range(len(inputs))]
        pipe.set_outputs(expression(*nodes))
    try:
        (result,) = pipe.run(**{f"x{number}": data for number, data in enumerate(inputs)})
    finally:
        pipe.close()
    return result


def evaluate_dali(expression: Any, *inputs: Any) -> Any:
    """Run the same expression with NVIDIA DALI."""
    from nvidia.dali import fn as dali_fn
    from nvidia.dali import pipeline_def

    @pipeline_def(batch_size=len(inputs[0]), num_threads=1, device_id=None, prefetch_queue_depth=1)
    def graph() -> Any:
        return expression(*(dali_fn.external_source(name=f"x{number}") for number in range(len(inputs))))

    pipe = graph()
    pipe.build()
    (result,) = pipe.run(**{f"x{number}": data for number, data in enumerate(inputs)})
    return result


def numbers(dtype: str, seed: int, nonzero: bool = False) -> Any:
    generator = np.random.default_rng(seed)
    low = 0 if dtype[0] in "ub" else -100
    values = generator.integers(low, 2 if dtype == "bool" else 100, (3, 4, 5)).astype(dtype)
    return np.where(values == 0, np.ones_like(values), values) if nonzero else values


@pytest.mark.combinations
@pytest.mark.parity
@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "eq", "and_"])
def test_binary_operators_equal_dali(name: str, left: str) -> None:
    expression = getattr(operator, name)
    for right in DTYPES:
        if (
            name == "lt"
            and {left, right} & {"int8", "int16", "int32", "int64"}
            and {left, right} & {"float32", "float64"}
        ):
            continue  # DALI 2.4 says that int8 -19 is less than float32 -89; our result is compared with NumPy below
        a, b = numbers(left, 1), numbers(right, 2, nonzero=True)
        try:
            want = evaluate_dali(expression, a, b)
        except RuntimeError:
            with pytest.raises(errors.OperatorError):
                evaluate(expression, a, b)
            continue
        got = evaluate(expression, a, b)
        np.testing.assert_allclose(got.as_array(), want.as_array(), rtol=1e-6, err_msg=f"{name} {left} {right}")
        assert got.as_array().dtype == want.as_array().dtype, f"{name} {left} {right}"


@pytest.mark.parametrize("left", DTYPES)
def test_comparisons_are_mathematically_right(left: str) -> None:
    for right in DTYPES:
        a, b = numbers(left, 1), numbers(right, 2)
        exact = a.astype(object) < b.astype(object)
        np.testing.assert_array_equal(evaluate(operator.lt, a, b).as_array(), exact.astype(bool), err_msg=right)


@pytest.mark.parity
@pytest.mark.parametrize(
    "name",
    ["sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "floor", "ceil", "sin", "tan", "atan", "tanh", "abs", "fabs"],
)
@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32", "float64"])
def test_functions_equal_dali(name: str, dtype: str) -> None:
    from nvidia.dali import math as dali_math

    values = (np.abs(numbers(dtype, 3, nonzero=True) / 20) + (0.3 if dtype[0] == "f" else 1)).astype(dtype)
    got = evaluate(getattr(math, name), values)
    want = evaluate_dali(getattr(dali_math, name), values)
    assert got.as_array().dtype == want.as_array().dtype
    # DALI uses an approximate reciprocal square root.
    np.testing.assert_allclose(got.as_array(), want.as_array(), rtol=1e-5 if name == "rsqrt" else 2e-6)


@pytest.mark.parity
@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((2, 3), (2, 1)), ((2, 3), ()), ((2, 3), (4, 2, 3))])
def test_broadcasting_equals_dali(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (np.random.default_rng(4).random((2, *shape), np.float32) for shape in shapes)
    got, want = evaluate(operator.add, a, b), evaluate_dali(operator.add, a, b)
    np.testing.assert_array_equal(got.as_array(), want.as_array())


def test_ragged_batches_are_computed_sample_by_sample() -> None:
    ragged = [np.full((rows, 2), rows, np.int32) for rows in (1, 3, 2)]
    result = evaluate(lambda x: x * 2 - 1, ragged)
    assert [sample.tolist() for sample in result.samples] == [(sample * 2 - 1).tolist() for sample in ragged]


def test_constants_on_either_side_keep_their_types() -> None:
    data = np.array([[1, 2], [3, 4]], np.uint8)
    assert evaluate(lambda x: 1 + x, data).dtype == types.INT32
    assert evaluate(lambda x: x * 0.5, data).dtype == types.FLOAT
    assert evaluate(lambda x: x * np.uint8(2), data).dtype == types.UINT8
    assert evaluate(lambda x: types.Constant([1.0, 2.0]) * x, data).as_array().tolist() == [[1, 4], [3, 8]]


def test_shapes_that_do_not_fit_name_the_sample_and_the_line() -> None:
    with pytest.raises(errors.OperatorError, match=r"sample 0 can't be broadcast") as caught:
        evaluate(lambda x: x + types.Constant([1, 2, 3]), np.zeros((2, 2)))
    assert "test_arithmetic.py" in caught.value.location


def test_node_has_no_truth_value_and_is_not_a_sequence() -> None:
    node = fn.external_source(name="x")
    with pytest.raises(TypeError, match="no truth value"):
        bool(node)
    with pytest.raises(TypeError, match="iterated"):
        list(node)
    with pytest.raises(errors.ArgumentTypeError, match="str"):
        node + "1"


@pytest.mark.parity
@pytest.mark.parametrize("key", [0, -1, slice(1, None), (slice(None), 1), (slice(None, None, -1), slice(0, 5, 2))])
def test_indexing_equals_dali(key: Any) -> None:
    data = np.arange(2 * 3 * 4).reshape(2, 3, 4).astype(np.float32)
    got, want = evaluate(lambda x: x[key], data), evaluate_dali(lambda x: x[key], data)
    np.testing.assert_array_equal(got.as_array(), want.as_array())


def test_index_may_be_a_node() -> None:
    data = np.arange(6).reshape(2, 3)
    result = evaluate(lambda x, n: x[n], data, np.array([2, 0]))
    assert result.as_array().tolist() == [2, 3]


def test_index_out_of_range_names_the_sample() -> None:
    with pytest.raises(errors.OperatorError, match="Index 3 is out of range for axis 0 of length 3"):
        evaluate(lambda x: x[3], np.zeros((2, 3)))


def test_constants_are_equal_by_value_and_dtype() -> None:
    assert types.Constant(3).uint8() == types.Constant(np.uint8(3))
    assert types.Constant(3) not in [types.Constant(4), types.Constant(3).uint8()]
    assert len({types.Constant(3), types.Constant(3)}) == 1
    assert evaluate(lambda x: x == types.Constant(1), np.arange(3)).as_array().tolist() == [False, True, False]


def test_constant_array_needs_no_other_import() -> None:
    program = "from pipeline.types import Constant; print(Constant([1, 2]).device)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=True)
    assert result.stdout == "cpu\n"


def test_operands_are_checked_again_when_their_kind_changes_and_divisors_always() -> None:
    def numbers(value: int, *shape: int) -> Any:
        return np.full((2, *shape), value, np.int32)

    over = [numbers(7, 3), numbers(7, 3), numbers(7, 2), numbers(7, 3).astype(np.float32), numbers(7, 3)]
    under = [numbers(2, 3), numbers(0, 3), numbers(2, 3), numbers(2, 3), numbers(2, 3)]
    pipe = Pipeline(2, 1, None)
    with pipe:
        dividends, divisors = (fn.external_source(source=list(each), batch=True) for each in (over, under))
        pipe.set_outputs(dividends // divisors)
    assert pipe.run()[0].as_array().tolist() == [[3] * 3] * 2
    with pytest.raises(errors.PipelineError, match="division by zero"):
        pipe.run()
    with pytest.raises(errors.PipelineError, match="can't be broadcast"):
        pipe.run()
    assert pipe.run()[0].as_array().dtype == np.float32
    assert pipe.run()[0].as_array().tolist() == [[3] * 3] * 2
    pipe.close()
