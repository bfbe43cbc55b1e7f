"""A variant of the user's pipeline that the host runs: one for each placement that may be chosen while it runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dali_proxy._host.planning import Planning
from dali_proxy._transport.fields import unpack_table
from dali_proxy._transport.publisher import ResultPublisher, StagedResult
from dali_proxy.pipeline._bulk.gather import gathered
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._definition import Pipeline
from dali_proxy.pipeline._executor.batch_order import BatchOrder
from dali_proxy.pipeline._executor.statistics import StepTimes
from dali_proxy.pipeline._external_source.data import check_batch, declares_data
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._ipc.errors import ProtocolError
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._remote.urls import LONGEST_PATH
from dali_proxy.pipeline._rng import BatchKey
from dali_proxy.pipeline.tensors.cpu import TensorListCPU

if TYPE_CHECKING:
    from dali_proxy._host.clients import Worker
    from dali_proxy._transport.protocol import Submit

_TIMES = "0,000.00 s · 100 % · gpu"  # the longest text in a box of the page


class Received(Protocol):
    """What a variant needs of a `Request`."""

    worker: Worker
    paths: tuple[TensorListCPU, ...]


class Variant:
    """A built pipeline, and what the host must know about it.

    All variants have the same inputs and compute the same outputs.

    Args:
        number: its number in messages.
        pipeline: the pipeline; it is built.
        publisher: destination of the results.
        host_stage_only: whether it is only the host stage, and consumers run the device stage.
        device_stage: the device stage, if the host plans its GPU work; else empty.

    Attributes:
        number: see above.
        sends_origin: whether consumers continue its batches.
        executor: runs it.
        submit: starts a batch; see `pipeline._definition.running.PipelineRunner`.
        next_number: returns the number of the next batch, for `order`.
        order: the order of the results, by these numbers; None if the device stage can't call the user's code, so that
            it doesn't matter.
    """

    def __init__(
        self,
        number: int,
        pipeline: Pipeline,
        publisher: ResultPublisher,
        host_stage_only: bool = False,
        device_stage: bytes = b"",
    ) -> None:
        internals = pipeline._internals
        self.number = number
        self.sends_origin = host_stage_only
        self._close = internals.close
        self.submit = internals.runner.submit
        self._max_batch_size = internals.arguments.batch_size
        self._inputs = tuple(internals.graph.fed_inputs.values())
        self._declared = {node.index for node in self._inputs if declares_data(node)}
        self._path_inputs = {node.inputs[0].node for node in internals.graph.find(Role.FILE_READ)}
        self._publisher = publisher
        self._planning = Planning(device_stage) if device_stage else None
        self.executor = internals.runner.executor
        self.executor.batch_memory.allocator = publisher.allocate if self._planning is None else self._allocate
        self.executor.batch_memory.on_gpu = publisher.device_memory
        self.order = BatchOrder() if host_stage_only and self._planning is None else None
        self.next_number = itertools.count().__next__

    def read_inputs(self, message: Submit, request: Received) -> dict[str, TensorList]:
        """Return the inputs of a request, in the worker's shared memory.

        Raises:
            ProtocolError: the message doesn't fit the pipeline or the worker's shared memory.
            InputError: the data doesn't fit the declaration of its input.
        """
        if len(message.inputs) != len(self._inputs):
            raise ProtocolError(f"expected {len(self._inputs)} inputs, not {len(message.inputs)}")
        inputs: dict[str, TensorList] = {}
        for node, packed in zip(self._inputs, message.inputs, strict=True):
            dtype, table = unpack_table(packed.dtype, 2 + packed.ndim, packed.table)
            if len(table) != message.batch_size:
                raise ProtocolError(f"expected {message.batch_size} samples, not {len(table)}")
            batch = request.worker.arena.batch(table, dtype)
            if node.index in self._path_inputs and batch.nbytes <= LONGEST_PATH * len(batch):
                # For errors, which may occur after the worker reuses its memory.
                request.paths = (*request.paths, gathered(batch))
            checked = node.index in self._declared
            inputs[node.name] = check_batch(batch, node, self._max_batch_size) if checked else batch
        return inputs

    def stage(self, outputs: Sequence[TensorList], key: BatchKey) -> StagedResult:
        """Put the outputs of a batch into slots, with the plan of the device stage if this host makes it."""
        planned = None if self._planning is None else self._planning.plan(outputs, key)
        return self._publisher.stage(outputs) if planned is None else self._publisher.stage_planned(planned)

    def operators(self) -> list[StepTimes]:
        """Return the times of all operators."""
        return [*self.executor.statistics.operators(), *(self._planning.times() if self._planning else ())]

    def describe(self) -> dict[str, Any]:
        """Return the operators of the graph, and a layout of them, for a page in a browser."""
        from dali_proxy.pipeline._graph.diagram import Arrow, Box, Diagram  # most servers draw nothing

        graph, labels = self.executor.graph, self.executor.statistics.labels
        shown = [node for node in graph.nodes if node.schema.role is not Role.CONSTANT]
        positions = {node.index: position for position, node in enumerate(shown)}
        read = [sorted({edge.node for edge in _read(node)} & positions.keys()) for node in shown]
        diagram = Diagram(
            [Box(node.display, _TIMES) for node in shown],
            [Arrow(positions[source], target) for target, sources in enumerate(read) for source in sources],
        )
        nodes = [
            {
                "id": node.index,
                "name": node.display,
                "label": labels[node.index],
                "device": node.device,
                "line": str(node.location) if node.location.line else "",
                "x": x,
                "y": y,
                "width": box.width,
            }
            for node, box, (x, y) in zip(shown, diagram.boxes, diagram.layout.boxes, strict=True)
        ]
        return {
            "nodes": nodes,
            "outputs": [edge.node for edge in graph.outputs],
            "arrows": diagram.paths,
            "width": diagram.layout.width,
            "height": diagram.layout.height,
            "host_stage_only": self.sends_origin,
        }

    def close(self) -> None:
        """Finish all batches that were started, and free all resources."""
        self._close()

    def _allocate(self, output: int, nbytes: int) -> tuple[Any, Any] | None:
        assert self._planning is not None  # else the executor calls the publisher
        if output not in self._planning.unchanged:
            return None  # `stage_planned` puts all data for launches into one slot
        return self._publisher.allocate(output, nbytes)


def _read(node: GraphNode) -> tuple[Edge, ...]:
    return *node.inputs, *node.argument_inputs.values()
