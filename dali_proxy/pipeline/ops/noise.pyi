# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.noise`."""

from builtins import bool as _bool
from typing import Any
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float
from dali_proxy.pipeline._annotations import Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass


__all__ = ['Gaussian', 'SaltAndPepper', 'Shot']

class Gaussian(OperatorClass):
    """Adds an independent, normally distributed random number to each value. `fn.noise.gaussian` describes the arguments."""
    def __init__(
        self, *, mean: Float | DataNode = 0.0, stddev: Float | DataNode = 1.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class SaltAndPepper(OperatorClass):
    """Replaces randomly chosen values by the value of salt or of pepper. `fn.noise.salt_and_pepper` describes the arguments."""
    def __init__(
        self, *, pepper_val: Float | DataNode | None = None, per_channel: _bool = False,
        prob: Float | DataNode = 0.05, salt_val: Float | DataNode | None = None,
        salt_vs_pepper: Float | DataNode = 0.5, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Shot(OperatorClass):
    """Replaces each value by factor * Poisson(value / factor), like a detector that counts events. `fn.noise.shot` describes the arguments."""
    def __init__(self, *, factor: Float | DataNode = 20.0, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

