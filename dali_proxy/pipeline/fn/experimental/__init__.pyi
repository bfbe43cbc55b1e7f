# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.experimental`."""

from builtins import bool as _bool
from typing import Any, Literal, overload
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType

from dali_proxy.pipeline.fn.experimental import decoders as decoders
from dali_proxy.pipeline.fn.experimental import inputs as inputs
from dali_proxy.pipeline.fn.experimental import readers as readers

__all__ = [
    'audio_resample', 'debayer', 'decoders', 'dilate', 'equalize', 'erode', 'filter', 'inflate', 'inputs',
    'median_blur', 'optical_flow', 'peek_image_shape', 'readers', 'remap', 'resize', 'tensor_resize',
    'warp_perspective',
]

from dali_proxy.pipeline.fn import audio_resample as audio_resample
from dali_proxy.pipeline.fn import debayer as debayer
def dilate(
    data: Nodes | ConstantLike, /, *, anchor: Ints | DataNode = (-1, -1),
    border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
    iterations: Int = 1, mask_size: Ints | DataNode = (3, 3), **common: Unpack[Common],
) -> Nodes:
    """Replaces each pixel by the maximum of a rectangle around it, for each channel.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, of one of the layouts HWC, HW, FHWC, CHW, FCHW.
        anchor (int or list of int or DataNode, default (-1, -1)): Column and row of the rectangle that are aligned with the pixel; -1 for the middle.
        border_mode (str, default 'constant'): Values outside of the image: "constant" ignores pixels outside; "replicate" repeats the border pixel, "reflect" mirrors the image including it, "reflect_101" without it, and "wrap" continues at the other side.
        iterations (int, default 1): How often to repeat the operation.
        mask_size (int or list of int or DataNode, default (3, 3)): Width and height of the rectangle.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn import equalize as equalize
def erode(
    data: Nodes | ConstantLike, /, *, anchor: Ints | DataNode = (-1, -1),
    border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
    iterations: Int = 1, mask_size: Ints | DataNode = (3, 3), **common: Unpack[Common],
) -> Nodes:
    """Replaces each pixel by the minimum of a rectangle around it, for each channel.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, of one of the layouts HWC, HW, FHWC, CHW, FCHW.
        anchor (int or list of int or DataNode, default (-1, -1)): Column and row of the rectangle that are aligned with the pixel; -1 for the middle.
        border_mode (str, default 'constant'): Values outside of the image: "constant" ignores pixels outside; "replicate" repeats the border pixel, "reflect" mirrors the image including it, "reflect_101" without it, and "wrap" continues at the other side.
        iterations (int, default 1): How often to repeat the operation.
        mask_size (int or list of int or DataNode, default (3, 3)): Width and height of the rectangle.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn import filter as filter
