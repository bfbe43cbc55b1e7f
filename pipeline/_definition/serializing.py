"""Pipelines as bytes: for files, and for a process of one's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline._definition.arguments import PipelineArguments
from pipeline._definition.description import DescribesGraph
from pipeline._definition.graph_format import SerializedPipeline, decode_pipeline, encode_pipeline
from pipeline._ipc import pickling
from pipeline.errors import ArgumentTypeError, ArgumentValueError, SerializationError

if TYPE_CHECKING:
    from pipeline._definition.pipeline import Pipeline
    from pipeline._graph import Graph

__all__ = ["Serializes"]


class Serializes(DescribesGraph):
    """The part of a pipeline that turns it to bytes and back."""

    _arguments: PipelineArguments

    def serialize(self, define_graph: Callable[[], Any] | None = None, filename: str | Path | None = None) -> bytes:
        """Return the graph and the arguments of the pipeline as bytes, for `deserialize`.

        Sources and other callables are left out: bytes that can be read safely can't hold code. So is what a derived
        class overrides besides `define_graph`.

        Args:
            define_graph: describes the graph instead of the method of that name.
            filename: a file to write the bytes to, as well.

        Raises:
            GraphError: `define_graph` was given, and the graph has been described before.
        """
        if define_graph is not None:
            self.describe(define_graph, "serialize(define_graph=...)")
        data = encode_pipeline(self.graph, self._arguments.given).data
        if filename is not None:
            Path(filename).write_bytes(data)
        return data

    @classmethod
    def deserialize(
        cls,
        serialized_pipeline: bytes | None = None,
        filename: str | Path | None = None,
        *,
        callbacks: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Pipeline:
        """Make a pipeline from what `serialize` returned, and build it. Reading runs no code.

        Args:
            serialized_pipeline: the bytes.
            filename: a file that has them; one of the two is needed.
            callbacks: the callables that the pipeline was described with, by the names of their operators: a source
                by that of its `external_source`, another object by "operator.argument".
            **kwargs: arguments of `Pipeline`, in place of those that were serialized.

        Raises:
            SerializationError: for bytes that are no pipeline, or when callbacks are missing; it names them.

        Example:
            >>> import numpy as np
            >>> from pipeline import Pipeline, fn
            >>> with Pipeline(batch_size=2, num_threads=1, device_id=None) as pipe:
            ...     pipe.set_outputs(fn.external_source(lambda: np.ones((2, 1)), name="ones") * 2)
            >>> copy = Pipeline.deserialize(pipe.serialize(), callbacks={"ones": lambda: np.zeros((2, 1))})
            >>> copy.run()[0].as_array().ravel().tolist()
            [0.0, 0.0]
        """
        if (serialized_pipeline is None) == (filename is None):
            raise ArgumentValueError("deserialize() needs either serialized_pipeline or filename")
        data = serialized_pipeline if filename is None else Path(filename).read_bytes()
        made = _make(SerializedPipeline(_as_bytes(data), callbacks or {}), kwargs)
        made.build()
        return made

    def deserialize_and_build(self, serialized_pipeline: bytes, *, callbacks: Mapping[str, Any] | None = None) -> None:
        """Take the graph from what `serialize` returned, and build the pipeline.

        Arguments that this pipeline was made with stay; those that it wasn't given are taken from the bytes.

        Args:
            serialized_pipeline: the bytes.
            callbacks: as for `deserialize`.

        Raises:
            GraphError: the pipeline has a graph already.
            SerializationError: as for `deserialize`.
        """
        self.refuse_when_described("deserialize_and_build()")
        graph, arguments = decode_pipeline(_as_bytes(serialized_pipeline), callbacks)
        self._arguments = self._arguments.over(arguments)
        self._graph = graph
        self.build()

    def build(self, define_graph: Callable[[], Any] | None = None) -> None:
        """Get ready to run."""
        raise NotImplementedError

    def serialize_for_host(self) -> bytes:
        """Return the pipeline as bytes for a process of one's own; they hold code, never read them from elsewhere."""
        made = encode_pipeline(self.graph, {**self._arguments.given, "seed": self._arguments.drawn_seed})
        return pickling.dumps((made.data, made.objects), {repr(name): each for name, each in made.objects.items()})

    def with_graph(self, graph: Graph, **arguments: Any) -> Pipeline:
        """Return a pipeline that runs another graph as this one would: same arguments, same seed; not built yet.

        Args:
            graph: what to run, such as a half of this pipeline's.
            **arguments: arguments of `Pipeline`, in place of this one's.
        """
        given = {**self._arguments.given, "seed": self._arguments.drawn_seed}
        return _of_graph(graph, {**given, **arguments})

    @classmethod
    def from_host_bytes(cls, data: bytes) -> Pipeline:
        """Make a pipeline from what `serialize_for_host` returned, in a process of one's own."""
        return _make(SerializedPipeline(*pickling.loads(data)), {})


def _make(made: SerializedPipeline, overrides: Mapping[str, Any]) -> Pipeline:
    graph, arguments = decode_pipeline(made.data, made.objects)
    try:
        return _of_graph(graph, {**arguments, **overrides})
    except TypeError as error:
        if isinstance(error, ArgumentTypeError):
            raise
        raise ArgumentTypeError(f"deserialize(): {error}") from error


def _of_graph(graph: Graph, arguments: Mapping[str, Any]) -> Pipeline:
    from pipeline._definition.pipeline import Pipeline  # it is made of this module's class

    pipe = Pipeline(**arguments)
    pipe._graph = graph
    return pipe


def _as_bytes(data: Any) -> bytes:
    if isinstance(data, str):
        raise SerializationError("a serialized pipeline is bytes, but this is a str: for a file, pass filename=")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ArgumentTypeError(f"a serialized pipeline is bytes, not {type(data).__name__}")
    return bytes(data)
