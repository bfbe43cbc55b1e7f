# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.segmentation`."""

from builtins import bool as _bool
from typing import Any, Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass


__all__ = ['RandomMaskPixel', 'RandomObjectBBox', 'SelectMasks']

class RandomMaskPixel(OperatorClass):
    """Draws a pixel of a mask: one of the foreground, or any. `fn.segmentation.random_mask_pixel` describes the arguments."""
    def __init__(
        self, *, foreground: Int | DataNode = 0, threshold: Float | DataNode = 0.0,
        value: Int | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, mask: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class RandomObjectBBox(OperatorClass):
    """Draws an object of a segmentation map, and returns its bounding box. `fn.segmentation.random_object_bbox` describes the arguments."""
    def __init__(
        self, *, background: Int | DataNode = 0, cache_objects: _bool = False,
        class_weights: Floats | DataNode | None = None, classes: Ints | DataNode | None = None,
        foreground_prob: Float | DataNode = 1.0,
        format: Literal['anchor_shape', 'start_end', 'box'] = 'anchor_shape', ignore_class: _bool = False,
        k_largest: Int | None = None, output_class: _bool = False, threshold: Ints | DataNode | None = None,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, map: Nodes | ConstantLike, /, **arguments: Any) -> list[Nodes]: ...

class SelectMasks(OperatorClass):
    """Selects the polygons of masks, in the order of `mask_ids`. `fn.segmentation.select_masks` describes the arguments."""
    def __init__(self, *, reindex_masks: _bool = False, **common: Unpack[Common]) -> None: ...
    def __call__(
        self, mask_ids: Nodes | ConstantLike, polygons: Input, vertices: Input, /, **arguments: Any,
    ) -> list[Nodes]: ...

