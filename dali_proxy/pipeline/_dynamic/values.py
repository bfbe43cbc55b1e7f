"""`Value`: the output of an operator in dynamic mode, which is computed at once or when it is needed."""

from __future__ import annotations

import copy
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._dynamic.context import EvalContext, EvalMode
from dali_proxy.pipeline._dynamic.dtypes import DType
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall, check_call
from dali_proxy.pipeline._graph.subgraph import Subgraph
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import GraphError, PipelineError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


class TracingError(GraphError, TypeError):
    """A function that is traced uses the data of a tensor, which doesn't exist yet."""


class Value(DataNode):
    """The data of a `Tensor` or a `Batch`: a batch, in which a tensor is the only sample.

    Args:
        device: "cpu" or "gpu".
        data: the batch; None if it isn't computed yet.
        source: the call of the operator that computes it; None for data of the user.
        index: number of the output.
        size: number of samples.

    Attributes:
        size: number of samples.
        enum: type of enumeration of the elements, or None.
        group: all outputs of the same call.
        holder: the tensor or batch of the user; a result without one isn't stored.
        owned: whether no code of the user has the memory of the data, so nothing changes it.
        readers: results of calls that will read the data, if they are still pending.
    """

    def __init__(
        self, device: str, data: TensorList | None, source: OperatorCall | None = None, index: int = 0, size: int = 0
    ) -> None:
        super().__init__("value" if source is None else source.schema.name, device, source, index)
        self._data = data
        self.size = size if data is None else len(data)
        self.enum: DType | None = None
        self.group: tuple[weakref.ref[Value], ...] = ()
        self.holder: weakref.ref[Any] | None = None
        self.owned = False
        self.readers: weakref.WeakValueDictionary[int, Value] | None = None

    @property
    def known(self) -> bool:
        """Whether the data is computed, or being computed on a GPU."""
        return self._data is not None

    @property
    def data(self) -> TensorList:
        """The data. Reading it runs the operators on which it depends.

        Raises:
            PipelineError: an operator failed.
            TracingError: a function is traced, so the data doesn't exist.
        """
        if self._data is None:
            evaluate([self])
            assert self._data is not None
        return self._data

    @property
    def awaited(self) -> bool:
        """Whether a call that is pending will read the data."""
        return self.readers is not None and any(not reader.known for reader in self.readers.values())

    def with_data(self, data: TensorList) -> Value:
        """Return a value on the same device and of the same enumeration with other data."""
        value = Value(self.device, data)
        value.enum = self.enum
        return value

    def read_later(self, readers: Iterable[Value]) -> None:
        """Remember the results of a call that will read the data."""
        if self.readers is None:
            self.readers = weakref.WeakValueDictionary()
        self.readers.update((id(reader), reader) for reader in readers)

    def set(self, data: TensorList) -> None:
        """Set the data, and forget how to compute it."""
        self._data = data
        self.source = None
        self.group = ()


class _State(threading.local):
    def __init__(self) -> None:
        self.traces: list[tracing] = []
        self.pending: weakref.WeakSet[Value] = weakref.WeakSet()


_STATE = _State()


