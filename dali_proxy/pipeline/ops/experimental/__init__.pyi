# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.experimental`."""

from builtins import bool as _bool
from typing import Any, Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType

from dali_proxy.pipeline.ops.experimental import decoders as decoders
from dali_proxy.pipeline.ops.experimental import inputs as inputs
from dali_proxy.pipeline.ops.experimental import readers as readers

__all__ = [
    'AudioResample', 'Debayer', 'Dilate', 'Equalize', 'Erode', 'Filter', 'Inflate', 'MedianBlur',
    'OpticalFlow', 'PeekImageShape', 'Remap', 'Resize', 'TensorResize', 'WarpPerspective', 'decoders',
    'inputs', 'readers',
]

from dali_proxy.pipeline.ops import AudioResample as AudioResample
from dali_proxy.pipeline.ops import Debayer as Debayer
class Dilate(OperatorClass):
    """Replaces each pixel by the maximum of a rectangle around it, for each channel. `fn.experimental.dilate` describes the arguments."""
    def __init__(
        self, *, anchor: Ints | DataNode = (-1, -1),
        border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
        iterations: Int = 1, mask_size: Ints | DataNode = (3, 3), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops import Equalize as Equalize
class Erode(OperatorClass):
    """Replaces each pixel by the minimum of a rectangle around it, for each channel. `fn.experimental.erode` describes the arguments."""
    def __init__(
        self, *, anchor: Ints | DataNode = (-1, -1),
        border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
        iterations: Int = 1, mask_size: Ints | DataNode = (3, 3), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops import Filter as Filter
from dali_proxy.pipeline.ops.decoders import Inflate as Inflate
class MedianBlur(OperatorClass):
    """Replaces each pixel by the median of a rectangle around it, for each channel. `fn.experimental.median_blur` describes the arguments."""
    def __init__(self, *, window_size: Ints | DataNode = (3, 3), **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops import OpticalFlow as OpticalFlow
from dali_proxy.pipeline.ops import PeekImageShape as PeekImageShape
class Remap(OperatorClass):
    """Computes images from positions in other images: the output at (x, y) is the input at (mapx, mapy). `fn.experimental.remap` describes the arguments."""
    def __init__(
        self, *, interp: DALIInterpType = DALIInterpType.INTERP_LINEAR,
        pixel_origin: Literal['corner', 'center'] = 'corner', **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, mapx: Input, mapy: Input, /, **arguments: Any) -> Nodes: ...

class Resize(OperatorClass):
    """The same as `resize`. `fn.experimental.resize` describes the arguments."""
    def __init__(
        self, *, antialias: _bool = True, dtype: DALIDataType | None = None,
        image_type: DALIImageType | None = None,
        interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
        mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
        min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32,
        mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
        resize_longer: Float | DataNode = 0.0, resize_shorter: Float | DataNode = 0.0,
        resize_x: Float | DataNode = 0.0, resize_y: Float | DataNode = 0.0, resize_z: Float | DataNode = 0.0,
        roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
        roi_start: Floats | DataNode | None = None, save_attrs: _bool = False,
        size: Floats | DataNode | None = None, subpixel_scale: _bool = True, temp_buffer_hint: Int = 0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops import TensorResize as TensorResize
class WarpPerspective(OperatorClass):
    """Warps images or sequences by perspective transforms, as OpenCV's `warpPerspective` does. `fn.experimental.warp_perspective` describes the arguments."""
    def __init__(
        self, *, border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
        fill_value: Floats = (), interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR,
        inverse_map: _bool = True, matrix: Floats | DataNode = (),
        pixel_origin: Literal['corner', 'center'] = 'corner', size: Floats | DataNode = (),
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, mtx: Input | None = None, /, **arguments: Any) -> Nodes: ...

