# Written by `python -m docs.stubs`.

"""Dynamic mode: the operators as functions that run when they are called, on tensors and batches.

Example:
    >>> import numpy as np
    >>> from dali_proxy import dynamic
    >>> image = dynamic.tensor(np.zeros((4, 6, 3), np.uint8), layout="HWC")
    >>> dynamic.resize(image, size=(2, 3)).shape
    (2, 3, 3)"""

from builtins import bool as _bool
from typing import Any, Literal, overload
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Dtype, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints, Str, Strs
from dali_proxy.pipeline._dynamic.randomness import RNG
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType

from dali_proxy.pipeline.dynamic import decoders as decoders
from dali_proxy.pipeline.dynamic import experimental as experimental
from dali_proxy.pipeline.dynamic import io as io
from dali_proxy.pipeline.dynamic import noise as noise
from dali_proxy.pipeline.dynamic import random as random
from dali_proxy.pipeline.dynamic import readers as readers
from dali_proxy.pipeline.dynamic import reductions as reductions
from dali_proxy.pipeline.dynamic import segmentation as segmentation
from dali_proxy.pipeline.dynamic import transforms as transforms
from dali_proxy.pipeline._dynamic.arrays import Batch as Batch
from dali_proxy.pipeline._dynamic.arrays import Tensor as Tensor
from dali_proxy.pipeline._dynamic.context import EvalContext as EvalContext
from dali_proxy.pipeline._dynamic.context import EvalMode as EvalMode
from dali_proxy.pipeline._dynamic.context import ThreadPool as ThreadPool
from dali_proxy.pipeline._dynamic.context import get_current_stream as get_current_stream
from dali_proxy.pipeline._dynamic.context import get_num_threads as get_num_threads
from dali_proxy.pipeline._dynamic.context import set_current_stream as set_current_stream
from dali_proxy.pipeline._dynamic.context import set_num_threads as set_num_threads
from dali_proxy.pipeline._dynamic.creation import as_batch as as_batch
from dali_proxy.pipeline._dynamic.creation import as_tensor as as_tensor
from dali_proxy.pipeline._dynamic.creation import batch as batch
from dali_proxy.pipeline._dynamic.creation import tensor as tensor
from dali_proxy.pipeline._dynamic.devices import Device as Device
from dali_proxy.pipeline._dynamic.devices import as_device as device
from dali_proxy.pipeline._dynamic.dtypes import DType as DType
from dali_proxy.pipeline._dynamic.dtypes import dtype as dtype
from dali_proxy.pipeline._dynamic.dtypes import type_id as type_id
from dali_proxy.pipeline._dynamic.functions import imread as imread
from dali_proxy.pipeline._dynamic.functions import video as video
from dali_proxy.pipeline._dynamic.source import ExternalSource as ExternalSource
from dali_proxy.pipeline._dynamic.streams import Stream as Stream
from dali_proxy.pipeline._dynamic.streams import get_default_stream as get_default_stream
from dali_proxy.pipeline._dynamic.streams import set_default_stream as set_default_stream
from dali_proxy.pipeline._dynamic.streams import stream as stream
from dali_proxy.pipeline._dynamic.trace import trace as trace
from dali_proxy.pipeline._dynamic.values import TracingError as TracingError
from dali_proxy.pipeline.dynamic import checkpoint as checkpoint
from dali_proxy.pipeline.dynamic import math as math
from dali_proxy.pipeline.dynamic import pytorch as pytorch
DataType: DType
ImageType: DType
InterpType: DType
bfloat16: DType
bool: DType
float16: DType
float32: DType
float64: DType
int16: DType
int32: DType
int64: DType
int8: DType
uint16: DType
uint32: DType
uint64: DType
uint8: DType

