# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.decoders`."""

from builtins import bool as _bool
from typing import Literal
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Dtype, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints, Str
from dali_proxy.pipeline._dynamic.devices import Device
from dali_proxy.pipeline._dynamic.randomness import RNG
from dali_proxy.pipeline.types import DALIDataType, DALIImageType


__all__ = ['audio', 'image', 'image_crop', 'image_random_crop', 'image_slice', 'inflate', 'numpy', 'video']

def audio(
    encoded: Arrays | Data, /, *, antialias: _bool = True, downmix: _bool = False,
    dtype: Dtype = DALIDataType.FLOAT, quality: Float = 50.0, sample_rate: Float | Array = 0.0,
    device: Device | str | None = None, batch_size: int | None = None,
) -> tuple[Arrays, ...]:
    """Decodes audio files: WAV, FLAC, Ogg (Vorbis and Opus), MP3 and other formats of libsndfile. `fn.decoders.audio` describes the arguments."""

def image(
    encoded: Arrays | Data, /, *, adjust_orientation: _bool = True, affine: _bool | None = None,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
    cache_type: Literal['', 'threshold', 'largest'] = '', device_memory_padding: Int | None = None,
    device_memory_padding_jpeg2k: Int | None = None, dtype: Dtype = DALIDataType.UINT8,
    host_memory_padding: Int | None = None, host_memory_padding_jpeg2k: Int | None = None,
    hw_decoder_load: Float = 0.65, hybrid_huffman_threshold: Int | None = None,
    jpeg_fancy_upsampling: _bool = False, memory_stats: _bool | None = None,
    output_type: DALIImageType = DALIImageType.RGB, palette_indices: _bool = False,
    preallocate_height_hint: Int | None = None, preallocate_width_hint: Int | None = None,
    split_stages: _bool | None = None, use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Decodes images to HWC. `fn.decoders.image` describes the arguments."""

def image_crop(
    encoded: Arrays | Data, /, *, adjust_orientation: _bool = True, affine: _bool | None = None,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
    cache_type: Literal['', 'threshold', 'largest'] = '', crop: Floats | Array | None = None,
    crop_d: Float | Array = 0.0, crop_h: Float | Array = 0.0, crop_pos_x: Float | Array = 0.5,
    crop_pos_y: Float | Array = 0.5, crop_pos_z: Float | Array = 0.5, crop_w: Float | Array = 0.0,
    device_memory_padding: Int | None = None, device_memory_padding_jpeg2k: Int | None = None,
    dtype: Dtype = DALIDataType.UINT8, host_memory_padding: Int | None = None,
    host_memory_padding_jpeg2k: Int | None = None, hw_decoder_load: Float = 0.65,
    hybrid_huffman_threshold: Int | None = None, jpeg_fancy_upsampling: _bool = False,
    memory_stats: _bool | None = None, output_type: DALIImageType = DALIImageType.RGB,
    palette_indices: _bool = False, preallocate_height_hint: Int | None = None,
    preallocate_width_hint: Int | None = None, rounding: Literal['round', 'truncate'] = 'round',
    split_stages: _bool | None = None, use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Decodes a window of each image to HWC, with the same result as `fn.crop` on the full image. `fn.decoders.image_crop` describes the arguments."""

def image_random_crop(
    encoded: Arrays | Data, /, *, adjust_orientation: _bool = True, affine: _bool | None = None,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
    cache_type: Literal['', 'threshold', 'largest'] = '', device_memory_padding: Int | None = None,
    device_memory_padding_jpeg2k: Int | None = None, dtype: Dtype = DALIDataType.UINT8,
    host_memory_padding: Int | None = None, host_memory_padding_jpeg2k: Int | None = None,
    hw_decoder_load: Float = 0.65, hybrid_huffman_threshold: Int | None = None,
    jpeg_fancy_upsampling: _bool = False, memory_stats: _bool | None = None, num_attempts: Int = 10,
    output_type: DALIImageType = DALIImageType.RGB, palette_indices: _bool = False,
    preallocate_height_hint: Int | None = None, preallocate_width_hint: Int | None = None,
    random_area: Floats = (0.08, 1.0), random_aspect_ratio: Floats = (0.75, 1.3333333333333333),
    split_stages: _bool | None = None, use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> Arrays:
    """Decodes a window of random area, aspect ratio and position of each image, to HWC. `fn.decoders.image_random_crop` describes the arguments."""

def image_slice(
    encoded: Arrays | Data, anchor: Array | Data | None = None, shape_input: Array | Data | None = None, /, *,
    adjust_orientation: _bool = True, affine: _bool | None = None, axes: Ints | Array | None = None,
    axis_names: Str = 'WH', cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0,
    cache_threshold: Int = 0, cache_type: Literal['', 'threshold', 'largest'] = '',
    device_memory_padding: Int | None = None, device_memory_padding_jpeg2k: Int | None = None,
    dtype: Dtype = DALIDataType.UINT8, end: Ints | Array | None = None,
    host_memory_padding: Int | None = None, host_memory_padding_jpeg2k: Int | None = None,
    hw_decoder_load: Float = 0.65, hybrid_huffman_threshold: Int | None = None,
    jpeg_fancy_upsampling: _bool = False, memory_stats: _bool | None = None, normalized_anchor: _bool = True,
    normalized_shape: _bool = True, output_type: DALIImageType = DALIImageType.RGB,
    palette_indices: _bool = False, preallocate_height_hint: Int | None = None,
    preallocate_width_hint: Int | None = None, rel_end: Floats | Array | None = None,
    rel_shape: Floats | Array | None = None, rel_start: Floats | Array | None = None,
    shape: Ints | Array | None = None, split_stages: _bool | None = None, start: Ints | Array | None = None,
    use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Decodes a window of each image to HWC, with the same result as `fn.slice` on the full image. `fn.decoders.image_slice` describes the arguments."""

def inflate(
    data: Arrays | Data, /, *, algorithm: Str = 'LZ4', check_output_size: _bool = False,
    chunk_offsets: Ints | Array | None = None, chunk_sizes: Ints | Array | None = None,
    dtype: Dtype = DALIDataType.UINT8, layout: str = '', sequence_axis_name: str = 'F', shape: Ints | Array,
    device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Decompresses arrays. `fn.decoders.inflate` describes the arguments."""

def numpy(
    encoded: Arrays | Data, /, *, dtype: Dtype | None = None, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Decodes arrays in the format of .npy files. `fn.decoders.numpy` describes the arguments."""

def video(
    encoded: Arrays | Data, /, *, affine: _bool = True, build_index: _bool = True,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
    cache_type: Literal['', 'threshold', 'largest'] = '', end_frame: Int | Array | None = None,
    fill_value: Ints = (0,), frames: Ints | Array | None = None,
    pad_mode: Literal['none', 'constant', 'edge', 'repeat', 'reflect_1001', 'symmetric', 'reflect_101', 'reflect'] = 'constant',
    sequence_length: Int | Array | None = None, start_frame: Int | Array | None = None,
    stride: Int | Array | None = None, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Decodes frames of videos to FHWC, RGB. `fn.decoders.video` describes the arguments."""

