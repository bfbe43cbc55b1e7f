# Written by `python -m docs.stubs`.

"""Operators as functions. A call adds an operator to the graph of the current pipeline.

Example:
    >>> from dali_proxy import fn
    >>> node = fn.external_source(name="images")
    >>> fn.resize(node, size=(224, 224)).device
    'cpu'"""

from builtins import bool as _bool
from typing import Any, Literal, overload
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes, Str, Strs
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType

from dali_proxy.pipeline.fn import decoders as decoders
from dali_proxy.pipeline.fn import experimental as experimental
from dali_proxy.pipeline.fn import inputs as inputs
from dali_proxy.pipeline.fn import io as io
from dali_proxy.pipeline.fn import noise as noise
from dali_proxy.pipeline.fn import random as random
from dali_proxy.pipeline.fn import readers as readers
from dali_proxy.pipeline.fn import reductions as reductions
from dali_proxy.pipeline.fn import segmentation as segmentation
from dali_proxy.pipeline.fn import transforms as transforms
from dali_proxy.pipeline.fn import _conditional as _conditional

__all__ = [
    'audio_decoder', 'audio_resample', 'batch_permutation', 'bb_flip', 'bbox_paste', 'bbox_rotate',
    'box_encoder', 'brightness', 'brightness_contrast', 'caffe2_reader', 'caffe_reader', 'cast', 'cast_like',
    'cat', 'clahe', 'coco_reader', 'coin_flip', 'color_space_conversion', 'color_twist', 'constant',
    'contrast', 'coord_flip', 'coord_transform', 'copy', 'crop', 'crop_mirror_normalize', 'debayer',
    'decoders', 'dl_tensor_python_function', 'dump_image', 'element_extract', 'equalize', 'erase',
    'expand_dims', 'experimental', 'external_source', 'fast_resize_crop_mirror', 'file_reader', 'filter',
    'flip', 'full', 'full_like', 'gaussian_blur', 'get_property', 'grid_mask', 'hsv', 'hue', 'image_decoder',
    'image_decoder_crop', 'image_decoder_random_crop', 'image_decoder_slice', 'inputs', 'io', 'jitter',
    'jpeg_compression_distortion', 'laplacian', 'lookup_table', 'mel_filter_bank', 'mfcc', 'multi_paste',
    'mxnet_reader', 'nemo_asr_reader', 'noise', 'nonsilent_region', 'normal_distribution', 'normalize',
    'numpy_reader', 'one_hot', 'ones', 'ones_like', 'optical_flow', 'pad', 'paste', 'patchify',
    'peek_image_shape', 'per_frame', 'permute_batch', 'power_spectrum', 'preemphasis_filter',
    'python_function', 'random', 'random_bbox_crop', 'random_crop_generator', 'random_resized_crop',
    'readers', 'reductions', 'reinterpret', 'reshape', 'resize', 'resize_crop_mirror', 'roi_random_crop',
    'rotate', 'saturation', 'segmentation', 'sequence_reader', 'sequence_rearrange', 'shapes', 'slice',
    'smart_resize', 'spectrogram', 'sphere', 'squeeze', 'ssd_random_crop', 'stack', 'tensor_resize',
    'tfrecord_reader', 'to_decibels', 'transform_translation', 'transforms', 'transpose', 'uniform',
    'video_reader', 'video_reader_resize', 'warp_affine', 'water', 'zeros', 'zeros_like',
]

