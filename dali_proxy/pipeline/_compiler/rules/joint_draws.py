"""Random numbers of several operators, drawn by one call: generators take longer to create than the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._compiler.rules.scope import Scope, replaced
from dali_proxy.pipeline._compiler.steps.step import FusedStep, OperatorStep, Step
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._imaging.native import compiled
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operators.random.distribution import NumberDraw, TransformedCpu
from dali_proxy.pipeline._rng import batch_counter, generator_key
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

#: struct Draw of headers/draws.h.
_DRAW = np.dtype(
    [
        *[("key", "u8", (2,)), ("low", "f8"), ("range", "f8"), ("limit", "f8"), ("count", "i8")],
        *[("kind", "i8"), ("first", "i8"), ("values", "i8")],
    ]
)


class JointDraws(FusedStep):
    """The draws of several operators outside of branches. It draws the same numbers as each operator alone."""

    title = "joint draws"

    def __init__(self, draws: Sequence[tuple[OperatorStep, NumberDraw]], seed: int) -> None:
        super().__init__([step for step, _ in draws])
        self._count = sum(draw.count for _, draw in draws)
        self._rows = np.zeros(len(draws), _DRAW)
        #: Of each output: edge, its first number and the number after the last for one sample, shape, and dtype.
        self._outputs: list[tuple[Edge, int, int, tuple[int, ...], np.dtype[Any]]] = []
        begin = listed = 0
        for row, (step, draw) in zip(self._rows, draws, strict=True):
            row["key"] = generator_key(*_seed_and_stream(step.node, seed))
            own = draw.distribution
            (row["low"],), (row["range"],), (row["limit"],) = own.low, own.range, own.limit
            row["count"], row["kind"], row["first"], row["values"] = draw.count, own.kind, listed, len(draw.values)
            self._outputs.append((Edge(step.node.index), begin, begin + draw.count, draw.shape, draw.values.dtype))
            begin, listed = begin + draw.count, listed + len(draw.values)
        self._table = np.concatenate([draw.values.view(np.uint32) for _, draw in draws])

    def run_as_one(self, batch: Batch) -> bool:
        if compiled is None or batch.request.random_states:
            return False
        size = batch.size
        try:
            numbers = np.empty(size * self._count, np.uint32)
        except (MemoryError, ValueError):  # the operator that needs too much memory reports it
            return False
        compiled.draw_numbers(self._rows, self._table, batch_counter(batch.request.key), size, numbers)
        views = {dtype: numbers.view(dtype) for *_, dtype in self._outputs}
        for edge, begin, end, shape, dtype in self._outputs:
            drawn = views[dtype][begin * size : end * size]
            batch.keep(edge, TensorListCPU.from_dense(drawn.reshape(size, *shape) if shape else drawn))
        return True


def join_draws(steps: list[Step], scope: Scope) -> list[Step]:
    """Draw the numbers of all random operators on the CPU with constant arguments at once."""
    draws: list[tuple[OperatorStep, NumberDraw]] = []
    for step in steps if scope.device == "cpu" else ():
        if isinstance(step, OperatorStep) and isinstance(step.operator, TransformedCpu):
            draw = step.operator.number_draw()
            if draw is not None:
                draws.append((step, draw))
            else:
                scope.note(JointDraws, f"{step.node.display} has inputs or arguments, a branch, or another dtype")
    return replaced(steps, scope, [JointDraws(draws, scope.seed)] if draws else ())


def _seed_and_stream(node: GraphNode, seed: int) -> tuple[int, int]:
    return (seed, node.random_stream) if node.own_seed is None else (node.own_seed, 0)
