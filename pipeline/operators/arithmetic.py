"""Arithmetic, comparison, bitwise operators and mathematical functions on batches, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.errors import ArgumentTypeError, ArgumentValueError
from pipeline.executor.batch import Batch
from pipeline.graph.graph import GraphNode
from pipeline.operators.base import BatchOperator, Setup
from pipeline.operators.promotion import promote
from pipeline.operators.registry import implements, register
from pipeline.operators.schema import REQUIRED, Argument, Input, Kind, OperatorSchema
from pipeline.tensors.cpu import TensorListCPU
from pipeline.tensors.gpu import TensorListGPU

__all__ = ["OPERATIONS"]

# Dense batches below this size are computed in one go; larger ones a sample a thread.
_SMALL = 1 << 20

_Dtype = np.dtype[Any]


@dataclass(frozen=True)
class _Operation:
    """One operation.

    Attributes:
        compute: called with the array module (NumPy or CuPy) and the operands.
        types: "promote" (the operands' common type), "compare" (the same, result bool), "float" (integers become
            float32), "bits" (the common type, no floats) or "same" (operands must be of one kind).
    """

    compute: Callable[..., Any]
    types: str = "promote"


def _divide_integers(xp: Any, a: Any, b: Any) -> Any:
    """Divide toward zero, as C does; division by zero gives zero."""
    if a.dtype.kind == "f":
        return xp.divide(a, b)
    safe = xp.where(b == 0, xp.ones_like(b), b)
    quotient = xp.floor_divide(a, safe)
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * safe != a)).astype(a.dtype)
    return xp.where(b == 0, xp.zeros_like(quotient), quotient)


def _power(xp: Any, base: Any, exponent: Any) -> Any:
    """Raise to a power; a negative power of an integer is its reciprocal, cut off: 0 except for 1 and -1."""
    if base.dtype.kind == "f":
        return xp.power(base, exponent)
    raised = xp.power(base, xp.maximum(exponent, xp.zeros_like(exponent)))
    if base.dtype.kind != "i":
        return raised
    odd = (exponent & 1).astype(base.dtype)
    unit = xp.where(abs(base) == 1, xp.where(base < 0, 1 - 2 * odd, xp.ones_like(odd)), xp.zeros_like(odd))
    return xp.where(exponent < 0, unit.astype(base.dtype), raised)


def _ufunc(name: str) -> Callable[..., Any]:
    return lambda xp, *operands: getattr(xp, name)(*operands)


OPERATIONS: dict[str, _Operation] = {
    "add": _Operation(_ufunc("add")),
    "sub": _Operation(_ufunc("subtract")),
    "mul": _Operation(_ufunc("multiply")),
    "truediv": _Operation(_ufunc("divide"), "float"),
    "floordiv": _Operation(_divide_integers),
    "pow": _Operation(_power),
    "fpow": _Operation(_ufunc("power"), "float"),
    "neg": _Operation(_ufunc("negative")),
    "pos": _Operation(_ufunc("positive")),
    "eq": _Operation(_ufunc("equal"), "compare"),
    "ne": _Operation(_ufunc("not_equal"), "compare"),
    "lt": _Operation(_ufunc("less"), "compare"),
    "le": _Operation(_ufunc("less_equal"), "compare"),
    "gt": _Operation(_ufunc("greater"), "compare"),
    "ge": _Operation(_ufunc("greater_equal"), "compare"),
    "and_": _Operation(_ufunc("bitwise_and"), "bits"),
    "or_": _Operation(_ufunc("bitwise_or"), "bits"),
    "xor": _Operation(_ufunc("bitwise_xor"), "bits"),
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

ARITHMETIC = register(
    OperatorSchema(
        name="arithmetic",
        doc="An operation between batches, sample by sample, with broadcasting.",
        inputs=(Input("operand", "A batch or a constant."),),
        arguments=(Argument("operation", Kind.STRING, "Its name.", REQUIRED, choices=tuple(OPERATIONS)),),
        devices=("cpu", "gpu"),
        variadic=True,
        hidden=True,
    )
)


class _Arithmetic(BatchOperator):
    """Casts the operands to the type of the operation and computes it on NumPy or CuPy arrays."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._operation = OPERATIONS[node.argument("operation")]

    def _compute_type(self, dtypes: Sequence[_Dtype]) -> _Dtype:
        common = dtypes[0]
        for dtype in dtypes[1:]:
            common = promote(common, dtype)
        if self._operation.types == "float" and common.kind != "f":
            return np.dtype(np.float32)
        if self._operation.types == "bits" and common.kind == "f":
            raise ArgumentTypeError(
                f"bitwise operation {self.node.argument('operation')!r} needs integers, not "
                f"{', '.join(map(str, dtypes))}"
            )
        if common.kind == "b" and self._operation.types == "promote" and len(dtypes) > 1:
            name = self.node.argument("operation")
            return common if name in ("min", "max", "clamp") else np.dtype(np.int32)
        return common

    def _calculate(self, xp: Any, operands: Sequence[Any]) -> Any:
        dtype = self._compute_type([operand.dtype for operand in operands])
        with np.errstate(all="ignore"):  # IEEE results, as on the GPU: inf and nan say what happened
            cast = [operand.astype(dtype, copy=False) for operand in operands]
            return self._operation.compute(xp, *cast)

    def _dense(self, xp: Any, operands: Sequence[Any]) -> Any:
        ndim = max(operand.ndim for operand in operands)
        aligned = [
            operand.reshape(operand.shape[:1] + (1,) * (ndim - operand.ndim) + operand.shape[1:])
            for operand in operands
        ]
        return self._calculate(xp, aligned)

    def _check_shapes(self, inputs: Sequence[Any]) -> None:
        for sample, shapes in enumerate(zip(*(data.shape() for data in inputs), strict=True)):
            try:
                np.broadcast_shapes(*shapes)
            except ValueError:
                raise ArgumentValueError(
                    f"the shapes {' and '.join(map(str, shapes))} of sample {sample} can't be broadcast"
                ) from None

    @staticmethod
    def _layout(inputs: Sequence[Any]) -> str:
        widest = max(data.ndim for data in inputs)
        return next((data.layout() for data in inputs if data.ndim == widest and data.layout()), "")


@implements(ARITHMETIC, "cpu")
class ArithmeticCpu(_Arithmetic):
    """Small dense batches at once, others a sample a thread."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        layout = self._layout(inputs)
        self._check_shapes(inputs)
        if all(data.dense is not None for data in inputs) and sum(data.nbytes for data in inputs) < _SMALL:
            return [TensorListCPU(self._dense(np, [data.dense for data in inputs]), layout)]
        results: list[Any] = [None] * batch.size

        def compute(sample: int) -> None:
            results[sample] = np.asarray(self._calculate(np, [data.samples[sample] for data in inputs]))

        for _, error in batch.pool.run(compute, batch.size):
            raise error
        return [TensorListCPU(results, layout)]


@implements(ARITHMETIC, "gpu")
class ArithmeticGpu(_Arithmetic):
    """Dense batches in one launch an operation."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        import cupy

        layout = self._layout(inputs)
        self._check_shapes(inputs)
        if all(data.is_dense_tensor() for data in inputs):
            return [TensorListGPU(self._dense(cupy, [data.as_array() for data in inputs]), layout)]
        samples = [self._calculate(cupy, [data.samples[sample] for data in inputs]) for sample in range(batch.size)]
        return [TensorListGPU(samples, layout)]
