"""Pictures of pipelines."""

from __future__ import annotations

from pathlib import Path

from pipeline._definition.description import DescribesGraph
from pipeline._graph.drawing import Drawing, draw

__all__ = ["DrawsGraph"]


class DrawsGraph(DescribesGraph):
    """The part of a pipeline that draws its graph. Drawing fixes the graph."""

    def save_graph_to_dot_file(
        self, filename: str | Path, show_tensors: bool = False, show_ids: bool = False, use_colors: bool = False
    ) -> None:
        """Write a picture of the graph to a file, in the language of Graphviz.

        Args:
            filename: of the file.
            show_tensors: show the batches between operators, too.
            show_ids: show the operators' numbers in the graph.
            use_colors: show devices by colours: blue for the CPU, cyan for mixed operators, green for the GPU.
        """
        drawing = draw(self.graph, show_tensors, show_ids, use_colors)
        Path(filename).write_text(drawing.dot, encoding="utf-8")

    def show(self, show_tensors: bool = False, show_ids: bool = False, use_colors: bool = True) -> Drawing:
        """Return a picture of the graph, which notebooks show; its `save` writes it to a file.

        Showing it as a picture needs the program ``dot`` of Graphviz. The arguments are those of
        `save_graph_to_dot_file`.
        """
        return draw(self.graph, show_tensors, show_ids, use_colors)

    def _repr_svg_(self) -> str | None:
        # A notebook shows any object in the last line of a cell; that must not end the description of the graph.
        return self.show()._repr_svg_() if self._graph is not None or self._outputs is not None else None
