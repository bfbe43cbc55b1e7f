"""Tells operators of batches that wait."""

from __future__ import annotations

from collections.abc import Mapping

from dali_proxy.pipeline._graph.graph import Edge, Graph
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import LooksAhead, Operator
from dali_proxy.pipeline._operator_api.request import Announcement, BatchRequest, TensorList


class LookAhead:
    """Lets operators know of batches that wait. Only those that read nothing but fed data can know them.

    Args:
        graph: the graph.
        operators: its operators, by index.

    Attributes:
        operators: those of them that can know.
    """

    def __init__(self, graph: Graph, operators: Mapping[int, Operator]) -> None:
        self._inputs = {Edge(node.index): node.name for node in graph.inputs}
        self.operators = {
            node.index: operator
            for node in graph.nodes
            if isinstance(operator := operators[node.index], LooksAhead)
            and self._inputs.keys() >= {*node.inputs, *node.argument_inputs.values()}
        }

    def announce(self, inputs: Mapping[str, TensorList], size: int) -> Mapping[int, Announcement]:
        """Let operators know of a batch that waits. It takes little time, and starts nothing.

        Args:
            inputs: batch for each input of the graph, by name.
            size: number of samples.

        Returns:
            What to pass on with the batch's request, and to close when it has run, or won't: by index of the operator.
        """
        outputs = {edge: inputs[name] for edge, name in self._inputs.items()}
        batch = Batch.without_executor(BatchRequest(size), outputs)
        found = {index: operator.look_ahead(batch) for index, operator in self.operators.items()}
        return {index: each for index, each in found.items() if each is not None}
