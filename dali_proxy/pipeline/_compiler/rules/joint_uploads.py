"""Small batches that are copied to the GPU in one copy: a copy takes as long for all of them as for one."""

from __future__ import annotations

from collections.abc import Sequence

from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.steps.step import FusedStep, OperatorStep, Step
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._graph.graph import Edge
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.upload import upload_small
from dali_proxy.pipeline.tensors.cpu import TensorListCPU


class JointUploads(FusedStep):
    """The copies of several batches outside of branches."""

    title = "joint copies to the GPU"

    def __init__(self, members: Sequence[OperatorStep]) -> None:
        super().__init__(members)
        self._edges = [(step.node.inputs[0], Edge(step.node.index)) for step in members]

    def run_as_one(self, batch: Batch) -> bool:
        values = [batch.outputs[source] for source, _ in self._edges]
        data = [value for value in values if isinstance(value, TensorListCPU)]
        uploaded = upload_small(batch, data) if len(data) == len(values) else None
        if uploaded is None:
            return False
        for (_, edge), value in zip(self._edges, uploaded, strict=True):
            batch.keep(edge, value)
        return True


def join_uploads(steps: list[Step], scope: Scope) -> list[Step]:
    """Copy what earlier phases have computed at once."""
    own = {node.index for node in scope.planned.nodes}
    copies = [
        step
        for step in steps
        if isinstance(step, OperatorStep)
        and step.node.schema.role is Role.COPY_TO_GPU
        and not step.node.branch
        and step.node.inputs[0].node not in own
    ]
    return replaced(steps, scope, [JointUploads(copies)] if len(copies) > 1 else ())
