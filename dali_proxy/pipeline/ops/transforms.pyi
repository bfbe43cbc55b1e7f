# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.transforms`."""

from builtins import bool as _bool
from typing import Any
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass


__all__ = ['Combine', 'Crop', 'Rotation', 'Scale', 'Shear', 'Translation']

class Combine(OperatorClass):
    """Combines transforms into one that applies them in the order of the inputs. `fn.transforms.combine` describes the arguments."""
    def __init__(self, *, reverse_order: _bool = False, **common: Unpack[Common]) -> None: ...
    def __call__(self, input_0: Nodes | ConstantLike, input_1: Input, /, *inputs: Input, **arguments: Any) -> Nodes: ...

class Crop(OperatorClass):
    """Returns a transform that maps one box to another, for example a window to the whole image. `fn.transforms.crop` describes the arguments."""
    def __init__(
        self, *, absolute: _bool = False, from_end: Floats | DataNode = (1.0,),
        from_start: Floats | DataNode = (0.0,), reverse_order: _bool = False, to_end: Floats | DataNode = (1.0,),
        to_start: Floats | DataNode = (0.0,), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, input: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Rotation(OperatorClass):
    """Returns a transform that rotates points: from x to y in the plane, about an axis in space. `fn.transforms.rotation` describes the arguments."""
    def __init__(
        self, *, angle: Float | DataNode, axis: Floats | DataNode | None = None,
        center: Floats | DataNode | None = None, reverse_order: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, input: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Scale(OperatorClass):
    """Returns a transform that multiplies coordinates. `fn.transforms.scale` describes the arguments."""
    def __init__(
        self, *, center: Floats | DataNode | None = None, ndim: Int | None = None, reverse_order: _bool = False,
        scale: Floats | DataNode, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, input: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Shear(OperatorClass):
    """Returns a transform that shears: it adds multiples of the other coordinates to each coordinate. `fn.transforms.shear` describes the arguments."""
    def __init__(
        self, *, angles: Floats | DataNode | None = None, center: Floats | DataNode | None = None,
        reverse_order: _bool = False, shear: Floats | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, input: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Translation(OperatorClass):
    """Returns a transform that moves points. `fn.transforms.translation` describes the arguments."""
    def __init__(
        self, *, offset: Floats | DataNode, reverse_order: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, input: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

