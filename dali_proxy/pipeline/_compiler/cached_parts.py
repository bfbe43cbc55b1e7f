"""Find the parts of a graph whose values a cache may keep: decoders, and the deterministic operators behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dali_proxy.pipeline._cache.gpu_cache import GpuCacheOptions
from dali_proxy.pipeline._cache.keys import describe_part
from dali_proxy.pipeline._declaration.registry import has_implementation, implementation
from dali_proxy.pipeline._declaration.schema import DECODERS, DETERMINISTIC, Role
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._operator_api.operator import SampleOperator
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator

# Arguments of decoders of images that the decoder of the CPU doesn't have, or has with another meaning.
_OF_GPU = ("use_fast_idct", "hw_decoder_load", "jpeg_fancy_upsampling")


@dataclass(frozen=True)
class CachedPart:
    """Operators whose results depend on nothing but the samples that they read.

    Attributes:
        nodes: the operators, in order.
        sources: the edges that they read.
        results: the edges that others read.
        key: description of the operators, equal for equal results.
        reading: reads the files that are the only source; None if the source is something else, or others read it, too.
    """

    nodes: tuple[GraphNode, ...]
    sources: tuple[Edge, ...]
    results: tuple[Edge, ...]
    key: bytes
    reading: GraphNode | None = None


def cached_parts(graph: Graph) -> list[CachedPart]:
    """Return the parts of a graph whose values can be kept.

    A part begins with a decoder on the CPU, or a function of the user that is declared deterministic. The operators
    behind it belong to it if they are deterministic and compute each sample from one sample. Operators at its end that
    compute each pixel from one pixel don't: they are fast, and their results are often larger, as those of
    `crop_mirror_normalize`.
    """
    varying = _varying(graph)
    owner: dict[int, int] = {}  # by node: the first decoder of its part
    behind: set[int] = set()  # the others that need results of parts
    for node in graph.nodes:
        before = {owner[edge.node] for edge in node.sources if edge.node in owner}
        is_behind = any(edge.node in behind for edge in node.sources)
        if node.index in varying or is_behind or not _is_separable(node):
            behind.update([node.index] if before or is_behind else ())
        elif before or is_decoder(node) or _is_promised(node):
            first = min(before, default=node.index)
            owner[node.index] = first
            owner.update({index: first for index, other in owner.items() if other in before})
    _drop_cheap_ends(graph, owner)
    parts = []
    for first in sorted(set(owner.values())):
        nodes = tuple(node for node in graph.nodes if owner.get(node.index) == first)
        own = {node.index for node in nodes}
        sources = dict.fromkeys(edge for node in nodes for edge in node.sources if edge.node not in own)
        read = {edge for node in graph.nodes if node.index not in own for edge in node.sources} | set(graph.outputs)
        results = tuple(sorted(edge for edge in read if edge.node in own))
        key = describe_part(nodes, results)
        if results and key is not None:
            reading = _reading(graph, nodes, tuple(sources))
            parts.append(CachedPart(nodes, tuple(sources), results, key, reading))
    return parts


def parts_on_gpu(graph: Graph) -> list[CachedPart]:
    """Return the decoders on the GPU whose values a cache in the GPU's memory may keep: those with a `cache_size`."""
    return [part for node in _steady_on_gpu(graph) if GpuCacheOptions.from_node(node) for part in _alone(node)]


def parts_on_cores(graph: Graph) -> list[CachedPart]:
    """Return what cores compute for decoders of images on the GPU, as parts with the decoder of the CPU."""
    parts = []
    for node in _steady_on_gpu(graph):
        if node.schema.role is Role.IMAGE_DECODER:
            arguments = {name: value for name, value in node.arguments.items() if name not in _OF_GPU}
            parts += _alone(replace(node, device="cpu", arguments=arguments))
    return parts


def _steady_on_gpu(graph: Graph) -> list[GraphNode]:
    """Return the decoders on the GPU that give equal results for equal data in all epochs."""
    varying = _varying(graph)
    return [
        node
        for node in graph.nodes
        if node.schema.role in DECODERS
        and node.device == "mixed"
        and not (node.branch or node.schema.random or any(edge.node in varying for edge in node.sources))
    ]


