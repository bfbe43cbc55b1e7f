"""Types in the generated stubs of `fn`, `ops` and `dynamic`. Only type checkers and editors read this file."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Protocol, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt
from typing_extensions import TypeVar

from dali_proxy.pipeline._dynamic.arrays import Batch, Tensor
from dali_proxy.pipeline._dynamic.dtypes import DType
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIDataType, ScalarConstant

class _ArrayLike(Protocol):
    """An array of another library, such as a tensor of torch."""

    @property
    def shape(self) -> Any: ...
    def __array__(self, *arguments: Any, **keywords: Any) -> Any: ...

Number: TypeAlias = float | np.number[Any] | np.bool_ | ScalarConstant
ConstantLike: TypeAlias = Number | _ArrayLike | Sequence[float] | Sequence[Sequence[float]]

#: The first input of a graph's operator and its results: nodes, or lists of nodes for several sets of inputs.
Nodes = TypeVar("Nodes", DataNode, list[DataNode], default=DataNode)
Input: TypeAlias = DataNode | list[DataNode] | ConstantLike

#: The first input of a function of dynamic mode and its results: tensors, or batches.
Arrays = TypeVar("Arrays", Tensor, Batch, default=Tensor)
Array: TypeAlias = Tensor | Batch
Data: TypeAlias = ConstantLike | Sequence[Any]

Int: TypeAlias = int | np.integer[Any] | ScalarConstant
Float: TypeAlias = Number
Ints: TypeAlias = Int | Sequence[int] | npt.NDArray[Any]
Floats: TypeAlias = Number | Sequence[float] | npt.NDArray[Any]
Str: TypeAlias = str | PathLike[str]
Strs: TypeAlias = Str | Sequence[Str]
Dtype: TypeAlias = DALIDataType | DType | str | type[Any] | np.dtype[Any]

class Common(TypedDict, total=False):
    """Arguments that mean the same for all operators of a graph."""

    device: str | None
    name: str | None
    bytes_per_sample_hint: Ints | None
    preserve: bool
    seed: Int
