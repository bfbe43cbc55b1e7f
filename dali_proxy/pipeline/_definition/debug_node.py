"""`DebugNode`: a data node in debug mode, which has its data."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._graph.nodes import DataNode, OperatorCall
from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline.errors import PipelineError


class DebugNode(DataNode):
    """An output of an operator that has run. It can be used like any `DataNode`, and its data can be inspected."""

    def __init__(self, name: str, device: str, source: OperatorCall, index: int, data: TensorList | None) -> None:
        super().__init__(name, device, source, index)
        self._data = data

    @property
    def data(self) -> TensorList | None:
        """The batch; None if no sample takes the branch of the operator."""
        return self._data

    def get(self) -> TensorList:
        """Return the batch, in a branch of an `if` the samples that take the branch.

        Raises:
            PipelineError: no sample takes the branch.
        """
        if self._data is None:
            raise PipelineError(f"{self.name}: no sample of the batch takes this branch, so there is no data")
        return self._data

    def shape(self, *, dtype: Any = None, device: str = "cpu") -> Any:
        """Return the shapes of the samples, as a list of tuples."""
        return [] if self._data is None else self._data.shape()

    def source_info(self, *, device: str = "cpu") -> Any:
        """Return where each sample lies in its data set; empty strings for samples that don't come from a reader."""
        return [] if self._data is None else [sample.source_info() for sample in self._data]

    def __repr__(self) -> str:
        return f"DataNodeDebug(name={self.name!r}, data={self._data})"

    __str__ = __repr__
