"""The outputs that a batch has computed so far. Outputs of pixel operators are computed on first access."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from dali_proxy.pipeline._kernels.expression import PixelExpression
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU

if TYPE_CHECKING:
    from dali_proxy.pipeline._graph.graph import Edge


class _Deferred:
    """Outputs that are computed together, their samples one after another."""

    def __init__(
        self,
        edges: Sequence[Edge],
        counts: Sequence[int],
        pixels: PixelExpression,
        compute: Callable[[PixelExpression], TensorListGPU],
    ) -> None:
        self.edges, self.pixels = tuple(edges), pixels
        #: All outputs as one batch, once they are computed as one.
        self.batch: TensorListGPU | None = None
        self._ends = list(accumulate(counts))
        self._compute = compute

    def pixels_of(self, edge: Edge) -> PixelExpression:
        """Return the pixels of one output."""
        return self.pixels if len(self.edges) == 1 else self.pixels.take(self._range(edge))

    def compute(self) -> TensorListGPU | None:
        """Compute and return all outputs as one batch; return None if the shapes of their samples differ."""
        if self.batch is None and (len(self.edges) == 1 or (self.pixels.shapes == self.pixels.shapes[0]).all()):
            self.batch = self._compute(self.pixels)
        return self.batch

    def output(self, edge: Edge) -> TensorListGPU:
        """Compute and return one output."""
        batch = self.compute()
        if batch is None:
            return self._compute(self.pixels_of(edge))
        return (
            batch if len(self.edges) == 1 else TensorListGPU.from_dense(batch.dense[self._range(edge)], batch.layout())
        )

    def _range(self, edge: Edge) -> slice:
        index = self.edges.index(edge)
        return slice(self._ends[index - 1] if index else 0, self._ends[index])


ComputeRows = Callable[[], "TensorList | None"]


class Outputs(dict["Edge", TensorList]):
    """Outputs by edge. An edge in a branch has the samples of that branch only.

    ``outputs[edge]`` computes an output that `defer` added; iteration covers computed outputs only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._deferred: dict[Edge, _Deferred] = {}
        #: Rows of tables that aren't computed: the edge of the index, its values, and the function that computes them.
        self._rows: dict[Edge, tuple[Edge, TensorListCPU, ComputeRows]] = {}
        #: Expressions of outputs in memory, so that each is described once.
        self._described: dict[Edge, PixelExpression | None] = {}

    def defer(
        self,
        edges: Sequence[Edge],
        counts: Sequence[int],
        pixels: PixelExpression,
        compute: Callable[[PixelExpression], TensorListGPU],
    ) -> None:
        """Add outputs, with `counts` of samples, as one expression of their pixels, one output after another."""
        deferred = _Deferred(edges, counts, pixels, compute)
        for edge in edges:
            self._deferred[edge] = deferred

    def postpone_rows(self, edge: Edge, source: Edge, index: TensorListCPU, compute: ComputeRows) -> None:
        """Add rows of a table that are computed on first access, or None if their branch has no samples.

        `source` is the edge of the index of the rows, and `index` its values: the edge may be dropped before.
        """
        self._rows[edge] = source, index, compute

    def postponed_rows(self, edge: Edge) -> tuple[Edge, TensorListCPU, ComputeRows] | None:
        """Return the arguments of `postpone_rows` for rows that aren't computed yet."""
        return None if super().__contains__(edge) else self._rows.get(edge)

    def rows_chosen(self, edge: Edge) -> tuple[Edge, TensorListCPU | None]:
        """Return the edge of the index of rows that `postpone_rows` added, and its values; None for other outputs."""
        source, index, _ = self._rows.get(edge, (edge, None, None))
        return source, index

    def pixels(self, edge: Edge, *, computed: bool = False, elements: bool = False) -> PixelExpression | None:
        """Return an output as an expression; None if it isn't a batch of images on the GPU.

        Args:
            edge: the output.
            computed: whether to compute an expression first that reads several pixels for each output pixel.
            elements: whether samples with up to three dimensions of any meaning are accepted, too.
        """
        deferred = self._deferred.get(edge)
        if deferred is not None and deferred.batch is None and not super().__contains__(edge):
            pixels = deferred.pixels
            if pixels.may_be_read(elements=elements) and not (computed and pixels.reads > 1):
                return deferred.pixels_of(edge)
        if edge not in self._described:
            self._described[edge] = _described(self[edge])
        described = self._described[edge]
        if described is None and elements:
            value = self[edge]
            if isinstance(value, TensorListGPU):
                return PixelExpression.from_elements(value.table(), value.layout(), value)
        return described

    @property
    def deferred(self) -> Collection[Edge]:
        """The outputs that `defer` added."""
        return self._deferred.keys()

    def deferred_with(self, edge: Edge) -> tuple[Edge, ...]:
        """Return the outputs that are one expression together with an output, including itself."""
        deferred = self._deferred.get(edge)
        return (edge,) if deferred is None else deferred.edges

    def pixels_of_all(self, edges: Sequence[Edge], *, computed: bool = False) -> PixelExpression | None:
        """Return outputs as one expression, their samples one after another; None if `defer` didn't add them as one."""
        deferred = self._deferred.get(edges[0])
        if deferred is None or deferred.edges != tuple(edges):
            return None
        pixels = deferred.pixels
        if deferred.batch is None and pixels.may_be_read() and not (computed and pixels.reads > 1):
            return pixels
        batch = deferred.compute()
        return None if batch is None else _described(batch)

    def compute(self, edges: Iterable[Edge]) -> None:
        """Compute those of the outputs that aren't computed yet."""
        for edge in edges:
            if edge in self._deferred or edge in self._rows:
                self[edge]

    def compute_rows(self, edges: Iterable[Edge]) -> None:
        """Compute those of the outputs that are rows of tables and aren't computed yet."""
        if self._rows:
            self.compute([edge for edge in edges if edge in self._rows])

    def drop(self, edges: Iterable[Edge]) -> None:
        """Forget outputs, computed or not."""
        for edge in edges:
            self.pop(edge, None)
            self._deferred.pop(edge, None)
            self._rows.pop(edge, None)
            self._described.pop(edge, None)

    def clear(self) -> None:
        super().clear()
        self._deferred.clear()
        self._rows.clear()
        self._described.clear()

    def __contains__(self, edge: object) -> bool:
        return super().__contains__(edge) or edge in self._deferred or edge in self._rows

    def __missing__(self, edge: Edge) -> TensorList:
        rows = self._rows.get(edge)
        value = self._deferred[edge].output(edge) if rows is None else rows[2]()
        assert value is not None  # an operator of the branch reads the rows
        self[edge] = value
        return value


def _described(value: TensorList) -> PixelExpression | None:
    """Return a batch of images on the GPU as an expression; None for other batches."""
    if not isinstance(value, TensorListGPU) or not len(value):
        return None
    return PixelExpression.from_samples(value.table(), value.layout(), value)
