"""`FunctionCall`: how a function of the user processes the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dali_proxy.pipeline._graph.graph import Graph, GraphNode
from dali_proxy.pipeline._graph.reasons import reason_of
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._user_functions.frameworks import Arrays, Capsules, Tensors
from dali_proxy.pipeline._user_functions.seeding import Caller
from dali_proxy.pipeline.errors import InputError, OperatorError, SampleFailure
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

_FRAMEWORKS = {"python_function": Arrays, "dl_tensor_python_function": Capsules, "torch_python_function": Tensors}


@dataclass(frozen=True, eq=False)
class FunctionCall:
    """A function of the user, and the way to call it.

    A function with the attribute `with_layouts` is replaced by what this method returns for the layouts of the inputs.
    One with `keeps_layout` passes the layout of its first input on to outputs with as many dimensions.

    Attributes:
        function: the function.
        num_outputs: number of outputs that it returns.
        batch_processing: whether it gets lists of samples; otherwise it gets single samples.
        layouts: layouts of the outputs, or of the first ones.
        framework: kind of its arguments.
    """

    function: Callable[..., Any]
    num_outputs: int
    batch_processing: bool
    layouts: tuple[str, ...]
    framework: Arrays

    @classmethod
    def from_node(cls, node: GraphNode, device_id: int | None) -> FunctionCall:
        """Return the call that an operator describes."""
        framework: Arrays = _FRAMEWORKS[node.operator](device_id)
        if isinstance(framework, Capsules):
            framework = replace(framework, synchronize=node.argument("synchronize_stream"))
        return cls(
            node.argument("function"),
            int(node.argument("num_outputs")),
            bool(node.argument("batch_processing")),
            tuple(node.argument("output_layouts") or ()),
            framework,
        )

    def run(self, inputs: Sequence[TensorList], size: int, caller: Caller, stream: Any = None) -> list[TensorList]:
        """Process samples of a batch, and return those of each output.

        Raises:
            OperatorError: the function failed for a sample.
            Exception: the function failed for the batch.
        """
        framework, function = self.framework, self.function
        if hasattr(function, "with_layouts"):
            function = function.with_layouts([each.layout() for each in inputs])
        columns = [_samples(each) for each in inputs]
        passed: set[int] = set()

        def call(number: int) -> list[Any]:
            return self._unpacked(caller.call(number, function, lambda: arguments_of(number)))

        def arguments_of(number: int) -> list[Any]:
            if framework.device_id is not None and number in passed:  # the first call may have modified the copies
                columns[:] = [_samples(each) for each in inputs]
            passed.add(number)
            if self.batch_processing:
                return [[framework.to_argument(sample) for sample in column] for column in columns]
            return [framework.to_argument(column[number]) for column in columns]

        with framework.context(stream):
            outputs = self._whole(call, size) if self.batch_processing else self._each(call, size)
            arrays = [[framework.to_array(value) for value in column] for column in outputs]
        kind = TensorListCPU if framework.device_id is None else TensorListGPU
        return [kind(column, self._layout(number, column, inputs)) for number, column in enumerate(arrays)]

    def _whole(self, call: Callable[[int], list[Any]], size: int) -> list[Any]:
        returned = call(0)
        for number, column in enumerate(returned):
            if not hasattr(column, "__len__") or len(column) != size:
                found = f"{len(column)} samples" if hasattr(column, "__len__") else type(column).__name__
                raise InputError(f"the function returned {found} as output {number}, but the batch has {size} samples")
        return [list(column) for column in returned]

    def _each(self, call: Callable[[int], list[Any]], size: int) -> list[Any]:
        rows = []
        for sample in range(size):
            try:
                rows.append(call(sample))
            except BaseException as error:
                kind = OperatorError.type_for(error)
                raise kind(reason_of(error), failures=(SampleFailure(sample, error),)) from error
        return [list(column) for column in zip(*rows, strict=True)]

    def _unpacked(self, returned: Any) -> list[Any]:
        if self.num_outputs == 0:
            return []
        several = isinstance(returned, tuple) or (isinstance(returned, list) and self.num_outputs > 1)
        values = list(returned) if several else [returned]
        if self.num_outputs == 1 and not self.batch_processing:
            values = values[:1]  # as in DALI; in a batch, further values may be samples
        if returned is None or len(values) != self.num_outputs:
            count = 0 if returned is None else len(values)
            advice = ": return the samples of an output as a list" if self.batch_processing and several else ""
            raise InputError(f"the function returned {count} outputs, but num_outputs is {self.num_outputs}{advice}")
        return values

    def _layout(self, number: int, column: list[Any], inputs: Sequence[TensorList]) -> str:
        if number < len(self.layouts):
            return self.layouts[number]
        if getattr(self.function, "keeps_layout", False) and inputs and column and column[0].ndim == inputs[0].ndim:
            return inputs[0].layout()
        return ""


def _samples(value: Any) -> list[Any]:
    """Return the samples; on the GPU, copies, because a copy of the batch costs less than one for each sample."""
    if isinstance(value, TensorListGPU):
        return [sample.copy() for sample in value.samples] if value.dense is None else list(value.dense.copy())
    if isinstance(value, TensorListCPU) and value.dense is not None and value.ndim == 0:
        return [value.dense[sample, ...] for sample in range(len(value))]
    return list(value.samples)


def function_nodes(graph: Graph) -> list[GraphNode]:
    """Return the operators of a graph that run functions of the user."""
    return [node for node in graph.nodes if node.operator in _FRAMEWORKS]
