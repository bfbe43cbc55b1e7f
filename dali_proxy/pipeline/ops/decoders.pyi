# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.decoders`."""

from builtins import bool as _bool
from typing import Any, Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes, Str
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline.types import DALIDataType, DALIImageType


__all__ = ['Audio', 'Image', 'ImageCrop', 'ImageRandomCrop', 'ImageSlice', 'Inflate', 'Numpy', 'Video']

class Audio(OperatorClass):
    """Decodes audio files: WAV, FLAC, Ogg (Vorbis and Opus), MP3 and other formats of libsndfile. `fn.decoders.audio` describes the arguments."""
    def __init__(
        self, *, antialias: _bool = True, downmix: _bool = False, dtype: DALIDataType = DALIDataType.FLOAT,
        quality: Float = 50.0, sample_rate: Float | DataNode = 0.0, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, encoded: Nodes | ConstantLike, /, **arguments: Any) -> list[Nodes]: ...

class Image(OperatorClass):
    """Decodes images to HWC. `fn.decoders.image` describes the arguments."""
    def __init__(
        self, *, adjust_orientation: _bool = True, affine: _bool | None = None, cache_batch_copy: _bool = True,
        cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
        cache_type: Literal['', 'threshold', 'largest'] = '', device_memory_padding: Int | None = None,
        device_memory_padding_jpeg2k: Int | None = None, dtype: DALIDataType = DALIDataType.UINT8,
        host_memory_padding: Int | None = None, host_memory_padding_jpeg2k: Int | None = None,
        hw_decoder_load: Float = 0.65, hybrid_huffman_threshold: Int | None = None,
        jpeg_fancy_upsampling: _bool = False, memory_stats: _bool | None = None,
        output_type: DALIImageType = DALIImageType.RGB, palette_indices: _bool = False,
        preallocate_height_hint: Int | None = None, preallocate_width_hint: Int | None = None,
        split_stages: _bool | None = None, use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, encoded: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ImageCrop(OperatorClass):
    """Decodes a window of each image to HWC, with the same result as `fn.crop` on the full image. `fn.decoders.image_crop` describes the arguments."""
    def __init__(
        self, *, adjust_orientation: _bool = True, affine: _bool | None = None, cache_batch_copy: _bool = True,
        cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
        cache_type: Literal['', 'threshold', 'largest'] = '', crop: Floats | DataNode | None = None,
        crop_d: Float | DataNode = 0.0, crop_h: Float | DataNode = 0.0, crop_pos_x: Float | DataNode = 0.5,
        crop_pos_y: Float | DataNode = 0.5, crop_pos_z: Float | DataNode = 0.5, crop_w: Float | DataNode = 0.0,
        device_memory_padding: Int | None = None, device_memory_padding_jpeg2k: Int | None = None,
        dtype: DALIDataType = DALIDataType.UINT8, host_memory_padding: Int | None = None,
        host_memory_padding_jpeg2k: Int | None = None, hw_decoder_load: Float = 0.65,
        hybrid_huffman_threshold: Int | None = None, jpeg_fancy_upsampling: _bool = False,
        memory_stats: _bool | None = None, output_type: DALIImageType = DALIImageType.RGB,
        palette_indices: _bool = False, preallocate_height_hint: Int | None = None,
        preallocate_width_hint: Int | None = None, rounding: Literal['round', 'truncate'] = 'round',
        split_stages: _bool | None = None, use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, encoded: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ImageRandomCrop(OperatorClass):
    """Decodes a window of random area, aspect ratio and position of each image, to HWC. `fn.decoders.image_random_crop` describes the arguments."""
    def __init__(
        self, *, adjust_orientation: _bool = True, affine: _bool | None = None, cache_batch_copy: _bool = True,
        cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
        cache_type: Literal['', 'threshold', 'largest'] = '', device_memory_padding: Int | None = None,
        device_memory_padding_jpeg2k: Int | None = None, dtype: DALIDataType = DALIDataType.UINT8,
        host_memory_padding: Int | None = None, host_memory_padding_jpeg2k: Int | None = None,
        hw_decoder_load: Float = 0.65, hybrid_huffman_threshold: Int | None = None,
        jpeg_fancy_upsampling: _bool = False, memory_stats: _bool | None = None, num_attempts: Int = 10,
        output_type: DALIImageType = DALIImageType.RGB, palette_indices: _bool = False,
        preallocate_height_hint: Int | None = None, preallocate_width_hint: Int | None = None,
        random_area: Floats = (0.08, 1.0), random_aspect_ratio: Floats = (0.75, 1.3333333333333333),
        split_stages: _bool | None = None, use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
        **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, encoded: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class ImageSlice(OperatorClass):
    """Decodes a window of each image to HWC, with the same result as `fn.slice` on the full image. `fn.decoders.image_slice` describes the arguments."""
    def __init__(
        self, *, adjust_orientation: _bool = True, affine: _bool | None = None,
        axes: Ints | DataNode | None = None, axis_names: Str = 'WH', cache_batch_copy: _bool = True,
        cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
        cache_type: Literal['', 'threshold', 'largest'] = '', device_memory_padding: Int | None = None,
        device_memory_padding_jpeg2k: Int | None = None, dtype: DALIDataType = DALIDataType.UINT8,
        end: Ints | DataNode | None = None, host_memory_padding: Int | None = None,
        host_memory_padding_jpeg2k: Int | None = None, hw_decoder_load: Float = 0.65,
        hybrid_huffman_threshold: Int | None = None, jpeg_fancy_upsampling: _bool = False,
        memory_stats: _bool | None = None, normalized_anchor: _bool = True, normalized_shape: _bool = True,
        output_type: DALIImageType = DALIImageType.RGB, palette_indices: _bool = False,
        preallocate_height_hint: Int | None = None, preallocate_width_hint: Int | None = None,
        rel_end: Floats | DataNode | None = None, rel_shape: Floats | DataNode | None = None,
        rel_start: Floats | DataNode | None = None, shape: Ints | DataNode | None = None,
        split_stages: _bool | None = None, start: Ints | DataNode | None = None,
        use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False, **common: Unpack[Common],
    ) -> None: ...
    def __call__(
        self, encoded: Nodes | ConstantLike, anchor: Input | None = None, shape_input: Input | None = None, /,
        **arguments: Any,
    ) -> Nodes: ...

class Inflate(OperatorClass):
    """Decompresses arrays. `fn.decoders.inflate` describes the arguments."""
    def __init__(
        self, *, algorithm: Str = 'LZ4', check_output_size: _bool = False,
        chunk_offsets: Ints | DataNode | None = None, chunk_sizes: Ints | DataNode | None = None,
        dtype: DALIDataType = DALIDataType.UINT8, layout: str = '', sequence_axis_name: str = 'F',
        shape: Ints | DataNode, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, data: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Numpy(OperatorClass):
    """Decodes arrays in the format of .npy files. `fn.decoders.numpy` describes the arguments."""
    def __init__(self, *, dtype: DALIDataType | None = None, **common: Unpack[Common]) -> None: ...
    def __call__(self, encoded: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

class Video(OperatorClass):
    """Decodes frames of videos to FHWC, RGB. `fn.decoders.video` describes the arguments."""
    def __init__(
        self, *, affine: _bool = True, build_index: _bool = True, cache_batch_copy: _bool = True,
        cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
        cache_type: Literal['', 'threshold', 'largest'] = '', end_frame: Int | DataNode | None = None,
        fill_value: Ints = (0,), frames: Ints | DataNode | None = None,
        pad_mode: Literal['none', 'constant', 'edge', 'repeat', 'reflect_1001', 'symmetric', 'reflect_101', 'reflect'] = 'constant',
        sequence_length: Int | DataNode | None = None, start_frame: Int | DataNode | None = None,
        stride: Int | DataNode | None = None, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, encoded: Nodes | ConstantLike, /, **arguments: Any) -> Nodes: ...