from dali_proxy.pipeline.fn.decoders import inflate as inflate
def median_blur(
    data: Nodes | ConstantLike, /, *, window_size: Ints | DataNode = (3, 3), **common: Unpack[Common],
) -> Nodes:
    """Replaces each pixel by the median of a rectangle around it, for each channel.

    Border pixels are repeated outside of the image.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, of one of the layouts HWC, HW, FHWC, CHW, FCHW.
        window_size (int or list of int or DataNode, default (3, 3)): Odd width and height of the rectangle.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn import optical_flow as optical_flow
from dali_proxy.pipeline.fn import peek_image_shape as peek_image_shape
def remap(
    data: Nodes | ConstantLike, mapx: Input, mapy: Input, /, *,
    interp: DALIInterpType = DALIInterpType.INTERP_LINEAR,
    pixel_origin: Literal['corner', 'center'] = 'corner', **common: Unpack[Common],
) -> Nodes:
    """Computes images from positions in other images: the output at (x, y) is the input at (mapx, mapy).

    The output is as large as the maps. Pixels outside of the input are 0.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, HWC or FHWC.
        mapx: Horizontal positions: float32, HW or HWC with one channel; for sequences also FHW or FHWC.
        mapy: Vertical positions, of the same shape as `mapx`.
        interp (DALIInterpType, default DALIInterpType.INTERP_LINEAR): INTERP_NN, INTERP_LINEAR, INTERP_CUBIC, or INTERP_LANCZOS3 for OpenCV's Lanczos filter.
        pixel_origin (str, default 'corner'): Position (0, 0): the outer "corner" or the "center" of the first pixel.
        device (str): device of the operator; by default that of its inputs.
    """

@overload
def resize(data: Nodes | ConstantLike, /, *, save_attrs: Literal[True], **arguments: Any) -> list[Nodes]: ...
@overload
def resize(
    data: Nodes | ConstantLike, /, *, antialias: _bool = True, dtype: DALIDataType | None = None,
    image_type: DALIImageType | None = None,
    interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    resize_longer: Float | DataNode = 0.0, resize_shorter: Float | DataNode = 0.0,
    resize_x: Float | DataNode = 0.0, resize_y: Float | DataNode = 0.0, resize_z: Float | DataNode = 0.0,
    roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
    roi_start: Floats | DataNode | None = None, save_attrs: Literal[False] = False,
    size: Floats | DataNode | None = None, subpixel_scale: _bool = True, temp_buffer_hint: Int = 0,
    **common: Unpack[Common],
) -> Nodes:
    """The same as `resize`. In DALI, it is another implementation, for the GPU.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, FHWC, CHW, FCHW, CFHW, DHWC, FDHWC, CDHW, FCDHW, CFDHW; HWC without a layout.
        antialias (bool, default True): Widen filters in proportion to the scale along axes that shrink.
        dtype (DALIDataType, default None): Dtype of the output: the input's (the default) or FLOAT.
        image_type (DALIImageType, default None): Deprecated and ignored.
        interp_type (DALIInterpType or DataNode, default DALIInterpType.INTERP_LINEAR): Filter for shrinking and growing axes.
        mag_filter (DALIInterpType or DataNode, default None): Filter for axes that grow; by default `interp_type`.
        max_size (float or list of float, default None): Largest size of the output in pixels: one for all axes, or one per axis.
        min_filter (DALIInterpType or DataNode, default None): Filter for axes that shrink; by default `interp_type`.
        minibatch_size (int, default 32): Accepted for compatibility.
        mode (str, default 'default'): 'default' scales axes without a size by the geometric mean of the other axes' factors; 'stretch' keeps their size; 'not_larger' and 'not_smaller' keep the aspect ratio and use the smallest or the largest factor.
        resize_longer (float or DataNode, default 0.0): Longer side of the output in pixels; keeps the aspect ratio.
        resize_shorter (float or DataNode, default 0.0): Shorter side of the output in pixels; keeps the aspect ratio.
        resize_x (float or DataNode, default 0.0): Width of the output in pixels; if 0, `mode` sets it.
        resize_y (float or DataNode, default 0.0): Height of the output in pixels; if 0, `mode` sets it.
        resize_z (float or DataNode, default 0.0): Depth of the output in voxels; if 0, `mode` sets it.
        roi_end (float or list of float or DataNode, default None): End of the region; an end before the start flips the axis.
        roi_relative (bool, default False): `roi_start` and `roi_end` are fractions of the input's extents.
        roi_start (float or list of float or DataNode, default None): Start of the region to resize, in pixels, in the order of `size`.
        save_attrs (bool, default False): Add a second output: extents of the input along the spatial axes.
        size (float or list of float or DataNode, default None): Size of the output in pixels, (height, width) or (depth, height, width). For an axis of size 0, `mode` sets the size. A negative number flips the axis.
        subpixel_scale (bool, default True): If the output's size was rounded, adapt the region of the input so that the scale stays exact.
        temp_buffer_hint (int, default 0): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn import tensor_resize as tensor_resize
def warp_perspective(
    data: Nodes | ConstantLike, mtx: Input | None = None, /, *,
    border_mode: Literal['constant', 'replicate', 'reflect', 'reflect_101', 'wrap'] = 'constant',
    fill_value: Floats = (), interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR,
    inverse_map: _bool = True, matrix: Floats | DataNode = (),
    pixel_origin: Literal['corner', 'center'] = 'corner', size: Floats | DataNode = (),
    **common: Unpack[Common],
) -> Nodes:
    """Warps images or sequences by perspective transforms, as OpenCV's `warpPerspective` does.

    The output at (x, y) is the input at (u / w, v / w), where (u, v, w) is the product of the matrix and (x, y, 1).

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, of one of the layouts HWC, HW, FHWC, CHW, FCHW.
        mtx: Alternative to `matrix`: float32 of shape (3, 3).
        border_mode (str, default 'constant'): Values outside of the input: "constant" is `fill_value`, "replicate" the border pixel, "reflect" mirrors the image including the border pixel, "reflect_101" without it, and "wrap" continues at the other side.
        fill_value (float or list of float, default ()): Values of a constant border: one, or one per channel; 0 by default.
        interp_type (DALIInterpType, default DALIInterpType.INTERP_LINEAR): INTERP_NN, INTERP_LINEAR or INTERP_CUBIC.
        inverse_map (bool, default True): The transform maps the output to the input; False: the input to the output.
        matrix (float or list of float or DataNode, default ()): The transform, row by row: 9 values.
        pixel_origin (str, default 'corner'): Position (0, 0): the outer "corner" or the "center" of the first pixel.
        size (float or list of float or DataNode, default ()): Height and width of the output, which are rounded; by default the input's.
        device (str): device of the operator; by default that of its inputs.
    """

