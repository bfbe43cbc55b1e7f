"""Python's operators and the mathematical functions on data nodes: all of them, for all types, against NVIDIA DALI."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline import errors

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float32", "float64"]
FLOATS = {"float32", "float64"}
SIGNED = {"int8", "int16", "int32", "int64"}
PAIRS = list(itertools.product(DTYPES, DTYPES))

COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]
BITS = ["and_", "or_", "xor"]
SHIFTS = ["lshift", "rshift"]
ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
UNARY = ["neg", "pos", "abs", "invert"]

#: Functions of `math`, and a range in which they are defined.
FUNCTIONS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("sin", "cos", "tan", "asinh", "atan", "sinh", "cosh", "tanh", "exp"), (-3.0, 3.0)),
    **dict.fromkeys(("asin", "acos", "atanh"), (-0.95, 0.95)),
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10"), (0.3, 90.0)),
    **dict.fromkeys(("cbrt", "abs", "fabs", "floor", "ceil"), (-90.0, 90.0)),
    "acosh": (1.0, 90.0),
}
OF_TWO = ["min", "max", "pow", "fpow", "atan2"]


@pytest.fixture(scope="module")
def dali() -> Any:
    from nvidia import dali

    return dali


def values(dtype: str, seed: int, low: float = -100, high: float = 100) -> Any:
    generator = np.random.default_rng(seed)
    low = max(low, 0) if dtype[0] in "ub" else low
    if dtype in FLOATS:
        return generator.uniform(low, high, (2, 3, 4)).astype(dtype)
    return generator.integers(int(np.ceil(low)), 2 if dtype == "bool" else int(high) + 1, (2, 3, 4)).astype(dtype)


def evaluate(package: Any, data: dict[str, Any], expressions: Callable[[Any, dict[str, Any]], list[Any]]) -> list[Any]:
    """Run many expressions of batches in one pipeline."""
    pipe = package.Pipeline(batch_size=2, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipe:
        # One batch each, as sources: unlike inputs, sources may stay unused.
        nodes = {name: package.fn.external_source([batch]) for name, batch in data.items()}
        pipe.set_outputs(*expressions(package, nodes))
    try:
        pipe.build()
        return [np.asarray(out.as_array()) for out in pipe.run()]
    finally:
        getattr(pipe, "close", lambda: None)()


def compare(
    dali: Any, data: dict[str, Any], names: list[Any], expressions: Callable[[Any, dict[str, Any]], list[Any]]
) -> None:
    got, want = evaluate(pipeline, data, expressions), evaluate(dali, data, expressions)
    for ours, theirs, name in zip(got, want, names, strict=True):
        assert ours.dtype == theirs.dtype, name
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, err_msg=str(name))


def right_operand(name: str, dtype: str) -> Any:
    if name in SHIFTS:
        return values(dtype, 2, 0, 6)
    if name == "pow":
        return values(dtype, 2, 0 if dtype in FLOATS else -3, 3)
    numbers = values(dtype, 2)
    return np.where(numbers == 0, np.ones_like(numbers), numbers) if name in ("floordiv", "mod") else numbers


def left_operand(name: str, dtype: str) -> Any:
    return values(dtype, 1, 0 if dtype in FLOATS else -9, 9) if name == "pow" else values(dtype, 1)


def is_defined(name: str, left: str, right: str) -> bool:
    if name in BITS + SHIFTS and FLOATS & {left, right}:
        return False
    return (left, right) != ("bool", "bool") or name in ["mul", *SHIFTS, *COMPARISONS, *BITS]


def agrees(name: str, left: str, right: str) -> bool:
    # DALI 2.4 says that int8 -19 is less than float32 -89; test_arithmetic.py compares our results with exact numbers.
    return not (name in COMPARISONS and SIGNED & {left, right} and FLOATS & {left, right})


@pytest.mark.parity
@pytest.mark.parametrize("name", [*ARITHMETIC, *BITS, *SHIFTS, *COMPARISONS])
def test_operators_equal_dali_for_all_types(name: str, dali: Any) -> None:
    pairs = [pair for pair in PAIRS if is_defined(name, *pair) and agrees(name, *pair)]
    data = {f"a_{dtype}": left_operand(name, dtype) for dtype in DTYPES}
    data |= {f"b_{dtype}": right_operand(name, dtype) for dtype in DTYPES}
    of = getattr(operator, name)
    compare(dali, data, pairs, lambda d, x: [of(x[f"a_{left}"], x[f"b_{right}"]) for left, right in pairs])


@pytest.mark.parametrize("name", [*ARITHMETIC, *BITS, *SHIFTS])
def test_undefined_types_are_errors_that_name_the_line(name: str) -> None:
    for left, right in PAIRS:
        if not is_defined(name, left, right):
            with pytest.raises(errors.OperatorError, match=r"not defined for bools|needs integers") as caught:
                evaluate(
                    pipeline,
                    {"a": values(left, 1), "b": values(right, 2)},
                    lambda d, x: [getattr(operator, name)(x["a"], x["b"])],
                )
            assert "test_operators_of_nodes.py" in caught.value.location


@pytest.mark.parity
@pytest.mark.parametrize("name", [*ARITHMETIC, *BITS, *SHIFTS, *COMPARISONS])
def test_constants_on_both_sides_equal_dali(name: str, dali: Any) -> None:
    of = getattr(operator, name)
    constants = [True, 3, np.array([1, 2, 3, 4], np.int32), [1, 2, 3, 4], np.uint8(3), np.int16(2), "Constant"]
    if name not in BITS + SHIFTS:
        constants += [2.5, np.float32(1.5), np.array([[1.5], [2.5], [0.5]], np.float32)]
    cases = [
        (dtype, number, side)
        for dtype, number, side in itertools.product(["uint8", "int32", "float32"], range(len(constants)), "lr")
        if not (dtype == "float32" and name in BITS + SHIFTS)
        and not (side == "l" and isinstance(constants[number], np.ndarray))  # tested with NumPy below
    ]
    data = {dtype: np.maximum(values(dtype, 5, 1, 6), 1) for dtype in ("uint8", "int32", "float32")}

    def expressions(d: Any, x: dict[str, Any]) -> list[Any]:
        results = []
        for dtype, number, side in cases:
            constant = constants[number]
            if isinstance(constant, str):
                constant = d.types.Constant(2, dtype=d.types.UINT16)
            results.append(of(x[dtype], constant) if side == "r" else of(constant, x[dtype]))
        return results

    cases = [case for case in cases if agrees_with_constant(name, constants[case[1]], case[0])]
    compare(dali, data, cases, expressions)


def agrees_with_constant(name: str, constant: Any, dtype: str) -> bool:
    kind = np.asarray(0 if isinstance(constant, str) else constant).dtype.kind
    return not (name in COMPARISONS and ((kind == "f") != (dtype == "float32")))


@pytest.mark.parametrize("name", ["add", "sub", "lt", "and_"])
def test_numpy_values_on_the_left_leave_the_operation_to_the_node(name: str) -> None:
    of = getattr(operator, name)
    data = values("int32", 5, 1, 6)
    for left in (np.int32(3), np.array([1, 2, 3, 4], np.int32), np.int16(3)):
        (results,) = evaluate(pipeline, {"x": data}, lambda d, x, left=left: [of(left, x["x"])])
        np.testing.assert_array_equal(results, of(left, data))


@pytest.mark.parity
@pytest.mark.parametrize("name", UNARY)
def test_operators_of_one_operand_equal_dali(name: str, dali: Any) -> None:
    of = getattr(operator, name)
    dtypes = [
        dtype
        for dtype in DTYPES
        if not (dtype == "bool" and name in ("neg", "abs")) and not (dtype in FLOATS and name == "invert")
    ]
    compare(dali, {dtype: values(dtype, 1) for dtype in dtypes}, dtypes, lambda d, x: [of(x[t]) for t in dtypes])


@pytest.mark.parity
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_equal_dali_for_all_types(name: str, dali: Any) -> None:
    low, high = FUNCTIONS[name]
    dtypes = [dtype for dtype in DTYPES if dtype != "bool" and (high >= 1 or dtype in FLOATS)]
    data = {dtype: values(dtype, 3, low, high) for dtype in dtypes}
    if name in ("sqrt", "rsqrt", "log", "log2", "log10", "acosh"):
        data = {dtype: np.maximum(array, np.ones_like(array)) for dtype, array in data.items()}
    compare(dali, data, dtypes, lambda d, x: [getattr(d.math, name)(x[dtype]) for dtype in dtypes])


@pytest.mark.parity
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_operands_equal_dali(name: str, dali: Any) -> None:
    pairs = [pair for pair in PAIRS if "bool" not in pair]
    data = {f"a_{dtype}": values(dtype, 1, 1, 6) for dtype in DTYPES}
    data |= {f"b_{dtype}": values(dtype, 2, 0, 3) for dtype in DTYPES}
    compare(
        dali,
        data,
        pairs,
        lambda d, x: [getattr(d.math, name)(x[f"a_{left}"], x[f"b_{right}"]) for left, right in pairs],
    )


@pytest.mark.parity
def test_clamp_equals_dali(dali: Any) -> None:
    data = {dtype: values(dtype, 1) for dtype in DTYPES if dtype != "bool"}
    compare(dali, data, list(data), lambda d, x: [d.math.clamp(x[dtype], 3, 50) for dtype in data])


@pytest.mark.parity
def test_augmented_assignment_and_layouts(dali: Any) -> None:
    def run(package: Any) -> Any:
        pipe = package.Pipeline(batch_size=2, num_threads=1, device_id=None)
        with pipe:
            x = package.fn.external_source(lambda: values("float32", 1), layout="HW")
            y = package.fn.external_source(lambda: values("float32", 1)[:, 0].copy(), layout="W")
            x += 1
            x *= y
            pipe.set_outputs(x, -x, x > 0, x + package.types.Constant([1, 2, 3, 4]))
        pipe.build()
        results = pipe.run()
        getattr(pipe, "close", lambda: None)()
        return [(out.layout(), np.asarray(out.as_array()).tolist()) for out in results]

    assert run(pipeline) == run(dali)


@pytest.mark.parametrize("name", ["floordiv", "mod"])
@pytest.mark.parametrize("ragged", [False, True])
def test_division_of_integers_by_zero_names_the_samples(name: str, ragged: bool) -> None:
    data = values("int32", 1)
    divisors = np.array([[1, 2, 3, 4], [1, 0, 3, 4]], np.int32)
    of = getattr(operator, name)
    with pytest.raises(errors.OperatorError, match="for sample 1: integer division by zero") as caught:
        evaluate(
            pipeline,
            {"x": [data[0], data[1][:2]] if ragged else data, "n": divisors},
            lambda d, x: [of(x["x"], x["n"])],
        )
    assert isinstance(caught.value, ValueError)
    assert [failure.sample for failure in caught.value.failures] == [1]
    assert "test_operators_of_nodes.py" in caught.value.location
    floats = {"x": data.astype(np.float32), "n": divisors}
    (results,) = evaluate(pipeline, floats, lambda d, x: [of(x["x"], x["n"])])
    assert not np.isfinite(results[1, :, 1]).any(), "floats have inf and nan"
