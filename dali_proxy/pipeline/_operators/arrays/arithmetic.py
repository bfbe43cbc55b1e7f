"""Arithmetic, comparison, bitwise operators and mathematical functions on batches, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator, evaluate
from dali_proxy.pipeline._operators.arrays.promotion import promote
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

# Dense batches below this size, in bytes, are computed in one call; larger ones sample by sample on all threads.
_SMALL = 1 << 20
# Largest number of kinds of operands whose check is remembered.
_MOST_KINDS = 16

_Dtype = np.dtype[Any]


@dataclass(frozen=True)
class _Operation:
    """One operation.

    Attributes:
        compute: function of the array module (NumPy or CuPy) and the operands.
        types: dtype of the operands: "promote" (their common dtype), "compare" (their own dtypes), "float" (integers
            become float32) or "bits" (their common dtype, without floats).
        bools: whether the operation accepts two bools; the result is a bool.
    """

    compute: Callable[..., Any]
    types: str = "promote"
    bools: bool = False


def _divide_integers(xp: Any, a: Any, b: Any) -> Any:
    """Divide integers toward zero, as in C; division by zero is zero. Divide floats without rounding, as in DALI."""
    if a.dtype.kind == "f":
        return xp.divide(a, b)
    safe = xp.where(b == 0, xp.ones_like(b), b)
    quotient = xp.floor_divide(a, safe)
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * safe != a)).astype(a.dtype)
    return xp.where(b == 0, xp.zeros_like(quotient), quotient)


def _power(xp: Any, base: Any, exponent: Any) -> Any:
    """Raise to a power; a negative power of an integer is zero, as in DALI."""
    if base.dtype.kind != "i":
        return xp.power(base, exponent)
    raised = xp.power(base, xp.maximum(exponent, xp.zeros_like(exponent)))
    return xp.where(exponent < 0, xp.zeros_like(raised), raised)


def _remainder(xp: Any, a: Any, b: Any) -> Any:
    """Return the remainder of a division toward zero, with the sign of the dividend; zero for division by zero."""
    if a.dtype.kind == "f":
        return xp.fmod(a, b)
    return xp.where(b == 0, xp.zeros_like(a), xp.fmod(a, xp.where(b == 0, xp.ones_like(b), b)))


def _shift_left(xp: Any, a: Any, b: Any) -> Any:
    """Shift to the left; a bool stays unchanged (`b` only broadcasts the result)."""
    return a | (a & b) if a.dtype.kind == "b" else xp.left_shift(a, b)


def _shift_right(xp: Any, a: Any, b: Any) -> Any:
    """Shift to the right; a bool shifted by one is False."""
    return a & ~b if a.dtype.kind == "b" else xp.right_shift(a, b)


def _ufunc(name: str) -> Callable[..., Any]:
    return lambda xp, *operands: getattr(xp, name)(*operands)


OPERATIONS: dict[str, _Operation] = {
    "add": _Operation(_ufunc("add")),
    "sub": _Operation(_ufunc("subtract")),
    "mul": _Operation(_ufunc("multiply"), bools=True),
    "truediv": _Operation(_ufunc("divide"), "float"),
    "floordiv": _Operation(_divide_integers),
    "mod": _Operation(_remainder),
    "pow": _Operation(_power),
    "fpow": _Operation(_ufunc("power"), "float"),
    "neg": _Operation(_ufunc("negative")),
    "pos": _Operation(lambda xp, x: x, bools=True),
    "eq": _Operation(_ufunc("equal"), "compare"),
    "ne": _Operation(_ufunc("not_equal"), "compare"),
    "lt": _Operation(_ufunc("less"), "compare"),
    "le": _Operation(_ufunc("less_equal"), "compare"),
    "gt": _Operation(_ufunc("greater"), "compare"),
    "ge": _Operation(_ufunc("greater_equal"), "compare"),
    "and_": _Operation(_ufunc("bitwise_and"), "bits", bools=True),
    "or_": _Operation(_ufunc("bitwise_or"), "bits", bools=True),
    "xor": _Operation(_ufunc("bitwise_xor"), "bits", bools=True),
    "invert": _Operation(_ufunc("invert"), "bits", bools=True),
    "lshift": _Operation(_shift_left, "bits", bools=True),
    "rshift": _Operation(_shift_right, "bits", bools=True),
    "min": _Operation(_ufunc("minimum")),
    "max": _Operation(_ufunc("maximum")),
    "clamp": _Operation(lambda xp, x, low, high: xp.minimum(xp.maximum(x, low), high)),
    "abs": _Operation(_ufunc("absolute")),
    **{
        name: _Operation(_ufunc(ufunc), "float")
        for name, ufunc in {
            **{same: same for same in ("sqrt", "cbrt", "exp", "log", "log2", "log10", "fabs", "floor", "ceil")},
            **{same: same for same in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
            **{f"a{same}": f"arc{same}" for same in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
            "atan2": "arctan2",
        }.items()
    },
    "rsqrt": _Operation(lambda xp, x: 1 / xp.sqrt(x), "float"),
}

ARITHMETIC = declare_operator(
    name="arithmetic",
    role=Role.ARITHMETIC,
    doc="Computes an arithmetic operation on batches, sample by sample, with broadcasting.",
    inputs=(Input("operand", "A batch or a constant."),),
    arguments=(Argument("operation", Kind.STRING, "Name of the operation.", REQUIRED, choices=tuple(OPERATIONS)),),
    devices=("cpu", "gpu"),
    variadic=True,
    hidden=True,
)


class _Arithmetic(BatchOperator):
    """Casts the operands to a common dtype and computes the operation on NumPy or CuPy arrays."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._operation = OPERATIONS[node.argument("operation")]
        self._types: dict[tuple[_Dtype, ...], _Dtype] = {}  # results of `_compute_type`

    def _compute_type(self, dtypes: Sequence[_Dtype]) -> _Dtype:
        common = dtypes[0]
        for dtype in dtypes[1:]:
            common = promote(common, dtype)
        name = self.node.argument("operation")
        if common.kind == "b" and not self._operation.bools:
            raise ArgumentTypeError(f"{name!r} is not defined for bools: cast them to a number first")
        if self._operation.types == "float" and common.kind != "f":
            return np.dtype(np.float32)
        if self._operation.types == "bits" and common.kind == "f":
            raise ArgumentTypeError(f"{name!r} needs integers, not {', '.join(map(str, dtypes))}")
        return common

    def _calculate(self, xp: Any, operands: Sequence[Any]) -> Any:
        if self._operation.types != "compare":  # NumPy compares numbers of different dtypes exactly
            dtypes = tuple([operand.dtype for operand in operands])
            dtype = self._types.get(dtypes)
            if dtype is None:
                dtype = self._types[dtypes] = self._compute_type(dtypes)
            operands = [each if each.dtype == dtype else each.astype(dtype) for each in operands]
        with np.errstate(all="ignore"):  # IEEE results as on the GPU: inf and nan, not warnings
            return self._operation.compute(xp, *operands)

    def _dense(self, xp: Any, operands: Sequence[Any]) -> Any:
        dimensions = [operand.ndim for operand in operands]
        ndim = max(dimensions)
        aligned = [
            operand if own == ndim else operand.reshape(operand.shape[:1] + (1,) * (ndim - own) + operand.shape[1:])
            for operand, own in zip(operands, dimensions, strict=True)
        ]
        return self._calculate(xp, aligned)

    def _check_shapes(self, inputs: Sequence[Any]) -> None:
        dense = [data.dense for data in inputs]
        if any(array is None for array in dense):
            combinations = list(zip(*(data.shape() for data in inputs), strict=True))
        else:
            combinations = [tuple(array.shape[1:] for array in dense)]
        for shapes in dict.fromkeys(combinations):
            if len({shape for shape in shapes if shape}) < 2:
                continue  # scalars, and samples of one shape
            try:
                np.broadcast_shapes(*shapes)
            except ValueError:
                raise ArgumentValueError(
                    f"the shapes {' and '.join(map(str, shapes))} of sample {combinations.index(shapes)} can't be "
                    "broadcast"
                ) from None

    def _check_divisor(self, inputs: Sequence[Any]) -> None:
        """Reject integer division by zero. The GPU returns zero instead, because a check would have to wait for it."""
        if self.node.argument("operation") not in ("floordiv", "mod"):
            return
        dividend, divisor = inputs
        if self._compute_type([dividend.samples[0].dtype, divisor.samples[0].dtype]).kind == "f":
            return
        fail(
            [
                (number, ArgumentValueError("integer division by zero"))
                for number, (over, under) in enumerate(zip(dividend.samples, divisor.samples, strict=True))
                if np.size(over) and not np.all(under)
            ]
        )

    @staticmethod
    def _layout(layouts: Sequence[str], ndim: int) -> str:
        longest: str = max(layouts, key=len, default="")
        for layout in layouts:
            if not longest.endswith(layout):
                raise ArgumentValueError(f"the layouts {layout!r} and {longest!r} of the operands don't match")
        return longest if len(longest) == ndim else ""