__all__ = [
    'Batch', 'DType', 'DataType', 'Device', 'EvalContext', 'EvalMode', 'ExternalSource', 'ImageType',
    'InterpType', 'Stream', 'Tensor', 'ThreadPool', 'TracingError', 'as_batch', 'as_tensor', 'audio_resample',
    'batch', 'batch_permutation', 'bb_flip', 'bbox_paste', 'bbox_rotate', 'bfloat16', 'bool', 'box_encoder',
    'brightness', 'brightness_contrast', 'cast', 'cast_like', 'cat', 'checkpoint', 'clahe',
    'color_space_conversion', 'color_twist', 'constant', 'contrast', 'coord_flip', 'coord_transform', 'copy',
    'crop', 'crop_mirror_normalize', 'debayer', 'decoders', 'device', 'dl_tensor_python_function', 'dtype',
    'dump_image', 'element_extract', 'equalize', 'erase', 'expand_dims', 'experimental',
    'fast_resize_crop_mirror', 'filter', 'flip', 'float16', 'float32', 'float64', 'full', 'full_like',
    'gaussian_blur', 'get_current_stream', 'get_default_stream', 'get_num_threads', 'get_property',
    'grid_mask', 'hsv', 'hue', 'imread', 'int16', 'int32', 'int64', 'int8', 'io', 'jitter',
    'jpeg_compression_distortion', 'laplacian', 'lookup_table', 'math', 'mel_filter_bank', 'mfcc',
    'multi_paste', 'noise', 'nonsilent_region', 'normalize', 'one_hot', 'ones', 'ones_like', 'optical_flow',
    'pad', 'paste', 'patchify', 'peek_image_shape', 'per_frame', 'permute_batch', 'power_spectrum',
    'preemphasis_filter', 'python_function', 'pytorch', 'random', 'random_bbox_crop', 'random_crop_generator',
    'random_resized_crop', 'readers', 'reductions', 'reinterpret', 'reshape', 'resize', 'resize_crop_mirror',
    'roi_random_crop', 'rotate', 'saturation', 'segmentation', 'sequence_rearrange', 'set_current_stream',
    'set_default_stream', 'set_num_threads', 'shapes', 'slice', 'smart_resize', 'spectrogram', 'sphere',
    'squeeze', 'ssd_random_crop', 'stack', 'stream', 'tensor', 'tensor_resize', 'to_decibels', 'trace',
    'transforms', 'transpose', 'type_id', 'uint16', 'uint32', 'uint64', 'uint8', 'video', 'warp_affine',
    'water', 'zeros', 'zeros_like',
]

