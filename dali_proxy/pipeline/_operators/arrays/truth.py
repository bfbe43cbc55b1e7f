"""The truth values of conditions and of operands of logical expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import REQUIRED, Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

TRUTH = declare_operator(
    name="truth",
    doc="Returns whether each sample, one number, isn't zero. For `not`, returns whether it is.",
    inputs=(Input("data", "Scalars on the CPU."),),
    arguments=(
        Argument(
            "expression", Kind.STRING, "Expression that uses the result.", REQUIRED, choices=("if", "not", "and", "or")
        ),
        Argument("side", Kind.STRING, "Side of the operand, for `and` and `or`.", ""),
    ),
    hidden=True,
)


@implements(TRUTH, "cpu")
class Truth(BatchOperator):
    """Checks and converts the numbers. `and` and `or` accept bools only, as in DALI."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        self._check(data)
        values = np.stack([np.asarray(sample) for sample in data.samples]).astype(bool)
        return [TensorListCPU(~values if self.node.argument("expression") == "not" else values)]

    def _check(self, data: TensorListCPU) -> None:
        expression, side = self.node.argument("expression"), self.node.argument("side")
        if data.ndim and expression == "if":
            raise ArgumentValueError(
                "Conditions inside `if` statements are restricted to scalar (0-d tensors) inputs, that are placed on "
                f"CPU. Got a {data.ndim}-d input as a condition of the `if` statement."
            )
        only_bools = expression in ("and", "or")
        limits = f"scalar (0-d tensors) inputs{' of `bool` type' if only_bools else ''}, that are placed on CPU"
        position = f" as the {side} argument" if side else ""
        start = f"Logical expression `{expression}` is restricted to {limits}."
        if data.ndim:
            raise ArgumentValueError(f"{start} Got a {data.ndim}-d input{position} in logical expression.")
        dtype = data.samples[0].dtype
        if only_bools and dtype != np.bool_:
            raise ArgumentValueError(f"{start} Got an input of type `{dtype}`{position} in logical expression.")
