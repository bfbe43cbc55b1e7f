"""Find chains of GPU operators that can run as one: decode, resize, then crop, mirror and normalize."""

from __future__ import annotations

from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline.types import BGR, FLOAT, GRAY, RGB, UINT8

__all__ = ["fused_chains"]

_DECODERS = ("decoders.image", "decoders.image_crop", "decoders.image_random_crop", "decoders.image_slice")
_RESIZERS = ("resize", "random_resized_crop")
_NORMALIZER = "crop_mirror_normalize"


def fused_chains(graph: Graph) -> tuple[tuple[GraphNode, ...], ...]:
    """Return the chains of a graph: an optional decoder, a resize, and `crop_mirror_normalize`.

    Only its successor reads the output of an operator in a chain, so the intermediate results aren't needed.
    Conditions that the graph doesn't determine, such as the number of channels, are checked when a batch runs.
    """
    readers: dict[Edge, int] = {}
    for node in graph.nodes:
        for edge in node.sources:
            readers[edge] = readers.get(edge, 0) + 1
    for edge in graph.outputs:
        readers[edge] = readers.get(edge, 0) + 1

    def before(node: GraphNode) -> GraphNode | None:
        """Return the operator that computes the node's input, if no other node reads it."""
        edge = node.inputs[0]
        maker = graph.nodes[edge.node]
        alone = readers[edge] == 1 and maker.output_count == 1 and not maker.branch
        return maker if alone and maker.device != "cpu" else None

    chains = []
    for node in graph.nodes:
        if not _normalizes(node):
            continue
        resize = before(node)
        if resize is None or not _resizes(resize):
            continue
        decoder = before(resize)
        head = () if decoder is None or not _decodes(decoder) else (decoder,)
        chains.append((*head, resize, node))
    return tuple(chains)


def _normalizes(node: GraphNode) -> bool:
    return (
        (node.operator, node.device, node.branch) == (_NORMALIZER, "gpu", ())
        and node.argument("output_layout") in ("CHW", "HWC")
        and node.argument("out_of_bounds_policy") == "error"
        and not node.argument("pad_output")
    )


def _resizes(node: GraphNode) -> bool:
    return node.device == "gpu" and node.operator in _RESIZERS and node.argument("dtype") in (None, UINT8, FLOAT)


def _decodes(node: GraphNode) -> bool:
    return (
        node.device == "mixed"
        and node.operator in _DECODERS
        and node.argument("output_type") in (RGB, BGR, GRAY)
        and node.argument("dtype") == UINT8
    )
