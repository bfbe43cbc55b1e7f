"""All readers of a graph together: each batch takes the next samples of each."""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from typing import Any

from pipeline._concurrency.locks import Level, new_lock
from pipeline._declaration.registry import lookup
from pipeline._graph.graph import Edge, Graph
from pipeline._operator_api.error_context import describe_failure
from pipeline._operator_api.reader import BatchReads, Reader, ReaderMeta, ReaderPosition, SamplesInFlight
from pipeline.errors import OperatorError, PipelineError, SerializationError

__all__ = ["ReaderGroup"]


class ReaderGroup:
    """The readers of a graph, kept in step. Any thread may call.

    Args:
        graph: the graph.
        operators: the implementations of its nodes, by index.
    """

    def __init__(self, graph: Graph, operators: Mapping[int, Any]) -> None:
        self._readers = {index: each for index, each in operators.items() if isinstance(each, Reader)}
        self._origins = _origins(graph, self._readers)
        # A batch takes its samples of all readers, or of none.
        self._lock = new_lock(Level.READER_GROUP, "reader group")

    @property
    def metas(self) -> dict[str, ReaderMeta]:
        """What the readers tell about their data, by their names."""
        return {reader.node.name: reader.meta for reader in self._readers.values()}

    def begin(self, batch_size: int) -> BatchReads:
        """Begin to read the next batch: of every reader, also when one of them fails, so that they stay in step.

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
                del trouble  # it holds this frame: a circle
        return BatchReads(begun, self._origins)

    def skip(self, batch_size: int) -> None:
        """Go on by a batch that will not run, so that readers stay in step with sources."""
        with self._lock:
            for reader in self._readers.values():
                with suppress(PipelineError):  # it can't read at all, which the next batch will say
                    reader.skip(batch_size)

    @property
    def positions(self) -> dict[str, ReaderPosition]:
        """Where the next batch begins, by the names of the readers."""
        with self._lock:
            return {reader.node.name: reader.position for reader in self._readers.values()}

    def restore(self, positions: Mapping[str, ReaderPosition]) -> None:
        """Go on from positions. Readers that have none begin at the start.

        Raises:
            SerializationError: positions of other readers, or of other data sets.
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
    """Return which reader the samples of each output come from, by way of the first inputs of operators.

    The first output of a reader holds the samples; the others say something about them.
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
