"""Pipelines as bytes that include code, for the process that hosts them, and pipelines with parts of their graphs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dali_proxy.pipeline._declaration.registry import modules_of
from dali_proxy.pipeline._definition.graph_format import decode_pipeline, encode_pipeline
from dali_proxy.pipeline._definition.pipeline import Pipeline, pipeline_from_graph
from dali_proxy.pipeline._ipc import pickling

if TYPE_CHECKING:
    from dali_proxy.pipeline._graph import Graph


def serialize_for_host(pipeline: Pipeline) -> bytes:
    """Return a pipeline as bytes for another process of the same user. They contain code: don't read foreign bytes."""
    internals = pipeline._internals
    serialized = encode_pipeline(internals.graph, pipeline._internals.fixed_arguments())
    labels = {repr(name): value for name, value in serialized.objects.items()}
    modules = modules_of({node.operator for node in internals.graph.nodes})
    return pickling.dumps((modules, serialized.data, serialized.objects), labels)


def deserialize_for_host(data: bytes) -> Pipeline:
    """Return the pipeline that `serialize_for_host` turned into bytes, not built yet."""
    modules, *serialized = pickling.loads(data)
    for module in modules:  # importing all operators would take longer than the rest of the start of a host
        importlib.import_module(module)
    return pipeline_from_graph(*decode_pipeline(*serialized))


def with_graph(pipeline: Pipeline, graph: Graph, **arguments: Any) -> Pipeline:
    """Return a pipeline that runs another graph with the arguments and the seed of this one, not built yet."""
    copy: Pipeline = pipeline._internals.with_graph(graph, **arguments)
    return copy


def on_cpu(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline that runs the graph of a pipeline on the CPU, not built yet, with the same arguments and seed.

    Returns `pipeline` itself if it runs on the CPU anyway.
    """
    internals = pipeline._internals
    if internals.on_cpu:
        return pipeline
    moved = pipeline_from_graph(internals.declared_graph, pipeline._internals.fixed_arguments())
    moved._internals.builder = internals.builder  # knows the user's names
    moved._internals.run_on_cpu()
    return moved
