# Written by `python -m docs.stubs`.

"""Operators as classes: created with constant arguments, called with inputs.

Example:
    >>> from dali_proxy import fn, ops
    >>> resize = ops.Resize(size=(224, 224))
    >>> resize(fn.external_source(name="images")).device
    'cpu'"""

from builtins import bool as _bool
from typing import Any, Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes, Str, Strs
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType

from dali_proxy.pipeline.ops import decoders as decoders
from dali_proxy.pipeline.ops import experimental as experimental
from dali_proxy.pipeline.ops import inputs as inputs
from dali_proxy.pipeline.ops import io as io
from dali_proxy.pipeline.ops import noise as noise
from dali_proxy.pipeline.ops import random as random
from dali_proxy.pipeline.ops import readers as readers
from dali_proxy.pipeline.ops import reductions as reductions
from dali_proxy.pipeline.ops import segmentation as segmentation
from dali_proxy.pipeline.ops import transforms as transforms
from dali_proxy.pipeline.ops.compose import Compose as Compose

__all__ = [
    'AudioDecoder', 'AudioResample', 'BBoxPaste', 'BBoxRotate', 'BatchPermutation', 'BbFlip', 'BoxEncoder',
    'Brightness', 'BrightnessContrast', 'COCOReader', 'Caffe2Reader', 'CaffeReader', 'Cast', 'CastLike',
    'Cat', 'Clahe', 'CoinFlip', 'ColorSpaceConversion', 'ColorTwist', 'Compose', 'Constant', 'Contrast',
    'CoordFlip', 'CoordTransform', 'Copy', 'Crop', 'CropMirrorNormalize', 'DLTensorPythonFunction', 'Debayer',
    'DumpImage', 'ElementExtract', 'Equalize', 'Erase', 'ExpandDims', 'ExternalSource',
    'FastResizeCropMirror', 'FileReader', 'Filter', 'Flip', 'Full', 'FullLike', 'GaussianBlur', 'GetProperty',
    'GridMask', 'Hsv', 'Hue', 'ImageDecoder', 'ImageDecoderCrop', 'ImageDecoderRandomCrop',
    'ImageDecoderSlice', 'Jitter', 'JpegCompressionDistortion', 'Laplacian', 'LookupTable', 'MFCC',
    'MXNetReader', 'MelFilterBank', 'MultiPaste', 'NemoAsrReader', 'NonsilentRegion', 'NormalDistribution',
    'Normalize', 'NumpyReader', 'OneHot', 'Ones', 'OnesLike', 'OpticalFlow', 'Pad', 'Paste', 'Patchify',
    'PeekImageShape', 'PerFrame', 'PermuteBatch', 'PowerSpectrum', 'PreemphasisFilter', 'PythonFunction',
    'ROIRandomCrop', 'RandomBBoxCrop', 'RandomCropGenerator', 'RandomResizedCrop', 'Reinterpret', 'Reshape',
    'Resize', 'ResizeCropMirror', 'Rotate', 'SSDRandomCrop', 'Saturation', 'SequenceReader',
    'SequenceRearrange', 'Shapes', 'Slice', 'SmartResize', 'Spectrogram', 'Sphere', 'Squeeze', 'Stack',
    'TFRecordReader', 'TensorResize', 'ToDecibels', 'TransformTranslation', 'Transpose', 'Uniform',
    'VideoReader', 'VideoReaderResize', 'WarpAffine', 'Water', 'Zeros', 'ZerosLike', 'decoders',
    'experimental', 'inputs', 'io', 'noise', 'random', 'readers', 'reductions', 'segmentation', 'transforms',
]

