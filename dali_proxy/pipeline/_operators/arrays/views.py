"""The base of operators that return views of samples, with other shapes, dtypes or layouts for the same bytes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from dali_proxy.pipeline._declaration import Input, OperatorSchema, implements_with
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._kernels.samples import Samples
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, each_sample
from dali_proxy.pipeline._operator_api.operator import BatchOperator
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.tensors.gpu import TensorListGPU
from dali_proxy.pipeline.types import to_numpy_type

DATA = Input("data", "Samples of any shape.")


class SampleViews(ABC):
    """The shapes and layout of the views of one batch."""

    def __init__(self, node: GraphNode, batch: Batch, layout: str) -> None:
        self._layout = layout
        #: Whether the arguments are the same for all samples.
        self.alike = len(node.inputs) == 1 and not node.argument_inputs

    @abstractmethod
    def shape(self, sample: int, extents: Sequence[int], itemsize: int, new_itemsize: int) -> list[int]:
        """Return the shape of a sample of the output; item sizes are in bytes.

        Raises:
            ArgumentValueError: the arguments don't give a shape for this sample.
        """

    @abstractmethod
    def layout(self, ndim: int) -> str:
        """Return the layout of the output, for its number of dimensions."""


class ViewCpu(BatchOperator):
    """Returns views of the samples. Data is copied only if it isn't contiguous."""

    #: Class that computes shapes and layout from the arguments.
    view: ClassVar[type[SampleViews]]

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        data = inputs[0]
        view = self.view(self.node, batch, data.layout())
        chosen = self.node.argument("dtype")
        dtype = to_numpy_type(data.dtype if chosen is None else chosen)
        source = to_numpy_type(data.dtype)
        known: dict[tuple[int, ...], tuple[int, ...]] = {}  # if the arguments are the same for all samples

        def shape_of(sample: int, extents: tuple[int, ...]) -> tuple[int, ...]:
            if not view.alike or extents not in known:
                known[extents] = _checked_shape(view, sample, extents, source, dtype)
            return known[extents]

        shapes = each_sample(shape_of, range(batch.size), data.shape())
        if len({len(shape) for shape in shapes}) > 1:
            raise ArgumentValueError("the samples of a batch must have the same number of dimensions")
        return [self._views(data, batch, shapes, dtype, view.layout(len(shapes[0])))]

    def _views(
        self, data: Any, batch: Batch, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any], layout: str
    ) -> TensorList:
        # NumPy copies samples that aren't contiguous
        if data.dense is not None and len(set(shapes)) == 1:
            return TensorListCPU(_view_of(data.dense, dtype, (len(shapes), *shapes[0])), layout)
        return TensorListCPU(
            [_view_of(array, dtype, shape) for array, shape in zip(data.samples, shapes, strict=True)], layout
        )


class ViewGpu(GpuOperator, ViewCpu):
    """Returns views of the samples. One launch copies a batch that isn't contiguous."""

    def _views(
        self, data: Any, batch: Batch, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any], layout: str
    ) -> TensorList:
        data = self.contiguous(data, batch.stream)
        if data.dense is not None and len(set(shapes)) == 1:
            return TensorListGPU(_view_of(data.dense, dtype, (len(shapes), *shapes[0])), layout)
        extents = np.array(shapes, np.int64).reshape(len(shapes), -1)
        table = Samples.contiguous(data.table().pointers, extents, dtype)
        return TensorListGPU.from_table(table, data, data.device_id(), layout)


def returns_views(schema: OperatorSchema) -> Callable[[type[SampleViews]], type[SampleViews]]:
    """Return a class decorator that implements an operator, on all its devices, by the views of the class."""
    return implements_with(schema, "view", cpu=ViewCpu, gpu=ViewGpu)


def _checked_shape(
    view: SampleViews, sample: int, extents: tuple[int, ...], source: np.dtype[Any], dtype: np.dtype[Any]
) -> tuple[int, ...]:
    shape = tuple(view.shape(sample, extents, source.itemsize, dtype.itemsize))
    if math.prod(shape) * dtype.itemsize != math.prod(extents) * source.itemsize:
        raise ArgumentValueError(
            "Input and output samples must occupy the same size in bytes. The volume of the new shape should match the "
            f"one of the original shape. Requested a shape with {math.prod(shape)} elements but the original shape has "
            f"{math.prod(extents)} elements. The shapes are {shape} of {dtype} and {extents} of {source}"
        )
    return shape


def _view_of(array: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Return a NumPy or CuPy array with another dtype and shape: a view if the array is contiguous."""
    flat = array.reshape(-1)
    return (flat if dtype == array.dtype else flat.view(dtype)).reshape(shape)
