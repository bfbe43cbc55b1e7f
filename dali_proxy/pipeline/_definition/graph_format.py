"""Graphs and pipeline arguments as bytes: a versioned format that runs no code when it is read.

The bytes are a magic line and a MessagePack map: the version of the format, the arguments of the pipeline, its nodes
and its outputs. Callables and other objects have no safe form. `encode_pipeline` returns them separately, by name, so
that the caller can send them by other means or omit them; `decode_pipeline` needs them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgpack
import numpy as np

from dali_proxy.pipeline._declaration.registry import lookup
from dali_proxy.pipeline._declaration.schema import OperatorSchema
from dali_proxy.pipeline._definition.policies import OperatorConcurrency, StreamPolicy
from dali_proxy.pipeline._external_source.spec import SourceOutput, SourceSpec, describe_source
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode, check_branches, check_names
from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline.errors import ArgumentTypeError, GraphError, SerializationError
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType, to_dali_type, to_numpy_type

MAGIC = b"dali-proxy pipeline\n"
FORMAT_VERSION = 1

_ERRORS = "surrogatepass"  # Python represents paths that aren't UTF-8 by text with surrogates

_ENUMS = {
    "dtype": DALIDataType,
    "image": DALIImageType,
    "interp": DALIInterpType,
    "streams": StreamPolicy,
    "concurrency": OperatorConcurrency,
}


@dataclass(frozen=True)
class SerializedPipeline:
    """A graph, the arguments of the pipeline, and the objects that have no safe form.

    Attributes:
        data: the safe part.
        objects: callables and similar objects by name: the name of a source's operator, otherwise "operator.argument".
    """

    data: bytes
    objects: Mapping[str, Any] = field(default_factory=dict)


def encode_pipeline(graph: Graph, arguments: Mapping[str, Any]) -> SerializedPipeline:
    """Serialize a graph and the arguments of its pipeline."""
    encoder = _Encoder()
    content = {
        "version": FORMAT_VERSION,
        "arguments": {name: encoder.value(value, name) for name, value in arguments.items()},
        "outputs": [[edge.node, edge.output] for edge in graph.outputs],
        "nodes": [
            {
                "operator": node.operator,
                "name": node.name,
                "device": node.device,
                "inputs": [[edge.node, edge.output] for edge in node.inputs],
                "arguments": {name: encoder.argument(value, node, name) for name, value in node.arguments.items()},
                "argument_inputs": {name: [e.node, e.output] for name, e in node.argument_inputs.items()},
                "location": asdict(node.location),
                "branch": [[edge.node, edge.output, value] for edge, value in node.branch],
                "twin": node.twin,
                "stream": node.stream,
            }
            for node in graph.nodes
        ],
    }
    return SerializedPipeline(MAGIC + msgpack.packb(content, unicode_errors=_ERRORS), encoder.objects)


def decode_pipeline(data: Any, objects: Mapping[str, Any] | None = None) -> tuple[Graph, dict[str, Any]]:
    """Return the graph and the arguments of a pipeline that `encode_pipeline` serialized.

    Raises:
        ArgumentTypeError: `data` isn't bytes.
        SerializationError: the bytes aren't a pipeline, or are one of a different version, one with operators that this
            version doesn't have, or one that needs objects that weren't passed.
    """
    if isinstance(data, str):
        raise SerializationError("a serialized pipeline is bytes, but this is a str: for a file, pass filename=")
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ArgumentTypeError(f"a serialized pipeline is bytes, not {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(MAGIC):
        raise SerializationError("these bytes aren't a serialized pipeline of dali-proxy")
    decoder = _Decoder(objects or {})
    try:
        content = msgpack.unpackb(data[len(MAGIC) :], strict_map_key=False, unicode_errors=_ERRORS)
        if content["version"] != FORMAT_VERSION:
            raise SerializationError(
                f"the pipeline was serialized in format {content['version']}, but this version reads {FORMAT_VERSION}"
            )
        arguments = {name: decoder.value(value) for name, value in content["arguments"].items()}
        nodes = tuple(
            GraphNode(
                index=index,
                operator=item["operator"],
                name=item["name"],
                device=item["device"],
                inputs=tuple(Edge(*edge) for edge in item["inputs"]),
                arguments={name: decoder.value(value) for name, value in item["arguments"].items()},
                argument_inputs={name: Edge(*edge) for name, edge in item["argument_inputs"].items()},
                location=SourceLocation(**item["location"]),
                branch=tuple((Edge(*edge), value) for *edge, value in item.get("branch", ())),
                twin=item.get("twin"),
                stream=item.get("stream"),
            )
            for index, item in enumerate(content["nodes"])
        )
        graph = Graph(nodes, tuple(Edge(*edge) for edge in content["outputs"]))
        _check_graph(graph)
    except SerializationError:
        raise
    except Exception as error:
        raise SerializationError(f"the serialized pipeline is damaged: {type(error).__name__}: {error}") from error
    decoder.check_objects()
    return graph, arguments


class _Encoder:
    """Converts values to types of MessagePack. The first key of a dict says which type it represents."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self._sources: dict[SourceSpec, str] = {}

    def argument(self, value: Any, node: GraphNode, name: str) -> Any:
        if isinstance(value, SourceOutput):
            return self._source(value, node)
        return self.value(value, f"{node.name}.{name}")

    def value(self, value: Any, name: str) -> Any:
        if isinstance(value, bool | int | float | str | bytes | None):
            for tag, enum in _ENUMS.items():
                if isinstance(value, enum):
                    return {"enum": tag, "value": int(value)}
            return value
        if isinstance(value, tuple | list):
            return {"tuple": [self.value(item, name) for item in value]}
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            contiguous = np.ascontiguousarray(value)
            return {"array": contiguous.tobytes(), "dtype": int(to_dali_type(value.dtype)), "shape": list(value.shape)}
        if isinstance(value, dict):
            return {"dict": [[self.value(key, name), self.value(item, name)] for key, item in value.items()]}
        self.objects[name] = value
        return {"object": name}

    def _source(self, output: SourceOutput, node: GraphNode) -> Any:
        spec = output.spec
        name = self._sources.setdefault(spec, node.name)
        self.objects[name] = spec.source
        options: dict[str, Any] = {"batch": spec.batch, "batch_info": spec.batch_info, "num_outputs": spec.num_outputs}
        if spec.iterable:
            options["cycle"] = spec.cycle.value
        if spec.parallel:
            options.update(parallel=True, prefetch_queue_depth=spec.prefetch_queue_depth)
        return {"source": name, "output": output.output, "how": options, "display": spec.display}


