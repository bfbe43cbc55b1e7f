"""Drawings of graphs, in the language of Graphviz."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pipeline._graph.graph import Edge, Graph, GraphNode
from pipeline.errors import PipelineError

__all__ = ["Drawing", "draw"]

_COLORS = {"cpu": "blue", "mixed": "cyan", "gpu": "#76b900"}
_TIMEOUT = 30.0  # seconds for Graphviz to lay out a graph


@dataclass(frozen=True)
class Drawing:
    """A drawing of a graph. Notebooks display it.

    Attributes:
        dot: the drawing in the language of Graphviz.
    """

    dot: str

    def save(self, filename: str | Path) -> None:
        """Write the drawing to a file: as SVG if its name ends in ".svg", otherwise in the language of Graphviz.

        Raises:
            PipelineError: the file is SVG, and Graphviz is missing.
        """
        path = Path(filename)
        path.write_text(self.svg() if path.suffix == ".svg" else self.dot, encoding="utf-8")

    def svg(self) -> str:
        """Return the drawing as SVG.

        Raises:
            PipelineError: Graphviz is missing.
        """
        program = shutil.which("dot")
        if program is None:
            raise PipelineError("drawing needs the program `dot` of Graphviz: install graphviz, see graphviz.org")
        finished = subprocess.run(
            [program, "-Tsvg"], input=self.dot, capture_output=True, encoding="utf-8", timeout=_TIMEOUT, check=False
        )
        if finished.returncode:
            raise PipelineError(f"Graphviz couldn't draw the graph: {finished.stderr.strip()}")
        return finished.stdout

    def _repr_svg_(self) -> str | None:
        return None if shutil.which("dot") is None else self.svg()

    def __str__(self) -> str:
        return self.dot


def draw(graph: Graph, show_tensors: bool = False, show_ids: bool = False, use_colors: bool = False) -> Drawing:
    """Draw a graph: an ellipse for each operator, an arrow for each batch between two of them.

    Args:
        graph: the graph.
        show_tensors: whether to draw a box for each batch, between the operator that creates it and its readers.
        show_ids: whether to show the operators' numbers in the graph.
        use_colors: whether to show devices by colors.
    """
    lines = ["digraph pipeline {"]
    for node in graph.nodes:
        lines.append(f"  {_id(node)} [{_attributes(node, show_ids, use_colors)}];")
    for node in graph.nodes:
        for output in range(node.output_count):
            lines += _arrows(graph, Edge(node.index, output), show_tensors, use_colors)
    return Drawing("\n".join([*lines, "}", ""]))


def _arrows(graph: Graph, edge: Edge, show_tensors: bool, use_colors: bool) -> list[str]:
    node = graph.nodes[edge.node]
    readers = [(other, "") for other in graph.nodes for source in other.inputs if source == edge]
    readers += [
        (other, name) for other in graph.nodes for name, source in other.argument_inputs.items() if source == edge
    ]
    if not show_tensors:
        return [f"  {_id(node)} -> {_id(other)}{_label(name)};" for other, name in readers]
    box = json.dumps(f"{node.name}[{edge.output}]")
    style = f', color="{_COLORS[graph.device_of(edge)]}"' if use_colors else ""
    bold = ", penwidth=2" if edge in graph.outputs else ""
    return [
        f"  {box} [shape=box{style}{bold}];",
        f"  {_id(node)} -> {box};",
        *(f"  {box} -> {_id(other)}{_label(name)};" for other, name in readers),
    ]


def _attributes(node: GraphNode, show_ids: bool, use_colors: bool) -> str:
    label = [node.schema.display]
    if not node.name.startswith("__"):
        label.append(node.name)
    if show_ids:
        label.append(f"id {node.index}")
    color = f', color="{_COLORS[node.device]}"' if use_colors else ""
    return f"label={json.dumps(chr(10).join(label))}{color}"


def _id(node: GraphNode) -> str:
    return json.dumps(node.name)


def _label(name: str) -> str:
    return f" [label={json.dumps(name)}, style=dashed]" if name else ""
