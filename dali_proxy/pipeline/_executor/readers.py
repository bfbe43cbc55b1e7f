"""The readers of a graph as a group: each batch takes the next samples of every reader."""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from typing import Any

from dali_proxy.pipeline._concurrency.locks import Level, new_lock
from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._graph.graph import Edge, Graph
from dali_proxy.pipeline._operator_api.batch_reads import BatchReads, SamplesInFlight
from dali_proxy.pipeline._operator_api.error_context import describe_failure
from dali_proxy.pipeline._operator_api.reader import ReaderMeta, ReaderOperator, ReaderPosition
from dali_proxy.pipeline.errors import OperatorError, PipelineError, SerializationError


class ReaderGroup:
    """The readers of a graph, kept in step. It is thread-safe.

    Args:
        graph: the graph.
        operators: the implementations of its nodes, by index.

    Attributes:
        nothing: what each batch reads if the graph has no readers; else None.
    """

    def __init__(self, graph: Graph, operators: Mapping[int, Any]) -> None:
        self._readers = {index: each for index, each in operators.items() if isinstance(each, ReaderOperator)}
        self._origins = _origins(graph, self._readers)
        self.nothing = None if self._readers else BatchReads({}, self._origins)
        self._lock = new_lock(Level.READER_GROUP, "reader group")  # a batch takes its samples from all readers at once

    @property
    def metas(self) -> dict[str, ReaderMeta]:
        """Metadata of the readers' data sets, by the names of the readers."""
        return {reader.node.name: reader.meta for reader in self._readers.values()}

    def begin(self, batch_size: int) -> BatchReads:
        """Begin to read the next batch from every reader, even when one of them fails, so that they stay in step.

        Raises:
            OperatorError: a reader can't read at all.
        """
        begun: dict[int, SamplesInFlight] = {}
        trouble: OperatorError | None = None
        with self._lock:
            for index, reader in self._readers.items():
                try:
                    begun[index] = reader.begin(batch_size)
                except Exception as error:  # noqa: BLE001 - it is raised below, after the other readers have begun
                    described = describe_failure(reader.node, error)
                    described.__cause__ = error
                    trouble = trouble or described
        if trouble is not None:
            try:
                raise trouble
            finally:
                del trouble  # its traceback references this frame: a reference cycle
        return BatchReads(begun, self._origins)

    def skip(self, batch_size: int) -> None:
        """Advance by a batch that won't run, so that readers stay in step with sources."""
        with self._lock:
            for reader in self._readers.values():
                with suppress(PipelineError):  # it can't read at all: the next batch reports that
                    reader.skip(batch_size)

    @property
    def positions(self) -> dict[str, ReaderPosition]:
        """Positions of the next batch, by the names of the readers."""
        with self._lock:
            return {reader.node.name: reader.position for reader in self._readers.values()}

    def restore(self, positions: Mapping[str, ReaderPosition]) -> None:
        """Resume from positions. Readers without one don't move.

        Raises:
            SerializationError: the positions are those of other readers, or of other data sets.
        """
        names = {reader.node.name for reader in self._readers.values()}
        if set(positions) - names:
            unknown = ", ".join(sorted(map(repr, set(positions) - names)))
            raise SerializationError(f"the checkpoint belongs to another pipeline: this one has no reader {unknown}")
        with self._lock:
            for reader in self._readers.values():
                if reader.node.name in positions:
                    reader.restore(positions[reader.node.name])


def _origins(graph: Graph, readers: Container[int]) -> dict[Edge, int]:
    """Return the index of the reader that each output's samples come from, along the first inputs of operators.

    The first output of a reader holds the samples; its other outputs describe them.
    """
    origins: dict[Edge, int] = {}
    for node in graph.nodes:
        if node.index in readers:
            origins[Edge(node.index)] = node.index
        elif node.inputs and node.inputs[0] in origins and lookup(node.operator).keeps_order:
            origin = origins[node.inputs[0]]
            if node.schema.merges and any(origins.get(edge) != origin for edge in node.inputs):
                continue
            origins.update({Edge(node.index, output): origin for output in range(node.output_count)})
    return origins