@implements(ARITHMETIC, "cpu")
class ArithmeticCpu(_Arithmetic):
    """Computes small dense batches in one call, others sample by sample on all threads."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        #: Layouts of results, by shapes, dtypes and layouts of small dense operands, which are checked once.
        self._checked: dict[Hashable, str] = {}

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        arrays = [array for array in [data.small_array() for data in inputs] if array is not None]
        is_small = len(arrays) == len(inputs) and sum([array.nbytes for array in arrays]) < _SMALL
        layouts = [data.layout() for data in inputs]
        key = tuple([(array.shape, array.dtype, layout) for array, layout in zip(arrays, layouts, strict=False)])
        layout = self._checked.get(key) if is_small else None
        if layout is None:
            layout = self._layout(layouts, max(data.ndim for data in inputs))
            self._check_shapes(inputs)
            if is_small and len(self._checked) < _MOST_KINDS:
                self._checked[key] = layout
        self._check_divisor(inputs)
        if is_small:
            return [TensorListCPU.from_dense(self._dense(np, arrays), layout)]
        results: list[Any] = [None] * batch.size

        def compute(sample: int) -> None:
            results[sample] = np.asarray(self._calculate(np, [data.samples[sample] for data in inputs]))

        for _, error in batch.pool.run(compute, batch.size):
            raise error
        return [TensorListCPU(results, layout)]


#: Operations of expressions.cuh.
_DEVICE_OPERATIONS = {
    "add": "Add",
    "sub": "Subtract",
    "mul": "Multiply",
    "truediv": "Divide",
    "min": "Minimum",
    "max": "Maximum",
}


def _aligned(one: PixelExpression, other: PixelExpression) -> tuple[PixelExpression, PixelExpression] | None:
    """Return two operands with one shape, by NumPy's rules of broadcasting; None if expressions can't do this."""
    repeated = other.broadcast(one)
    if repeated is not None:
        return one, repeated
    repeated = one.broadcast(other)
    return None if repeated is None else (repeated, other)


def _converts(source: _Dtype, dtype: _Dtype) -> bool:
    """Return whether expressions compute in a dtype, and convert from another dtype to it as NumPy does."""
    is_number = dtype.kind != "b" and np.float16 not in (source, dtype)
    return is_number and (dtype.kind == "f" or np.can_cast(source, dtype))


@implements(ARITHMETIC, "gpu")
class ArithmeticGpu(_Arithmetic, PixelOperator):
    """Combines two expressions; other operations have a launch of CuPy each."""

    traits = replace(PixelOperator.traits, elementwise=True, only_launches=False)

    def express(self, batch: Batch, pixels: PixelExpression) -> PixelExpression | None:
        operation = _DEVICE_OPERATIONS.get(self.node.argument("operation"))
        if operation is None or len(self.node.inputs) != 2:
            return None
        other = batch.pixels(self.node.inputs[1], elements=True)
        if other is None:
            return None
        pair = _aligned(pixels, other)
        if pair is None:  # an operand must be in memory to be broadcast
            smaller = self.node.inputs[other.ndim <= pixels.ndim]
            batch.outputs.compute([smaller])
            computed = batch.pixels(smaller, elements=True)
            operands = (pixels, computed) if smaller == self.node.inputs[1] else (computed, other)
            pair = None if computed is None else _aligned(*operands)
        if pair is None:
            return None
        dtypes = [each.dtype for each in pair]
        dtype = self._compute_type(dtypes)
        if not all(_converts(each, dtype) for each in dtypes):
            return None
        layout = self._layout([each.layout for each in (pixels, other)], max(pixels.ndim, other.ndim))
        return replace(pair[0].combine(operation, pair[1], dtype), layout=layout)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        """Compute operations, dtypes and shapes that expressions don't have with CuPy."""
        pixels = batch.pixels(self.node.inputs[0], elements=True)
        result = None if pixels is None else self.express(batch, pixels)
        if result is not None:
            return [evaluate(result, self.kernels, batch.stream)]
        import cupy

        layout = self._layout([data.layout() for data in inputs], max(data.ndim for data in inputs))
        self._check_shapes(inputs)
        if all(data.is_dense_tensor() for data in inputs):
            return [TensorListGPU(self._dense(cupy, [data.as_array() for data in inputs]), layout)]
        samples = [self._calculate(cupy, [data.samples[sample] for data in inputs]) for sample in range(batch.size)]
        return [TensorListGPU(samples, layout)]
