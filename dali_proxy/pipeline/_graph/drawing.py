"""Drawings of graphs: as SVG, in the languages of Graphviz and Mermaid, and as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dali_proxy.pipeline._graph.diagram import Arrow, Box, Diagram
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode

_COLORS = {"cpu": "blue", "mixed": "cyan", "gpu": "#76b900"}
_PLAIN = "#4b5563"  # of outlines without a meaning


@dataclass(frozen=True)
class Drawing:
    """A drawing of a graph. Notebooks display it.

    Attributes:
        dot: the drawing in the language of Graphviz.
        mermaid: the drawing in the language of Mermaid, which Markdown on GitHub and MkDocs display.
        text: a table with a line for each operator.
        diagram: the boxes and arrows of the SVG.
    """

    dot: str
    mermaid: str
    text: str
    diagram: Diagram

    def save(self, filename: str | Path) -> None:
        """Write the drawing to a file: as SVG (".svg"), Mermaid (".mmd"), text (".txt"), or else DOT."""
        path = Path(filename)
        texts = {".mmd": self.mermaid, ".txt": self.text}
        content = self.svg() if path.suffix == ".svg" else texts.get(path.suffix, self.dot)
        path.write_text(content, encoding="utf-8")

    def svg(self) -> str:
        """Return the drawing as SVG."""
        return self.diagram.svg()

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'

    def __str__(self) -> str:
        return self.dot


def draw(
    graph: Graph,
    show_tensors: bool = False,
    show_ids: bool = False,
    use_colors: bool = False,
    times: Mapping[int, float] | None = None,
) -> Drawing:
    """Draw a graph: a shape for each operator, an arrow for each batch between two of them.

    Args:
        graph: the graph.
        show_tensors: whether to draw a box for each batch, between the operator that creates it and its readers.
        show_ids: whether to show the operators' numbers in the graph.
        use_colors: whether to show devices by colors.
        times: processor time of each operator in milliseconds per sample, by its number; operators are filled with a
            color that is the stronger, the larger their share is.
    """
    total = sum(times.values()) if times else 0.0
    shares = {index: time / total for index, time in (times or {}).items() if total}
    dot, mermaid = ["digraph pipeline {"], ["flowchart TD"]
    for node in graph.nodes:
        label = _node_label(node, show_ids, times)
        fill = f', style=filled, fillcolor="{_heat(shares[node.index])}"' if node.index in shares else ""
        color = f', color="{_COLORS[node.device]}"' if use_colors else ""
        dot.append(f"  {_id(node)} [label={json.dumps(chr(10).join(label))}{color}{fill}];")
        mermaid.append(f"  n{node.index}({_quoted('<br>'.join(label))})")
        if node.index in shares:
            mermaid.append(f"  style n{node.index} fill:{_heat(shares[node.index])},color:#000")
    for node in graph.nodes:
        for output in range(node.output_count):
            dot += _arrows(graph, Edge(node.index, output), show_tensors, use_colors)
        mermaid += [f"  n{source.node} --> n{node.index}" for source in node.inputs]
        mermaid += [f"  n{source.node} -. {name} .-> n{node.index}" for name, source in node.argument_inputs.items()]
    for number, edge in enumerate(graph.outputs):
        mermaid.append(f"  n{edge.node} --> output{number}[output {number}]")
    return Drawing(
        "\n".join([*dot, "}", ""]),
        "\n".join([*mermaid, ""]),
        _table(graph, times, shares),
        _diagram(graph, [_node_label(node, show_ids, times) for node in graph.nodes], shares, show_tensors, use_colors),
    )


def _diagram(
    graph: Graph, labels: list[list[str]], shares: Mapping[int, float], show_tensors: bool, use_colors: bool
) -> Diagram:
    boxes: list[Box] = []
    arrows: list[Arrow] = []
    ends: dict[Edge, int] = {}  # the box from which arrows of a batch begin
    for node, label in zip(graph.nodes, labels, strict=True):
        arrows += [Arrow(ends[source], len(boxes)) for source in node.inputs]
        arrows += [Arrow(ends[source], len(boxes), name) for name, source in node.argument_inputs.items()]
        tooltip = f"{node.display} on {node.device}" + (f"\n{node.location}" if node.location.line else "")
        outline = _COLORS[node.device] if use_colors else _PLAIN
        fill = _heat(shares[node.index]) if node.index in shares else "#ffffff"
        operator = len(boxes)
        boxes.append(Box(label[0], " · ".join(label[1:]), tooltip, outline, fill))
        for edge in (Edge(node.index, output) for output in range(node.output_count)):
            ends[edge] = operator
            if show_tensors:
                arrows.append(Arrow(operator, len(boxes)))
                ends[edge] = len(boxes)
                outline = _COLORS[graph.device_of(edge)] if use_colors else _PLAIN
                boxes.append(Box(f"{node.name}[{edge.output}]", outline=outline, radius=0.0))
    for number, edge in enumerate(graph.outputs):
        arrows.append(Arrow(ends[edge], len(boxes)))
        boxes.append(Box(f"output {number}", fill="none"))
    return Diagram(tuple(boxes), tuple(arrows))


def _table(graph: Graph, times: Mapping[int, float] | None, shares: Mapping[int, float]) -> str:
    rows = [("operator", "reads", "device", "ms/sample", "share")]
    for node in graph.nodes:
        reads = [str(edge.node) for edge in node.inputs]
        reads += [f"{name}={edge.node}" for name, edge in node.argument_inputs.items()]
        at = f" (line {node.location.line})" if node.location.line else ""
        time = "" if times is None else f"{times.get(node.index, 0.0):9.3f}"
        share = f"{shares[node.index]:5.0%}" if node.index in shares else ""
        rows.append((f"{node.index:>3} {node.display}{at}", ", ".join(reads), node.device, time, share))
    shown = 3 if times is None else 5
    widths = [max(len(row[column]) for row in rows) for column in range(shown)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
    return "\n".join([*lines, f"outputs: {', '.join(str(edge.node) for edge in graph.outputs)}", ""])


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


def _node_label(node: GraphNode, show_ids: bool, times: Mapping[int, float] | None) -> list[str]:
    generated = node.name.startswith("__")
    label = [node.display if generated else node.schema.display]
    if not generated:
        label.append(node.name)
    if show_ids:
        label.append(f"id {node.index}")
    if times is not None and node.index in times:
        label.append(f"{times[node.index]:.3f} ms")
    return label


def _heat(share: float) -> str:
    """Return a color from white to orange."""
    strength = min(1.0, 2 * share)
    return f"#ff{round(255 - 90 * strength):02x}{round(255 - 210 * strength):02x}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;") + '"'


def _id(node: GraphNode) -> str:
    return json.dumps(node.name)


def _label(name: str) -> str:
    return f" [label={json.dumps(name)}, style=dashed]" if name else ""
