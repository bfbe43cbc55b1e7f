# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.random`."""

from typing import Any
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline.types import DALIDataType


__all__ = ['Beta', 'Choice', 'CoinFlip', 'Normal', 'Uniform']

class Beta(OperatorClass):
    """Draws numbers between 0 and 1 from a beta distribution. `fn.random.beta` describes the arguments."""
    def __init__(
        self, *, alpha: Float | DataNode = 1.0, beta: Float | DataNode = 1.0, dtype: DALIDataType | None = None,
        shape: Ints | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, shape_like: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Choice(OperatorClass):
    """Draws elements of an array. `fn.random.choice` describes the arguments."""
    def __init__(
        self, *, p: Floats | DataNode | None = None, shape: Ints | DataNode | None = None,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, a: Nodes | ConstantLike, shape_like: Input | None = None, /, **arguments: Any) -> Nodes: ...

class CoinFlip(OperatorClass):
    """Draws 1 with a given probability, else 0. `fn.random.coin_flip` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, probability: Float | DataNode = 0.5,
        shape: Ints | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, shape_like: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Normal(OperatorClass):
    """Draws numbers from a normal distribution. `fn.random.normal` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, mean: Float | DataNode = 0.0,
        shape: Ints | DataNode | None = None, stddev: Float | DataNode = 1.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, shape_like: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Uniform(OperatorClass):
    """Draws numbers from a uniform distribution over a half-open range, or over a list of values. `fn.random.uniform` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, range: Floats | DataNode = (-1.0, 1.0),
        shape: Ints | DataNode | None = None, values: Floats | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, shape_like: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

