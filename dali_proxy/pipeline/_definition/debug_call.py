"""`KeptCall`: an operator in debug mode, which lives from batch to batch and runs when the graph function calls it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._executor.shared import SharedResources
from dali_proxy.pipeline._external_source.spec import SourceOutput
from dali_proxy.pipeline._graph.graph import Edge, Graph
from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall
from dali_proxy.pipeline._graph.on_cpu import check_movable
from dali_proxy.pipeline._graph.subgraph import Subgraph
from dali_proxy.pipeline._operator_api.request import BatchRequest, ExecutorConfig, TensorList
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.errors import GraphError
from dali_proxy.pipeline.tensors.gpu import TensorListGPU


class KeptCall:
    """An operator and its state, such as the position of a reader. It runs in an executor that has only this operator.

    Args:
        call: the first call of the operator.
        number: number of the call in the graph, on which its random numbers depend.
        twin: number of the call whose random numbers it shares; None for its own.
        config: configuration of executors.
        shared: threads and GPU of all operators.
        on_cpu: whether it runs on the CPU, whatever its device.

    Attributes:
        declared: the operator as the user declared it, in its own graph.
        node: the same as it runs.

    Raises:
        DeviceError: it can't run on the CPU.
    """

    def __init__(
        self,
        call: OperatorCall,
        number: int,
        twin: int | None,
        config: ExecutorConfig,
        shared: SharedResources,
        on_cpu: bool = False,
    ) -> None:
        self._call = call
        self._shared = shared
        self._config = config
        # One node for each input, because an operator may read a node twice in one batch and two nodes in the next.
        keywords = {key: copy(node) for key, node in call.argument_inputs.items()}
        call = replace(call, inputs=tuple(map(copy, call.inputs)), argument_inputs=keywords)
        read = (*call.inputs, *keywords.values())
        subgraph = Subgraph([call], lambda _: True)
        fed = [replace(node, device="cpu") if on_cpu else node for node in subgraph.graph(()).nodes[:-1]]
        self._names = [subgraph.input_name(subgraph.edge(node).node) for node in read]
        self.declared = replace(
            subgraph.graph(()).nodes[-1],
            name=call.name or f"__{call.schema.name}_{number}",
            stream=(number if twin is None else twin) + 1,
        )
        if on_cpu and call.device != "cpu":
            check_movable(self.declared)
        self.node = replace(self.declared, device="cpu") if on_cpu else self.declared
        outputs = tuple(Edge(self.node.index, output) for output in range(self.node.output_count))
        self._graph = Graph((*fed, self.node), outputs)
        self._executor: Executor | None = None

    @property
    def executor(self) -> Executor:
        """The executor. Reading this creates it."""
        if self._executor is None:
            self._executor = Executor(self._graph, self._config, self._shared)
        return self._executor

    def check(self, call: OperatorCall) -> None:
        """Check that a call in a later batch is the same as the first one, except for the data of its inputs.

        Raises:
            GraphError: it isn't.
        """
        first, name = self._call, call.schema.name
        if name != first.schema.name:
            raise GraphError(
                f"Unexpected operator {name!r}. Debug mode does not support changing the order of operators executed "
                f"within the pipeline. At this position, the first batch had {first.schema.name!r}\n"
                f"  at {call.location}"
            )
        if len(call.inputs) != len(first.inputs):
            raise GraphError(
                f"Trying to use operator {name!r} with different number of inputs than when it was built. "
                f"It has {len(call.inputs)} instead of {len(first.inputs)}\n  at {call.location}"
            )
        now, before = _keywords(call), _keywords(first)
        if len(now) != len(before):
            raise GraphError(
                f"Trying to use operator {name!r} with different number of keyword arguments than when it was "
                f"built. It has {sorted(now)} instead of {sorted(before)}\n  at {call.location}"
            )
        for index, (one, other) in enumerate(zip(call.inputs, first.inputs, strict=True)):
            _check_node(f"Input {index}", name, one, other, call)
        for key, value in now.items():
            self._check_argument(key, value, before.get(key), call)
        if call.device != first.device:
            raise GraphError(
                f"The operator {name!r} runs on the {call.device} device, but ran on {first.device} when created\n"
                f"  at {call.location}"
            )

    def _check_argument(self, key: str, value: Any, before: Any, call: OperatorCall) -> None:
        name = call.schema.name
        if isinstance(value, DataNode) or isinstance(before, DataNode):
            _check_node(f"Argument {key!r}", name, value, before, call)
        elif not _same(value, before):
            raise GraphError(
                f"Argument {key!r} for operator {name!r} unexpectedly changed value from {before!r} to {value!r}. "
                f"Debug mode doesn't support arguments that change from batch to batch\n  at {call.location}"
            )

    def run(
        self,
        inputs: Sequence[TensorList],
        size: int,
        key: BatchKey,
        branch: tuple[int, npt.NDArray[np.int64]] | None = None,
    ) -> tuple[TensorList, ...]:
        """Run the operator for one batch and wait for it.

        Args:
            inputs: the batches of its inputs and argument inputs; for an `external_source`, the data.
            size: number of samples.
            key: identity of the batch, for random numbers.
            branch: the size of the whole batch and the positions of the samples in it, if they belong to a branch.

        Raises:
            PipelineError: the operator failed.
        """
        names = [self.node.name] if self.node.schema.fed else self._names
        outputs = self.executor.run(BatchRequest(size, dict(zip(names, inputs, strict=True)), key, branch=branch))
        for output in outputs:
            if isinstance(output, TensorListGPU) and output.ready is not None:
                output.ready.synchronize()
        return outputs

    def close(self) -> None:
        """End the threads of the executor."""
        if self._executor is not None:
            self._executor.close()


def _keywords(call: OperatorCall) -> Mapping[str, Any]:
    return {**call.arguments, **call.argument_inputs}


def _check_node(label: str, operator: str, value: Any, before: Any, call: OperatorCall) -> None:
    now, then = _kind(value), _kind(before)
    if now != then:
        raise GraphError(
            f"{label} for operator {operator!r} is {now} but was {then} when created.\n  at {call.location}"
        )


def _kind(value: Any) -> str:
    if not isinstance(value, DataNode) or (value.source is not None and value.source.schema.role is Role.CONSTANT):
        return "a constant"
    return f"on {value.device.upper()}"


def _same(value: Any, before: Any) -> bool:
    if isinstance(value, SourceOutput) or callable(value):
        return True  # graph functions create them again for each batch; the first one stays in use
    if isinstance(value, tuple | list) and isinstance(before, tuple | list):
        return len(value) == len(before) and all(map(_same, value, before))
    if isinstance(value, float) and isinstance(before, float) and math.isnan(value):
        return math.isnan(before)
    return bool(np.array_equal(value, before)) if isinstance(value, np.ndarray) else bool(value == before)
