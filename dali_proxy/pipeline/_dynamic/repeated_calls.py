"""Calls like earlier ones: they run on the same executor at once, without a graph for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from enum import Enum
from typing import Any, NamedTuple

from dali_proxy.pipeline._declaration.schema import OperatorSchema
from dali_proxy.pipeline._dynamic.context import EvalContext, EvalMode
from dali_proxy.pipeline._dynamic.devices import use_gpu
from dali_proxy.pipeline._dynamic.values import Value, tracing
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._graph.nodes import OperatorCall
from dali_proxy.pipeline._graph.subgraph import Subgraph
from dali_proxy.pipeline._operator_api.request import BatchRequest
from dali_proxy.pipeline._rng import RandomState
from dali_proxy.pipeline.errors import PipelineError

_MOST = 1024  # kinds of calls of a context; then all are forgotten
_NEW = object()


class RepeatedCall(NamedTuple):
    """What calls of one kind have in common.

    Attributes:
        executor: runs the operator, and the copies to its device.
        operands: for each input of the executor's graph, its position among the operands of the call.
        node: index of the operator in that graph.
        device: device of the outputs.
    """

    executor: Executor
    operands: tuple[int, ...]
    node: int
    device: str

    @classmethod
    def from_call(
        cls, call: OperatorCall, operands: Sequence[Any], outputs: Sequence[Value], size: int
    ) -> RepeatedCall | None:
        """Prepare calls like this one; return None if its graph has inputs that aren't operands."""
        subgraph = Subgraph([call], lambda node: isinstance(node, Value) and node.known)
        positions = {id(operand): position for position, operand in enumerate(operands)}
        if any(id(node) not in positions for node in subgraph.fed):
            return None
        executor = EvalContext.current().executor(subgraph, [subgraph.edge(each) for each in outputs], size)
        fed = tuple(positions[id(node)] for node in subgraph.fed)
        return cls(executor, fed, subgraph.number(call), outputs[0].device)

    @property
    def uses_gpu(self) -> bool:
        return self.executor.device_id is not None

    def run(self, operands: Sequence[Any], size: int, state: RandomState | None) -> tuple[Value, ...]:
        """Run the operator.

        Raises:
            PipelineError: the operator failed. The message names the line of the first call.
        """
        data = {Subgraph.input_name(number): operands[position].data for number, position in enumerate(self.operands)}
        request = BatchRequest(size, data, random_states={} if state is None else {self.node: state})
        with nullcontext() if self.executor.device_id is None else use_gpu(self.executor.device_id):
            results = self.executor.run(request)
        return tuple([Value(self.device, result, None, index) for index, result in enumerate(results)])


def repeat(
    schema: OperatorSchema,
    inputs: Sequence[Any],
    arguments: Mapping[str, Any],
    size: int | None,
    state: RandomState | None,
    prepare: Callable[[], tuple[OperatorCall, Sequence[Value]]],
) -> Sequence[Value] | None:
    """Run a call like an earlier one; return None if it must run in the usual way, which also explains errors."""
    mode = EvalMode.current()
    if tracing.active() or mode in (EvalMode.deferred, EvalMode.sync_full) or not _is_plain(schema, arguments):
        return None
    operands = [*inputs, *arguments.values()]
    kinds = tuple([_kind(each) for each in operands])
    values = [each for each in operands if isinstance(each, Value)]
    if _NEW in kinds or len(set(map(id, values))) < len(values):
        return None
    uses_gpu = any(value.device == "gpu" for value in values) or arguments.get("device", "cpu") != "cpu"
    known = EvalContext.current().repeated_calls(uses_gpu)
    key = (schema.name, size is None, size, len(inputs), tuple(arguments), kinds)
    count = 1 if size is None else size
    if key not in known:
        checked, outputs = prepare()
        prepared = RepeatedCall.from_call(checked, operands, outputs, count) if outputs else None
        if len(known) >= _MOST:
            known.clear()
        known[key] = prepared if prepared is not None and prepared.uses_gpu is uses_gpu else None
    call: RepeatedCall | None = known[key]
    if call is None:
        return None
    try:
        return call.run(operands, count, state)
    except PipelineError:
        return None


def _is_plain(schema: OperatorSchema, arguments: Mapping[str, Any]) -> bool:
    """Return whether an operator does nothing but compute its outputs, and its arguments cause no warnings."""
    if schema.side_effects or schema.is_reader or schema.deprecated is not None or "seed" in arguments:
        return False
    declared = [schema.argument(name) for name in arguments if name != "device"]
    return all(each is not None and not each.replaced_by and not each.deprecated for each in declared)


def _kind(operand: Any) -> Hashable:
    """Return a value that is equal for operands of one kind; `_NEW` for operands that may differ in other ways."""
    if isinstance(operand, Value):
        return operand.device if operand.known else _NEW
    kind = type(operand)
    if kind is float:
        return float, operand, math.copysign(1.0, operand)
    if operand is None or kind in (int, bool, str) or isinstance(operand, Enum):
        return kind, operand
    if kind in (tuple, list):
        parts = tuple([_kind(each) for each in operand])
        return _NEW if _NEW in parts else (kind, parts)
    return _NEW
