"""Equal operators of a step, such as those of several views of the same images, run as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.steps.step import FusedStep, PixelStep, Step, defer
from dali_proxy.pipeline._cuda.launch import MAX_SAMPLES
from dali_proxy.pipeline._graph.numbering import hashable
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.joined_batches import StackedBatch


class EqualOperators(FusedStep):
    """Pixel operators with the same constant arguments, in any branches, which process all their samples at once."""

    title = "equal operators"

    def __init__(self, members: Sequence[PixelStep]) -> None:
        super().__init__(members)
        self._operators = members

    def run_as_one(self, batch: Batch) -> bool:
        members = [(step, own) for step in self._operators if (own := step.batch_of(batch)) is not None]
        if len(members) < 2:
            return False
        operator = members[0][0].operator
        operator.kernels.open_queue()
        stacked = StackedBatch([(step.node, own) for step, own in members])
        pixels = stacked.source(computed=operator.traits.gathers) if stacked.size <= MAX_SAMPLES else None
        result = None if pixels is None else operator.express(stacked, pixels)
        if result is None or result is pixels:
            return False
        defer(batch, members, result)
        return True


def stack_equal_operators(steps: list[Step], scope: Scope) -> list[Step]:
    """Fuse operators with equal arguments, whose inputs are one output, or the outputs of equal operators."""
    groups: dict[Hashable, list[PixelStep]] = {}
    firsts: dict[int, int] = {}  # by index: the first of the equal operators
    for leaf in [leaf for step in steps for leaf in step.leaves()]:
        if isinstance(leaf, PixelStep) and leaf.operator.traits.per_sample and len(leaf.node.inputs) == 1:
            node = leaf.node
            (source,) = node.inputs
            origin = firsts.get(source.node, source)
            group = groups.setdefault(
                (origin, node.operator, hashable(node.arguments), frozenset(node.argument_inputs)), []
            )
            group.append(leaf)
            firsts[node.index] = group[0].node.index
    free = {id(step) for step in steps}
    alike = [[leaf for leaf in group if id(leaf) in free] for group in groups.values()]
    for group, left in zip(groups.values(), alike, strict=True):
        if len(group) > max(1, len(left)):
            scope.note(EqualOperators, f"{group[0].node.display} already runs as one with others")
    return replaced(steps, scope, [EqualOperators(group) for group in alike if len(group) > 1])
