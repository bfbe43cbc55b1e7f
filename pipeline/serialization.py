"""Graphs and pipeline arguments as bytes: a versioned format that runs no code when it is read.

Callables and other objects have no safe form. `encode_pipeline` puts them aside, in a list that the caller may
send by other means (to a process of its own) or refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgpack
import numpy as np

from pipeline.errors import SerializationError
from pipeline.graph.graph import Edge, Graph, GraphNode
from pipeline.graph.location import SourceLocation
from pipeline.operators.registry import all_schemas
from pipeline.types import DALIDataType, DALIImageType, DALIInterpType

__all__ = ["FORMAT_VERSION", "SerializedPipeline", "decode_pipeline", "encode_pipeline"]

MAGIC = b"dali-proxy pipeline\n"
FORMAT_VERSION = 1

_ENUMS = {"dtype": DALIDataType, "image": DALIImageType, "interp": DALIInterpType}


@dataclass(frozen=True)
class SerializedPipeline:
    """A graph, the arguments of the pipeline, and the objects that have no safe form.

    Attributes:
        data: the safe part.
        objects: callables and such that the graph refers to by position.
    """

    data: bytes
    objects: tuple[Any, ...] = ()


def encode_pipeline(graph: Graph, arguments: Mapping[str, Any]) -> SerializedPipeline:
    """Turn a graph and the arguments of its pipeline to bytes."""
    objects: list[Any] = []

    def encode(value: Any) -> Any:
        if isinstance(value, bool | int | float | str | bytes | None):
            for tag, enum in _ENUMS.items():
                if isinstance(value, enum):
                    return {"enum": tag, "value": int(value)}
            return value
        if isinstance(value, tuple | list):
            return {"tuple": [encode(item) for item in value]}
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            contiguous = np.ascontiguousarray(value)
            return {"array": contiguous.tobytes(), "dtype": value.dtype.str, "shape": list(value.shape)}
        if isinstance(value, dict):
            return {"dict": [[encode(key), encode(item)] for key, item in value.items()]}
        if isinstance(value, slice):
            return {"slice": [encode(value.start), encode(value.stop), encode(value.step)]}
        if value is Ellipsis:
            return {"ellipsis": True}
        objects.append(value)
        return {"object": len(objects) - 1}

    content = {
        "version": FORMAT_VERSION,
        "arguments": {name: encode(value) for name, value in arguments.items()},
        "outputs": [[edge.node, edge.output] for edge in graph.outputs],
        "nodes": [
            {
                "operator": node.operator,
                "name": node.name,
                "device": node.device,
                "inputs": [[edge.node, edge.output] for edge in node.inputs],
                "arguments": {name: encode(value) for name, value in node.arguments.items()},
                "argument_inputs": {name: [e.node, e.output] for name, e in node.argument_inputs.items()},
                "location": asdict(node.location),
            }
            for node in graph.nodes
        ],
    }
    return SerializedPipeline(MAGIC + msgpack.packb(content), tuple(objects))


def decode_pipeline(data: bytes, objects: Sequence[Any] = ()) -> tuple[Graph, dict[str, Any]]:
    """Make a graph and the arguments of its pipeline from what `encode_pipeline` returned.

    Raises:
        SerializationError: for bytes that are no pipeline, one of another version, one with operators that this
            version doesn't have, or one that refers to objects that weren't given.
    """
    if not data.startswith(MAGIC):
        raise SerializationError("these bytes are no serialized pipeline of dali-proxy")

    def decode(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "enum" in value:
            return _ENUMS[value["enum"]](value["value"])
        if "tuple" in value:
            return tuple(decode(item) for item in value["tuple"])
        if "array" in value:
            flat = np.frombuffer(value["array"], dtype=np.dtype(value["dtype"]))
            return flat.reshape(value["shape"]).copy()
        if "dict" in value:
            return {decode(key): decode(item) for key, item in value["dict"]}
        if "slice" in value:
            return slice(*(decode(item) for item in value["slice"]))
        if "ellipsis" in value:
            return Ellipsis
        if value["object"] >= len(objects):
            raise SerializationError(
                "the pipeline has Python callables or objects, which a file can't hold safely: pass them again"
            )
        return objects[value["object"]]

    try:
        content = msgpack.unpackb(data[len(MAGIC) :], strict_map_key=False)
        if content["version"] != FORMAT_VERSION:
            raise SerializationError(
                f"the pipeline was serialized in format {content['version']}, this version reads {FORMAT_VERSION}"
            )
        arguments = {name: decode(value) for name, value in content["arguments"].items()}
        nodes = tuple(
            GraphNode(
                index=index,
                operator=item["operator"],
                name=item["name"],
                device=item["device"],
                inputs=tuple(Edge(*edge) for edge in item["inputs"]),
                arguments={name: decode(value) for name, value in item["arguments"].items()},
                argument_inputs={name: Edge(*edge) for name, edge in item["argument_inputs"].items()},
                location=SourceLocation(**item["location"]),
            )
            for index, item in enumerate(content["nodes"])
        )
        graph = Graph(nodes, tuple(Edge(*edge) for edge in content["outputs"]))
    except SerializationError:
        raise
    except Exception as error:
        raise SerializationError(f"the serialized pipeline is damaged: {type(error).__name__}: {error}") from error
    _check_graph(graph)
    return graph, arguments


def _check_graph(graph: Graph) -> None:
    known = {schema.name: schema for schema in all_schemas()}
    for node in graph.nodes:
        schema = known.get(node.operator)
        if schema is None:
            raise SerializationError(f"this version has no operator {node.operator!r}")
        if node.device not in schema.devices:
            raise SerializationError(f"operator {node.operator!r} does not run on the device {node.device!r}")
        if any(not 0 <= edge.node < node.index for edge in node.sources):
            raise SerializationError(f"operator {node.name!r} reads an output that comes after it")
    if any(not 0 <= edge.node < len(graph.nodes) for edge in graph.outputs):
        raise SerializationError("an output of the pipeline is no operator's output")