from dali_proxy.pipeline.fn.decoders import audio as audio_decoder
def audio_resample(
    data: Nodes | ConstantLike, /, *, antialias: _bool = True, dtype: DALIDataType | None = None,
    in_rate: Float | DataNode | None = None, out_length: Int | DataNode | None = None,
    out_rate: Float | DataNode | None = None, quality: Float = 50.0, scale: Float | DataNode | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Resamples audio with a sinc filter that has a Hann window.

    It is a low-pass filter: frequencies up to 0.85 of half of the lower sample rate pass, and those above 1.13 of it lose
    at least 44 dB. With `quality` 100, these are 0.97 and 1.03.

    One of these is required: `scale`, `out_length`, or `in_rate` and `out_rate`. If the dtype changes, values are scaled to
    its range: -1 to 1 for real numbers; the middle of the range is silence for unsigned integers.

    Devices: cpu, gpu.

    Args:
        data: Signals, 1-D, or 2-D with channels last.
        antialias (bool, default True): Remove frequencies above half of the lower sample rate. With False, and by default in scripts that import `nvidia.dali`, they are folded to lower frequencies, as in DALI.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's.
        in_rate (float or DataNode, default None): Sample rate of the input; needs `out_rate`.
        out_length (int or DataNode, default None): Number of samples of the output.
        out_rate (float or DataNode, default None): Sample rate of the output, in any unit.
        quality (float, default 50.0): Quality from 0 to 100: the filter has 3 lobes on each side at 0, 16 at 50 and 64 at 100.
        scale (float or DataNode, default None): Ratio of the sample rates, output to input.
        device (str): device of the operator; by default that of its inputs.
    """

def batch_permutation(
    *, allow_repetitions: _bool = False, no_fixed_points: _bool = False, **common: Unpack[Common],
) -> DataNode:
    """Draws a random order of the batch: one number per sample, for the argument `indices` of `permute_batch`.

    Devices: cpu.

    Args:
        allow_repetitions (bool, default False): Draw the numbers independently of each other.
        no_fixed_points (bool, default False): Move all samples to other positions, in batches of two or more.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def bb_flip(
    boxes: Nodes | ConstantLike, /, *, horizontal: Int | DataNode = 1, ltrb: _bool = False,
    vertical: Int | DataNode = 0, **common: Unpack[Common],
) -> Nodes:
    """Mirrors boxes whose coordinates are relative to the image, from 0 to 1.

    Devices: cpu, gpu.

    Args:
        boxes: FLOAT, of shape (..., 4): x, y, width, height, or left, top, right, bottom.
        horizontal (int or DataNode, default 1): Nonzero mirrors x.
        ltrb (bool, default False): Boxes are left, top, right, bottom.
        vertical (int or DataNode, default 0): Nonzero mirrors y.
        device (str): device of the operator; by default that of its inputs.
    """

def bbox_paste(
    boxes: Nodes | ConstantLike, /, *, ltrb: _bool = False, paste_x: Float | DataNode = 0.5,
    paste_y: Float | DataNode = 0.5, ratio: Float | DataNode, **common: Unpack[Common],
) -> Nodes:
    """Computes the boxes of images that `fn.paste` places on larger canvases.

    Coordinates are relative to the image, and in the output to the canvas.

    Devices: cpu.

    Args:
        boxes: FLOAT, of shape (..., 4): x, y, width, height, or left, top, right, bottom.
        ltrb (bool, default False): Boxes are left, top, right, bottom.
        paste_x (float or DataNode, default 0.5): Horizontal position, from 0 (left) to 1 (right).
        paste_y (float or DataNode, default 0.5): Vertical position, from 0 (top) to 1 (bottom).
        ratio (float or DataNode): Ratio of the canvas' extents to the image's.
        device (str): device of the operator; by default that of its inputs.
    """

def bbox_rotate(
    boxes: Nodes | ConstantLike, labels: Input | None = None, /, *, angle: Float | DataNode,
    bbox_layout: Literal['xyXY', 'xyWH'] = 'xyXY', bbox_normalized: _bool = True,
    input_shape: Ints | DataNode, keep_size: _bool = False,
    mode: Literal['expand', 'halfway', 'fixed'] = 'expand', remove_threshold: Float = 0.1,
    shape_layout: str = 'HW', size: Floats | DataNode = (), **common: Unpack[Common],
) -> Any:
    """Computes the boxes of images that `fn.rotate` rotates.

    Boxes are cut off at the edge of the output. Those of which less than `remove_threshold` remains are removed, with their
    labels. The outputs are the boxes, and their labels if there are labels.

    Devices: cpu.

    Args:
        boxes: FLOAT of shape (N, 4).
        labels: Integers of shape (N,) or (N, 1).
        angle (float or DataNode): Angle in degrees, counter-clockwise.
        bbox_layout (layout str, default 'xyXY'): "xyXY": left, top, right, bottom; "xyWH": left, top, width, height.
        bbox_normalized (bool, default True): Boxes are fractions of the extents, not pixels.
        input_shape (int or list of int or DataNode): Extents of the image, before its rotation.
        keep_size (bool, default False): `fn.rotate` keeps the size of the image.
        mode (str, default 'expand'): "expand": each box holds the whole rotated box; "fixed": it keeps its width and height, which are exchanged by angles around 90 degrees; "halfway": the mean of both.
        remove_threshold (float, default 0.1): Smallest fraction of a box that must remain, from 0 to below 1.
        shape_layout (layout str, default 'HW'): Order of these extents.
        size (float or list of float or DataNode, default ()): Height and width of the rotated image, as in `fn.rotate`.
        device (str): device of the operator; by default that of its inputs.
    """

def box_encoder(
    boxes: Nodes | ConstantLike, labels: Input, /, *, anchors: Floats, criteria: Float = 0.5,
    means: Floats = (0.0, 0.0, 0.0, 0.0), offset: _bool = False, scale: Float = 1.0,
    stds: Floats = (1.0, 1.0, 1.0, 1.0), **common: Unpack[Common],
) -> list[Nodes]:
    """Assigns boxes and labels to default boxes (anchors), for the training of detectors like SSD.

    Each anchor gets the box with the largest intersection over union, if that exceeds `criteria`. Each box is also assigned
    to the anchor that it overlaps most. The outputs are a box for each anchor, FLOAT of x, y (the centre), width, height,
    and its label, INT32. An anchor without a box has the label 0 and its own coordinates; with `offset`, zeros.

    Devices: cpu, gpu.

    Args:
        boxes: FLOAT of shape (M, 4): left, top, right, bottom.
        labels: INT32 of shape (M,) or (M, 1).
        anchors (float or list of float): Anchors one after the other: left, top, right, bottom.
        criteria (float, default 0.5): Intersection over union that a match must exceed, 0 to 1.
        means (float or list of float, default (0.0, 0.0, 0.0, 0.0)): Means of x, y, width, height that `offset` subtracts.
        offset (bool, default False): Return the differences between boxes and anchors: of the centres, in units of the anchor's extents, and the logarithms of the ratios of the extents.
        scale (float, default 1.0): Factor of boxes and anchors, for `offset`.
        stds (float or list of float, default (1.0, 1.0, 1.0, 1.0)): Standard deviations of x, y, width, height by which `offset` divides.
        device (str): device of the operator; by default that of its inputs.
    """

def brightness(
    data: Nodes | ConstantLike, /, *, brightness: Float | DataNode = 1.0,
    brightness_shift: Float | DataNode = 0.0, dtype: DALIDataType | None = None, **common: Unpack[Common],
) -> Nodes:
    """Adjusts brightness: brightness_shift * range + brightness * value.

    The range is the largest value of the output's dtype, or 1 for FLOAT.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, FHWC, DHWC; UINT8, INT16, INT32 or FLOAT.
        brightness (float or DataNode, default 1.0): Factor of the values.
        brightness_shift (float or DataNode, default 0.0): Added to values, in units of the output dtype's largest value, or of 1 for FLOAT.
        dtype (DALIDataType, default None): Dtype of the output: UINT8, INT16, INT32 or FLOAT; the input's by default.
        device (str): device of the operator; by default that of its inputs.
    """

def brightness_contrast(
    data: Nodes | ConstantLike, /, *, brightness: Float | DataNode = 1.0,
    brightness_shift: Float | DataNode = 0.0, contrast: Float | DataNode = 1.0,
    contrast_center: Float | DataNode | None = None, dtype: DALIDataType | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Adjusts contrast, then brightness.

    The output is brightness_shift * range + brightness * (contrast_center + contrast * (value - contrast_center)). The
    range is the largest value of the output's dtype, or 1 for FLOAT.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, FHWC, DHWC; UINT8, INT16, INT32 or FLOAT.
        brightness (float or DataNode, default 1.0): Factor of the values.
        brightness_shift (float or DataNode, default 0.0): Added to values, in units of the output dtype's largest value, or of 1 for FLOAT.
        contrast (float or DataNode, default 1.0): Factor of the distance of values from the centre.
        contrast_center (float or DataNode, default None): The value that `contrast` doesn't change; by default half of the positive range of the input's dtype, 0.5 for FLOAT.
        dtype (DALIDataType, default None): Dtype of the output: UINT8, INT16, INT32 or FLOAT; the input's by default.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.readers import caffe2 as caffe2_reader
from dali_proxy.pipeline.fn.readers import caffe as caffe_reader
def cast(data: Nodes | ConstantLike, /, *, dtype: DALIDataType, **common: Unpack[Common]) -> Nodes:
    """Converts samples to another dtype. Integers are rounded (halves away from zero) and clamped.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        dtype (DALIDataType): Dtype of the output.
        device (str): device of the operator; by default that of its inputs.
    """

def cast_like(data: Nodes | ConstantLike, like: Input, /, **common: Unpack[Common]) -> Nodes:
    """Converts samples to the dtype of other samples, like `cast`.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        like: Samples whose dtype the output gets.
        device (str): device of the operator; by default that of its inputs.
    """

def cat(
    input_0: Nodes | ConstantLike, /, *inputs: Input, axis: Int = 0, axis_name: Str | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Joins samples along an existing axis.

    Devices: cpu, gpu.

    Args:
        input_0: Samples.
        inputs: Further samples with the same dtype and, except along the axis, the same shape.
        axis (int, default 0): Index of the axis; negative ones count from the end.
        axis_name (str, default None): Layout letter of the axis, instead of `axis`.
        device (str): device of the operator; by default that of its inputs.
    """

def clahe(
    data: Nodes | ConstantLike, /, *, bins: Int = 256, clip_limit: Float, luma_only: _bool = True,
    tiles_x: Int, tiles_y: Int, **common: Unpack[Common],
) -> Nodes:
    """Equalizes the histogram of each tile of an image, with a limited contrast (CLAHE), as OpenCV does.

    Between the centres of tiles, their results are interpolated.

    Devices: cpu, gpu.

    Args:
        data: Images, HWC, UINT8 with 1 or 3 channels; 3 channels are RGB.
        bins (int, default 256): Accepted for compatibility; there are 256 values.
        clip_limit (float): Largest count of a value in a histogram, relative to the mean of all values; unlimited if 0 or less.
        luma_only (bool, default True): Equalize only the luminance of RGB images, else each channel alone.
        tiles_x (int): Number of tiles along the width.
        tiles_y (int): Number of tiles along the height.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.readers import coco as coco_reader
from dali_proxy.pipeline.fn.random import coin_flip as coin_flip
def color_space_conversion(
    data: Nodes | ConstantLike, /, *, image_type: DALIImageType, output_type: DALIImageType,
    **common: Unpack[Common],
) -> Nodes:
    """Converts images between RGB, BGR, GRAY and YCbCr (ITU-R BT.601, Y from 16 to 235).

    Devices: cpu, gpu.

    Args:
        data: UINT8 images, of one of the layouts FDHWC, FHWC, DHWC, HWC.
        image_type (DALIImageType): Colour space of the input.
        output_type (DALIImageType): Colour space of the output.
        device (str): device of the operator; by default that of its inputs.
    """

def color_twist(
    data: Nodes | ConstantLike, /, *, brightness: Float | DataNode = 1.0, contrast: Float | DataNode = 1.0,
    dtype: DALIDataType | None = None, hue: Float | DataNode = 0.0,
    image_type: DALIImageType = DALIImageType.RGB, saturation: Float | DataNode = 1.0,
    **common: Unpack[Common],
) -> Nodes:
    """Rotates the hue and scales saturation, contrast and brightness, by a matrix between RGB channels.

    Devices: cpu, gpu.

    Args:
        data: RGB images, of one of the layouts HWC, FHWC, DHWC; UINT8, INT16, INT32 or float.
        brightness (float or DataNode, default 1.0): Factor of the values.
        contrast (float or DataNode, default 1.0): Factor of the distance of values from 128 (from 0.5 for floats).
        dtype (DALIDataType, default None): Dtype of the output: UINT8, INT16, INT32, FLOAT, FLOAT16, or None for the input's.
        hue (float or DataNode, default 0.0): Rotation of the hue in degrees.
        image_type (DALIImageType, default DALIImageType.RGB): Accepted and ignored, as in DALI.
        saturation (float or DataNode, default 1.0): Factor of the saturation; 0 makes images grey.
        device (str): device of the operator; by default that of its inputs.
    """

def constant(
    *, dtype: DALIDataType | None = None, fdata: Floats | None = None, idata: Ints | None = None,
    layout: str | None = None, shape: Ints | None = None, **common: Unpack[Common],
) -> DataNode:
    """Returns the same sample in every batch. A plain number or array can be used instead, as any input.

    Devices: cpu, gpu.

    Args:
        dtype (DALIDataType, default None): Dtype of the samples; by default FLOAT for `fdata`, INT32 for `idata`.
        fdata (float or list of float, default None): Values: one for all elements, or one for each.
        idata (int or list of int, default None): Integer values, instead of `fdata`.
        layout (layout str, default None): Layout of the samples.
        shape (int or list of int, default None): Shape of the samples; 1-D by default.
        device (str): device of the operator; by default that of its inputs.
    """

def contrast(
    data: Nodes | ConstantLike, /, *, contrast: Float | DataNode = 1.0,
    contrast_center: Float | DataNode | None = None, dtype: DALIDataType | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Adjusts contrast: contrast_center + contrast * (value - contrast_center).

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, FHWC, DHWC; UINT8, INT16, INT32 or FLOAT.
        contrast (float or DataNode, default 1.0): Factor of the distance of values from the centre.
        contrast_center (float or DataNode, default None): The value that `contrast` doesn't change; by default half of the positive range of the input's dtype, 0.5 for FLOAT.
        dtype (DALIDataType, default None): Dtype of the output: UINT8, INT16, INT32 or FLOAT; the input's by default.
        device (str): device of the operator; by default that of its inputs.
    """

def coord_flip(
    points: Nodes | ConstantLike, /, *, center_x: Float | DataNode = 0.5, center_y: Float | DataNode = 0.5,
    center_z: Float | DataNode = 0.5, flip_x: Int | DataNode = 1, flip_y: Int | DataNode = 0,
    flip_z: Int | DataNode = 0, layout: str = '', **common: Unpack[Common],
) -> Nodes:
    """Mirrors points about a centre.

    Devices: cpu, gpu.

    Args:
        points: FLOAT, a point of one to three coordinates in each row.
        center_x (float or DataNode, default 0.5): The value of x that mirroring doesn't change.
        center_y (float or DataNode, default 0.5): The value of y that mirroring doesn't change.
        center_z (float or DataNode, default 0.5): The value of z that mirroring doesn't change.
        flip_x (int or DataNode, default 1): Nonzero mirrors x.
        flip_y (int or DataNode, default 0): Nonzero mirrors y.
        flip_z (int or DataNode, default 0): Nonzero mirrors z.
        layout (layout str, default ''): Order of the coordinates; "xyz" by default.
        device (str): device of the operator; by default that of its inputs.
    """

def coord_transform(
    points: Nodes | ConstantLike, /, *, M: Floats | DataNode | None = None,
    MT: Floats | DataNode | None = None, T: Floats | DataNode | None = None,
    dtype: DALIDataType = DALIDataType.FLOAT, **common: Unpack[Common],
) -> Nodes:
    """Applies a linear map to points: M * point + T.

    Devices: cpu, gpu.

    Args:
        points: Of shape (..., n): FLOAT or integers of up to 32 bits.
        M (float or list of float or DataNode, default None): Matrix of m rows and n columns; a single number fills the diagonal.
        MT (float or list of float or DataNode, default None): `M` and `T` as one matrix of n + 1 columns; can't be used with either.
        T (float or list of float or DataNode, default None): Offset: m numbers, or one for all coordinates.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the output: FLOAT, or that of the input.
        device (str): device of the operator; by default that of its inputs.
    """

def copy(data: Nodes | ConstantLike, /, **common: Unpack[Common]) -> Nodes:
    """Copies samples to new memory.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        device (str): device of the operator; by default that of its inputs.
    """

def crop(
    data: Nodes | ConstantLike, /, *, crop: Floats | DataNode | None = None, crop_d: Float | DataNode = 0.0,
    crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5, crop_pos_y: Float | DataNode = 0.5,
    crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0, dtype: DALIDataType | None = None,
    fill_values: Floats = (0.0,), image_type: DALIImageType | None = None,
    out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape', 'edge', 'clamp', 'reflect', 'reflect_1001', 'reflect_101', 'wrap'] = 'error',
    output_dtype: DALIDataType | None = None, rounding: Literal['round', 'truncate'] = 'round',
    **common: Unpack[Common],
) -> Nodes:
    """Crops windows of a given size out of images, volumes or sequences.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, CHW, DHWC, CDHW, FHWC, FCHW, CFHW, FDHWC, FCDHW, CFDHW; HWC without a layout.
        crop (float or list of float or DataNode, default None): Extents of the window in pixels: (height, width) or (depth, height, width). 0 means the whole axis.
        crop_d (float or DataNode, default 0.0): Depth of the window in voxels; needs crop_h and crop_w.
        crop_h (float or DataNode, default 0.0): Height of the window in pixels; needs crop_w.
        crop_pos_x (float or DataNode, default 0.5): Horizontal position of the window, from 0 (left) to 1 (right): it starts at crop_pos_x * (W - crop_w).
        crop_pos_y (float or DataNode, default 0.5): Vertical position of the window, from 0 (top) to 1 (bottom).
        crop_pos_z (float or DataNode, default 0.5): Position of the window in depth, from 0 (front) to 1 (back).
        crop_w (float or DataNode, default 0.0): Width of the window in pixels; needs crop_h.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's. Floats are truncated to integers.
        fill_values (float or list of float, default (0.0,)): Values outside of the data: one for all channels or one per channel, in units of the output.
        image_type (DALIImageType, default None): Deprecated and ignored.
        out_of_bounds_policy (str, default 'error'): Policy for windows that exceed the data: 'error' raises an error, 'pad' (or 'constant') uses `fill_values` outside, 'trim_to_shape' cuts the window off; 'edge' (or 'clamp') repeats the last element, 'reflect' (or 'reflect_1001') mirrors the data including the last element, 'reflect_101' mirrors the data without it, and 'wrap' continues at the other end.
        output_dtype (DALIDataType, default None): Deprecated name of `dtype`.
        rounding (str, default 'round'): Rounding of the first pixel of the window: 'round' to nearest, halves away from zero, or 'truncate'.
        device (str): device of the operator; by default that of its inputs.
    """

def crop_mirror_normalize(
    data: Nodes | ConstantLike, /, *, crop: Floats | DataNode | None = None, crop_d: Float | DataNode = 0.0,
    crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5, crop_pos_y: Float | DataNode = 0.5,
    crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0,
    dtype: DALIDataType = DALIDataType.FLOAT, fill_values: Floats = (0.0,),
    image_type: DALIImageType | None = None, mean: Floats | DataNode = (0.0,), mirror: Int | DataNode = 0,
    out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape'] = 'error',
    output_dtype: DALIDataType | None = None, output_layout: str = 'CHW', pad_output: _bool = False,
    rounding: Literal['round', 'truncate'] = 'round', scale: Float = 1.0, shift: Float = 0.0,
    std: Floats | DataNode = (1.0,), **common: Unpack[Common],
) -> Nodes:
    """Crops, mirrors and normalises images, and converts their layout and dtype, in one pass.

    The output is (pixel - mean) / std * scale + shift. Without crop arguments the window is the whole image.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, CHW, DHWC, CDHW, FHWC, FCHW, CFHW, FDHWC, FCDHW, CFDHW; HWC without a layout.
        crop (float or list of float or DataNode, default None): Extents of the window in pixels: (height, width) or (depth, height, width). 0 means the whole axis.
        crop_d (float or DataNode, default 0.0): Depth of the window in voxels; needs crop_h and crop_w.
        crop_h (float or DataNode, default 0.0): Height of the window in pixels; needs crop_w.
        crop_pos_x (float or DataNode, default 0.5): Horizontal position of the window, from 0 (left) to 1 (right): it starts at crop_pos_x * (W - crop_w).
        crop_pos_y (float or DataNode, default 0.5): Vertical position of the window, from 0 (top) to 1 (bottom).
        crop_pos_z (float or DataNode, default 0.5): Position of the window in depth, from 0 (front) to 1 (back).
        crop_w (float or DataNode, default 0.0): Width of the window in pixels; needs crop_h.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the output: FLOAT, FLOAT16, INT8 or UINT8. Integers are rounded.
        fill_values (float or list of float, default (0.0,)): Values outside of the data: one for all channels or one per channel, in units of the output.
        image_type (DALIImageType, default None): Deprecated and ignored.
        mean (float or list of float or DataNode, default (0.0,)): Subtracted from pixels: one value, or one per channel.
        mirror (int or DataNode, default 0): Nonzero swaps left and right.
        out_of_bounds_policy (str, default 'error'): Policy for windows that exceed the data: 'error' raises an error, 'pad' (or 'constant') uses `fill_values` outside, 'trim_to_shape' cuts the window off.
        output_dtype (DALIDataType, default None): Deprecated name of `dtype`.
        output_layout (layout str, default 'CHW'): A permutation of the input's layout; empty keeps the layout.
        pad_output (bool, default False): Add channels of fill values, up to the next power of two.
        rounding (str, default 'round'): Rounding of the first pixel of the window: 'round' to nearest, halves away from zero, or 'truncate'.
        scale (float, default 1.0): Multiplies the result: (pixel - mean) / std * scale + shift.
        shift (float, default 0.0): Added to the result.
        std (float or list of float or DataNode, default (1.0,)): Divides the difference: one value, or one per channel.
        device (str): device of the operator; by default that of its inputs.
    """

def debayer(
    data: Nodes | ConstantLike, /, *,
    algorithm: Literal['bilinear_ocv', 'edgeaware_ocv', 'vng_ocv', 'gray_ocv', 'default_npp'] | None = None,
    blue_position: Ints | DataNode, **common: Unpack[Common],
) -> Nodes:
    """Computes the colours of images whose pixels have one colour each, in a repeated 2 x 2 tile.

    The output is RGB, HWC or FHWC.

    Devices: cpu, gpu.

    Args:
        data: UINT8 or UINT16, of one of the layouts HW, HWC, FHW, FHWC, with one channel. Height and width must be even.
        algorithm (str, default None): Interpolation: "bilinear_ocv" (the default); "edgeaware_ocv", along edges; "vng_ocv", by a variable number of gradients, UINT8 and CPU only; "gray_ocv" returns grey images. "default_npp", GPU only, is bilinear, too.
        blue_position (int or list of int or DataNode): Row and column of blue in the 2 x 2 tile that begins in the second row and column: 0 or 1.
        device (str): device of the operator; by default that of its inputs.
    """

def dl_tensor_python_function(
    *data: Nodes | ConstantLike, batch_processing: _bool = True, deterministic: _bool = False, function: Any,
    num_outputs: Int = 1, output_layouts: Strs | None = None, parallel: _bool | None = None,
    synchronize_stream: _bool = True, timeout: Float | None = None, **common: Unpack[Common],
) -> Any:
    """Runs a Python function on DLPack capsules.

    The function receives a sample of each input, or with `batch_processing` a list of samples of each input. It returns an
    output, or a tuple or list of `num_outputs` outputs. It processes the samples of a batch one after another, unless it
    runs in worker processes. It may modify its arguments. It runs even if no output of the pipeline depends on it.

    If the pipeline has a seed, or the function runs in a server or in worker processes, then `random`, `numpy.random` and
    torch's generators are seeded for each sample (for each batch with `batch_processing`), as the operators' own random
    numbers are.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        batch_processing (bool, default True): Call the function once per batch, with lists.
        deterministic (bool, default False): Promise that the outputs for a sample depend on nothing but this sample's inputs and the function's code, so that a cache may keep them. The function isn't called for what the cache has.
        function (object): The function.
        num_outputs (int, default 1): Number of outputs that the function returns, or 0.
        output_layouts (str or list of str, default None): Layouts of the outputs, or of the first ones.
        parallel (bool, default None): Run the function in worker processes of the pipeline, as many as `py_num_workers` or `num_threads`, whichever is more. By default, a server measures whether functions of samples are faster there, and other pipelines call functions in their own process.
        synchronize_stream (bool, default True): On the GPU, wait for the inputs before the call.
        timeout (float, default None): Seconds that a call may take in a worker process. Then the process is killed, and the error shows its stack. No limit by default.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def dump_image(
    data: Nodes | ConstantLike, /, *, input_layout: str = 'HWC', suffix: Str = '', **common: Unpack[Common],
) -> Nodes:
    """Writes each image to a file in the current folder, and returns the images unchanged.

    It runs even if no output of the pipeline depends on it. The file of sample 3 is `3-{suffix}-0.ppm`, in the format PPM,
    or PGM for grey images. Each batch overwrites the files of the last one.

    Devices: cpu, gpu.

    Args:
        data: Images, HWC, UINT8 with 1 or 3 channels; 3 channels are RGB.
        input_layout (layout str, default 'HWC'): Layout of the images: "HWC".
        suffix (str, default ''): Part of the names of the files.
        device (str): device of the operator; by default that of its inputs.
    """

def element_extract(data: Nodes | ConstantLike, /, *, element_map: Ints, **common: Unpack[Common]) -> Any:
    """Returns single frames of sequences, with one output for each number in `element_map`.

    Devices: cpu, gpu.

    Args:
        data: Sequences, whose layout is empty or begins with "F".
        element_map (int or list of int): Numbers of the frames, from 0.
        device (str): device of the operator; by default that of its inputs.
    """

def equalize(data: Nodes | ConstantLike, /, **common: Unpack[Common]) -> Nodes:
    """Equalizes the histogram of each channel and each frame.

    Devices: cpu, gpu.

    Args:
        data: UINT8 images or sequences, of one of the layouts HW, HWC, CHW, FHW, FHWC, FCHW.
        device (str): device of the operator; by default that of its inputs.
    """

def erase(
    data: Nodes | ConstantLike, /, *, anchor: Floats | DataNode = (), axes: Ints = (1, 0),
    axis_names: Str = 'HW', centered_anchor: _bool = False, fill_value: Floats | DataNode = (0.0,),
    normalized: _bool = False, normalized_anchor: _bool = False, normalized_shape: _bool = False,
    shape: Floats | DataNode = (), **common: Unpack[Common],
) -> Nodes:
    """Erases one or more regions of samples.

    Several regions are concatenated: anchor=(y0, x0, y1, x1), shape=(h0, w0, h1, w1). The portions outside of the sample
    are ignored. Regions cover the whole extent of all other axes.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        anchor (float or list of float or DataNode, default ()): Starts of the regions; zero by default.
        axes (int or list of int, default (1, 0)): Axes of `anchor` and `shape`; by default all except the channels.
        axis_names (str, default 'HW'): Axes as letters of the layout; overrides `axes`.
        centered_anchor (bool, default False): `anchor` is the centre of the regions.
        fill_value (float or list of float or DataNode, default (0.0,)): Value of the regions: one, or one per channel.
        normalized (bool, default False): `anchor` and `shape` are in fractions of the extents, not in pixels.
        normalized_anchor (bool, default False): `anchor` is in fractions of the extents, not in pixels.
        normalized_shape (bool, default False): `shape` is in fractions of the extents, not in pixels.
        shape (float or list of float or DataNode, default ()): Extents of the regions.
        device (str): device of the operator; by default that of its inputs.
    """

def expand_dims(
    data: Nodes | ConstantLike, /, *, axes: Ints, new_axis_names: Str = '', **common: Unpack[Common],
) -> Nodes:
    """Adds dimensions of extent 1.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int): Indices of the new dimensions in the output.
        new_axis_names (str, default ''): Their layout letters; without them the output has no layout.
        device (str): device of the operator; by default that of its inputs.
    """

@overload
def external_source(
    source: Any = None, num_outputs: None = None, *, cycle: str | _bool | None = None,
    name: str | None = None, device: str | None = None, layout: Any = None, dtype: Any = None,
    ndim: Any = None, cuda_stream: Any = None, use_copy_kernel: _bool | None = None,
    batch: _bool | None = None, batch_info: _bool | None = None, repeat_last: _bool = False,
    blocking: _bool | None = None, no_copy: _bool | None = None, parallel: _bool | None = None,
    prefetch_queue_depth: int | None = None, **arguments: Any,
) -> DataNode:
    """Return external data as an input of the graph.

    Without a source, feed the data with `Pipeline.feed_input`, as a keyword of `Pipeline.run`, or through the proxy of
    a server. With a source, the pipeline requests each batch from it, in the thread that runs the pipeline. The epoch
    ends when the source raises `StopIteration`, and `Pipeline.reset` begins the next epoch.

    Args:
        source: callable, iterable, generator function or iterator class. It returns batches (an array whose first
            dimension is the batch, or a list of samples) or samples: NumPy, torch or CuPy arrays, objects with
            ``__array__`` or DLPack, or tensors of this package. A callable takes no argument, or one that describes
            the request: a `types.SampleInfo` for a sample; the number of the iteration or a `types.BatchInfo` for a
            batch.
        num_outputs: number of values in the tuples that the source returns. With it, the result is a list of nodes.
        cycle: behaviour at the end of an iterable source. With "no" or False, the epoch ends, and the next one asks
            the same iterator again: a plain iterator has no more data, others begin again. With "quiet"
            or True, the source restarts immediately; with "raise", the epoch ends and the source restarts for the next
            one.
        name: name of the input, to feed data to it.
        device: "cpu" or "gpu".
        layout: layout of the samples, such as HWC; a list has one for each output.
        dtype: required dtype of the data; by default any. A list has one for each output.
        ndim: required number of dimensions of the samples; by default any. A list has one for each output.
        cuda_stream: stream that computes data on a GPU, unless `Pipeline.feed_input` gets another one.
        use_copy_kernel: copy data on a GPU with a kernel instead of ``cudaMemcpyAsync``.
        batch: whether the source returns batches instead of samples; True by default, except for a callable with
            ``parallel=True``.
        batch_info: whether a callable for batches gets a `types.BatchInfo` instead of the number of the iteration.
        repeat_last: use the last batch again if no new data was fed.
        blocking: wait for data that another thread feeds, instead of raising an error.
        no_copy: read the fed memory in place; it must not change until the batch is complete.
        parallel: read the source in ``py_num_workers`` worker processes of the pipeline. Any worker may call a callable
            for any sample, so its result must depend on its argument only; one worker reads an iterable. Samples must
            be on the CPU. The order and the contents don't depend on the number of workers. If a worker dies, the error
            names it. The pipeline doesn't restart workers, because it can't know the reason, or the position in the
            source. Build a new pipeline instead, from a checkpoint if necessary.
        prefetch_queue_depth: number of batches that workers prepare in advance; 1 by default. Workers may request
            batches after the end of the data; the source must raise `StopIteration` for those, too.
        **arguments: arguments of all operators.

    Returns:
        A node, or a list of nodes with `num_outputs`.

    Raises:
        ArgumentTypeError: an argument has the wrong type.
        ArgumentValueError: an argument has an invalid value, or can't be combined with another.

    Example:
        >>> import numpy as np
        >>> from dali_proxy import fn, pipeline_def
        >>> @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        ... def squares():
        ...     return fn.external_source(lambda sample: np.int32(sample.idx_in_epoch ** 2), batch=False)
        >>> pipe = squares()
        >>> [pipe.run()[0].as_array().tolist() for _ in range(2)]
        [[0, 1], [4, 9]]
    """
@overload
def external_source(source: Any = None, *, num_outputs: int, **arguments: Any) -> list[DataNode]: ...
@overload
def external_source(source: Any, num_outputs: int, **arguments: Any) -> list[DataNode]: ...

def fast_resize_crop_mirror(
    data: Nodes | ConstantLike, /, *, antialias: _bool = False, crop: Floats | DataNode | None = None,
    crop_d: Float | DataNode = 0.0, crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5,
    crop_pos_y: Float | DataNode = 0.5, crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0,
    dtype: DALIDataType | None = None, interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32, mirror: Int | DataNode = 0,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    resize_longer: Float | DataNode = 0.0, resize_shorter: Float | DataNode = 0.0,
    resize_x: Float | DataNode = 0.0, resize_y: Float | DataNode = 0.0, resize_z: Float | DataNode = 0.0,
    roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
    roi_start: Floats | DataNode | None = None, rounding: Literal['round', 'truncate'] = 'round',
    size: Floats | DataNode | None = None, subpixel_scale: _bool = True, temp_buffer_hint: Int = 0,
    **common: Unpack[Common],
) -> Nodes:
    """Computes `resize_crop_mirror`, by default without antialiasing. Deprecated in DALI.

    Where a window exceeds the resized image, the edge pixels of the image are repeated.

    Devices: cpu, gpu.

    Args:
        data: Images, volumes or sequences, as for `resize`.
        antialias (bool, default False): Widen filters in proportion to the scale along axes that shrink.
        crop (float or list of float or DataNode, default None): Extents of the window in pixels: (height, width) or (depth, height, width). 0 means the whole axis.
        crop_d (float or DataNode, default 0.0): Depth of the window in voxels; needs crop_h and crop_w.
        crop_h (float or DataNode, default 0.0): Height of the window in pixels; needs crop_w.
        crop_pos_x (float or DataNode, default 0.5): Horizontal position of the window, from 0 (left) to 1 (right): it starts at crop_pos_x * (W - crop_w).
        crop_pos_y (float or DataNode, default 0.5): Vertical position of the window, from 0 (top) to 1 (bottom).
        crop_pos_z (float or DataNode, default 0.5): Position of the window in depth, from 0 (front) to 1 (back).
        crop_w (float or DataNode, default 0.0): Width of the window in pixels; needs crop_h.
        dtype (DALIDataType, default None): Dtype of the output: the input's (the default) or FLOAT.
        interp_type (DALIInterpType or DataNode, default DALIInterpType.INTERP_LINEAR): Filter for shrinking and growing axes.
        mag_filter (DALIInterpType or DataNode, default None): Filter for axes that grow; by default `interp_type`.
        max_size (float or list of float, default None): Largest size of the output in pixels: one for all axes, or one per axis.
        min_filter (DALIInterpType or DataNode, default None): Filter for axes that shrink; by default `interp_type`.
        minibatch_size (int, default 32): Accepted for compatibility.
        mirror (int or DataNode, default 0): Sum of 1 (flip the width), 2 (flip the height) and 4 (flip the depth).
        mode (str, default 'default'): 'default' scales axes without a size by the geometric mean of the other axes' factors; 'stretch' keeps their size; 'not_larger' and 'not_smaller' keep the aspect ratio and use the smallest or the largest factor.
        resize_longer (float or DataNode, default 0.0): Longer side of the output in pixels; keeps the aspect ratio.
        resize_shorter (float or DataNode, default 0.0): Shorter side of the output in pixels; keeps the aspect ratio.
        resize_x (float or DataNode, default 0.0): Width of the output in pixels; if 0, `mode` sets it.
        resize_y (float or DataNode, default 0.0): Height of the output in pixels; if 0, `mode` sets it.
        resize_z (float or DataNode, default 0.0): Depth of the output in voxels; if 0, `mode` sets it.
        roi_end (float or list of float or DataNode, default None): End of the region; an end before the start flips the axis.
        roi_relative (bool, default False): `roi_start` and `roi_end` are fractions of the input's extents.
        roi_start (float or list of float or DataNode, default None): Start of the region to resize, in pixels, in the order of `size`.
        rounding (str, default 'round'): Rounding of the first pixel of the window: 'round' to nearest, halves away from zero, or 'truncate'.
        size (float or list of float or DataNode, default None): Size of the output in pixels, (height, width) or (depth, height, width). For an axis of size 0, `mode` sets the size. A negative number flips the axis.
        subpixel_scale (bool, default True): If the output's size was rounded, adapt the region of the input so that the scale stays exact.
        temp_buffer_hint (int, default 0): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.readers import file as file_reader
def filter(
    data: Nodes | ConstantLike, filter: Input, fill_value: Input | None = None, /, *,
    anchor: Ints | DataNode = (-1,),
    border: Literal['reflect_101', 'reflect101', '101', 'reflect_1001', 'reflect1001', '1001', 'reflect', 'wrap', 'clamp', 'edge', 'constant', 'pad', 'fill'] = 'reflect_101',
    dtype: DALIDataType | None = None, mode: Literal['same', 'valid'] = 'same', **common: Unpack[Common],
) -> Nodes:
    """Correlates images with windows, in float32. Unlike in a convolution, the windows aren't flipped.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, of one of the layouts HW, HWC, CHW, FHW, FHWC, FCHW.
        filter: Windows: float32 of shape (rows, columns), or one per frame.
        fill_value: Values outside of the image for a constant border: scalars.
        anchor (int or list of int or DataNode, default (-1,)): Row and column of the window that are aligned with the output's pixel; -1 for the middle.
        border (str, default 'reflect_101'): Values outside of the image.
        dtype (DALIDataType, default None): Dtype of the output: FLOAT, or None for the input's.
        mode (str, default 'same'): "same" keeps the size; "valid" computes only pixels whose window lies inside of the image.
        device (str): device of the operator; by default that of its inputs.
    """

def flip(
    data: Nodes | ConstantLike, /, *, depthwise: Int | DataNode = 0, horizontal: Int | DataNode = 1,
    vertical: Int | DataNode = 0, **common: Unpack[Common],
) -> Nodes:
    """Mirrors samples along the chosen dimensions.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts FDHWC, FHWC, DHWC, HWC, FCDHW, FCHW, CDHW, CHW; HWC without a layout.
        depthwise (int or DataNode, default 0): Nonzero swaps front and back of a volume.
        horizontal (int or DataNode, default 1): Nonzero swaps left and right.
        vertical (int or DataNode, default 0): Nonzero swaps top and bottom.
        device (str): device of the operator; by default that of its inputs.
    """

def full(
    fill_value: Nodes | ConstantLike, /, *, layout: str | None = None, shape: Ints | DataNode = (),
    **common: Unpack[Common],
) -> Nodes:
    """Returns samples that are filled with given values.

    Devices: cpu.

    Args:
        fill_value: Values that are broadcast to the samples.
        layout (layout str, default None): Layout of the samples.
        shape (int or list of int or DataNode, default ()): Shape of the samples; scalars by default.
        device (str): device of the operator; by default that of its inputs.
    """

def full_like(data_like: Nodes | ConstantLike, fill_value: Input, /, **common: Unpack[Common]) -> Nodes:
    """Returns samples with the shape, dtype and layout of other samples, filled with given values.

    Devices: cpu.

    Args:
        data_like: Samples whose shape, dtype and layout the output gets.
        fill_value: Values that are broadcast to the samples.
        device (str): device of the operator; by default that of its inputs.
    """

def gaussian_blur(
    data: Nodes | ConstantLike, /, *, dtype: DALIDataType | None = None, sigma: Floats | DataNode = (0.0,),
    window_size: Ints | DataNode = (0,), **common: Unpack[Common],
) -> Nodes:
    """Blurs with a Gaussian filter along all axes except frames and channels. Borders are reflected.

    If only `sigma` is set, the radius of the window is ceil(3 * sigma). If only `window_size` is set, sigma is
    (radius - 1) * 0.3 + 0.8 with a radius of (window_size - 1) / 2.

    Devices: cpu, gpu.

    Args:
        data: Samples with channels first, last or absent; without a layout all axes are blurred.
        dtype (DALIDataType, default None): Dtype of the output: FLOAT, or None for the input's.
        sigma (float or list of float or DataNode, default (0.0,)): Standard deviation in pixels: one for all axes or one per axis.
        window_size (int or list of int or DataNode, default (0,)): Odd width of the window: one for all axes or one per axis.
        device (str): device of the operator; by default that of its inputs.
    """

def get_property(
    data: Nodes | ConstantLike, /, *, key: Literal['layout', 'source_info'], **common: Unpack[Common],
) -> Nodes:
    """Returns a property of samples as text, 1-D uint8. `data.property(key)` is the usual way to call it.

    Devices: cpu, gpu.

    Args:
        data: Samples on any device; their contents aren't read.
        key (str): "layout": names of the dimensions; "source_info": origin of the sample in the data set of its reader, or empty.
        device (str): device of the operator; by default that of its inputs.
    """

def grid_mask(
    data: Nodes | ConstantLike, /, *, angle: Float | DataNode = 0.0, ratio: Float | DataNode = 0.5,
    shift_x: Float | DataNode = 0.0, shift_y: Float | DataNode = 0.0, tile: Int | DataNode = 100,
    **common: Unpack[Common],
) -> Nodes:
    """Erases a grid of squares, as in https://arxiv.org/abs/2001.04086. Erased pixels are 0.

    The grid consists of tiles, each with an erased square in its first corner. It is rotated about the first pixel, then
    moved.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, HW, CHW, FHWC, FHW, FCHW; HWC or HW without a layout.
        angle (float or DataNode, default 0.0): Rotation of the grid in radians.
        ratio (float or DataNode, default 0.5): Width of the erased square, as a fraction of the tile.
        shift_x (float or DataNode, default 0.0): Horizontal shift of the grid in pixels.
        shift_y (float or DataNode, default 0.0): Vertical shift of the grid in pixels.
        tile (int or DataNode, default 100): Width of a tile in pixels.
        device (str): device of the operator; by default that of its inputs.
    """

def hsv(
    data: Nodes | ConstantLike, /, *, dtype: DALIDataType = DALIDataType.UINT8, hue: Float | DataNode = 0.0,
    saturation: Float | DataNode = 1.0, value: Float | DataNode = 1.0, **common: Unpack[Common],
) -> Nodes:
    """Rotates the hue and scales saturation and value, by a matrix between RGB channels.

    Devices: cpu, gpu.

    Args:
        data: RGB images, of one of the layouts HWC, FHWC, DHWC; UINT8, INT16, INT32 or float.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the output: UINT8, INT16, INT32, FLOAT, FLOAT16, or None for the input's.
        hue (float or DataNode, default 0.0): Rotation of the hue in degrees.
        saturation (float or DataNode, default 1.0): Factor of the saturation; 0 makes images grey.
        value (float or DataNode, default 1.0): Factor of the brightness.
        device (str): device of the operator; by default that of its inputs.
    """

def hue(
    data: Nodes | ConstantLike, /, *, dtype: DALIDataType | None = None, hue: Float | DataNode = 0.0,
    image_type: DALIImageType = DALIImageType.RGB, **common: Unpack[Common],
) -> Nodes:
    """Rotates the hue.

    Devices: cpu, gpu.

    Args:
        data: RGB images, of one of the layouts HWC, FHWC, DHWC; UINT8, INT16, INT32 or float.
        dtype (DALIDataType, default None): Dtype of the output: UINT8, INT16, INT32, FLOAT, FLOAT16, or None for the input's.
        hue (float or DataNode, default 0.0): Rotation of the hue in degrees.
        image_type (DALIImageType, default DALIImageType.RGB): Accepted and ignored, as in DALI.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.decoders import image as image_decoder
from dali_proxy.pipeline.fn.decoders import image_crop as image_decoder_crop
from dali_proxy.pipeline.fn.decoders import image_random_crop as image_decoder_random_crop
from dali_proxy.pipeline.fn.decoders import image_slice as image_decoder_slice
def jitter(
    data: Nodes | ConstantLike, /, *, fill_value: Float = 0.0,
    interp_type: DALIInterpType = DALIInterpType.INTERP_NN, mask: Int | DataNode = 1, nDegree: Int = 2,
    **common: Unpack[Common],
) -> Nodes:
    """Takes each pixel from a random position, at most `nDegree` / 2 pixels away from it along x and along y.

    Devices: cpu, gpu.

    Args:
        data: Images, HWC.
        fill_value (float, default 0.0): Value outside of the image.
        interp_type (DALIInterpType, default DALIInterpType.INTERP_NN): INTERP_NN for the nearest pixel, or INTERP_LINEAR.
        mask (int or DataNode, default 1): 0 returns the image unchanged.
        nDegree (int, default 2): Width of the range of the random shifts, in pixels.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def jpeg_compression_distortion(
    data: Nodes | ConstantLike, /, *, quality: Int | DataNode = 50, **common: Unpack[Common],
) -> Nodes:
    """Compresses images as JPEG with 4:2:0 chroma subsampling, and decompresses them.

    Devices: cpu, gpu.

    Args:
        data: UINT8 RGB images or sequences, HWC or FHWC.
        quality (int or DataNode, default 50): JPEG quality; clamped to 1 to 100.
        device (str): device of the operator; by default that of its inputs.
    """

def laplacian(
    data: Nodes | ConstantLike, /, *, dtype: DALIDataType | None = None, normalized_kernel: _bool = False,
    scale: Floats | DataNode = (1.0,), smoothing_size: Ints | DataNode | None = None,
    window_size: Ints | DataNode = (3,), **common: Unpack[Common],
) -> Nodes:
    """Computes the Laplacian: the sum of the second derivatives along all axes except frames and channels.

    Each derivative is a filter along its own axis, and a smoothing filter along the other axes. It is computed in float32.
    Borders are reflected.

    Devices: cpu, gpu.

    Args:
        data: Samples with channels first, last or absent; without a layout all axes are filtered.
        dtype (DALIDataType, default None): Dtype of the output: FLOAT, or None for the input's.
        normalized_kernel (bool, default False): Scale each derivative by 2 ** (axes + 2 - widths), where `widths` is the sum of the widths of its filters; can't be used together with `scale`.
        scale (float or list of float or DataNode, default (1.0,)): Factors of the derivatives: one for all axes or one per axis.
        smoothing_size (int or list of int or DataNode, default None): Odd width of the smoothing filter, 1 to 31: one for all axes or one per axis; 1 doesn't smooth. By default it is the width of the derivative filter.
        window_size (int or list of int or DataNode, default (3,)): Odd width of the derivative filter, 3 to 31: one for all axes or one per axis.
        device (str): device of the operator; by default that of its inputs.
    """

def lookup_table(
    data: Nodes | ConstantLike, /, *, default_value: Float = 0.0, dtype: DALIDataType = DALIDataType.FLOAT,
    keys: Ints = (), output_dtype: DALIDataType | None = None, values: Floats = (), **common: Unpack[Common],
) -> Nodes:
    """Replaces integers by values from a table.

    Devices: cpu, gpu.

    Args:
        data: Integers, of any shape.
        default_value (float, default 0.0): Value of all other integers.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the output; values are rounded and clamped.
        keys (int or list of int, default ()): Integers from 0 to 65535; the last of repeated keys counts.
        output_dtype (DALIDataType, default None): Deprecated name of `dtype`.
        values (float or list of float, default ()): Values of the keys, one per key.
        device (str): device of the operator; by default that of its inputs.
    """

def mel_filter_bank(
    data: Nodes | ConstantLike, /, *, freq_high: Float = 0.0, freq_low: Float = 0.0,
    mel_formula: Literal['slaney', 'htk'] = 'slaney', nfilter: Int = 128, normalize: _bool = True,
    sample_rate: Float = 44100.0, **common: Unpack[Common],
) -> Nodes:
    """Converts spectrograms to mel spectrograms by a bank of triangular filters.

    The frequencies are the axis "f" of the layout. Without a layout, they are the last axis but one, or the only axis. The
    output is float32.

    Devices: cpu, gpu.

    Args:
        data: Spectrograms: the bins are frequencies from 0 to half the sample rate.
        freq_high (float, default 0.0): Upper end of the last filter, in hertz; by default half the rate.
        freq_low (float, default 0.0): Lower end of the first filter, in hertz.
        mel_formula (str, default 'slaney'): Scale of pitches: "slaney" is linear up to 1000 Hz and logarithmic above, as in librosa; "htk" is 2595 * log10(1 + f / 700).
        nfilter (int, default 128): Number of filters.
        normalize (bool, default True): Scale filters to an integral of 1, instead of a peak of 1.
        sample_rate (float, default 44100.0): Sample rate of the signal, in hertz.
        device (str): device of the operator; by default that of its inputs.
    """

def mfcc(
    data: Nodes | ConstantLike, /, *, axis: Int = 0, dct_type: Int = 2, lifter: Float = 0.0, n_mfcc: Int = 20,
    normalize: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes mel frequency cepstral coefficients of mel spectrograms: their discrete cosine transform.

    The output is float32. It has at most as many coefficients as the axis has entries.

    Devices: cpu, gpu.

    Args:
        data: Mel spectrograms, usually in decibels; computed in float32.
        axis (int, default 0): Axis to transform.
        dct_type (int, default 2): Type of the discrete cosine transform: 1 to 4.
        lifter (float, default 0.0): If it isn't 0, multiply coefficient i by 1 + lifter / 2 * sin(pi * (i + 1) / lifter).
        n_mfcc (int, default 20): Number of coefficients.
        normalize (bool, default False): Use an orthonormal basis; not with `dct_type=1`.
        device (str): device of the operator; by default that of its inputs.
    """

def multi_paste(
    *data: Nodes | ConstantLike, dtype: DALIDataType | None = None, in_anchors: Ints | DataNode | None = None,
    in_anchors_rel: Floats | DataNode | None = None, in_ids: Ints | DataNode | None = None,
    out_anchors: Ints | DataNode | None = None, out_anchors_rel: Floats | DataNode | None = None,
    output_size: Ints | DataNode | None = None, shapes: Ints | DataNode | None = None,
    shapes_rel: Floats | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Pastes regions of images onto a canvas, one after the other. The rest of the canvas is 0.

    Without `in_ids`, there is one region from each input. With it, each number is the position of a sample in the batch of
    the only input. Regions must lie inside of their images and of the canvas.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, HWC or FHWC, all of one dtype.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's.
        in_anchors (int or list of int or DataNode, default None): First pixels of the regions; by default the first ones of the images, in pixels: a row (y, x) for each region.
        in_anchors_rel (float or list of float or DataNode, default None): `in_anchors` as fractions of the extents, from 0 to 1.
        in_ids (int or list of int or DataNode, default None): Position in the batch of each region's image.
        out_anchors (int or list of int or DataNode, default None): First pixels of the regions on the canvas; by default the canvas' first one, in pixels: a row (y, x) for each region.
        out_anchors_rel (float or list of float or DataNode, default None): `out_anchors` as fractions of the extents, from 0 to 1.
        output_size (int or list of int or DataNode, default None): Height and width of the canvas; by default the extents of the images, if all of them are the same.
        shapes (int or list of int or DataNode, default None): Extents of the regions; by default they extend to the end of the image, in pixels: a row (y, x) for each region.
        shapes_rel (float or list of float or DataNode, default None): `shapes` as fractions of the extents, from 0 to 1.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.readers import mxnet as mxnet_reader
from dali_proxy.pipeline.fn.readers import nemo_asr as nemo_asr_reader
def nonsilent_region(
    data: Nodes | ConstantLike, /, *, cutoff_db: Float = -60.0, reference_power: Float | None = None,
    reset_interval: Int = 8192, window_length: Int = 2048, **common: Unpack[Common],
) -> list[Nodes]:
    """Finds the part of a signal without the silence at its start and end.

    A window is silent if its mean power is below `cutoff_db`, relative to `reference_power`. The outputs are the first
    sample of the first window that isn't silent, and the number of samples up to the end of the last one, both int32
    without dimensions. The length is 0 if the whole signal is silent.

    Devices: cpu, gpu.

    Args:
        data: Signals, 1-D.
        cutoff_db (float, default -60.0): Smallest power that isn't silence, in decibels.
        reference_power (float, default None): Power of 0 dB; by default the largest power of a window in the sample.
        reset_interval (int, default 8192): Accepted for compatibility; sums are precise for any length.
        window_length (int, default 2048): Length of the windows, in samples.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.random import normal as normal_distribution
def normalize(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    batch: _bool = False, ddof: Int = 0, dtype: DALIDataType = DALIDataType.FLOAT, epsilon: Float = 0.0,
    mean: Float | DataNode | None = None, scale: Float = 1.0, shift: Float = 0.0,
    stddev: Float | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Computes (data - mean) / stddev * scale + shift. The result is `shift` where all data is the same.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        batch (bool, default False): Compute mean and deviation over all samples of the batch.
        ddof (int, default 0): Subtracted from the number of elements in the divisor of the variance.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the output; integers are rounded and clamped.
        epsilon (float, default 0.0): Added to the variance.
        mean (float or DataNode, default None): Mean; by default that of the data. A number, or samples whose extents are 1 or the input's.
        scale (float, default 1.0): Factor of the result.
        shift (float, default 0.0): Added to the scaled result.
        stddev (float or DataNode, default None): Standard deviation; by default that of the data. A number, or samples whose extents are 1 or the input's.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.readers import numpy as numpy_reader
def one_hot(
    data: Nodes | ConstantLike, /, *, axis: Int = -1, axis_name: Str | None = None,
    dtype: DALIDataType = DALIDataType.FLOAT, num_classes: Int = 0, off_value: Float = 0.0,
    on_value: Float = 1.0, **common: Unpack[Common],
) -> Nodes:
    """Encodes class numbers. The output has a new axis of `num_classes` elements, one of which is `on_value`.

    If all samples of a batch have a single element and `axis` isn't set, they are treated as scalars.

    Devices: cpu, gpu.

    Args:
        data: Class numbers of any shape; fractions are truncated.
        axis (int, default -1): Index of the new axis; by default it is the last one.
        axis_name (str, default None): Layout letter of the new axis; without it the output has no layout.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the output.
        num_classes (int, default 0): Number of classes, the extent of the new axis.
        off_value (float, default 0.0): Value at all other indices.
        on_value (float, default 1.0): Value at the index of the class.
        device (str): device of the operator; by default that of its inputs.
    """

def ones(
    *, dtype: DALIDataType = DALIDataType.INT32, layout: str | None = None, shape: Ints | DataNode = (),
    **common: Unpack[Common],
) -> DataNode:
    """Returns samples of ones.

    Devices: cpu.

    Args:
        dtype (DALIDataType, default DALIDataType.INT32): Dtype of the samples.
        layout (layout str, default None): Layout of the samples.
        shape (int or list of int or DataNode, default ()): Shape of the samples; scalars by default.
        device (str): device of the operator; by default that of its inputs.
    """

def ones_like(
    data_like: Nodes | ConstantLike, /, *, dtype: DALIDataType | None = None, **common: Unpack[Common],
) -> Nodes:
    """Returns samples of ones with the shape, dtype and layout of other samples.

    Devices: cpu.

    Args:
        data_like: Samples whose shape, dtype and layout the output gets.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's.
        device (str): device of the operator; by default that of its inputs.
    """

def optical_flow(
    data: Nodes | ConstantLike, hints: Input | None = None, /, *, enable_external_hints: _bool = False,
    enable_temporal_hints: _bool = False, hint_grid: Int = 4, image_type: DALIImageType = DALIImageType.RGB,
    output_format: Int | None = None, output_grid: Int = 4, preset: Float = 0.0, **common: Unpack[Common],
) -> Nodes:
    """Computes the motion of pixels between successive frames.

    The output is float32 of shape (frames - 1, height / `output_grid`, width / `output_grid`, 2): x and y, in pixels of the
    input, from each frame to the next one. The method is OpenCV's dense inverse search (Kroeger et al. 2016), which runs on
    the CPU: frames on the GPU are copied there, and their vectors back. DALI uses the optical flow engine of NVIDIA's GPUs
    instead, so its vectors differ.

    Devices: cpu, gpu.

    Args:
        data: Sequences, uint8, FHWC.
        hints: With `enable_external_hints`: vectors to start from, FHWC like the output.
        enable_external_hints (bool, default False): Start from the second input.
        enable_temporal_hints (bool, default False): Start from the vectors of the previous frames.
        hint_grid (int, default 4): Width of the squares of the second input: 1, 2, 4 or 8.
        image_type (DALIImageType, default DALIImageType.RGB): Color space of the frames: RGB, BGR or GRAY.
        output_format (int, default None): Deprecated name of `output_grid`.
        output_grid (int, default 4): Width of the squares of pixels that share a vector: 1, 2 or 4.
        preset (float, default 0.0): 0 for the best quality, 0.5, or 1 for the highest speed.
        device (str): device of the operator; by default that of its inputs.
    """

def pad(
    data: Nodes | ConstantLike, /, *, align: Ints | DataNode | None = None, axes: Ints | DataNode = (),
    axis_names: str | None = None, fill_value: Float | DataNode = 0.0, shape: Ints | DataNode | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Pads samples at their end, along chosen axes.

    An axis gets the extent of the largest sample of the batch, or that of `shape` unless the sample is larger.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        align (int or list of int or DataNode, default None): Round extents up to multiples: one for all axes or one per axis.
        axes (int or list of int or DataNode, default ()): Axes to pad; all by default. Negative ones count from the end.
        axis_names (layout str, default None): Alternative to `axes`: letters of the layout.
        fill_value (float or DataNode, default 0.0): Value of the padding.
        shape (int or list of int or DataNode, default None): Extents along these axes; -1 for the largest of the batch.
        device (str): device of the operator; by default that of its inputs.
    """

def paste(
    data: Nodes | ConstantLike, /, *, fill_value: Ints, min_canvas_size: Float | DataNode = 0.0,
    n_channels: Int = 3, paste_x: Float | DataNode = 0.5, paste_y: Float | DataNode = 0.5,
    ratio: Float | DataNode, **common: Unpack[Common],
) -> Nodes:
    """Pastes images onto larger canvases of one colour.

    Devices: cpu, gpu.

    Args:
        data: Images, HWC.
        fill_value (int or list of int): Colour of the canvas: one value, or `n_channels`.
        min_canvas_size (float or DataNode, default 0.0): Smallest extent of the canvas in pixels.
        n_channels (int, default 3): Channels of the colour.
        paste_x (float or DataNode, default 0.5): Horizontal position, from 0 (left) to 1 (right).
        paste_y (float or DataNode, default 0.5): Vertical position, from 0 (top) to 1 (bottom).
        ratio (float or DataNode): Ratio of the canvas' extents to the image's; 1 or more.
        device (str): device of the operator; by default that of its inputs.
    """

def patchify(
    data: Nodes | ConstantLike, /, *, dtype: DALIDataType = DALIDataType.FLOAT,
    mean: Floats | DataNode = (0.0,), merge_size: Int = 1, order: Literal['CTHW', 'THWC'] = 'CTHW',
    patch_size: Int, scale: Float = 1.0, shift: Float = 0.0, std: Floats | DataNode = (1.0,),
    temporal_patch_size: Int = 1, **common: Unpack[Common],
) -> Nodes:
    """Divides images and videos into patches, and normalises them: (pixel - mean) / std * scale + shift.

    A sample of the output has a row for each patch, and no layout: (T * H * W, features), where T, H and W count patches.
    The rows are in the order of time, then of squares of `merge_size` x `merge_size` patches, and the patches of a square
    are adjacent. The last frame is repeated until the frames fill the last patches: an image fills `temporal_patch_size`
    frames. Height and width must be multiples of `patch_size * merge_size`; `smart_resize` makes them so. On a GPU, the
    patches are computed in the same kernel as the operators before it. DALI has no such operator.

    Devices: cpu, gpu.

    Args:
        data: Images or videos, HWC, FHWC, CHW, FCHW; HWC or FHWC without a layout.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the output. Integers are rounded.
        mean (float or list of float or DataNode, default (0.0,)): Subtracted from pixels: one value, or one per channel.
        merge_size (int, default 1): Side of the squares of patches that a model merges: 2 for Qwen-VL.
        order (str, default 'CTHW'): Order of the elements of a patch: channels, frames, rows and columns (Qwen-VL), or channels last (SigLIP 2).
        patch_size (int): Rows and columns of a patch.
        scale (float, default 1.0): Multiplies the result: (pixel - mean) / std * scale + shift.
        shift (float, default 0.0): Added to the result.
        std (float or list of float or DataNode, default (1.0,)): Divides the difference: one value, or one per channel.
        temporal_patch_size (int, default 1): Frames of a patch: 2 for Qwen-VL.
        device (str): device of the operator; by default that of its inputs.
    """

def peek_image_shape(
    encoded: Nodes | ConstantLike, /, *, adjust_orientation: _bool = True,
    dtype: DALIDataType = DALIDataType.INT64, image_type: DALIImageType = DALIImageType.RGB,
    **common: Unpack[Common],
) -> Nodes:
    """Reads the shapes (height, width, channels) of encoded images from their headers, without decoding.

    Devices: cpu.

    Args:
        encoded: Encoded images: the bytes of JPEG, PNG, BMP, TIFF, PNM, PFM, JPEG 2000, WebP, GIF and other files.
        adjust_orientation (bool, default True): Return height and width after the EXIF rotation.
        dtype (DALIDataType, default DALIDataType.INT64): Dtype of the shapes: an integer of 32 or 64 bits, FLOAT or FLOAT64.
        image_type (DALIImageType, default DALIImageType.RGB): Colour model of the decoded image, for the channels.
        device (str): device of the operator; by default that of its inputs.
    """

def per_frame(data: Nodes | ConstantLike, /, *, replace: _bool = False, **common: Unpack[Common]) -> Nodes:
    """Marks samples as sequences, whose first dimension is the frame. The data stays unchanged.

    Use it for arguments of operators that differ from frame to frame, with one value for each frame of the sequence that
    the operator processes: `fn.gaussian_blur(video, sigma=fn.per_frame(sigma))`.

    Samples without a layout get "F" and a "*" for each other dimension.

    Devices: cpu, gpu.

    Args:
        data: Samples of at least one dimension.
        replace (bool, default False): Replace the first letter of the layout by "F" if it is another letter.
        device (str): device of the operator; by default that of its inputs.
    """

def permute_batch(data: Nodes | ConstantLike, /, *, indices: Ints | DataNode, **common: Unpack[Common]) -> Nodes:
    """Returns the samples of the batch in the order of indices, which may repeat and omit samples.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        indices (int or list of int or DataNode): Index of the sample at each position: a list as long as the batch, or one number per sample.
        device (str): device of the operator; by default that of its inputs.
    """

def power_spectrum(
    data: Nodes | ConstantLike, /, *, axis: Int = -1, nfft: Int | None = None, power: Int = 2,
    **common: Unpack[Common],
) -> Nodes:
    """Computes the power spectrum of signals: the squared magnitudes of their Fourier transform.

    The output is float32 and has only the non-negative frequencies: `nfft` // 2 + 1 of them.

    Devices: cpu.

    Args:
        data: Numbers, of any shape; computed in float32.
        axis (int, default -1): Axis to transform; negative ones count from the end.
        nfft (int, default None): Size of the transform; by default the extent of the axis.
        power (int, default 2): Exponent of the magnitudes: 1 or 2.
        device (str): device of the operator; by default that of its inputs.
    """

def preemphasis_filter(
    data: Nodes | ConstantLike, /, *, border: Literal['zero', 'clamp', 'reflect'] = 'clamp',
    dtype: DALIDataType = DALIDataType.FLOAT, preemph_coeff: Float | DataNode = 0.97,
    **common: Unpack[Common],
) -> Nodes:
    """Subtracts from each element its predecessor times a coefficient, which amplifies high frequencies.

    Samples of more dimensions are filtered as one signal, in the order of their elements.

    Devices: cpu, gpu.

    Args:
        data: Signals.
        border (str, default 'clamp'): Predecessor of the first element: "clamp" takes the first element, "reflect" the second one (or the only one), "zero" takes 0.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the output; values are rounded and clamped.
        preemph_coeff (float or DataNode, default 0.97): Factor of the predecessor.
        device (str): device of the operator; by default that of its inputs.
    """

def python_function(
    *data: Nodes | ConstantLike, batch_processing: _bool = False, deterministic: _bool = False, function: Any,
    num_outputs: Int = 1, output_layouts: Strs | None = None, parallel: _bool | None = None,
    timeout: Float | None = None, **common: Unpack[Common],
) -> Any:
    """Runs a Python function on NumPy arrays, on the GPU on CuPy arrays.

    The function receives a sample of each input, or with `batch_processing` a list of samples of each input. It returns an
    output, or a tuple or list of `num_outputs` outputs. It processes the samples of a batch one after another, unless it
    runs in worker processes. It may modify its arguments. It runs even if no output of the pipeline depends on it.

    If the pipeline has a seed, or the function runs in a server or in worker processes, then `random`, `numpy.random` and
    torch's generators are seeded for each sample (for each batch with `batch_processing`), as the operators' own random
    numbers are.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        batch_processing (bool, default False): Call the function once per batch, with lists.
        deterministic (bool, default False): Promise that the outputs for a sample depend on nothing but this sample's inputs and the function's code, so that a cache may keep them. The function isn't called for what the cache has.
        function (object): The function.
        num_outputs (int, default 1): Number of outputs that the function returns, or 0.
        output_layouts (str or list of str, default None): Layouts of the outputs, or of the first ones.
        parallel (bool, default None): Run the function in worker processes of the pipeline, as many as `py_num_workers` or `num_threads`, whichever is more. By default, a server measures whether functions of samples are faster there, and other pipelines call functions in their own process.
        timeout (float, default None): Seconds that a call may take in a worker process. Then the process is killed, and the error shows its stack. No limit by default.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def random_bbox_crop(
    boxes: Nodes | ConstantLike, labels: Input | None = None, /, *, all_boxes_above_threshold: _bool = True,
    allow_no_crop: _bool = True, aspect_ratio: Floats = (1.0, 1.0), bbox_layout: str | None = None,
    bbox_prune_threshold: Float | None = None, crop_shape: Ints | DataNode | None = None,
    input_shape: Ints | DataNode | None = None, ltrb: _bool = True, num_attempts: Int = 1,
    output_bbox_indices: _bool = False, quiet: _bool = False, scaling: Floats = (1.0, 1.0),
    shape_layout: str | None = None, threshold_type: Literal['iou', 'overlap'] = 'iou',
    thresholds: Floats = (0.0,), total_num_attempts: Int = -1, **common: Unpack[Common],
) -> list[Nodes]:
    """Draws a window of the image that keeps enough of the boxes, and returns these boxes relative to the window.

    Windows are drawn until one overlaps the boxes by a threshold, which is itself drawn from `thresholds`. With
    `allow_no_crop` the whole image is one of the choices. The outputs are the anchor and the shape of the window for
    `fn.slice`, float32 of x, y (, z); the boxes in the window; their labels, if there are labels; and with
    `output_bbox_indices` their positions among the input boxes, int32.

    Devices: cpu.

    Args:
        boxes: Float32 of shape (M, 4) or (M, 6), relative to the image: 0 to 1.
        labels: Integers of shape (M,).
        all_boxes_above_threshold (bool, default True): All boxes must overlap by the threshold, not only one.
        allow_no_crop (bool, default True): The whole image is one of the choices.
        aspect_ratio (float or list of float, default (1.0, 1.0)): Smallest and largest width / height; for volumes, also of width / depth and height / depth.
        bbox_layout (layout str, default None): Order of coordinates, with far corners (X, Y, Z) or extents (W, H, D); "xyXY" or "xyzXYZ" by default.
        bbox_prune_threshold (float, default None): Keep boxes with at least this fraction inside; by default those whose centre is inside.
        crop_shape (int or list of int or DataNode, default None): Extents of the window in pixels; needs `input_shape`.
        input_shape (int or list of int or DataNode, default None): Extents of the image in pixels, to compute aspect ratios.
        ltrb (bool, default True): Deprecated: boxes are left, top, right, bottom, or left, top, width, height.
        num_attempts (int, default 1): Windows to draw for a threshold before another threshold is drawn.
        output_bbox_indices (bool, default False): Add an output: the positions of the boxes that are kept.
        quiet (bool, default False): Don't warn if no window fits.
        scaling (float or list of float, default (1.0, 1.0)): Smallest and largest extents of the window, as fractions of the image's.
        shape_layout (layout str, default None): Order of these extents; "WH" or "WHD" by default.
        threshold_type (str, default 'iou'): Measure of overlap: "iou", intersection over union with the window, or "overlap", the fraction of the box that is inside.
        thresholds (float or list of float, default (0.0,)): Smallest overlaps; one of them is drawn.
        total_num_attempts (int, default -1): Largest number of windows to draw, of which the best is taken; -1: no limit.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def random_crop_generator(
    shapes: Nodes | ConstantLike, /, *, num_attempts: Int = 10, random_area: Floats = (0.08, 1.0),
    random_aspect_ratio: Floats = (0.75, 1.3333333333333333), **common: Unpack[Common],
) -> list[Nodes]:
    """Draws cropping windows of random area and aspect ratio.

    The two int32 outputs are the first pixel of the window (y, x) and its extents (height, width). Crop with
    `fn.slice(images, start=anchor, shape=shape, axes=[0, 1])`.

    Devices: cpu.

    Args:
        shapes: Shapes of the images, HW or HWC: integers, for example from `images.shape()`.
        num_attempts (int, default 10): Number of attempts to draw an area and an aspect ratio whose window, in whole pixels, fits the image and the range of aspect ratios; if all fail, the largest window that fits is used.
        random_area (float or list of float, default (0.08, 1.0)): Range of the window's area, as a fraction of the image's.
        random_aspect_ratio (float or list of float, default (0.75, 1.3333333333333333)): Range of the window's width / height; its logarithm is distributed uniformly.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def random_resized_crop(
    data: Nodes | ConstantLike, /, *, antialias: _bool = True, dtype: DALIDataType | None = None,
    interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | DataNode | None = None, min_filter: DALIInterpType | DataNode | None = None,
    minibatch_size: Int = 32, num_attempts: Int = 10, random_area: Floats = (0.08, 1.0),
    random_aspect_ratio: Floats = (0.75, 1.3333333333333333), size: Ints, temp_buffer_hint: Int = 0,
    **common: Unpack[Common],
) -> Nodes:
    """Crops a window of random area and aspect ratio, and resizes it.

    Filters read pixels beyond the border of the window if the image continues there. All frames of a sequence have the
    same window.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, HWC, CHW, FHWC, FCHW or CFHW; HWC without a layout.
        antialias (bool, default True): Widen filters in proportion to the scale along axes that shrink.
        dtype (DALIDataType, default None): Dtype of the output: the input's (the default) or FLOAT.
        interp_type (DALIInterpType or DataNode, default DALIInterpType.INTERP_LINEAR): Filter for shrinking and growing axes.
        mag_filter (DALIInterpType or DataNode, default None): Filter for axes that grow; by default `interp_type`.
        min_filter (DALIInterpType or DataNode, default None): Filter for axes that shrink; by default `interp_type`.
        minibatch_size (int, default 32): Accepted for compatibility.
        num_attempts (int, default 10): Number of attempts to draw an area and an aspect ratio whose window, in whole pixels, fits the image and the range of aspect ratios; if all fail, the largest window that fits is used.
        random_area (float or list of float, default (0.08, 1.0)): Range of the window's area, as a fraction of the image's.
        random_aspect_ratio (float or list of float, default (0.75, 1.3333333333333333)): Range of the window's width / height; its logarithm is distributed uniformly.
        size (int or list of int): Size of the output in pixels: (height, width), or one number for both.
        temp_buffer_hint (int, default 0): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def reinterpret(
    data: Nodes | ConstantLike, shape_input: Input | None = None, /, *, dtype: DALIDataType | None = None,
    layout: str | None = None, rel_shape: Floats | DataNode | None = None,
    shape: Ints | DataNode | None = None, src_dims: Ints | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Reinterprets the bytes of samples as another dtype, and changes their shape and layout.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        shape_input: Shapes, instead of `shape`: 1-D integers on the CPU.
        dtype (DALIDataType, default None): Dtype of the output. Without a shape, the last extent is adapted to it.
        layout (layout str, default None): Layout of the output; by default the input's if the number of dimensions is equal.
        rel_shape (float or list of float or DataNode, default None): Factors of the input's extents, instead of `shape`. One factor, or an additional last one, may be negative: its extent is inferred.
        shape (int or list of int or DataNode, default None): Shape of the output. One extent may be negative: it is inferred.
        src_dims (int or list of int or DataNode, default None): For each dimension of the output, the index of the input's dimension, or -1 for a new one of extent 1. `rel_shape` is applied afterwards.
        device (str): device of the operator; by default that of its inputs.
    """

def reshape(
    data: Nodes | ConstantLike, shape_input: Input | None = None, /, *, layout: str | None = None,
    rel_shape: Floats | DataNode | None = None, shape: Ints | DataNode | None = None,
    src_dims: Ints | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Changes the shape and layout of samples. The order of their elements stays the same.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        shape_input: Shapes, instead of `shape`: 1-D integers on the CPU.
        layout (layout str, default None): Layout of the output; by default the input's if the number of dimensions is equal.
        rel_shape (float or list of float or DataNode, default None): Factors of the input's extents, instead of `shape`. One factor, or an additional last one, may be negative: its extent is inferred.
        shape (int or list of int or DataNode, default None): Shape of the output. One extent may be negative: it is inferred.
        src_dims (int or list of int or DataNode, default None): For each dimension of the output, the index of the input's dimension, or -1 for a new one of extent 1. `rel_shape` is applied afterwards.
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
    """Resizes images.

    Filters are widened along axes that shrink (`antialias`). Outside of the image its edge pixels are repeated.

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

def resize_crop_mirror(
    data: Nodes | ConstantLike, /, *, antialias: _bool = True, crop: Floats | DataNode | None = None,
    crop_d: Float | DataNode = 0.0, crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5,
    crop_pos_y: Float | DataNode = 0.5, crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0,
    dtype: DALIDataType | None = None, interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32, mirror: Int | DataNode = 0,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    resize_longer: Float | DataNode = 0.0, resize_shorter: Float | DataNode = 0.0,
    resize_x: Float | DataNode = 0.0, resize_y: Float | DataNode = 0.0, resize_z: Float | DataNode = 0.0,
    roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
    roi_start: Floats | DataNode | None = None, rounding: Literal['round', 'truncate'] = 'round',
    size: Floats | DataNode | None = None, subpixel_scale: _bool = True, temp_buffer_hint: Int = 0,
    **common: Unpack[Common],
) -> Nodes:
    """Computes `resize`, `crop` and `flip` in one step.

    Where a window exceeds the resized image, the edge pixels of the image are repeated.

    Devices: cpu, gpu.

    Args:
        data: Images, volumes or sequences, as for `resize`.
        antialias (bool, default True): Widen filters in proportion to the scale along axes that shrink.
        crop (float or list of float or DataNode, default None): Extents of the window in pixels: (height, width) or (depth, height, width). 0 means the whole axis.
        crop_d (float or DataNode, default 0.0): Depth of the window in voxels; needs crop_h and crop_w.
        crop_h (float or DataNode, default 0.0): Height of the window in pixels; needs crop_w.
        crop_pos_x (float or DataNode, default 0.5): Horizontal position of the window, from 0 (left) to 1 (right): it starts at crop_pos_x * (W - crop_w).
        crop_pos_y (float or DataNode, default 0.5): Vertical position of the window, from 0 (top) to 1 (bottom).
        crop_pos_z (float or DataNode, default 0.5): Position of the window in depth, from 0 (front) to 1 (back).
        crop_w (float or DataNode, default 0.0): Width of the window in pixels; needs crop_h.
        dtype (DALIDataType, default None): Dtype of the output: the input's (the default) or FLOAT.
        interp_type (DALIInterpType or DataNode, default DALIInterpType.INTERP_LINEAR): Filter for shrinking and growing axes.
        mag_filter (DALIInterpType or DataNode, default None): Filter for axes that grow; by default `interp_type`.
        max_size (float or list of float, default None): Largest size of the output in pixels: one for all axes, or one per axis.
        min_filter (DALIInterpType or DataNode, default None): Filter for axes that shrink; by default `interp_type`.
        minibatch_size (int, default 32): Accepted for compatibility.
        mirror (int or DataNode, default 0): Sum of 1 (flip the width), 2 (flip the height) and 4 (flip the depth).
        mode (str, default 'default'): 'default' scales axes without a size by the geometric mean of the other axes' factors; 'stretch' keeps their size; 'not_larger' and 'not_smaller' keep the aspect ratio and use the smallest or the largest factor.
        resize_longer (float or DataNode, default 0.0): Longer side of the output in pixels; keeps the aspect ratio.
        resize_shorter (float or DataNode, default 0.0): Shorter side of the output in pixels; keeps the aspect ratio.
        resize_x (float or DataNode, default 0.0): Width of the output in pixels; if 0, `mode` sets it.
        resize_y (float or DataNode, default 0.0): Height of the output in pixels; if 0, `mode` sets it.
        resize_z (float or DataNode, default 0.0): Depth of the output in voxels; if 0, `mode` sets it.
        roi_end (float or list of float or DataNode, default None): End of the region; an end before the start flips the axis.
        roi_relative (bool, default False): `roi_start` and `roi_end` are fractions of the input's extents.
        roi_start (float or list of float or DataNode, default None): Start of the region to resize, in pixels, in the order of `size`.
        rounding (str, default 'round'): Rounding of the first pixel of the window: 'round' to nearest, halves away from zero, or 'truncate'.
        size (float or list of float or DataNode, default None): Size of the output in pixels, (height, width) or (depth, height, width). For an axis of size 0, `mode` sets the size. A negative number flips the axis.
        subpixel_scale (bool, default True): If the output's size was rounded, adapt the region of the input so that the scale stays exact.
        temp_buffer_hint (int, default 0): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
    """

def roi_random_crop(
    data: Nodes | ConstantLike | None = None, /, *, crop_shape: Ints | DataNode,
    in_shape: Ints | DataNode | None = None, roi_end: Ints | DataNode | None = None,
    roi_shape: Ints | DataNode | None = None, roi_start: Ints | DataNode, **common: Unpack[Common],
) -> Nodes:
    """Draws the position of a window of a given shape that contains as much as possible of a region.

    A region smaller than the window lies inside of it; otherwise the window lies inside of the region. With an input or
    `in_shape`, the window also lies inside of the data. The output is the first element of the window, INT64, with an index
    for each axis of `crop_shape`.

    Devices: cpu.

    Args:
        data: Samples that will be cropped, of which only the shape is read.
        crop_shape (int or list of int or DataNode): Extents of the window.
        in_shape (int or list of int or DataNode, default None): Extents of the data; can't be used together with an input.
        roi_end (int or list of int or DataNode, default None): End of the region.
        roi_shape (int or list of int or DataNode, default None): Extents of the region; instead of `roi_end`.
        roi_start (int or list of int or DataNode): First element of the region.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def rotate(
    data: Nodes | ConstantLike, /, *, angle: Float | DataNode, axis: Floats | DataNode | None = None,
    dtype: DALIDataType | None = None, fill_value: Float | None = None,
    interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR, keep_size: _bool = False,
    output_dtype: DALIDataType | None = None, size: Floats | DataNode = (), **common: Unpack[Common],
) -> Nodes:
    """Rotates images, volumes or sequences about their centre. By default the output holds all pixels.

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, FHWC, DHWC, FDHWC; HWC without a layout.
        angle (float or DataNode): Angle in degrees, counter-clockwise. About the axis z, volumes turn from x to y: that is clockwise, because y points down.
        axis (float or list of float or DataNode, default None): Rotation axis of volumes: x, y and z (along width, height and depth), not all zero. A positive angle turns y to z about x, z to x about y, and x to y about z.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's.
        fill_value (float, default None): Value outside of the input; by default border pixels are repeated.
        interp_type (DALIInterpType, default DALIInterpType.INTERP_LINEAR): INTERP_LINEAR, or INTERP_NN for the nearest pixel.
        keep_size (bool, default False): Keep the size of the input.
        output_dtype (DALIDataType, default None): Deprecated name of `dtype`.
        size (float or list of float or DataNode, default ()): Extents of the output, which are rounded; height before width.
        device (str): device of the operator; by default that of its inputs.
    """

def saturation(
    data: Nodes | ConstantLike, /, *, dtype: DALIDataType | None = None,
    image_type: DALIImageType = DALIImageType.RGB, saturation: Float | DataNode = 1.0,
    **common: Unpack[Common],
) -> Nodes:
    """Scales the saturation.

    Devices: cpu, gpu.

    Args:
        data: RGB images, of one of the layouts HWC, FHWC, DHWC; UINT8, INT16, INT32 or float.
        dtype (DALIDataType, default None): Dtype of the output: UINT8, INT16, INT32, FLOAT, FLOAT16, or None for the input's.
        image_type (DALIImageType, default DALIImageType.RGB): Accepted and ignored, as in DALI.
        saturation (float or DataNode, default 1.0): Factor of the saturation; 0 makes images grey.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.readers import sequence as sequence_reader
def sequence_rearrange(
    data: Nodes | ConstantLike, /, *, new_order: Ints | DataNode, **common: Unpack[Common],
) -> Nodes:
    """Selects frames of sequences, in any order: frame `i` of the output is frame `new_order[i]` of the input.

    Devices: cpu, gpu.

    Args:
        data: Sequences, whose layout is empty or begins with "F".
        new_order (int or list of int or DataNode): Numbers of the frames, from 0. They may be repeated or omitted.
        device (str): device of the operator; by default that of its inputs.
    """

def shapes(
    data: Nodes | ConstantLike, /, *, dtype: DALIDataType = DALIDataType.INT64,
    type: DALIDataType | None = None, **common: Unpack[Common],
) -> Nodes:
    """Returns the shapes of samples as 1-D arrays. `data.shape()` is the usual way to call it.

    Devices: cpu, gpu.

    Args:
        data: Samples on any device; their contents aren't read.
        dtype (DALIDataType, default DALIDataType.INT64): Dtype of the shapes: an integer of 32 or 64 bits, FLOAT or FLOAT64.
        type (DALIDataType, default None): Deprecated name of `dtype`.
        device (str): device of the operator; by default that of its inputs.
    """

def slice(
    data: Nodes | ConstantLike, anchor: Input | None = None, shape_input: Input | None = None, /, *,
    axes: Ints | DataNode | None = None, axis_names: Str = 'WH', dtype: DALIDataType | None = None,
    end: Ints | DataNode | None = None, fill_values: Floats = (0.0,), image_type: DALIImageType | None = None,
    normalized_anchor: _bool = True, normalized_shape: _bool = True,
    out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape', 'edge', 'clamp', 'reflect', 'reflect_1001', 'reflect_101', 'wrap'] = 'error',
    output_dtype: DALIDataType | None = None, rel_end: Floats | DataNode | None = None,
    rel_shape: Floats | DataNode | None = None, rel_start: Floats | DataNode | None = None,
    shape: Ints | DataNode | None = None, start: Ints | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Slices samples along chosen axes.

    Named arguments define the window, or two more inputs: its anchor (first elements) and its shape. Relative values are
    multiplied by the extent of the axis before they are rounded.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        anchor: First elements of the windows: one number per axis, a fraction if float.
        shape_input: Extents of the windows, likewise.
        axes (int or list of int or DataNode, default None): Axes to slice, in the order of the other arguments; negative ones count from the last. By default `axis_names` defines them.
        axis_names (str, default 'WH'): Axes to slice, as letters of the layout; all axes if empty.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's. Floats are truncated to integers.
        end (int or list of int or DataNode, default None): Element after the last along each axis.
        fill_values (float or list of float, default (0.0,)): Values outside of the data: one for all channels or one per channel, in units of the output.
        image_type (DALIImageType, default None): Deprecated and ignored.
        normalized_anchor (bool, default True): The anchor input, if float, is a fraction of the extent.
        normalized_shape (bool, default True): The shape input, if float, is a fraction of the extent.
        out_of_bounds_policy (str, default 'error'): Policy for windows that exceed the data: 'error' raises an error, 'pad' (or 'constant') uses `fill_values` outside, 'trim_to_shape' cuts the window off; 'edge' (or 'clamp') repeats the last element, 'reflect' (or 'reflect_1001') mirrors the data including the last element, 'reflect_101' mirrors the data without it, and 'wrap' continues at the other end.
        output_dtype (DALIDataType, default None): Deprecated name of `dtype`.
        rel_end (float or list of float or DataNode, default None): Like `end`, as a fraction of the extent.
        rel_shape (float or list of float or DataNode, default None): Like `shape`, as a fraction of the extent.
        rel_start (float or list of float or DataNode, default None): Like `start`, as a fraction of the extent.
        shape (int or list of int or DataNode, default None): Extent along each axis.
        start (int or list of int or DataNode, default None): First element along each axis.
        device (str): device of the operator; by default that of its inputs.
    """

def smart_resize(
    data: Nodes | ConstantLike, /, *, antialias: _bool = True, dtype: DALIDataType | None = None,
    factor: Int = 28, interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | DataNode | None = None, max_pixels: Int | DataNode = 1003520,
    min_filter: DALIInterpType | DataNode | None = None, min_pixels: Int | DataNode = 3136,
    minibatch_size: Int = 32, mode: Literal['nearest', 'largest'] = 'nearest', temp_buffer_hint: Int = 0,
    **common: Unpack[Common],
) -> Nodes:
    """Resizes images so that height and width are multiples of `factor`, and the number of pixels is limited.

    The aspect ratio is kept as far as possible. With `interp_type=types.INTERP_CUBIC`, this is the resize of the Qwen-VL
    models (mode "nearest") and of SigLIP 2 NaFlex (mode "largest"). DALI has no such operator.

    Devices: cpu, gpu.

    Args:
        data: Images or sequences, HWC, CHW, FHWC, FCHW or CFHW; HWC without a layout.
        antialias (bool, default True): Widen filters in proportion to the scale along axes that shrink.
        dtype (DALIDataType, default None): Dtype of the output: the input's (the default) or FLOAT.
        factor (int, default 28): Heights and widths are multiples of it.
        interp_type (DALIInterpType or DataNode, default DALIInterpType.INTERP_LINEAR): Filter for shrinking and growing axes.
        mag_filter (DALIInterpType or DataNode, default None): Filter for axes that grow; by default `interp_type`.
        max_pixels (int or DataNode, default 1003520): Largest number of pixels.
        min_filter (DALIInterpType or DataNode, default None): Filter for axes that shrink; by default `interp_type`.
        min_pixels (int or DataNode, default 3136): Smallest number of pixels; mode 'largest' ignores it.
        minibatch_size (int, default 32): Accepted for compatibility.
        mode (str, default 'nearest'): 'nearest' rounds the sides of the image, and scales it only if it then has too few or too many pixels; 'largest' scales it to the largest size within `max_pixels`, with the sides rounded up.
        temp_buffer_hint (int, default 0): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
    """

def spectrogram(
    data: Nodes | ConstantLike, /, *, center_windows: _bool = True, layout: str = 'ft',
    nfft: Int | None = None, power: Int = 2, reflect_padding: _bool = True, window_fn: Floats = (),
    window_length: Int = 512, window_step: Int = 256, **common: Unpack[Common],
) -> Nodes:
    """Computes spectrograms of signals: the power spectra of overlapping windows, float32.

    The output has `nfft` // 2 + 1 frequencies, and one column (or row, see `layout`) for each window.

    Devices: cpu, gpu.

    Args:
        data: Signals with one channel: 1-D, or all other extents are 1; computed in float32.
        center_windows (bool, default True): Center window i at i * `window_step`; windows then exceed the signal. Otherwise, window i starts there, and all windows lie in the signal.
        layout (layout str, default 'ft'): Layout of the output: "ft" (frequency, time) or "tf".
        nfft (int, default None): Size of the transform, at least `window_length`, which is the default.
        power (int, default 2): Exponent of the magnitudes: 1 or 2.
        reflect_padding (bool, default True): Mirror the signal at its ends for windows that exceed it, instead of padding it with zeros.
        window_fn (float or list of float, default ()): Factors of the `window_length` samples; by default those of DALI's Hann window, 0.5 - 0.5 cos(2 pi (i + 0.5) / `window_length`). The window of librosa and torch has no 0.5 beside i: `window_fn=np.hanning(window_length + 1)[:-1].tolist()`.
        window_length (int, default 512): Length of the windows, in samples.
        window_step (int, default 256): Distance between windows, in samples.
        device (str): device of the operator; by default that of its inputs.
    """

def sphere(
    data: Nodes | ConstantLike, /, *, fill_value: Float = 0.0,
    interp_type: DALIInterpType = DALIInterpType.INTERP_NN, mask: Int | DataNode = 1,
    **common: Unpack[Common],
) -> Nodes:
    """Distorts images as if they covered a sphere.

    The output at distance d from the centre is the input at distance d * d / r in the same direction, where r is half of
    the longer side.

    Devices: cpu, gpu.

    Args:
        data: Images, HWC.
        fill_value (float, default 0.0): Value outside of the image.
        interp_type (DALIInterpType, default DALIInterpType.INTERP_NN): INTERP_NN for the nearest pixel, or INTERP_LINEAR.
        mask (int or DataNode, default 1): 0 returns the image unchanged.
        device (str): device of the operator; by default that of its inputs.
    """

def squeeze(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Removes dimensions of extent 1.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the dimensions to remove; negative ones count from the end.
        axis_names (str, default None): Layout letters of the dimensions to remove, instead of `axes`.
        device (str): device of the operator; by default that of its inputs.
    """

def ssd_random_crop(
    images: Nodes | ConstantLike, boxes: Input, labels: Input, /, *, num_attempts: Int = 1,
    **common: Unpack[Common],
) -> list[Nodes]:
    """Crops images at random, and keeps the boxes whose centre is in the window.

    Deprecated: `fn.random_bbox_crop` has more options. Boxes are returned relative to the window. First, a threshold is
    drawn. Then windows are drawn until the intersection over union of the window with every box is at least the threshold.
    Instead of a threshold, the draw may select the whole image.

    Devices: cpu.

    Args:
        images: Images, HWC.
        boxes: FLOAT of shape (M, 4): left, top, right, bottom, relative to the image, from 0 to 1.
        labels: Integers of shape (M,) or (M, 1).
        num_attempts (int, default 1): Windows to draw for a threshold before another threshold is drawn.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def stack(
    input_0: Nodes | ConstantLike, /, *inputs: Input, axis: Int = 0, axis_name: Str | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Joins samples along a new axis.

    Devices: cpu, gpu.

    Args:
        input_0: Samples.
        inputs: Further samples with the same dtype and, except along the axis, the same shape.
        axis (int, default 0): Index of the new axis in the output; -1 is the last one.
        axis_name (str, default None): Layout letter of the new axis; without it the output has no layout.
        device (str): device of the operator; by default that of its inputs.
    """

def tensor_resize(
    data: Nodes | ConstantLike, /, *, alignment: Floats | DataNode = (0.5,), antialias: _bool = True,
    axes: Ints | None = None, axis_names: str | None = None, dtype: DALIDataType | None = None,
    interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
    roi_start: Floats | DataNode | None = None, scales: Floats | DataNode | None = None,
    size_rounding: Literal['round', 'truncate', 'ceil'] = 'round', sizes: Floats | DataNode | None = None,
    subpixel_scale: _bool = True, temp_buffer_hint: Int = 0, **common: Unpack[Common],
) -> Nodes:
    """Resizes any axes of arrays, by `sizes` or by `scales`.

    Filters are widened along axes that shrink (`antialias`). Outside of the array its edge is repeated.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        alignment (float or list of float or DataNode, default (0.5,)): Point of the region that keeps its position if an extent is rounded, from 0 (start) to 1 (end).
        antialias (bool, default True): Widen filters in proportion to the scale along axes that shrink.
        axes (int or list of int, default None): Axes of `sizes`, `scales` and the region; by default all axes.
        axis_names (layout str, default None): The same as letters of the layout; instead of `axes`.
        dtype (DALIDataType, default None): Dtype of the output: the input's (the default) or FLOAT.
        interp_type (DALIInterpType or DataNode, default DALIInterpType.INTERP_LINEAR): Filter for shrinking and growing axes.
        mag_filter (DALIInterpType or DataNode, default None): Filter for axes that grow; by default `interp_type`.
        max_size (float or list of float, default None): Largest size of the output in pixels: one for all axes, or one per axis.
        min_filter (DALIInterpType or DataNode, default None): Filter for axes that shrink; by default `interp_type`.
        minibatch_size (int, default 32): Accepted for compatibility.
        mode (str, default 'default'): 'default' scales axes without a size by the geometric mean of the other axes' factors; 'stretch' keeps their size; 'not_larger' and 'not_smaller' keep the aspect ratio and use the smallest or the largest factor.
        roi_end (float or list of float or DataNode, default None): End of the region; an end before the start flips the axis.
        roi_relative (bool, default False): `roi_start` and `roi_end` are fractions of the input's extents.
        roi_start (float or list of float or DataNode, default None): Start of the region to resize, in pixels, in the order of `size`.
        scales (float or list of float or DataNode, default None): Ratios of the output's extents to the input's.
        size_rounding (str, default 'round'): Rounding of extents: "round" to the nearest integer, "truncate", or "ceil".
        sizes (float or list of float or DataNode, default None): Extents of the output; `mode` sets those that are 0.
        subpixel_scale (bool, default True): If the output's size was rounded, adapt the region of the input so that the scale stays exact.
        temp_buffer_hint (int, default 0): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.readers import tfrecord as tfrecord_reader
def to_decibels(
    data: Nodes | ConstantLike, /, *, cutoff_db: Float = -200.0, multiplier: Float = 10.0,
    reference: Float | None = None, **common: Unpack[Common],
) -> Nodes:
    """Converts magnitudes to decibels: `multiplier` * log10(magnitude / `reference`), float32.

    Ratios of less than 10 ** (`cutoff_db` / `multiplier`) are raised to it.

    Devices: cpu, gpu.

    Args:
        data: Magnitudes, of any shape; computed in float32.
        cutoff_db (float, default -200.0): Smallest result, in decibels.
        multiplier (float, default 10.0): Factor of the logarithm: 10 for powers, 20 for amplitudes.
        reference (float, default None): Magnitude of 0 dB; by default the largest one of the sample.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.transforms import translation as transform_translation
def transpose(
    data: Nodes | ConstantLike, /, *, output_layout: str | None = None, perm: Ints | None = None,
    transpose_layout: _bool = True, **common: Unpack[Common],
) -> Nodes:
    """Reorders the dimensions of samples: dimension i of the output is dimension perm[i] of the input.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        output_layout (layout str, default None): Layout of the output, instead of the permuted one.
        perm (int or list of int, default None): Permutation, such as [2, 0, 1] for HWC to CHW; by default, reverse order.
        transpose_layout (bool, default True): Permute the layout, too; False keeps it unchanged.
        device (str): device of the operator; by default that of its inputs.
    """

from dali_proxy.pipeline.fn.random import uniform as uniform
from dali_proxy.pipeline.fn.readers import video as video_reader
from dali_proxy.pipeline.fn.readers import video_resize as video_reader_resize
def warp_affine(
    data: Nodes | ConstantLike, mtx: Input | None = None, /, *, dtype: DALIDataType | None = None,
    fill_value: Float | None = None, interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR,
    inverse_map: _bool = True, matrix: Floats | DataNode = (), output_dtype: DALIDataType | None = None,
    size: Floats | DataNode = (), **common: Unpack[Common],
) -> Nodes:
    """Warps images, volumes or sequences by affine transforms.

    The output at (x, y) is the input at the position matrix * (x, y, 1). Positions are relative to the outer corner of the
    first pixel, whose centre is at (0.5, 0.5).

    Devices: cpu, gpu.

    Args:
        data: Images, of one of the layouts HWC, FHWC, DHWC, FDHWC; HWC without a layout.
        mtx: Alternative to `matrix`: float32 of shape (2, 3); (3, 4) for volumes.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's.
        fill_value (float, default None): Value outside of the input; by default border pixels are repeated.
        interp_type (DALIInterpType, default DALIInterpType.INTERP_LINEAR): INTERP_LINEAR, or INTERP_NN for the nearest pixel.
        inverse_map (bool, default True): The transform maps the output to the input; False: the input to the output.
        matrix (float or list of float or DataNode, default ()): The transform, row by row: 6 values; 12 for volumes.
        output_dtype (DALIDataType, default None): Deprecated name of `dtype`.
        size (float or list of float or DataNode, default ()): Extents of the output, which are rounded; height before width.
        device (str): device of the operator; by default that of its inputs.
    """

def water(
    data: Nodes | ConstantLike, /, *, ampl_x: Float = 10.0, ampl_y: Float = 10.0, fill_value: Float = 0.0,
    freq_x: Float = 0.049087, freq_y: Float = 0.049087,
    interp_type: DALIInterpType = DALIInterpType.INTERP_NN, mask: Int | DataNode = 1, phase_x: Float = 0.0,
    phase_y: Float = 0.0, **common: Unpack[Common],
) -> Nodes:
    """Distorts images by waves, as if they were under water.

    The output at (x, y) is the input at x + ampl_x * sin(freq_x * y + phase_x), y + ampl_y * cos(freq_y * x + phase_y).

    Devices: cpu, gpu.

    Args:
        data: Images, HWC.
        ampl_x (float, default 10.0): Amplitude in pixels of the wave that moves pixels along x.
        ampl_y (float, default 10.0): Amplitude in pixels of the wave that moves pixels along y.
        fill_value (float, default 0.0): Value outside of the image.
        freq_x (float, default 0.049087): Frequency in radians per pixel of the wave that moves pixels along x.
        freq_y (float, default 0.049087): Frequency in radians per pixel of the wave that moves pixels along y.
        interp_type (DALIInterpType, default DALIInterpType.INTERP_NN): INTERP_NN for the nearest pixel, or INTERP_LINEAR.
        mask (int or DataNode, default 1): 0 returns the image unchanged.
        phase_x (float, default 0.0): Phase in radians of the wave that moves pixels along x.
        phase_y (float, default 0.0): Phase in radians of the wave that moves pixels along y.
        device (str): device of the operator; by default that of its inputs.
    """

def zeros(
    *, dtype: DALIDataType = DALIDataType.INT32, layout: str | None = None, shape: Ints | DataNode = (),
    **common: Unpack[Common],
) -> DataNode:
    """Returns samples of zeros.

    Devices: cpu.

    Args:
        dtype (DALIDataType, default DALIDataType.INT32): Dtype of the samples.
        layout (layout str, default None): Layout of the samples.
        shape (int or list of int or DataNode, default ()): Shape of the samples; scalars by default.
        device (str): device of the operator; by default that of its inputs.
    """

def zeros_like(
    data_like: Nodes | ConstantLike, /, *, dtype: DALIDataType | None = None, **common: Unpack[Common],
) -> Nodes:
    """Returns samples of zeros with the shape, dtype and layout of other samples.

    Devices: cpu.

    Args:
        data_like: Samples whose shape, dtype and layout the output gets.
        dtype (DALIDataType, default None): Dtype of the output; by default the input's.
        device (str): device of the operator; by default that of its inputs.
    """

