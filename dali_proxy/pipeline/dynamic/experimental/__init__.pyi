# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.experimental`."""

from builtins import bool as _bool
from typing import Any, Literal, overload
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Dtype, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints
from dali_proxy.pipeline._dynamic.devices import Device
from dali_proxy.pipeline.types import DALIImageType, DALIInterpType

from dali_proxy.pipeline.dynamic.experimental import decoders as decoders
from dali_proxy.pipeline.dynamic.experimental import readers as readers

__all__ = [
    'audio_resample', 'debayer', 'decoders', 'dilate', 'equalize', 'erode', 'filter', 'inflate',
    'median_blur', 'optical_flow', 'peek_image_shape', 'readers', 'remap', 'resize', 'tensor_resize',
    'warp_perspective',
]

from dali_proxy.pipeline.dynamic import audio_resample as audio_resample
from dali_proxy.pipeline.dynamic import debayer as debayer
def dilate(
    data: Arrays | Data, /, *, anchor: Ints | Array = (-1, -1),
    border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
    iterations: Int = 1, mask_size: Ints | Array = (3, 3), device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Replaces each pixel by the maximum of a rectangle around it, for each channel. `fn.experimental.dilate` describes the arguments."""

from dali_proxy.pipeline.dynamic import equalize as equalize
def erode(
    data: Arrays | Data, /, *, anchor: Ints | Array = (-1, -1),
    border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
    iterations: Int = 1, mask_size: Ints | Array = (3, 3), device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Replaces each pixel by the minimum of a rectangle around it, for each channel. `fn.experimental.erode` describes the arguments."""

from dali_proxy.pipeline.dynamic import filter as filter
from dali_proxy.pipeline.dynamic.decoders import inflate as inflate
def median_blur(
    data: Arrays | Data, /, *, window_size: Ints | Array = (3, 3), device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Replaces each pixel by the median of a rectangle around it, for each channel. `fn.experimental.median_blur` describes the arguments."""

from dali_proxy.pipeline.dynamic import optical_flow as optical_flow
from dali_proxy.pipeline.dynamic import peek_image_shape as peek_image_shape
def remap(
    data: Arrays | Data, mapx: Array | Data, mapy: Array | Data, /, *,
    interp: DALIInterpType = DALIInterpType.INTERP_LINEAR,
    pixel_origin: Literal['corner', 'center'] = 'corner', device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes images from positions in other images: the output at (x, y) is the input at (mapx, mapy). `fn.experimental.remap` describes the arguments."""

@overload
def resize(data: Arrays | Data, /, *, save_attrs: Literal[True], **arguments: Any) -> tuple[Arrays, ...]: ...
@overload
def resize(
    data: Arrays | Data, /, *, antialias: _bool = True, dtype: Dtype | None = None,
    image_type: DALIImageType | None = None,
    interp_type: DALIInterpType | Array = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | Array | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | Array | None = None, minibatch_size: Int = 32,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    resize_longer: Float | Array = 0.0, resize_shorter: Float | Array = 0.0, resize_x: Float | Array = 0.0,
    resize_y: Float | Array = 0.0, resize_z: Float | Array = 0.0, roi_end: Floats | Array | None = None,
    roi_relative: _bool = False, roi_start: Floats | Array | None = None, save_attrs: Literal[False] = False,
    size: Floats | Array | None = None, subpixel_scale: _bool = True, temp_buffer_hint: Int = 0,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """The same as `resize`. `fn.experimental.resize` describes the arguments."""

from dali_proxy.pipeline.dynamic import tensor_resize as tensor_resize
def warp_perspective(
    data: Arrays | Data, mtx: Array | Data | None = None, /, *,
    border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
    fill_value: Floats = (), interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR,
    inverse_map: _bool = True, matrix: Floats | Array = (),
    pixel_origin: Literal['corner', 'center'] = 'corner', size: Floats | Array = (),
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Warps images or sequences by perspective transforms, as OpenCV's `warpPerspective` does. `fn.experimental.warp_perspective` describes the arguments."""