def audio_resample(
    data: Arrays | Data, /, *, antialias: _bool = True, dtype: Dtype | None = None,
    in_rate: Float | Array | None = None, out_length: Int | Array | None = None,
    out_rate: Float | Array | None = None, quality: Float = 50.0, scale: Float | Array | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Resamples audio with a sinc filter that has a Hann window. `fn.audio_resample` describes the arguments."""

def batch_permutation(
    *, allow_repetitions: _bool = False, no_fixed_points: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> Any:
    """Draws a random order of the batch: one number per sample, for the argument `indices` of `permute_batch`. `fn.batch_permutation` describes the arguments."""

def bb_flip(
    boxes: Arrays | Data, /, *, horizontal: Int | Array = 1, ltrb: _bool = False, vertical: Int | Array = 0,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Mirrors boxes whose coordinates are relative to the image, from 0 to 1. `fn.bb_flip` describes the arguments."""

def bbox_paste(
    boxes: Arrays | Data, /, *, ltrb: _bool = False, paste_x: Float | Array = 0.5,
    paste_y: Float | Array = 0.5, ratio: Float | Array, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes the boxes of images that `fn.paste` places on larger canvases. `fn.bbox_paste` describes the arguments."""

def bbox_rotate(
    boxes: Arrays | Data, labels: Array | Data | None = None, /, *, angle: Float | Array,
    bbox_layout: Literal['xyXY', 'xyWH'] = 'xyXY', bbox_normalized: _bool = True, input_shape: Ints | Array,
    keep_size: _bool = False, mode: Literal['expand', 'halfway', 'fixed'] = 'expand',
    remove_threshold: Float = 0.1, shape_layout: str = 'HW', size: Floats | Array = (),
    device: Device | str | None = None, batch_size: int | None = None,
) -> Any:
    """Computes the boxes of images that `fn.rotate` rotates. `fn.bbox_rotate` describes the arguments."""

def box_encoder(
    boxes: Arrays | Data, labels: Array | Data, /, *, anchors: Floats, criteria: Float = 0.5,
    means: Floats = (0.0, 0.0, 0.0, 0.0), offset: _bool = False, scale: Float = 1.0,
    stds: Floats = (1.0, 1.0, 1.0, 1.0), device: Device | str | None = None, batch_size: int | None = None,
) -> tuple[Arrays, ...]:
    """Assigns boxes and labels to default boxes (anchors), for the training of detectors like SSD. `fn.box_encoder` describes the arguments."""

def brightness(
    data: Arrays | Data, /, *, brightness: Float | Array = 1.0, brightness_shift: Float | Array = 0.0,
    dtype: Dtype | None = None, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Adjusts brightness: brightness_shift * range + brightness * value. `fn.brightness` describes the arguments."""

def brightness_contrast(
    data: Arrays | Data, /, *, brightness: Float | Array = 1.0, brightness_shift: Float | Array = 0.0,
    contrast: Float | Array = 1.0, contrast_center: Float | Array | None = None, dtype: Dtype | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Adjusts contrast, then brightness. `fn.brightness_contrast` describes the arguments."""

def cast(
    data: Arrays | Data, /, *, dtype: Dtype, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Converts samples to another dtype. `fn.cast` describes the arguments."""

def cast_like(
    data: Arrays | Data, like: Array | Data, /, *, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Converts samples to the dtype of other samples, like `cast`. `fn.cast_like` describes the arguments."""

def cat(
    input_0: Arrays | Data, /, *inputs: Array | Data, axis: Int = 0, axis_name: Str | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Joins samples along an existing axis. `fn.cat` describes the arguments."""

def clahe(
    data: Arrays | Data, /, *, bins: Int = 256, clip_limit: Float, luma_only: _bool = True, tiles_x: Int,
    tiles_y: Int, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Equalizes the histogram of each tile of an image, with a limited contrast (CLAHE), as OpenCV does. `fn.clahe` describes the arguments."""

def color_space_conversion(
    data: Arrays | Data, /, *, image_type: DALIImageType, output_type: DALIImageType,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Converts images between RGB, BGR, GRAY and YCbCr (ITU-R BT.601, Y from 16 to 235). `fn.color_space_conversion` describes the arguments."""

def color_twist(
    data: Arrays | Data, /, *, brightness: Float | Array = 1.0, contrast: Float | Array = 1.0,
    dtype: Dtype | None = None, hue: Float | Array = 0.0, image_type: DALIImageType = DALIImageType.RGB,
    saturation: Float | Array = 1.0, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Rotates the hue and scales saturation, contrast and brightness, by a matrix between RGB channels. `fn.color_twist` describes the arguments."""

def constant(
    *, dtype: Dtype | None = None, fdata: Floats | None = None, idata: Ints | None = None,
    layout: str | None = None, shape: Ints | None = None, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Any:
    """Returns the same sample in every batch. `fn.constant` describes the arguments."""

def contrast(
    data: Arrays | Data, /, *, contrast: Float | Array = 1.0, contrast_center: Float | Array | None = None,
    dtype: Dtype | None = None, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Adjusts contrast: contrast_center + contrast * (value - contrast_center). `fn.contrast` describes the arguments."""

def coord_flip(
    points: Arrays | Data, /, *, center_x: Float | Array = 0.5, center_y: Float | Array = 0.5,
    center_z: Float | Array = 0.5, flip_x: Int | Array = 1, flip_y: Int | Array = 0, flip_z: Int | Array = 0,
    layout: str = '', device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Mirrors points about a centre. `fn.coord_flip` describes the arguments."""

def coord_transform(
    points: Arrays | Data, /, *, M: Floats | Array | None = None, MT: Floats | Array | None = None,
    T: Floats | Array | None = None, dtype: Dtype = DALIDataType.FLOAT, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Applies a linear map to points: M * point + T. `fn.coord_transform` describes the arguments."""

def copy(data: Arrays | Data, /, *, device: Device | str | None = None, batch_size: int | None = None) -> Arrays:
    """Copies samples to new memory. `fn.copy` describes the arguments."""

def crop(
    data: Arrays | Data, /, *, crop: Floats | Array | None = None, crop_d: Float | Array = 0.0,
    crop_h: Float | Array = 0.0, crop_pos_x: Float | Array = 0.5, crop_pos_y: Float | Array = 0.5,
    crop_pos_z: Float | Array = 0.5, crop_w: Float | Array = 0.0, dtype: Dtype | None = None,
    fill_values: Floats = (0.0,), image_type: DALIImageType | None = None,
    out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape', 'edge', 'clamp', 'reflect', 'reflect_1001', 'reflect_101', 'wrap'] = 'error',
    output_dtype: Dtype | None = None, rounding: Literal['round', 'truncate'] = 'round',
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Crops windows of a given size out of images, volumes or sequences. `fn.crop` describes the arguments."""

def crop_mirror_normalize(
    data: Arrays | Data, /, *, crop: Floats | Array | None = None, crop_d: Float | Array = 0.0,
    crop_h: Float | Array = 0.0, crop_pos_x: Float | Array = 0.5, crop_pos_y: Float | Array = 0.5,
    crop_pos_z: Float | Array = 0.5, crop_w: Float | Array = 0.0, dtype: Dtype = DALIDataType.FLOAT,
    fill_values: Floats = (0.0,), image_type: DALIImageType | None = None, mean: Floats | Array = (0.0,),
    mirror: Int | Array = 0,
    out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape'] = 'error',
    output_dtype: Dtype | None = None, output_layout: str = 'CHW', pad_output: _bool = False,
    rounding: Literal['round', 'truncate'] = 'round', scale: Float = 1.0, shift: Float = 0.0,
    std: Floats | Array = (1.0,), device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Crops, mirrors and normalises images, and converts their layout and dtype, in one pass. `fn.crop_mirror_normalize` describes the arguments."""

def debayer(
    data: Arrays | Data, /, *,
    algorithm: Literal['bilinear_ocv', 'edgeaware_ocv', 'vng_ocv', 'gray_ocv', 'default_npp'] | None = None,
    blue_position: Ints | Array, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes the colours of images whose pixels have one colour each, in a repeated 2 x 2 tile. `fn.debayer` describes the arguments."""

def dl_tensor_python_function(
    *data: Arrays | Data, batch_processing: _bool = True, deterministic: _bool = False, function: Any,
    num_outputs: Int = 1, output_layouts: Strs | None = None, parallel: _bool | None = None,
    synchronize_stream: _bool = True, timeout: Float | None = None, device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> Any:
    """Runs a Python function on DLPack capsules. `fn.dl_tensor_python_function` describes the arguments."""

def dump_image(
    data: Arrays | Data, /, *, input_layout: str = 'HWC', suffix: Str = '',
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Writes each image to a file in the current folder, and returns the images unchanged. `fn.dump_image` describes the arguments."""

def element_extract(
    data: Arrays | Data, /, *, element_map: Ints, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Any:
    """Returns single frames of sequences, with one output for each number in `element_map`. `fn.element_extract` describes the arguments."""

def equalize(
    data: Arrays | Data, /, *, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Equalizes the histogram of each channel and each frame. `fn.equalize` describes the arguments."""

def erase(
    data: Arrays | Data, /, *, anchor: Floats | Array = (), axes: Ints = (1, 0), axis_names: Str = 'HW',
    centered_anchor: _bool = False, fill_value: Floats | Array = (0.0,), normalized: _bool = False,
    normalized_anchor: _bool = False, normalized_shape: _bool = False, shape: Floats | Array = (),
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Erases one or more regions of samples. `fn.erase` describes the arguments."""

def expand_dims(
    data: Arrays | Data, /, *, axes: Ints, new_axis_names: Str = '', device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Adds dimensions of extent 1. `fn.expand_dims` describes the arguments."""

def fast_resize_crop_mirror(
    data: Arrays | Data, /, *, antialias: _bool = False, crop: Floats | Array | None = None,
    crop_d: Float | Array = 0.0, crop_h: Float | Array = 0.0, crop_pos_x: Float | Array = 0.5,
    crop_pos_y: Float | Array = 0.5, crop_pos_z: Float | Array = 0.5, crop_w: Float | Array = 0.0,
    dtype: Dtype | None = None, interp_type: DALIInterpType | Array = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | Array | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | Array | None = None, minibatch_size: Int = 32, mirror: Int | Array = 0,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    resize_longer: Float | Array = 0.0, resize_shorter: Float | Array = 0.0, resize_x: Float | Array = 0.0,
    resize_y: Float | Array = 0.0, resize_z: Float | Array = 0.0, roi_end: Floats | Array | None = None,
    roi_relative: _bool = False, roi_start: Floats | Array | None = None,
    rounding: Literal['round', 'truncate'] = 'round', size: Floats | Array | None = None,
    subpixel_scale: _bool = True, temp_buffer_hint: Int = 0, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes `resize_crop_mirror`, by default without antialiasing. `fn.fast_resize_crop_mirror` describes the arguments."""

def filter(
    data: Arrays | Data, filter: Array | Data, fill_value: Array | Data | None = None, /, *,
    anchor: Ints | Array = (-1,),
    border: Literal['reflect_101', 'reflect101', '101', 'reflect_1001', 'reflect1001', '1001', 'reflect', 'wrap', 'clamp', 'edge', 'constant', 'pad', 'fill'] = 'reflect_101',
    dtype: Dtype | None = None, mode: Literal['same', 'valid'] = 'same', device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Correlates images with windows, in float32. `fn.filter` describes the arguments."""

def flip(
    data: Arrays | Data, /, *, depthwise: Int | Array = 0, horizontal: Int | Array = 1,
    vertical: Int | Array = 0, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Mirrors samples along the chosen dimensions. `fn.flip` describes the arguments."""

def full(
    fill_value: Arrays | Data, /, *, layout: str | None = None, shape: Ints | Array = (),
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Returns samples that are filled with given values. `fn.full` describes the arguments."""

def full_like(
    data_like: Arrays | Data, fill_value: Array | Data, /, *, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Returns samples with the shape, dtype and layout of other samples, filled with given values. `fn.full_like` describes the arguments."""

def gaussian_blur(
    data: Arrays | Data, /, *, dtype: Dtype | None = None, sigma: Floats | Array = (0.0,),
    window_size: Ints | Array = (0,), device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Blurs with a Gaussian filter along all axes except frames and channels. `fn.gaussian_blur` describes the arguments."""

def get_property(
    data: Arrays | Data, /, *, key: Literal['layout', 'source_info'], device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Returns a property of samples as text, 1-D uint8. `fn.get_property` describes the arguments."""

def grid_mask(
    data: Arrays | Data, /, *, angle: Float | Array = 0.0, ratio: Float | Array = 0.5,
    shift_x: Float | Array = 0.0, shift_y: Float | Array = 0.0, tile: Int | Array = 100,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Erases a grid of squares, as in https://arxiv.org/abs/2001.04086. `fn.grid_mask` describes the arguments."""

def hsv(
    data: Arrays | Data, /, *, dtype: Dtype = DALIDataType.UINT8, hue: Float | Array = 0.0,
    saturation: Float | Array = 1.0, value: Float | Array = 1.0, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Rotates the hue and scales saturation and value, by a matrix between RGB channels. `fn.hsv` describes the arguments."""

def hue(
    data: Arrays | Data, /, *, dtype: Dtype | None = None, hue: Float | Array = 0.0,
    image_type: DALIImageType = DALIImageType.RGB, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Rotates the hue. `fn.hue` describes the arguments."""

def jitter(
    data: Arrays | Data, /, *, fill_value: Float = 0.0,
    interp_type: DALIInterpType = DALIInterpType.INTERP_NN, mask: Int | Array = 1, nDegree: Int = 2,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> Arrays:
    """Takes each pixel from a random position, at most `nDegree` / 2 pixels away from it along x and along y. `fn.jitter` describes the arguments."""

def jpeg_compression_distortion(
    data: Arrays | Data, /, *, quality: Int | Array = 50, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Compresses images as JPEG with 4:2:0 chroma subsampling, and decompresses them. `fn.jpeg_compression_distortion` describes the arguments."""

def laplacian(
    data: Arrays | Data, /, *, dtype: Dtype | None = None, normalized_kernel: _bool = False,
    scale: Floats | Array = (1.0,), smoothing_size: Ints | Array | None = None,
    window_size: Ints | Array = (3,), device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes the Laplacian: the sum of the second derivatives along all axes except frames and channels. `fn.laplacian` describes the arguments."""

def lookup_table(
    data: Arrays | Data, /, *, default_value: Float = 0.0, dtype: Dtype = DALIDataType.FLOAT, keys: Ints = (),
    output_dtype: Dtype | None = None, values: Floats = (), device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Replaces integers by values from a table. `fn.lookup_table` describes the arguments."""

def mel_filter_bank(
    data: Arrays | Data, /, *, freq_high: Float = 0.0, freq_low: Float = 0.0,
    mel_formula: Literal['slaney', 'htk'] = 'slaney', nfilter: Int = 128, normalize: _bool = True,
    sample_rate: Float = 44100.0, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Converts spectrograms to mel spectrograms by a bank of triangular filters. `fn.mel_filter_bank` describes the arguments."""

def mfcc(
    data: Arrays | Data, /, *, axis: Int = 0, dct_type: Int = 2, lifter: Float = 0.0, n_mfcc: Int = 20,
    normalize: _bool = False, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes mel frequency cepstral coefficients of mel spectrograms: their discrete cosine transform. `fn.mfcc` describes the arguments."""

def multi_paste(
    *data: Arrays | Data, dtype: Dtype | None = None, in_anchors: Ints | Array | None = None,
    in_anchors_rel: Floats | Array | None = None, in_ids: Ints | Array | None = None,
    out_anchors: Ints | Array | None = None, out_anchors_rel: Floats | Array | None = None,
    output_size: Ints | Array | None = None, shapes: Ints | Array | None = None,
    shapes_rel: Floats | Array | None = None, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Pastes regions of images onto a canvas, one after the other. `fn.multi_paste` describes the arguments."""

def nonsilent_region(
    data: Arrays | Data, /, *, cutoff_db: Float = -60.0, reference_power: Float | None = None,
    reset_interval: Int = 8192, window_length: Int = 2048, device: Device | str | None = None,
    batch_size: int | None = None,
) -> tuple[Arrays, ...]:
    """Finds the part of a signal without the silence at its start and end. `fn.nonsilent_region` describes the arguments."""

def normalize(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None, batch: _bool = False,
    ddof: Int = 0, dtype: Dtype = DALIDataType.FLOAT, epsilon: Float = 0.0, mean: Float | Array | None = None,
    scale: Float = 1.0, shift: Float = 0.0, stddev: Float | Array | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes (data - mean) / stddev * scale + shift. `fn.normalize` describes the arguments."""

def one_hot(
    data: Arrays | Data, /, *, axis: Int = -1, axis_name: Str | None = None,
    dtype: Dtype = DALIDataType.FLOAT, num_classes: Int = 0, off_value: Float = 0.0, on_value: Float = 1.0,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Encodes class numbers. `fn.one_hot` describes the arguments."""

def ones(
    *, dtype: Dtype = DALIDataType.INT32, layout: str | None = None, shape: Ints | Array = (),
    device: Device | str | None = None, batch_size: int | None = None,
) -> Any:
    """Returns samples of ones. `fn.ones` describes the arguments."""

def ones_like(
    data_like: Arrays | Data, /, *, dtype: Dtype | None = None, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Returns samples of ones with the shape, dtype and layout of other samples. `fn.ones_like` describes the arguments."""

def optical_flow(
    data: Arrays | Data, hints: Array | Data | None = None, /, *, enable_external_hints: _bool = False,
    enable_temporal_hints: _bool = False, hint_grid: Int = 4, image_type: DALIImageType = DALIImageType.RGB,
    output_format: Int | None = None, output_grid: Int = 4, preset: Float = 0.0,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes the motion of pixels between successive frames. `fn.optical_flow` describes the arguments."""

def pad(
    data: Arrays | Data, /, *, align: Ints | Array | None = None, axes: Ints | Array = (),
    axis_names: str | None = None, fill_value: Float | Array = 0.0, shape: Ints | Array | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Pads samples at their end, along chosen axes. `fn.pad` describes the arguments."""

def paste(
    data: Arrays | Data, /, *, fill_value: Ints, min_canvas_size: Float | Array = 0.0, n_channels: Int = 3,
    paste_x: Float | Array = 0.5, paste_y: Float | Array = 0.5, ratio: Float | Array,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Pastes images onto larger canvases of one colour. `fn.paste` describes the arguments."""

def patchify(
    data: Arrays | Data, /, *, dtype: Dtype = DALIDataType.FLOAT, mean: Floats | Array = (0.0,),
    merge_size: Int = 1, order: Literal['CTHW', 'THWC'] = 'CTHW', patch_size: Int, scale: Float = 1.0,
    shift: Float = 0.0, std: Floats | Array = (1.0,), temporal_patch_size: Int = 1,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Divides images and videos into patches, and normalises them: (pixel - mean) / std * scale + shift. `fn.patchify` describes the arguments."""

def peek_image_shape(
    encoded: Arrays | Data, /, *, adjust_orientation: _bool = True, dtype: Dtype = DALIDataType.INT64,
    image_type: DALIImageType = DALIImageType.RGB, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Reads the shapes (height, width, channels) of encoded images from their headers, without decoding. `fn.peek_image_shape` describes the arguments."""

def per_frame(
    data: Arrays | Data, /, *, replace: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Marks samples as sequences, whose first dimension is the frame. `fn.per_frame` describes the arguments."""

def permute_batch(
    data: Arrays | Data, /, *, indices: Ints | Array, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Returns the samples of the batch in the order of indices, which may repeat and omit samples. `fn.permute_batch` describes the arguments."""

def power_spectrum(
    data: Arrays | Data, /, *, axis: Int = -1, nfft: Int | None = None, power: Int = 2,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes the power spectrum of signals: the squared magnitudes of their Fourier transform. `fn.power_spectrum` describes the arguments."""

def preemphasis_filter(
    data: Arrays | Data, /, *, border: Literal['zero', 'clamp', 'reflect'] = 'clamp',
    dtype: Dtype = DALIDataType.FLOAT, preemph_coeff: Float | Array = 0.97,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Subtracts from each element its predecessor times a coefficient, which amplifies high frequencies. `fn.preemphasis_filter` describes the arguments."""

def python_function(
    *data: Arrays | Data, batch_processing: _bool = False, deterministic: _bool = False, function: Any,
    num_outputs: Int = 1, output_layouts: Strs | None = None, parallel: _bool | None = None,
    timeout: Float | None = None, device: Device | str | None = None, batch_size: int | None = None,
    rng: RNG | None = None,
) -> Any:
    """Runs a Python function on NumPy arrays, on the GPU on CuPy arrays. `fn.python_function` describes the arguments."""

def random_bbox_crop(
    boxes: Arrays | Data, labels: Array | Data | None = None, /, *, all_boxes_above_threshold: _bool = True,
    allow_no_crop: _bool = True, aspect_ratio: Floats = (1.0, 1.0), bbox_layout: str | None = None,
    bbox_prune_threshold: Float | None = None, crop_shape: Ints | Array | None = None,
    input_shape: Ints | Array | None = None, ltrb: _bool = True, num_attempts: Int = 1,
    output_bbox_indices: _bool = False, quiet: _bool = False, scaling: Floats = (1.0, 1.0),
    shape_layout: str | None = None, threshold_type: Literal['iou', 'overlap'] = 'iou',
    thresholds: Floats = (0.0,), total_num_attempts: Int = -1, device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> tuple[Arrays, ...]:
    """Draws a window of the image that keeps enough of the boxes, and returns these boxes relative to the window. `fn.random_bbox_crop` describes the arguments."""

def random_crop_generator(
    shapes: Arrays | Data, /, *, num_attempts: Int = 10, random_area: Floats = (0.08, 1.0),
    random_aspect_ratio: Floats = (0.75, 1.3333333333333333), device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> tuple[Arrays, ...]:
    """Draws cropping windows of random area and aspect ratio. `fn.random_crop_generator` describes the arguments."""

def random_resized_crop(
    data: Arrays | Data, /, *, antialias: _bool = True, dtype: Dtype | None = None,
    interp_type: DALIInterpType | Array = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | Array | None = None, min_filter: DALIInterpType | Array | None = None,
    minibatch_size: Int = 32, num_attempts: Int = 10, random_area: Floats = (0.08, 1.0),
    random_aspect_ratio: Floats = (0.75, 1.3333333333333333), size: Ints, temp_buffer_hint: Int = 0,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> Arrays:
    """Crops a window of random area and aspect ratio, and resizes it. `fn.random_resized_crop` describes the arguments."""

def reinterpret(
    data: Arrays | Data, shape_input: Array | Data | None = None, /, *, dtype: Dtype | None = None,
    layout: str | None = None, rel_shape: Floats | Array | None = None, shape: Ints | Array | None = None,
    src_dims: Ints | Array | None = None, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Reinterprets the bytes of samples as another dtype, and changes their shape and layout. `fn.reinterpret` describes the arguments."""

def reshape(
    data: Arrays | Data, shape_input: Array | Data | None = None, /, *, layout: str | None = None,
    rel_shape: Floats | Array | None = None, shape: Ints | Array | None = None,
    src_dims: Ints | Array | None = None, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Changes the shape and layout of samples. `fn.reshape` describes the arguments."""

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
    """Resizes images. `fn.resize` describes the arguments."""

def resize_crop_mirror(
    data: Arrays | Data, /, *, antialias: _bool = True, crop: Floats | Array | None = None,
    crop_d: Float | Array = 0.0, crop_h: Float | Array = 0.0, crop_pos_x: Float | Array = 0.5,
    crop_pos_y: Float | Array = 0.5, crop_pos_z: Float | Array = 0.5, crop_w: Float | Array = 0.0,
    dtype: Dtype | None = None, interp_type: DALIInterpType | Array = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | Array | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | Array | None = None, minibatch_size: Int = 32, mirror: Int | Array = 0,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    resize_longer: Float | Array = 0.0, resize_shorter: Float | Array = 0.0, resize_x: Float | Array = 0.0,
    resize_y: Float | Array = 0.0, resize_z: Float | Array = 0.0, roi_end: Floats | Array | None = None,
    roi_relative: _bool = False, roi_start: Floats | Array | None = None,
    rounding: Literal['round', 'truncate'] = 'round', size: Floats | Array | None = None,
    subpixel_scale: _bool = True, temp_buffer_hint: Int = 0, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes `resize`, `crop` and `flip` in one step. `fn.resize_crop_mirror` describes the arguments."""

def roi_random_crop(
    data: Arrays | Data | None = None, /, *, crop_shape: Ints | Array, in_shape: Ints | Array | None = None,
    roi_end: Ints | Array | None = None, roi_shape: Ints | Array | None = None, roi_start: Ints | Array,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> Any:
    """Draws the position of a window of a given shape that contains as much as possible of a region. `fn.roi_random_crop` describes the arguments."""

def rotate(
    data: Arrays | Data, /, *, angle: Float | Array, axis: Floats | Array | None = None,
    dtype: Dtype | None = None, fill_value: Float | None = None,
    interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR, keep_size: _bool = False,
    output_dtype: Dtype | None = None, size: Floats | Array = (), device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Rotates images, volumes or sequences about their centre. `fn.rotate` describes the arguments."""

def saturation(
    data: Arrays | Data, /, *, dtype: Dtype | None = None, image_type: DALIImageType = DALIImageType.RGB,
    saturation: Float | Array = 1.0, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Scales the saturation. `fn.saturation` describes the arguments."""

def sequence_rearrange(
    data: Arrays | Data, /, *, new_order: Ints | Array, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Selects frames of sequences, in any order: frame `i` of the output is frame `new_order[i]` of the input. `fn.sequence_rearrange` describes the arguments."""

def shapes(
    data: Arrays | Data, /, *, dtype: Dtype = DALIDataType.INT64, type: Dtype | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Returns the shapes of samples as 1-D arrays. `fn.shapes` describes the arguments."""

def slice(
    data: Arrays | Data, anchor: Array | Data | None = None, shape_input: Array | Data | None = None, /, *,
    axes: Ints | Array | None = None, axis_names: Str = 'WH', dtype: Dtype | None = None,
    end: Ints | Array | None = None, fill_values: Floats = (0.0,), image_type: DALIImageType | None = None,
    normalized_anchor: _bool = True, normalized_shape: _bool = True,
    out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape', 'edge', 'clamp', 'reflect', 'reflect_1001', 'reflect_101', 'wrap'] = 'error',
    output_dtype: Dtype | None = None, rel_end: Floats | Array | None = None,
    rel_shape: Floats | Array | None = None, rel_start: Floats | Array | None = None,
    shape: Ints | Array | None = None, start: Ints | Array | None = None, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Slices samples along chosen axes. `fn.slice` describes the arguments."""

def smart_resize(
    data: Arrays | Data, /, *, antialias: _bool = True, dtype: Dtype | None = None, factor: Int = 28,
    interp_type: DALIInterpType | Array = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | Array | None = None, max_pixels: Int | Array = 1003520,
    min_filter: DALIInterpType | Array | None = None, min_pixels: Int | Array = 3136,
    minibatch_size: Int = 32, mode: Literal['nearest', 'largest'] = 'nearest', temp_buffer_hint: Int = 0,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Resizes images so that height and width are multiples of `factor`, and the number of pixels is limited. `fn.smart_resize` describes the arguments."""

def spectrogram(
    data: Arrays | Data, /, *, center_windows: _bool = True, layout: str = 'ft', nfft: Int | None = None,
    power: Int = 2, reflect_padding: _bool = True, window_fn: Floats = (), window_length: Int = 512,
    window_step: Int = 256, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes spectrograms of signals: the power spectra of overlapping windows, float32. `fn.spectrogram` describes the arguments."""

def sphere(
    data: Arrays | Data, /, *, fill_value: Float = 0.0,
    interp_type: DALIInterpType = DALIInterpType.INTERP_NN, mask: Int | Array = 1,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Distorts images as if they covered a sphere. `fn.sphere` describes the arguments."""

def squeeze(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Removes dimensions of extent 1. `fn.squeeze` describes the arguments."""

def ssd_random_crop(
    images: Arrays | Data, boxes: Array | Data, labels: Array | Data, /, *, num_attempts: Int = 1,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> tuple[Arrays, ...]:
    """Crops images at random, and keeps the boxes whose centre is in the window. `fn.ssd_random_crop` describes the arguments."""

def stack(
    input_0: Arrays | Data, /, *inputs: Array | Data, axis: Int = 0, axis_name: Str | None = None,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Joins samples along a new axis. `fn.stack` describes the arguments."""

def tensor_resize(
    data: Arrays | Data, /, *, alignment: Floats | Array = (0.5,), antialias: _bool = True,
    axes: Ints | None = None, axis_names: str | None = None, dtype: Dtype | None = None,
    interp_type: DALIInterpType | Array = DALIInterpType.INTERP_LINEAR,
    mag_filter: DALIInterpType | Array | None = None, max_size: Floats | None = None,
    min_filter: DALIInterpType | Array | None = None, minibatch_size: Int = 32,
    mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    roi_end: Floats | Array | None = None, roi_relative: _bool = False,
    roi_start: Floats | Array | None = None, scales: Floats | Array | None = None,
    size_rounding: Literal['round', 'truncate', 'ceil'] = 'round', sizes: Floats | Array | None = None,
    subpixel_scale: _bool = True, temp_buffer_hint: Int = 0, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Resizes any axes of arrays, by `sizes` or by `scales`. `fn.tensor_resize` describes the arguments."""

def to_decibels(
    data: Arrays | Data, /, *, cutoff_db: Float = -200.0, multiplier: Float = 10.0,
    reference: Float | None = None, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Converts magnitudes to decibels: `multiplier` * log10(magnitude / `reference`), float32. `fn.to_decibels` describes the arguments."""

def transpose(
    data: Arrays | Data, /, *, output_layout: str | None = None, perm: Ints | None = None,
    transpose_layout: _bool = True, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Reorders the dimensions of samples: dimension i of the output is dimension perm[i] of the input. `fn.transpose` describes the arguments."""

def warp_affine(
    data: Arrays | Data, mtx: Array | Data | None = None, /, *, dtype: Dtype | None = None,
    fill_value: Float | None = None, interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR,
    inverse_map: _bool = True, matrix: Floats | Array = (), output_dtype: Dtype | None = None,
    size: Floats | Array = (), device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Warps images, volumes or sequences by affine transforms. `fn.warp_affine` describes the arguments."""

def water(
    data: Arrays | Data, /, *, ampl_x: Float = 10.0, ampl_y: Float = 10.0, fill_value: Float = 0.0,
    freq_x: Float = 0.049087, freq_y: Float = 0.049087,
    interp_type: DALIInterpType = DALIInterpType.INTERP_NN, mask: Int | Array = 1, phase_x: Float = 0.0,
    phase_y: Float = 0.0, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Distorts images by waves, as if they were under water. `fn.water` describes the arguments."""

def zeros(
    *, dtype: Dtype = DALIDataType.INT32, layout: str | None = None, shape: Ints | Array = (),
    device: Device | str | None = None, batch_size: int | None = None,
) -> Any:
    """Returns samples of zeros. `fn.zeros` describes the arguments."""

def zeros_like(
    data_like: Arrays | Data, /, *, dtype: Dtype | None = None, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Returns samples of zeros with the shape, dtype and layout of other samples. `fn.zeros_like` describes the arguments."""

