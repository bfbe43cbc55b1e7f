"""The methods of a pipeline that show what it does: its graph, how it runs, and images that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dali_proxy.pipeline._definition.properties import PipelineProperties
from dali_proxy.pipeline._executor.explain import explain
from dali_proxy.pipeline._graph.drawing import Drawing, draw

if TYPE_CHECKING:
    from PIL import Image


class PipelineViews(PipelineProperties):
    """The views of a pipeline, for people."""

    def save_graph_to_dot_file(
        self, filename: str | Path, show_tensors: bool = False, show_ids: bool = False, use_colors: bool = False
    ) -> None:
        """Write a drawing of the graph to a file, in the language of Graphviz. Drawing fixes the graph.

        Args:
            filename: path of the file.
            show_tensors: show the batches between operators, too.
            show_ids: show the operators' numbers in the graph.
            use_colors: show devices by colors: blue for the CPU, cyan for mixed operators, green for the GPU.
        """
        drawing = draw(self._internals.graph, show_tensors, show_ids, use_colors)
        Path(filename).write_text(drawing.dot, encoding="utf-8")

    def show(self, show_tensors: bool = False, show_ids: bool = False, use_colors: bool = True) -> Drawing:
        """Return a drawing of the graph, which notebooks display; its `save` writes it to a file.

        The arguments are those of `save_graph_to_dot_file`.
        """
        return draw(self._internals.graph, show_tensors, show_ids, use_colors)

    def _repr_html_(self) -> str:
        # Notebooks display the object in the last line of a cell; that must not end the description of the graph.
        internals = self._internals
        drawing = draw(internals.graph, use_colors=True)._repr_html_() if internals.builder.described else ""
        return f"<pre>{escape(repr(self))}</pre>{drawing}"

    def explain(self) -> str:
        """Return how the pipeline runs: its phases, which operators run together, and why others don't.

        On the GPU, a chain of operators can run as one kernel, without images in between. After `build`, the text also
        shows the steps that run for each batch, the rules of the compiler by which several operators run as one, and
        why a rule that looked at operators didn't apply. After `run`, it shows what the steps take: processor time of
        the host, launches of kernels, and bytes of their results.

        Example:
            >>> from dali_proxy import Pipeline, fn
            >>> pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
            >>> with pipe:
            ...     images = fn.external_source(name="images", layout="HWC")
            ...     pipe.set_outputs(fn.crop_mirror_normalize(fn.flip(images)))
            >>> "-> fn.crop_mirror_normalize" in pipe.explain()
            True
        """
        return explain(self._internals.graph, self._internals.executor)

    def preview(
        self,
        folder: str | Path | Iterable[str | Path] | None = None,
        *,
        images: int = 8,
        draws: int | None = None,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        size: int = 256,
        path: str | Path | None = None,
        **inputs: Any,
    ) -> Image.Image:
        """Draw what the pipeline makes of image files, with boxes and masks. A notebook displays the result.

        A copy of the pipeline runs, so this pipeline isn't affected. Each row shows the random results of one file.
        Outputs are drawn by their shapes: images; on the image before them, boxes (M, 4) and integer masks of the
        image's size; small arrays and numbers as labels. The results of `fn.crop_mirror_normalize` are denormalized.

        Args:
            folder: a folder, in which this method selects files, or the files. For pipelines without inputs, such as
                those that begin with a reader, None: then each row is a batch of the pipeline's own data.
            images: number of files, or of batches.
            draws: results for each file, by default 4 if the pipeline draws random numbers or reads its own data,
                otherwise 1.
            mean: mean that the pipeline subtracted, if it normalizes in another way.
            std: standard deviation by which it divided; below 1, for pixels of 0 to 1.
            size: longest side of an image in the drawing, in pixels.
            path: file to save the drawing to.
            **inputs: for pipelines with several inputs, data for an input by its name: a folder with files of the same
                names (other suffixes are possible), a function of a file's path, or an array for all files. One input
                may be missing: it gets the content of the file, if a decoder reads it, or else its pixels.

        Raises:
            ArgumentValueError: there are no images, an input has no data, or no output is an image.
            PipelineError: the pipeline failed.

        Example:
            >>> from dali_proxy import Pipeline, fn
            >>> with Pipeline(batch_size=8, num_threads=2, device_id=None) as pipe:
            ...     pipe.set_outputs(fn.rotate(fn.decoders.image(fn.external_source()), angle=fn.random.uniform()))
            >>> sheet = pipe.preview("photos", path="sheet.png")  # doctest: +SKIP
        """
        from dali_proxy.pipeline._definition.preview import draw_preview  # needs PIL, which other methods don't

        return draw_preview(
            self._internals,
            folder,
            images=images,
            draws=draws,
            mean=mean,
            std=std,
            size=size,
            path=path,
            inputs=inputs,
        )
