# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.reductions`."""

from builtins import bool as _bool
from typing import Any
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes, Str
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline.types import DALIDataType


__all__ = ['Max', 'Mean', 'MeanSquare', 'Min', 'Rms', 'StdDev', 'Sum', 'Variance']

class Max(OperatorClass):
    """Computes maxima along axes; NaN is ignored. `fn.reductions.max` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, keep_dims: _bool = False,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Mean(OperatorClass):
    """Computes means along axes. `fn.reductions.mean` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, dtype: DALIDataType | None = None,
        keep_dims: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class MeanSquare(OperatorClass):
    """Computes means of squares along axes. `fn.reductions.mean_square` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, dtype: DALIDataType | None = None,
        keep_dims: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Min(OperatorClass):
    """Computes minima along axes; NaN is ignored. `fn.reductions.min` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, keep_dims: _bool = False,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Rms(OperatorClass):
    """Computes roots of the means of squares along axes. `fn.reductions.rms` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, dtype: DALIDataType | None = None,
        keep_dims: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class StdDev(OperatorClass):
    """Computes roots of the means of the squared differences from a given mean along axes. `fn.reductions.std_dev` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, ddof: Int = 0, keep_dims: _bool = False,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, mean: Input, /, **arguments: Any) -> Nodes: ...

class Sum(OperatorClass):
    """Computes sums along axes. `fn.reductions.sum` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, dtype: DALIDataType | None = None,
        keep_dims: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Variance(OperatorClass):
    """Computes means of the squared differences from a given mean along axes. `fn.reductions.variance` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, ddof: Int = 0, keep_dims: _bool = False,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, mean: Input, /, **arguments: Any) -> Nodes: ...