class _Decoder:
    """Converts the values back. Records missing objects, and uses None in their place."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self._objects = objects
        self._sources: dict[str, SourceSpec] = {}
        self._wanted: dict[str, str] = {}  # descriptions of the objects, for messages

    def value(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "enum" in value:
            return _ENUMS[value["enum"]](value["value"])
        if "tuple" in value:
            return tuple(self.value(item) for item in value["tuple"])
        if "array" in value:
            flat = np.frombuffer(value["array"], dtype=to_numpy_type(value["dtype"]))
            return flat.reshape(value["shape"]).copy()
        if "dict" in value:
            return {self.value(key): self.value(item) for key, item in value["dict"]}
        if "source" in value:
            return self._source(value)
        return self._object(value["object"], "an object")

    def check_objects(self) -> None:
        """Raise an error for missing objects, and for objects that nothing needs."""
        unknown = sorted(set(self._objects) - set(self._wanted))
        if unknown:
            known = ", ".join(map(repr, self._wanted)) or "none"
            raise SerializationError(f"the pipeline has no callback {unknown[0]!r}; its callbacks are: {known}")
        missing = {name: label for name, label in self._wanted.items() if name not in self._objects}
        if missing:
            needs = ", ".join(f"{name!r} ({label})" for name, label in missing.items())
            usage = ", ".join(f"{name!r}: ..." for name in missing)
            raise SerializationError(
                f"the pipeline needs Python objects, which can't be stored safely as bytes: {needs}. Pass them again: "
                f"Pipeline.deserialize(..., callbacks={{{usage}}})"
            )

    def _object(self, name: str, label: str) -> Any:
        self._wanted.setdefault(name, label)
        return self._objects.get(name)

    def _source(self, value: Any) -> SourceOutput | None:
        name = value["source"]
        source = self._object(name, f"the source {value['display']}")
        if name not in self._objects:
            return None
        if name not in self._sources:
            try:
                self._sources[name] = describe_source(source, **value["how"])
            except GraphError as error:
                raise SerializationError(f"the callback {name!r} doesn't fit: {error}") from error
        return SourceOutput(self._sources[name], value["output"])


def _check_graph(graph: Graph) -> None:
    for node in graph.nodes:
        try:
            schema = lookup(node.operator)
        except KeyError:
            raise SerializationError(f"this version doesn't have the operator {node.operator!r}") from None
        if not isinstance(node.name, str):
            raise SerializationError(f"the name of an operator {node.operator!r} is {node.name!r}, which isn't text")
        if node.device not in schema.devices:
            raise SerializationError(f"operator {node.operator!r} doesn't run on the device {node.device!r}")
        if any(not 0 <= edge.node < node.index for edge in node.sources):
            raise SerializationError(f"operator {node.name!r} reads an output of a later operator")
        if node.twin is not None and not 0 <= node.twin < node.index:
            raise SerializationError(f"operator {node.name!r} has the random numbers of a later operator")
        if node.stream is not None and not 0 <= node.stream < 1 << 32:
            raise SerializationError(f"operator {node.name!r} refers to random numbers that don't exist")
        _check_call(node, schema)
    if any(not 0 <= edge.node < len(graph.nodes) for edge in graph.outputs):
        raise SerializationError("a pipeline output doesn't come from any operator")
    for edge in {*graph.outputs, *(edge for node in graph.nodes for edge in node.sources)}:
        if not 0 <= edge.output < graph.nodes[edge.node].output_count:
            raise SerializationError(f"operator {graph.nodes[edge.node].name!r} has no output {edge.output}")
    check_names(graph.nodes)
    check_branches(graph.nodes, graph.outputs)


def _check_call(node: GraphNode, schema: OperatorSchema) -> None:
    least = sum(not declared.optional for declared in schema.inputs)
    if len(node.inputs) < least or (len(node.inputs) > len(schema.inputs) and not schema.variadic):
        raise SerializationError(f"operator {node.name!r} has {len(node.inputs)} inputs")
    for name, value in node.arguments.items():
        declared = schema.argument(name)
        if declared is None:
            raise SerializationError(f"operator {node.operator!r} has no argument {name!r}")
        normal = declared.check(value)
        if isinstance(value, str) and normal != value:  # users may write choices in any case, but operators can't
            raise SerializationError(f"operator {node.operator!r} has the argument {name!r} in the spelling {value!r}")
    for name in node.argument_inputs:
        declared = schema.argument(name)
        if declared is None or not declared.per_sample:
            raise SerializationError(f"operator {node.operator!r} doesn't accept a batch as argument {name!r}")
