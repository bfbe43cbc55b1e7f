"""`per_frame`: samples marked as sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline.errors import ArgumentValueError

PER_FRAME = declare_operator(
    name="per_frame",
    doc="""Marks samples as sequences, whose first dimension is the frame. The data stays unchanged.

Use it for arguments of operators that differ from frame to frame, with one value for each frame of the sequence that
the operator processes: `fn.gaussian_blur(video, sigma=fn.per_frame(sigma))`.

Samples without a layout get "F" and a "*" for each other dimension.""",
    inputs=(Input("data", "Samples of at least one dimension."),),
    arguments=(
        Argument("replace", Kind.BOOL, 'Replace the first letter of the layout by "F" if it is another letter.', False),
    ),
    devices=("cpu", "gpu"),
    role=Role.PER_FRAME,
)


@implements(PER_FRAME, "cpu", "gpu")
class PerFrame(BatchOperator):
    """Returns the same memory with another layout."""

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (data,) = inputs
        if data.ndim == 0:
            raise ArgumentValueError("samples without dimensions aren't sequences")
        layout = data.layout()
        if layout and layout[0] != "F" and not self.node.argument("replace"):
            raise ArgumentValueError(
                f"the layout {layout!r} doesn't begin with F; replace=True replaces its first letter"
            )
        return [data.with_layout("F" + (layout[1:] if layout else "*" * (data.ndim - 1)))]
