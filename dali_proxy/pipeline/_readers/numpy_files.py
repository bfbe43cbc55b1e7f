"""`readers.numpy`: arrays in .npy files, or regions of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._declaration import Argument, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import as_pipeline_error, fail
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operators.decoding.numpy_file import parse_files
from dali_proxy.pipeline._operators.geometry.slice_arguments import SliceWindows
from dali_proxy.pipeline._operators.geometry.windows import (
    POLICIES,
    cut,
    inside,
    out_of_bounds_error,
    policy_argument,
    trim,
)
from dali_proxy.pipeline._readers.arguments import EPOCH_SHUFFLE_ARGUMENTS, READER_ARGUMENTS
from dali_proxy.pipeline._readers.data_reader import DataReader
from dali_proxy.pipeline._readers.listed_files import ListedFilesLoader, listing_arguments
from dali_proxy.pipeline._readers.loader import Column
from dali_proxy.pipeline._readers.npy_file import NpyFile
from dali_proxy.pipeline.tensors.cpu import Array, TensorListCPU

#: Names of the region arguments: in `slice`, and here.
_ROI = {
    "start": "roi_start",
    "rel_start": "rel_roi_start",
    "end": "roi_end",
    "rel_end": "rel_roi_end",
    "shape": "roi_shape",
    "rel_shape": "rel_roi_shape",
}
_DOCS = {
    "start": "Start of the region along each axis.",
    "end": "End of the region along each axis.",
    "shape": "Extents of the region along each axis.",
}


def _region(name: str) -> Argument:
    relative = name.startswith("rel_")
    doc = _DOCS[name.removeprefix("rel_")] + (" Given as fractions of the array's extents." if relative else "")
    return Argument(_ROI[name], Kind.FLOATS if relative else Kind.INTS, doc, per_sample=True)


NUMPY = declare_operator(
    name="readers.numpy",
    doc="""Reads arrays from .npy files, or regions of them.

The files come from `file_root` and the folders directly below it, or from `file_list` or `files`. All arrays of a
batch must have the same dtype and number of dimensions. For a region, only the part of the file that contains it is
read.""",
    arguments=(
        *listing_arguments("*.npy"),
        *map(_region, _ROI),
        Argument("roi_axes", Kind.INTS, "Axes of the region; all of them by default.", ()),
        policy_argument(POLICIES),
        Argument("fill_value", Kind.FLOAT, "Value of elements outside of the array.", 0.0),
        Argument("cache_header_information", Kind.BOOL, "Accepted for compatibility.", False),
        Argument("register_buffers", Kind.BOOL, "Accepted for compatibility.", True),
        Argument("use_o_direct", Kind.BOOL, "Accepted for compatibility.", False),
        *READER_ARGUMENTS,
        *EPOCH_SHUFFLE_ARGUMENTS,
    ),
    devices=("cpu", "gpu"),
)


class NumpyLoader(ListedFilesLoader):
    """Loads whole arrays, or regions of them."""

    outputs = (OutputSpec(),)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        #: The requested regions; None for whole arrays.
        self.regions = _Regions(node) if _Regions.requested(node) else None
        self.whole = self.regions is None

    def parse(self, files: TensorListCPU, entries: Sequence[int]) -> Sequence[Column]:
        return (parse_files(files),)

    def read(self, entry: int) -> tuple[Any, ...]:
        """Read the region that all samples share. If regions differ, read only the header."""
        assert self.regions is not None
        file = NpyFile.open(self.path(entry))
        return (file if self.regions.per_sample else self.regions.read(file, 0, self.regions.windows({}, 1, file)),)


class _Region(Arguments):
    """The region arguments, under the names that `slice` uses."""

    def given(self, name: str) -> bool:
        return name in _ROI and super().given(_ROI[name])

    def per_sample(self, name: str) -> bool:
        return name in _ROI and super().per_sample(_ROI[name])

    def constant(self, name: str) -> Any:
        return super().constant("roi_axes" if name == "axes" else name)

    def vectors(self, name: str, length: int | None = None, dtype: npt.DTypeLike = np.float64) -> Array:
        return super().vectors(_ROI[name], length, dtype)

    def rows(self, name: str, dtype: npt.DTypeLike = np.float64) -> Sequence[Array]:
        return super().rows("roi_axes" if name == "axes" else _ROI[name], dtype)


class _Regions:
    """The regions of one reader."""

    def __init__(self, node: GraphNode) -> None:
        self.per_sample = any(name in node.argument_inputs for name in _ROI.values())
        self._node = node
        self._policy = POLICIES[node.argument("out_of_bounds_policy")]

    @staticmethod
    def requested(node: GraphNode) -> bool:
        """Return whether a reader has region arguments."""
        return any(name in node.argument_inputs or name in node.arguments for name in _ROI.values())

    def windows(self, values: Mapping[str, Any], batch_size: int, first: NpyFile) -> SliceWindows:
        """Return the windows of a batch for the values of its arguments. All arrays have as many axes as the first."""
        return SliceWindows(_Region(self._node, values, batch_size), batch_size, "", len(first.shape), False)

    def read(self, file: NpyFile, sample: int, windows: SliceWindows) -> Array:
        """Read the region of a sample.

        Raises:
            PipelineError: the region exceeds the array under the policy "error", or can't be read.
        """
        start, extent = windows.locate(sample, file.shape, None)
        if self._policy == "error" and not inside(start, extent, file.shape):
            raise out_of_bounds_error(start, extent, file.shape)
        low, size = trim(start, extent, file.shape)
        region = file.read(low, size)
        if self._policy != "pad" or size == extent:
            return region
        fill = convert(np.array([self._node.argument("fill_value")]), region.dtype)
        moved = [first - begin for first, begin in zip(start, low, strict=True)]
        return cut(region, moved, extent, policy="pad", fill=(float(fill[0]),))


@implements(NUMPY, "cpu", "gpu")
class NumpyReader(DataReader):
    """Reads ahead, except for regions that differ from sample to sample: the threads of the CPU stage read those."""

    loader = NumpyLoader

    def _gather(self, batch: Batch, number: int, spec: OutputSpec, column: Column) -> TensorList:
        assert isinstance(self._loader, NumpyLoader)
        regions = self._loader.regions
        if regions is None or not regions.per_sample:
            return super()._gather(batch, number, spec, column)
        files: Any = column
        values = {name: batch.values[edge] for name, edge in self.node.argument_inputs.items()}
        windows = regions.windows(values, batch.size, files[0])
        arrays: list[Any] = [None] * batch.size

        def work(sample: int) -> None:
            arrays[sample] = regions.read(files[sample], sample, windows)

        fail([(sample, as_pipeline_error(error)) for sample, error in batch.pool.run(work, batch.size)])
        return TensorListCPU(arrays)