def _alone(node: GraphNode) -> list[CachedPart]:
    """Return the part that consists of a decoder, in a list, which is empty if `describe_part` can't describe it."""
    results = tuple(Edge(node.index, output) for output in range(node.output_count))
    key = describe_part([node], results)
    return [] if key is None else [CachedPart((node,), tuple(dict.fromkeys(node.sources)), results, key)]


def reasons_against(graph: Graph, parts: Iterable[CachedPart]) -> list[str]:
    """Return why values of decoders aren't kept, as text for users."""
    kept = {node.index for part in parts for node in part.nodes}
    varying = _varying(graph)
    reasons = []
    for node in graph.nodes:
        if node.index in kept or node.schema.role not in DECODERS:
            continue
        if node.branch:
            why = "decodes only some samples, in a branch"
        elif node.schema.random or any(edge.node in varying for edge in node.argument_inputs.values()):
            why = (
                "decodes another window in each epoch. fn.decoders.image, with fn.crop or fn.slice behind it, gives "
                "the same pixels, and the cache keeps its images"
            )
        elif node.device != "cpu":
            why = "decodes on the GPU. With cache_size, it keeps results in the GPU's memory"
        else:
            why = (
                "reads data that may change in each epoch. For functions that give equal results for equal data, "
                "deterministic=True says so"
            )
        reasons.append(f"not cached: {node.display} {why}")
    return reasons


def is_decoder(node: GraphNode) -> bool:
    """Return whether an operator decodes on the CPU, for all samples."""
    return node.schema.role in DECODERS and node.device == "cpu" and not node.branch


def _is_promised(node: GraphNode) -> bool:
    """Return whether the user says that a function on the CPU is deterministic."""
    return node.device == "cpu" and bool(node.arguments.get(DETERMINISTIC))


def _reading(graph: Graph, nodes: Sequence[GraphNode], sources: Sequence[Edge]) -> GraphNode | None:
    """Return the operator that reads the files which are the only source of a part, if nothing else needs them."""
    reading = graph.nodes[sources[0].node] if len(sources) == 1 else None
    if reading is None or reading.operator != "io.file.read" or reading.branch or sources[0] in graph.outputs:
        return None
    own = {node.index for node in nodes}
    readers = {node.index for node in graph.nodes if sources[0] in node.sources}
    return reading if readers <= own else None


def _varying(graph: Graph) -> set[int]:
    """Return the operators whose results may differ for equal data, or are on a GPU.

    These are operators with random numbers and the user's code, and what reads their results.
    """
    found: set[int] = set()
    for node in graph.nodes:
        schema = node.schema
        is_known = schema.fed or schema.is_reader or _is_promised(node)
        varies = node.device != "cpu" or (schema.stateful and not is_known)
        if varies or any(edge.node in found for edge in node.sources):
            found.add(node.index)
    return found


def _is_separable(node: GraphNode) -> bool:
    """Return whether an operator on the CPU computes each sample from one sample."""
    if _is_promised(node):
        return not node.branch
    if node.device != "cpu" or node.branch or node.schema.merges or node.schema.side_effects:
        return False
    kind = implementation(node.operator, "cpu")
    return issubclass(kind, SampleOperator) or kind.traits.per_sample


def _drop_cheap_ends(graph: Graph, owner: dict[int, int]) -> None:
    readers: dict[int, list[int]] = {}
    for node in graph.nodes:
        for edge in node.sources:
            readers.setdefault(edge.node, []).append(node.index)
    for node in reversed(graph.nodes):
        if node.index in owner and _is_cheap(node) and owner.keys().isdisjoint(readers.get(node.index, ())):
            del owner[node.index]


def _is_cheap(node: GraphNode) -> bool:
    """Return whether an operator computes each element of its output from one element of its input."""
    if implementation(node.operator, "cpu").traits.elementwise:
        return True
    if not has_implementation(node.operator, "gpu"):
        return False
    kind = implementation(node.operator, "gpu")
    return issubclass(kind, PixelOperator) and not kind.traits.gathers