from dali_proxy.pipeline.ops.decoders import Audio as AudioDecoder
class AudioResample(OperatorClass):
    """Resamples audio with a sinc filter that has a Hann window. `fn.audio_resample` describes the arguments."""
    def __init__(
        self, *, antialias: _bool = True, dtype: DALIDataType | None = None,
        in_rate: Float | DataNode | None = None, out_length: Int | DataNode | None = None,
        out_rate: Float | DataNode | None = None, quality: Float = 50.0, scale: Float | DataNode | None = None,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class BatchPermutation(OperatorClass):
    """Draws a random order of the batch: one number per sample, for the argument `indices` of `permute_batch`. `fn.batch_permutation` describes the arguments."""
    def __init__(
        self, *, allow_repetitions: _bool = False, no_fixed_points: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, **arguments: Any) -> DataNode: ...

class BbFlip(OperatorClass):
    """Mirrors boxes whose coordinates are relative to the image, from 0 to 1. `fn.bb_flip` describes the arguments."""
    def __init__(
        self, *, horizontal: Int | DataNode = 1, ltrb: _bool = False, vertical: Int | DataNode = 0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, boxes: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class BBoxPaste(OperatorClass):
    """Computes the boxes of images that `fn.paste` places on larger canvases. `fn.bbox_paste` describes the arguments."""
    def __init__(
        self, *, ltrb: _bool = False, paste_x: Float | DataNode = 0.5, paste_y: Float | DataNode = 0.5,
        ratio: Float | DataNode, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, boxes: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class BBoxRotate(OperatorClass):
    """Computes the boxes of images that `fn.rotate` rotates. `fn.bbox_rotate` describes the arguments."""
    def __init__(
        self, *, angle: Float | DataNode, bbox_layout: Literal['xyXY', 'xyWH'] = 'xyXY',
        bbox_normalized: _bool = True, input_shape: Ints | DataNode, keep_size: _bool = False,
        mode: Literal['expand', 'halfway', 'fixed'] = 'expand', remove_threshold: Float = 0.1,
        shape_layout: str = 'HW', size: Floats | DataNode = (), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, boxes: Nodes | ConstantLike, labels: Input | None = None, /, **arguments: Any) -> Any: ...

class BoxEncoder(OperatorClass):
    """Assigns boxes and labels to default boxes (anchors), for the training of detectors like SSD. `fn.box_encoder` describes the arguments."""
    def __init__(
        self, *, anchors: Floats, criteria: Float = 0.5, means: Floats = (0.0, 0.0, 0.0, 0.0),
        offset: _bool = False, scale: Float = 1.0, stds: Floats = (1.0, 1.0, 1.0, 1.0), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, boxes: Nodes | ConstantLike, labels: Input, /, **arguments: Any) -> list[Nodes]: ...

class Brightness(OperatorClass):
    """Adjusts brightness: brightness_shift * range + brightness * value. `fn.brightness` describes the arguments."""
    def __init__(
        self, *, brightness: Float | DataNode = 1.0, brightness_shift: Float | DataNode = 0.0,
        dtype: DALIDataType | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class BrightnessContrast(OperatorClass):
    """Adjusts contrast, then brightness. `fn.brightness_contrast` describes the arguments."""
    def __init__(
        self, *, brightness: Float | DataNode = 1.0, brightness_shift: Float | DataNode = 0.0,
        contrast: Float | DataNode = 1.0, contrast_center: Float | DataNode | None = None,
        dtype: DALIDataType | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.readers import Caffe2 as Caffe2Reader
from dali_proxy.pipeline.ops.readers import Caffe as CaffeReader
class Cast(OperatorClass):
    """Converts samples to another dtype. `fn.cast` describes the arguments."""
    def __init__(self, *, dtype: DALIDataType, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class CastLike(OperatorClass):
    """Converts samples to the dtype of other samples, like `cast`. `fn.cast_like` describes the arguments."""
    def __init__(self, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, like: Input, /, **arguments: Any) -> Nodes: ...

class Cat(OperatorClass):
    """Joins samples along an existing axis. `fn.cat` describes the arguments."""
    def __init__(self, *, axis: Int = 0, axis_name: Str | None = None, **common: Unpack[Common]) -> None: ...
    def __call__(self, input_0: Nodes | ConstantLike, /, *inputs: Input, **arguments: Any) -> Nodes: ...

class Clahe(OperatorClass):
    """Equalizes the histogram of each tile of an image, with a limited contrast (CLAHE), as OpenCV does. `fn.clahe` describes the arguments."""
    def __init__(
        self, *, bins: Int = 256, clip_limit: Float, luma_only: _bool = True, tiles_x: Int, tiles_y: Int,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.readers import COCO as COCOReader
from dali_proxy.pipeline.ops.random import CoinFlip as CoinFlip
class ColorSpaceConversion(OperatorClass):
    """Converts images between RGB, BGR, GRAY and YCbCr (ITU-R BT.601, Y from 16 to 235). `fn.color_space_conversion` describes the arguments."""
    def __init__(self, *, image_type: DALIImageType, output_type: DALIImageType, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ColorTwist(OperatorClass):
    """Rotates the hue and scales saturation, contrast and brightness, by a matrix between RGB channels. `fn.color_twist` describes the arguments."""
    def __init__(
        self, *, brightness: Float | DataNode = 1.0, contrast: Float | DataNode = 1.0,
        dtype: DALIDataType | None = None, hue: Float | DataNode = 0.0,
        image_type: DALIImageType = DALIImageType.RGB, saturation: Float | DataNode = 1.0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Constant(OperatorClass):
    """Returns the same sample in every batch. `fn.constant` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, fdata: Floats | None = None, idata: Ints | None = None,
        layout: str | None = None, shape: Ints | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, **arguments: Any) -> DataNode: ...

class Contrast(OperatorClass):
    """Adjusts contrast: contrast_center + contrast * (value - contrast_center). `fn.contrast` describes the arguments."""
    def __init__(
        self, *, contrast: Float | DataNode = 1.0, contrast_center: Float | DataNode | None = None,
        dtype: DALIDataType | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class CoordFlip(OperatorClass):
    """Mirrors points about a centre. `fn.coord_flip` describes the arguments."""
    def __init__(
        self, *, center_x: Float | DataNode = 0.5, center_y: Float | DataNode = 0.5,
        center_z: Float | DataNode = 0.5, flip_x: Int | DataNode = 1, flip_y: Int | DataNode = 0,
        flip_z: Int | DataNode = 0, layout: str = '', **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, points: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class CoordTransform(OperatorClass):
    """Applies a linear map to points: M * point + T. `fn.coord_transform` describes the arguments."""
    def __init__(
        self, *, M: Floats | DataNode | None = None, MT: Floats | DataNode | None = None,
        T: Floats | DataNode | None = None, dtype: DALIDataType = DALIDataType.FLOAT, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, points: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Copy(OperatorClass):
    """Copies samples to new memory. `fn.copy` describes the arguments."""
    def __init__(self, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Crop(OperatorClass):
    """Crops windows of a given size out of images, volumes or sequences. `fn.crop` describes the arguments."""
    def __init__(
        self, *, crop: Floats | DataNode | None = None, crop_d: Float | DataNode = 0.0,
        crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5, crop_pos_y: Float | DataNode = 0.5,
        crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0, dtype: DALIDataType | None = None,
        fill_values: Floats = (0.0,), image_type: DALIImageType | None = None,
        out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape', 'edge', 'clamp', 'reflect', 'reflect_1001', 'reflect_101', 'wrap'] = 'error',
        output_dtype: DALIDataType | None = None, rounding: Literal['round', 'truncate'] = 'round',
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class CropMirrorNormalize(OperatorClass):
    """Crops, mirrors and normalises images, and converts their layout and dtype, in one pass. `fn.crop_mirror_normalize` describes the arguments."""
    def __init__(
        self, *, crop: Floats | DataNode | None = None, crop_d: Float | DataNode = 0.0,
        crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5, crop_pos_y: Float | DataNode = 0.5,
        crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0,
        dtype: DALIDataType = DALIDataType.FLOAT, fill_values: Floats = (0.0,),
        image_type: DALIImageType | None = None, mean: Floats | DataNode = (0.0,), mirror: Int | DataNode = 0,
        out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape'] = 'error',
        output_dtype: DALIDataType | None = None, output_layout: str = 'CHW', pad_output: _bool = False,
        rounding: Literal['round', 'truncate'] = 'round', scale: Float = 1.0, shift: Float = 0.0,
        std: Floats | DataNode = (1.0,), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Debayer(OperatorClass):
    """Computes the colours of images whose pixels have one colour each, in a repeated 2 x 2 tile. `fn.debayer` describes the arguments."""
    def __init__(
        self, *,
        algorithm: Literal['bilinear_ocv', 'edgeaware_ocv', 'vng_ocv', 'gray_ocv', 'default_npp'] | None = None,
        blue_position: Ints | DataNode, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class DLTensorPythonFunction(OperatorClass):
    """Runs a Python function on DLPack capsules. `fn.dl_tensor_python_function` describes the arguments."""
    def __init__(
        self, function: Any = None, num_outputs: Any = 1, device: Any = None, synchronize_stream: Any = True,
        batch_processing: Any = True, *, deterministic: _bool = False, output_layouts: Strs | None = None,
        parallel: _bool | None = None, timeout: Float | None = None, name: str | None = None,
        bytes_per_sample_hint: Ints | None = None, preserve: _bool = False, seed: Int = -1,
    ) -> None: ...
    def __call__(self, *data: Nodes | ConstantLike, **arguments: Any) -> Any: ...

class DumpImage(OperatorClass):
    """Writes each image to a file in the current folder, and returns the images unchanged. `fn.dump_image` describes the arguments."""
    def __init__(self, *, input_layout: str = 'HWC', suffix: Str = '', **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ElementExtract(OperatorClass):
    """Returns single frames of sequences, with one output for each number in `element_map`. `fn.element_extract` describes the arguments."""
    def __init__(self, *, element_map: Ints, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Any: ...

class Equalize(OperatorClass):
    """Equalizes the histogram of each channel and each frame. `fn.equalize` describes the arguments."""
    def __init__(self, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Erase(OperatorClass):
    """Erases one or more regions of samples. `fn.erase` describes the arguments."""
    def __init__(
        self, *, anchor: Floats | DataNode = (), axes: Ints = (1, 0), axis_names: Str = 'HW',
        centered_anchor: _bool = False, fill_value: Floats | DataNode = (0.0,), normalized: _bool = False,
        normalized_anchor: _bool = False, normalized_shape: _bool = False, shape: Floats | DataNode = (),
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ExpandDims(OperatorClass):
    """Adds dimensions of extent 1. `fn.expand_dims` describes the arguments."""
    def __init__(self, *, axes: Ints, new_axis_names: Str = '', **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ExternalSource(OperatorClass):
    """Return external data as an input of the graph. `fn.external_source` describes the arguments."""
    def __init__(
        self, source: Any = None, num_outputs: int | None = None, *, cycle: str | _bool | None = None,
        name: str | None = None, device: str | None = None, layout: Any = None, dtype: Any = None,
        ndim: Any = None, cuda_stream: Any = None, use_copy_kernel: _bool | None = None,
        batch: _bool | None = None, batch_info: _bool | None = None, repeat_last: _bool = False,
        blocking: _bool | None = None, no_copy: _bool | None = None, parallel: _bool | None = None,
        prefetch_queue_depth: int | None = None, **arguments: Any,
    ) -> None: ...
    def __call__(self, **arguments: Any) -> Any: ...

class FastResizeCropMirror(OperatorClass):
    """Computes `resize_crop_mirror`, by default without antialiasing. `fn.fast_resize_crop_mirror` describes the arguments."""
    def __init__(
        self, *, antialias: _bool = False, crop: Floats | DataNode | None = None, crop_d: Float | DataNode = 0.0,
        crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5, crop_pos_y: Float | DataNode = 0.5,
        crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0, dtype: DALIDataType | None = None,
        interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
        mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
        min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32, mirror: Int | DataNode = 0,
        mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
        resize_longer: Float | DataNode = 0.0, resize_shorter: Float | DataNode = 0.0,
        resize_x: Float | DataNode = 0.0, resize_y: Float | DataNode = 0.0, resize_z: Float | DataNode = 0.0,
        roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
        roi_start: Floats | DataNode | None = None, rounding: Literal['round', 'truncate'] = 'round',
        size: Floats | DataNode | None = None, subpixel_scale: _bool = True, temp_buffer_hint: Int = 0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.readers import File as FileReader
class Filter(OperatorClass):
    """Correlates images with windows, in float32. `fn.filter` describes the arguments."""
    def __init__(
        self, *, anchor: Ints | DataNode = (-1,),
        border: Literal['reflect_101', 'reflect101', '101', 'reflect_1001', 'reflect1001', '1001', 'reflect', 'wrap', 'clamp', 'edge', 'constant', 'pad', 'fill'] = 'reflect_101',
        dtype: DALIDataType | None = None, mode: Literal['same', 'valid'] = 'same', **common: Unpack[Common],
    ) -> None: ...
    def __call__(
        self, data: Nodes | ConstantLike, filter: Input, fill_value: Input | None = None, /, **arguments: Any,
    ) -> Nodes: ...

class Flip(OperatorClass):
    """Mirrors samples along the chosen dimensions. `fn.flip` describes the arguments."""
    def __init__(
        self, *, depthwise: Int | DataNode = 0, horizontal: Int | DataNode = 1, vertical: Int | DataNode = 0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Full(OperatorClass):
    """Returns samples that are filled with given values. `fn.full` describes the arguments."""
    def __init__(self, *, layout: str | None = None, shape: Ints | DataNode = (), **common: Unpack[Common]) -> None: ...
    def __call__(self, fill_value: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class FullLike(OperatorClass):
    """Returns samples with the shape, dtype and layout of other samples, filled with given values. `fn.full_like` describes the arguments."""
    def __init__(self, **common: Unpack[Common]) -> None: ...
    def __call__(self, data_like: Nodes | ConstantLike, fill_value: Input, /, **arguments: Any) -> Nodes: ...

class GaussianBlur(OperatorClass):
    """Blurs with a Gaussian filter along all axes except frames and channels. `fn.gaussian_blur` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, sigma: Floats | DataNode = (0.0,),
        window_size: Ints | DataNode = (0,), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class GetProperty(OperatorClass):
    """Returns a property of samples as text, 1-D uint8. `fn.get_property` describes the arguments."""
    def __init__(self, *, key: Literal['layout', 'source_info'], **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class GridMask(OperatorClass):
    """Erases a grid of squares, as in https://arxiv.org/abs/2001.04086. `fn.grid_mask` describes the arguments."""
    def __init__(
        self, *, angle: Float | DataNode = 0.0, ratio: Float | DataNode = 0.5, shift_x: Float | DataNode = 0.0,
        shift_y: Float | DataNode = 0.0, tile: Int | DataNode = 100, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Hsv(OperatorClass):
    """Rotates the hue and scales saturation and value, by a matrix between RGB channels. `fn.hsv` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType = DALIDataType.UINT8, hue: Float | DataNode = 0.0,
        saturation: Float | DataNode = 1.0, value: Float | DataNode = 1.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Hue(OperatorClass):
    """Rotates the hue. `fn.hue` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, hue: Float | DataNode = 0.0,
        image_type: DALIImageType = DALIImageType.RGB, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.decoders import Image as ImageDecoder
from dali_proxy.pipeline.ops.decoders import ImageCrop as ImageDecoderCrop
from dali_proxy.pipeline.ops.decoders import ImageRandomCrop as ImageDecoderRandomCrop
from dali_proxy.pipeline.ops.decoders import ImageSlice as ImageDecoderSlice
class Jitter(OperatorClass):
    """Takes each pixel from a random position, at most `nDegree` / 2 pixels away from it along x and along y. `fn.jitter` describes the arguments."""
    def __init__(
        self, *, fill_value: Float = 0.0, interp_type: DALIInterpType = DALIInterpType.INTERP_NN,
        mask: Int | DataNode = 1, nDegree: Int = 2, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class JpegCompressionDistortion(OperatorClass):
    """Compresses images as JPEG with 4:2:0 chroma subsampling, and decompresses them. `fn.jpeg_compression_distortion` describes the arguments."""
    def __init__(self, *, quality: Int | DataNode = 50, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Laplacian(OperatorClass):
    """Computes the Laplacian: the sum of the second derivatives along all axes except frames and channels. `fn.laplacian` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, normalized_kernel: _bool = False,
        scale: Floats | DataNode = (1.0,), smoothing_size: Ints | DataNode | None = None,
        window_size: Ints | DataNode = (3,), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class LookupTable(OperatorClass):
    """Replaces integers by values from a table. `fn.lookup_table` describes the arguments."""
    def __init__(
        self, *, default_value: Float = 0.0, dtype: DALIDataType = DALIDataType.FLOAT, keys: Ints = (),
        output_dtype: DALIDataType | None = None, values: Floats = (), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class MelFilterBank(OperatorClass):
    """Converts spectrograms to mel spectrograms by a bank of triangular filters. `fn.mel_filter_bank` describes the arguments."""
    def __init__(
        self, *, freq_high: Float = 0.0, freq_low: Float = 0.0, mel_formula: Literal['slaney', 'htk'] = 'slaney',
        nfilter: Int = 128, normalize: _bool = True, sample_rate: Float = 44100.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class MFCC(OperatorClass):
    """Computes mel frequency cepstral coefficients of mel spectrograms: their discrete cosine transform. `fn.mfcc` describes the arguments."""
    def __init__(
        self, *, axis: Int = 0, dct_type: Int = 2, lifter: Float = 0.0, n_mfcc: Int = 20,
        normalize: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class MultiPaste(OperatorClass):
    """Pastes regions of images onto a canvas, one after the other. `fn.multi_paste` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, in_anchors: Ints | DataNode | None = None,
        in_anchors_rel: Floats | DataNode | None = None, in_ids: Ints | DataNode | None = None,
        out_anchors: Ints | DataNode | None = None, out_anchors_rel: Floats | DataNode | None = None,
        output_size: Ints | DataNode | None = None, shapes: Ints | DataNode | None = None,
        shapes_rel: Floats | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, *data: Nodes | ConstantLike, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.readers import MXNet as MXNetReader
from dali_proxy.pipeline.ops.readers import NemoAsr as NemoAsrReader
class NonsilentRegion(OperatorClass):
    """Finds the part of a signal without the silence at its start and end. `fn.nonsilent_region` describes the arguments."""
    def __init__(
        self, *, cutoff_db: Float = -60.0, reference_power: Float | None = None, reset_interval: Int = 8192,
        window_length: Int = 2048, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> list[Nodes]: ...

from dali_proxy.pipeline.ops.random import Normal as NormalDistribution
class Normalize(OperatorClass):
    """Computes (data - mean) / stddev * scale + shift. `fn.normalize` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, batch: _bool = False, ddof: Int = 0,
        dtype: DALIDataType = DALIDataType.FLOAT, epsilon: Float = 0.0, mean: Float | DataNode | None = None,
        scale: Float = 1.0, shift: Float = 0.0, stddev: Float | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.readers import Numpy as NumpyReader
class OneHot(OperatorClass):
    """Encodes class numbers. `fn.one_hot` describes the arguments."""
    def __init__(
        self, *, axis: Int = -1, axis_name: Str | None = None, dtype: DALIDataType = DALIDataType.FLOAT,
        num_classes: Int = 0, off_value: Float = 0.0, on_value: Float = 1.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Ones(OperatorClass):
    """Returns samples of ones. `fn.ones` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType = DALIDataType.INT32, layout: str | None = None, shape: Ints | DataNode = (),
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, **arguments: Any) -> DataNode: ...

class OnesLike(OperatorClass):
    """Returns samples of ones with the shape, dtype and layout of other samples. `fn.ones_like` describes the arguments."""
    def __init__(self, *, dtype: DALIDataType | None = None, **common: Unpack[Common]) -> None: ...
    def __call__(self, data_like: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class OpticalFlow(OperatorClass):
    """Computes the motion of pixels between successive frames. `fn.optical_flow` describes the arguments."""
    def __init__(
        self, *, enable_external_hints: _bool = False, enable_temporal_hints: _bool = False, hint_grid: Int = 4,
        image_type: DALIImageType = DALIImageType.RGB, output_format: Int | None = None, output_grid: Int = 4,
        preset: Float = 0.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, hints: Input | None = None, /, **arguments: Any) -> Nodes: ...

class Pad(OperatorClass):
    """Pads samples at their end, along chosen axes. `fn.pad` describes the arguments."""
    def __init__(
        self, *, align: Ints | DataNode | None = None, axes: Ints | DataNode = (), axis_names: str | None = None,
        fill_value: Float | DataNode = 0.0, shape: Ints | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Paste(OperatorClass):
    """Pastes images onto larger canvases of one colour. `fn.paste` describes the arguments."""
    def __init__(
        self, *, fill_value: Ints, min_canvas_size: Float | DataNode = 0.0, n_channels: Int = 3,
        paste_x: Float | DataNode = 0.5, paste_y: Float | DataNode = 0.5, ratio: Float | DataNode,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Patchify(OperatorClass):
    """Divides images and videos into patches, and normalises them: (pixel - mean) / std * scale + shift. `fn.patchify` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType = DALIDataType.FLOAT, mean: Floats | DataNode = (0.0,), merge_size: Int = 1,
        order: Literal['CTHW', 'THWC'] = 'CTHW', patch_size: Int, scale: Float = 1.0, shift: Float = 0.0,
        std: Floats | DataNode = (1.0,), temporal_patch_size: Int = 1, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class PeekImageShape(OperatorClass):
    """Reads the shapes (height, width, channels) of encoded images from their headers, without decoding. `fn.peek_image_shape` describes the arguments."""
    def __init__(
        self, *, adjust_orientation: _bool = True, dtype: DALIDataType = DALIDataType.INT64,
        image_type: DALIImageType = DALIImageType.RGB, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, encoded: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class PerFrame(OperatorClass):
    """Marks samples as sequences, whose first dimension is the frame. `fn.per_frame` describes the arguments."""
    def __init__(self, *, replace: _bool = False, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class PermuteBatch(OperatorClass):
    """Returns the samples of the batch in the order of indices, which may repeat and omit samples. `fn.permute_batch` describes the arguments."""
    def __init__(self, *, indices: Ints | DataNode, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class PowerSpectrum(OperatorClass):
    """Computes the power spectrum of signals: the squared magnitudes of their Fourier transform. `fn.power_spectrum` describes the arguments."""
    def __init__(
        self, *, axis: Int = -1, nfft: Int | None = None, power: Int = 2, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class PreemphasisFilter(OperatorClass):
    """Subtracts from each element its predecessor times a coefficient, which amplifies high frequencies. `fn.preemphasis_filter` describes the arguments."""
    def __init__(
        self, *, border: Literal['zero', 'clamp', 'reflect'] = 'clamp', dtype: DALIDataType = DALIDataType.FLOAT,
        preemph_coeff: Float | DataNode = 0.97, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class PythonFunction(OperatorClass):
    """Runs a Python function on NumPy arrays, on the GPU on CuPy arrays. `fn.python_function` describes the arguments."""
    def __init__(
        self, function: Any = None, num_outputs: Any = 1, device: Any = None, batch_processing: Any = False, *,
        deterministic: _bool = False, output_layouts: Strs | None = None, parallel: _bool | None = None,
        timeout: Float | None = None, name: str | None = None, bytes_per_sample_hint: Ints | None = None,
        preserve: _bool = False, seed: Int = -1,
    ) -> None: ...
    def __call__(self, *data: Nodes | ConstantLike, **arguments: Any) -> Any: ...

class RandomBBoxCrop(OperatorClass):
    """Draws a window of the image that keeps enough of the boxes, and returns these boxes relative to the window. `fn.random_bbox_crop` describes the arguments."""
    def __init__(
        self, *, all_boxes_above_threshold: _bool = True, allow_no_crop: _bool = True,
        aspect_ratio: Floats = (1.0, 1.0), bbox_layout: str | None = None,
        bbox_prune_threshold: Float | None = None, crop_shape: Ints | DataNode | None = None,
        input_shape: Ints | DataNode | None = None, ltrb: _bool = True, num_attempts: Int = 1,
        output_bbox_indices: _bool = False, quiet: _bool = False, scaling: Floats = (1.0, 1.0),
        shape_layout: str | None = None, threshold_type: Literal['iou', 'overlap'] = 'iou',
        thresholds: Floats = (0.0,), total_num_attempts: Int = -1, **common: Unpack[Common],
    ) -> None: ...
    def __call__(
        self, boxes: Nodes | ConstantLike, labels: Input | None = None, /, **arguments: Any,
    ) -> list[Nodes]: ...

class RandomCropGenerator(OperatorClass):
    """Draws cropping windows of random area and aspect ratio. `fn.random_crop_generator` describes the arguments."""
    def __init__(
        self, *, num_attempts: Int = 10, random_area: Floats = (0.08, 1.0),
        random_aspect_ratio: Floats = (0.75, 1.3333333333333333), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, shapes: Nodes | ConstantLike, /, **arguments: Any) -> list[Nodes]: ...

class RandomResizedCrop(OperatorClass):
    """Crops a window of random area and aspect ratio, and resizes it. `fn.random_resized_crop` describes the arguments."""
    def __init__(
        self, *, antialias: _bool = True, dtype: DALIDataType | None = None,
        interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
        mag_filter: DALIInterpType | DataNode | None = None, min_filter: DALIInterpType | DataNode | None = None,
        minibatch_size: Int = 32, num_attempts: Int = 10, random_area: Floats = (0.08, 1.0),
        random_aspect_ratio: Floats = (0.75, 1.3333333333333333), size: Ints, temp_buffer_hint: Int = 0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Reinterpret(OperatorClass):
    """Reinterprets the bytes of samples as another dtype, and changes their shape and layout. `fn.reinterpret` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, layout: str | None = None,
        rel_shape: Floats | DataNode | None = None, shape: Ints | DataNode | None = None,
        src_dims: Ints | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, shape_input: Input | None = None, /, **arguments: Any) -> Nodes: ...

class Reshape(OperatorClass):
    """Changes the shape and layout of samples. `fn.reshape` describes the arguments."""
    def __init__(
        self, *, layout: str | None = None, rel_shape: Floats | DataNode | None = None,
        shape: Ints | DataNode | None = None, src_dims: Ints | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, shape_input: Input | None = None, /, **arguments: Any) -> Nodes: ...

class Resize(OperatorClass):
    """Resizes images. `fn.resize` describes the arguments."""
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

class ResizeCropMirror(OperatorClass):
    """Computes `resize`, `crop` and `flip` in one step. `fn.resize_crop_mirror` describes the arguments."""
    def __init__(
        self, *, antialias: _bool = True, crop: Floats | DataNode | None = None, crop_d: Float | DataNode = 0.0,
        crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5, crop_pos_y: Float | DataNode = 0.5,
        crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0, dtype: DALIDataType | None = None,
        interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
        mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
        min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32, mirror: Int | DataNode = 0,
        mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
        resize_longer: Float | DataNode = 0.0, resize_shorter: Float | DataNode = 0.0,
        resize_x: Float | DataNode = 0.0, resize_y: Float | DataNode = 0.0, resize_z: Float | DataNode = 0.0,
        roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
        roi_start: Floats | DataNode | None = None, rounding: Literal['round', 'truncate'] = 'round',
        size: Floats | DataNode | None = None, subpixel_scale: _bool = True, temp_buffer_hint: Int = 0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ROIRandomCrop(OperatorClass):
    """Draws the position of a window of a given shape that contains as much as possible of a region. `fn.roi_random_crop` describes the arguments."""
    def __init__(
        self, *, crop_shape: Ints | DataNode, in_shape: Ints | DataNode | None = None,
        roi_end: Ints | DataNode | None = None, roi_shape: Ints | DataNode | None = None,
        roi_start: Ints | DataNode, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike | None = None, /, **arguments: Any) -> Nodes: ...

class Rotate(OperatorClass):
    """Rotates images, volumes or sequences about their centre. `fn.rotate` describes the arguments."""
    def __init__(
        self, *, angle: Float | DataNode, axis: Floats | DataNode | None = None,
        dtype: DALIDataType | None = None, fill_value: Float | None = None,
        interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR, keep_size: _bool = False,
        output_dtype: DALIDataType | None = None, size: Floats | DataNode = (), **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Saturation(OperatorClass):
    """Scales the saturation. `fn.saturation` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, image_type: DALIImageType = DALIImageType.RGB,
        saturation: Float | DataNode = 1.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.readers import Sequence as SequenceReader
class SequenceRearrange(OperatorClass):
    """Selects frames of sequences, in any order: frame `i` of the output is frame `new_order[i]` of the input. `fn.sequence_rearrange` describes the arguments."""
    def __init__(self, *, new_order: Ints | DataNode, **common: Unpack[Common]) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Shapes(OperatorClass):
    """Returns the shapes of samples as 1-D arrays. `fn.shapes` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType = DALIDataType.INT64, type: DALIDataType | None = None,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Slice(OperatorClass):
    """Slices samples along chosen axes. `fn.slice` describes the arguments."""
    def __init__(
        self, *, axes: Ints | DataNode | None = None, axis_names: Str = 'WH', dtype: DALIDataType | None = None,
        end: Ints | DataNode | None = None, fill_values: Floats = (0.0,), image_type: DALIImageType | None = None,
        normalized_anchor: _bool = True, normalized_shape: _bool = True,
        out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape', 'edge', 'clamp', 'reflect', 'reflect_1001', 'reflect_101', 'wrap'] = 'error',
        output_dtype: DALIDataType | None = None, rel_end: Floats | DataNode | None = None,
        rel_shape: Floats | DataNode | None = None, rel_start: Floats | DataNode | None = None,
        shape: Ints | DataNode | None = None, start: Ints | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(
        self, data: Nodes | ConstantLike, anchor: Input | None = None, shape_input: Input | None = None, /,
        **arguments: Any,
    ) -> Nodes: ...

class SmartResize(OperatorClass):
    """Resizes images so that height and width are multiples of `factor`, and the number of pixels is limited. `fn.smart_resize` describes the arguments."""
    def __init__(
        self, *, antialias: _bool = True, dtype: DALIDataType | None = None, factor: Int = 28,
        interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
        mag_filter: DALIInterpType | DataNode | None = None, max_pixels: Int | DataNode = 1003520,
        min_filter: DALIInterpType | DataNode | None = None, min_pixels: Int | DataNode = 3136,
        minibatch_size: Int = 32, mode: Literal['nearest', 'largest'] = 'nearest', temp_buffer_hint: Int = 0,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Spectrogram(OperatorClass):
    """Computes spectrograms of signals: the power spectra of overlapping windows, float32. `fn.spectrogram` describes the arguments."""
    def __init__(
        self, *, center_windows: _bool = True, layout: str = 'ft', nfft: Int | None = None, power: Int = 2,
        reflect_padding: _bool = True, window_fn: Floats = (), window_length: Int = 512, window_step: Int = 256,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Sphere(OperatorClass):
    """Distorts images as if they covered a sphere. `fn.sphere` describes the arguments."""
    def __init__(
        self, *, fill_value: Float = 0.0, interp_type: DALIInterpType = DALIInterpType.INTERP_NN,
        mask: Int | DataNode = 1, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Squeeze(OperatorClass):
    """Removes dimensions of extent 1. `fn.squeeze` describes the arguments."""
    def __init__(
        self, *, axes: Ints | None = None, axis_names: Str | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class SSDRandomCrop(OperatorClass):
    """Crops images at random, and keeps the boxes whose centre is in the window. `fn.ssd_random_crop` describes the arguments."""
    def __init__(self, *, num_attempts: Int = 1, **common: Unpack[Common]) -> None: ...
    def __call__(
        self, images: Nodes | ConstantLike, boxes: Input, labels: Input, /, **arguments: Any,
    ) -> list[Nodes]: ...

class Stack(OperatorClass):
    """Joins samples along a new axis. `fn.stack` describes the arguments."""
    def __init__(self, *, axis: Int = 0, axis_name: Str | None = None, **common: Unpack[Common]) -> None: ...
    def __call__(self, input_0: Nodes | ConstantLike, /, *inputs: Input, **arguments: Any) -> Nodes: ...

class TensorResize(OperatorClass):
    """Resizes any axes of arrays, by `sizes` or by `scales`. `fn.tensor_resize` describes the arguments."""
    def __init__(
        self, *, alignment: Floats | DataNode = (0.5,), antialias: _bool = True, axes: Ints | None = None,
        axis_names: str | None = None, dtype: DALIDataType | None = None,
        interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR,
        mag_filter: DALIInterpType | DataNode | None = None, max_size: Floats | None = None,
        min_filter: DALIInterpType | DataNode | None = None, minibatch_size: Int = 32,
        mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
        roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
        roi_start: Floats | DataNode | None = None, scales: Floats | DataNode | None = None,
        size_rounding: Literal['round', 'truncate', 'ceil'] = 'round', sizes: Floats | DataNode | None = None,
        subpixel_scale: _bool = True, temp_buffer_hint: Int = 0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.readers import TFRecord as TFRecordReader
class ToDecibels(OperatorClass):
    """Converts magnitudes to decibels: `multiplier` * log10(magnitude / `reference`), float32. `fn.to_decibels` describes the arguments."""
    def __init__(
        self, *, cutoff_db: Float = -200.0, multiplier: Float = 10.0, reference: Float | None = None,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.transforms import Translation as TransformTranslation
class Transpose(OperatorClass):
    """Reorders the dimensions of samples: dimension i of the output is dimension perm[i] of the input. `fn.transpose` describes the arguments."""
    def __init__(
        self, *, output_layout: str | None = None, perm: Ints | None = None, transpose_layout: _bool = True,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

from dali_proxy.pipeline.ops.random import Uniform as Uniform
from dali_proxy.pipeline.ops.readers import Video as VideoReader
from dali_proxy.pipeline.ops.readers import VideoResize as VideoReaderResize
class WarpAffine(OperatorClass):
    """Warps images, volumes or sequences by affine transforms. `fn.warp_affine` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType | None = None, fill_value: Float | None = None,
        interp_type: DALIInterpType = DALIInterpType.INTERP_LINEAR, inverse_map: _bool = True,
        matrix: Floats | DataNode = (), output_dtype: DALIDataType | None = None, size: Floats | DataNode = (),
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, mtx: Input | None = None, /, **arguments: Any) -> Nodes: ...

class Water(OperatorClass):
    """Distorts images by waves, as if they were under water. `fn.water` describes the arguments."""
    def __init__(
        self, *, ampl_x: Float = 10.0, ampl_y: Float = 10.0, fill_value: Float = 0.0, freq_x: Float = 0.049087,
        freq_y: Float = 0.049087, interp_type: DALIInterpType = DALIInterpType.INTERP_NN,
        mask: Int | DataNode = 1, phase_x: Float = 0.0, phase_y: Float = 0.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Zeros(OperatorClass):
    """Returns samples of zeros. `fn.zeros` describes the arguments."""
    def __init__(
        self, *, dtype: DALIDataType = DALIDataType.INT32, layout: str | None = None, shape: Ints | DataNode = (),
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, **arguments: Any) -> DataNode: ...

class ZerosLike(OperatorClass):
    """Returns samples of zeros with the shape, dtype and layout of other samples. `fn.zeros_like` describes the arguments."""
    def __init__(self, *, dtype: DALIDataType | None = None, **common: Unpack[Common]) -> None: ...
    def __call__(self, data_like: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