class tracing:  # used like a function: `with tracing():`
    """In the `with` block, operators of this thread aren't run: their results describe a graph.

    Attributes:
        errors: the errors of `trace_error` in the block, also those that code of the user caught. Such code does
            something else when it is traced.
    """

    def __init__(self) -> None:
        self.errors: list[TracingError] = []

    def __enter__(self) -> tracing:
        _STATE.traces.append(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _STATE.traces.pop()

    @staticmethod
    def active() -> bool:
        """Return whether this thread traces a function."""
        return bool(_STATE.traces)


def trace_error(what: str) -> TracingError:
    """Return the error for code that can't be traced. The current trace remembers it."""
    error = TracingError(
        f"{what}, but the function is traced, so its tensors have no data yet. Use operators instead (such as "
        "dynamic.shapes, or a comparison and a multiplication for a choice), compute the value in the dataset and pass "
        f"it as an input, or call the code with dynamic.python_function\n  at {SourceLocation.from_caller()}"
    )
    if _STATE.traces:
        _STATE.traces[-1].errors.append(error)
    return error


def finish(values: tuple[Value, ...]) -> None:
    """Compute the outputs of a call at once, or remember that they are pending, as the current mode says."""
    if _STATE.traces:
        return
    mode = EvalMode.current()
    if mode is EvalMode.deferred:
        _STATE.pending.update(values)
        group = tuple(map(weakref.ref, values))
        for value in values:
            value.group = group
            value.owned = True  # its call reads only data that is owned, too
        return
    evaluate(values)


def evaluate_pending() -> None:
    """Compute all results of this thread that are pending."""
    by_size: dict[int, list[Value]] = {}
    for value in list(_STATE.pending):
        if not value.known:
            by_size.setdefault(value.size, []).append(value)
    for values in by_size.values():
        evaluate(values)


def evaluate(values: Iterable[Value]) -> None:
    """Compute values, which have the same number of samples, and those before them that the user still holds.

    Raises:
        PipelineError: an operator failed.
        TracingError: a function is traced.
    """
    targets = {id(value): value for value in values if not value.known}
    if not targets:
        return
    if _STATE.traces:
        raise trace_error("this line reads the data or the shape of a tensor")
    subgraph = Subgraph([value.source for value in targets.values() if value.source], _is_known)
    for call in subgraph.calls:
        for node in (*call.inputs, *call.argument_inputs.values()):
            if isinstance(node, Value) and not node.known:
                targets.update({id(each): each for each in _held(node)})
    for value in list(targets.values()):
        targets.update({id(each): each for each in _held(value)})
    outputs = [subgraph.edge(value) for value in targets.values()]
    states = {subgraph.number(call): call.random_state for call in subgraph.calls if call.random_state is not None}
    data = [node.data for node in subgraph.fed if isinstance(node, Value)]
    mode = EvalMode.current()
    size = next(iter(targets.values())).size
    try:
        results = EvalContext.current().run(subgraph, outputs, data, size, states)
    except PipelineError as error:
        outer = evaluation_error(error)
        if outer is error:
            raise
        raise outer from error
    views = _views(results, data)
    for number, (value, result) in enumerate(zip(targets.values(), results, strict=True)):
        if value.owned and number in views:
            result = copied(result)
        value.set(result)
        if mode is EvalMode.sync_full and isinstance(result, TensorListGPU) and result.ready is not None:
            result.ready.synchronize()


def copied(data: TensorList) -> TensorList:
    """Return a copy of data that is made now, in each mode."""
    call = check_call(lookup("copy"), (Value("gpu" if isinstance(data, TensorListGPU) else "cpu", data),), {})
    value = Value(call.inputs[0].device, None, call, size=len(data))
    evaluate([value])
    return value.data


def _views(results: Sequence[TensorList], data: Sequence[TensorList]) -> set[int]:
    """Return the numbers of results that may have memory of another result, or of data."""
    extents = sorted((*_extent(batch), number) for number, batch in enumerate((*results, *data)))
    found: set[int] = set()
    last, before = 0, -1
    for start, end, number in extents:
        if start < min(last, end):
            found |= {before, number}
        if end > last:
            last, before = end, number
    return found


def _extent(data: TensorList) -> tuple[int, int]:
    """Return the lowest and the highest address of a batch."""
    if not len(data):
        return 0, 0
    table = data.table()
    spans = (table.shapes - 1) * table.strides
    starts, ends = table.pointers + np.minimum(spans, 0).sum(1), table.pointers + np.maximum(spans, 0).sum(1)
    return int(starts.min()), int(ends.max()) + table.dtype.itemsize


def _is_known(node: DataNode) -> bool:
    return isinstance(node, Value) and node.known


def _held(value: Value) -> list[Value]:
    """Return the outputs of the call of a value that the user still holds."""
    group = [each for reference in value.group if (each := reference()) is not None]
    return [each for each in group if each.holder is not None and each.holder() is not None and not each.known]


def evaluation_error(error: PipelineError) -> PipelineError:
    """Return the error for the line that needs a result: in synchronous modes, the error of the operator itself.

    In other modes, it is an error of the same type, whose cause is that of the operator.
    """
    if EvalMode.current() in (EvalMode.sync_cpu, EvalMode.sync_full):
        return error
    outer = copy.copy(error)
    outer.args = (f"An error happened during the evaluation of operators: {error}", *error.args[1:])
    outer.__cause__ = error
    return outer
