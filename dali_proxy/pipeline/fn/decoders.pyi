# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.decoders`."""

from builtins import bool as _bool
from typing import Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes, Str
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIDataType, DALIImageType


__all__ = ['audio', 'image', 'image_crop', 'image_random_crop', 'image_slice', 'inflate', 'numpy', 'video']

def audio(
    encoded: Nodes | ConstantLike, /, *, antialias: _bool = True, downmix: _bool = False,
    dtype: DALIDataType = DALIDataType.FLOAT, quality: Float = 50.0, sample_rate: Float | DataNode = 0.0,
    **common: Unpack[Common],
) -> list[Nodes]:
    """Decodes audio files: WAV, FLAC, Ogg (Vorbis and Opus), MP3 and other formats of libsndfile.

    The outputs are the signals, of shape (samples, channels), or (samples,) with `downmix`; and the sample rates in hertz,
    float32 without dimensions.

    Devices: cpu.

    Args:
        encoded: Contents of audio files, 1-D uint8.
        antialias (bool, default True): Remove frequencies above half of the lower sample rate. With False, and by default in scripts that import `nvidia.dali`, they are folded to lower frequencies, as in DALI.
        downmix (bool, default False): Return the mean of the channels.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the signals: INT16, INT32, or FLOAT from -1 to 1.
        quality (float, default 50.0): Quality from 0 to 100: the filter has 3 lobes on each side at 0, 16 at 50 and 64 at 100.
        sample_rate (float or DataNode, default 0.0): Sample rate to resample to, in hertz; by default that of the file.
        device (str): device of the operator; by default that of its inputs.
    """

def image(
    encoded: Nodes | ConstantLike, /, *, adjust_orientation: _bool = True, affine: _bool | None = None,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
    cache_type: Literal['', 'threshold', 'largest'] = '', device_memory_padding: Int | None = None,
    device_memory_padding_jpeg2k: Int | None = None, dtype: DALIDataType = DALIDataType.UINT8,
    host_memory_padding: Int | None = None, host_memory_padding_jpeg2k: Int | None = None,
    hw_decoder_load: Float = 0.65, hybrid_huffman_threshold: Int | None = None,
    jpeg_fancy_upsampling: _bool = False, memory_stats: _bool | None = None,
    output_type: DALIImageType = DALIImageType.RGB, palette_indices: _bool = False,
    preallocate_height_hint: Int | None = None, preallocate_width_hint: Int | None = None,
    split_stages: _bool | None = None, use_chunk_allocator: _bool | None = None, use_fast_idct: _bool = False,
    **common: Unpack[Common],
) -> Nodes:
    """Decodes images to HWC. With device='mixed', the bytes are on the CPU and the GPU decodes them.

    Devices: cpu, mixed.

    Args:
        encoded: Encoded images: the bytes of JPEG, PNG, BMP, TIFF, PNM, PFM, JPEG 2000, WebP, GIF and other files.
        adjust_orientation (bool, default True): Rotate and flip the image according to its EXIF orientation.
        affine (bool, default None): Accepted for compatibility; memory is managed automatically.
        cache_batch_copy (bool, default True): Copy the kept results of a batch at once, instead of one after another.
        cache_debug (bool, default False): Log what the cache has done when the pipeline is closed.
        cache_size (int, default 0): With device='mixed': megabytes of the GPU's memory in which results are kept for later epochs, with the same bits. All decoders of the process with the same size, threshold and type share it.
        cache_threshold (int, default 0): Size in bytes that a result must exceed to be kept.
        cache_type (str, default ''): Which results are kept: with 'threshold', the default, those larger than `cache_threshold`, until the cache is full; with 'largest', the largest of the first epoch that fit. They are stored in the second epoch.
        device_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        device_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the output. Integers are scaled to its range, for FLOAT from 0 to 1. The values of float files (TIFF, PFM) are kept as FLOAT; for other dtypes, they are clipped to 0 to 1, with a warning, and scaled.
        host_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        host_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        hw_decoder_load (float, default 0.65): 0 disables the JPEG engine of the GPU. With other values, the engine, if there is one, decodes all baseline JPEGs without EXIF rotation, and CUDA decodes the others.
        hybrid_huffman_threshold (int, default None): Accepted for compatibility; memory is managed automatically.
        jpeg_fancy_upsampling (bool, default False): Interpolate the chroma of JPEGs with device='mixed'; slower, but closer to the CPU, which always does this.
        memory_stats (bool, default None): Accepted for compatibility; memory is managed automatically.
        output_type (DALIImageType, default DALIImageType.RGB): Colour model of the output: RGB, BGR, GRAY, YCbCr (BT.601, 16 to 235) or ANY_DATA (that of the file). With device='mixed', the last two are decoded on the CPU.
        palette_indices (bool, default False): Decode an image with a palette to one channel with its indices, as PIL does, instead of its colors: in masks, these are the classes. Images without a palette are decoded as usual, with a warning if `dtype` scales their values: pass UINT16 for masks of 16 bits. Needs GRAY or ANY_DATA. DALI doesn't have this argument.
        preallocate_height_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        preallocate_width_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        split_stages (bool, default None): Accepted for compatibility; memory is managed automatically.
        use_chunk_allocator (bool, default None): Accepted for compatibility; memory is managed automatically.
        use_fast_idct (bool, default False): Decode JPEGs on the CPU with a faster, less accurate inverse DCT.
        device (str): device of the operator; by default that of its inputs.
    """

def image_crop(
    encoded: Nodes | ConstantLike, /, *, adjust_orientation: _bool = True, affine: _bool | None = None,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
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
) -> Nodes:
    """Decodes a window of each image to HWC, with the same result as `fn.crop` on the full image.

    Devices: cpu, mixed.

    Args:
        encoded: Encoded images: the bytes of JPEG, PNG, BMP, TIFF, PNM, PFM, JPEG 2000, WebP, GIF and other files.
        adjust_orientation (bool, default True): Rotate and flip the image according to its EXIF orientation.
        affine (bool, default None): Accepted for compatibility; memory is managed automatically.
        cache_batch_copy (bool, default True): Copy the kept results of a batch at once, instead of one after another.
        cache_debug (bool, default False): Log what the cache has done when the pipeline is closed.
        cache_size (int, default 0): With device='mixed': megabytes of the GPU's memory in which results are kept for later epochs, with the same bits. All decoders of the process with the same size, threshold and type share it.
        cache_threshold (int, default 0): Size in bytes that a result must exceed to be kept.
        cache_type (str, default ''): Which results are kept: with 'threshold', the default, those larger than `cache_threshold`, until the cache is full; with 'largest', the largest of the first epoch that fit. They are stored in the second epoch.
        crop (float or list of float or DataNode, default None): Extents of the window in pixels: (height, width) or (depth, height, width). 0 means the whole axis.
        crop_d (float or DataNode, default 0.0): Depth of the window in voxels; needs crop_h and crop_w.
        crop_h (float or DataNode, default 0.0): Height of the window in pixels; needs crop_w.
        crop_pos_x (float or DataNode, default 0.5): Horizontal position of the window, from 0 (left) to 1 (right): it starts at crop_pos_x * (W - crop_w).
        crop_pos_y (float or DataNode, default 0.5): Vertical position of the window, from 0 (top) to 1 (bottom).
        crop_pos_z (float or DataNode, default 0.5): Position of the window in depth, from 0 (front) to 1 (back).
        crop_w (float or DataNode, default 0.0): Width of the window in pixels; needs crop_h.
        device_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        device_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the output. Integers are scaled to its range, for FLOAT from 0 to 1. The values of float files (TIFF, PFM) are kept as FLOAT; for other dtypes, they are clipped to 0 to 1, with a warning, and scaled.
        host_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        host_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        hw_decoder_load (float, default 0.65): 0 disables the JPEG engine of the GPU. With other values, the engine, if there is one, decodes all baseline JPEGs without EXIF rotation, and CUDA decodes the others.
        hybrid_huffman_threshold (int, default None): Accepted for compatibility; memory is managed automatically.
        jpeg_fancy_upsampling (bool, default False): Interpolate the chroma of JPEGs with device='mixed'; slower, but closer to the CPU, which always does this.
        memory_stats (bool, default None): Accepted for compatibility; memory is managed automatically.
        output_type (DALIImageType, default DALIImageType.RGB): Colour model of the output: RGB, BGR, GRAY, YCbCr (BT.601, 16 to 235) or ANY_DATA (that of the file). With device='mixed', the last two are decoded on the CPU.
        palette_indices (bool, default False): Decode an image with a palette to one channel with its indices, as PIL does, instead of its colors: in masks, these are the classes. Images without a palette are decoded as usual, with a warning if `dtype` scales their values: pass UINT16 for masks of 16 bits. Needs GRAY or ANY_DATA. DALI doesn't have this argument.
        preallocate_height_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        preallocate_width_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        rounding (str, default 'round'): Rounding of the first pixel of the window: 'round' to nearest, halves away from zero, or 'truncate'.
        split_stages (bool, default None): Accepted for compatibility; memory is managed automatically.
        use_chunk_allocator (bool, default None): Accepted for compatibility; memory is managed automatically.
        use_fast_idct (bool, default False): Decode JPEGs on the CPU with a faster, less accurate inverse DCT.
        device (str): device of the operator; by default that of its inputs.
    """

def image_random_crop(
    encoded: Nodes | ConstantLike, /, *, adjust_orientation: _bool = True, affine: _bool | None = None,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
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
) -> Nodes:
    """Decodes a window of random area, aspect ratio and position of each image, to HWC.

    The windows are those of `fn.random_crop_generator` with the same seed.

    Devices: cpu, mixed.

    Args:
        encoded: Encoded images: the bytes of JPEG, PNG, BMP, TIFF, PNM, PFM, JPEG 2000, WebP, GIF and other files.
        adjust_orientation (bool, default True): Rotate and flip the image according to its EXIF orientation.
        affine (bool, default None): Accepted for compatibility; memory is managed automatically.
        cache_batch_copy (bool, default True): Copy the kept results of a batch at once, instead of one after another.
        cache_debug (bool, default False): Log what the cache has done when the pipeline is closed.
        cache_size (int, default 0): With device='mixed': megabytes of the GPU's memory in which results are kept for later epochs, with the same bits. All decoders of the process with the same size, threshold and type share it.
        cache_threshold (int, default 0): Size in bytes that a result must exceed to be kept.
        cache_type (str, default ''): Which results are kept: with 'threshold', the default, those larger than `cache_threshold`, until the cache is full; with 'largest', the largest of the first epoch that fit. They are stored in the second epoch.
        device_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        device_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the output. Integers are scaled to its range, for FLOAT from 0 to 1. The values of float files (TIFF, PFM) are kept as FLOAT; for other dtypes, they are clipped to 0 to 1, with a warning, and scaled.
        host_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        host_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        hw_decoder_load (float, default 0.65): 0 disables the JPEG engine of the GPU. With other values, the engine, if there is one, decodes all baseline JPEGs without EXIF rotation, and CUDA decodes the others.
        hybrid_huffman_threshold (int, default None): Accepted for compatibility; memory is managed automatically.
        jpeg_fancy_upsampling (bool, default False): Interpolate the chroma of JPEGs with device='mixed'; slower, but closer to the CPU, which always does this.
        memory_stats (bool, default None): Accepted for compatibility; memory is managed automatically.
        num_attempts (int, default 10): Number of attempts to draw an area and an aspect ratio whose window, in whole pixels, fits the image and the range of aspect ratios; if all fail, the largest window that fits is used.
        output_type (DALIImageType, default DALIImageType.RGB): Colour model of the output: RGB, BGR, GRAY, YCbCr (BT.601, 16 to 235) or ANY_DATA (that of the file). With device='mixed', the last two are decoded on the CPU.
        palette_indices (bool, default False): Decode an image with a palette to one channel with its indices, as PIL does, instead of its colors: in masks, these are the classes. Images without a palette are decoded as usual, with a warning if `dtype` scales their values: pass UINT16 for masks of 16 bits. Needs GRAY or ANY_DATA. DALI doesn't have this argument.
        preallocate_height_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        preallocate_width_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        random_area (float or list of float, default (0.08, 1.0)): Range of the window's area, as a fraction of the image's.
        random_aspect_ratio (float or list of float, default (0.75, 1.3333333333333333)): Range of the window's width / height; its logarithm is distributed uniformly.
        split_stages (bool, default None): Accepted for compatibility; memory is managed automatically.
        use_chunk_allocator (bool, default None): Accepted for compatibility; memory is managed automatically.
        use_fast_idct (bool, default False): Decode JPEGs on the CPU with a faster, less accurate inverse DCT.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def image_slice(
    encoded: Nodes | ConstantLike, anchor: Input | None = None, shape_input: Input | None = None, /, *,
    adjust_orientation: _bool = True, affine: _bool | None = None, axes: Ints | DataNode | None = None,
    axis_names: Str = 'WH', cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0,
    cache_threshold: Int = 0, cache_type: Literal['', 'threshold', 'largest'] = '',
    device_memory_padding: Int | None = None, device_memory_padding_jpeg2k: Int | None = None,
    dtype: DALIDataType = DALIDataType.UINT8, end: Ints | DataNode | None = None,
    host_memory_padding: Int | None = None, host_memory_padding_jpeg2k: Int | None = None,
    hw_decoder_load: Float = 0.65, hybrid_huffman_threshold: Int | None = None,
    jpeg_fancy_upsampling: _bool = False, memory_stats: _bool | None = None, normalized_anchor: _bool = True,
    normalized_shape: _bool = True, output_type: DALIImageType = DALIImageType.RGB,
    palette_indices: _bool = False, preallocate_height_hint: Int | None = None,
    preallocate_width_hint: Int | None = None, rel_end: Floats | DataNode | None = None,
    rel_shape: Floats | DataNode | None = None, rel_start: Floats | DataNode | None = None,
    shape: Ints | DataNode | None = None, split_stages: _bool | None = None,
    start: Ints | DataNode | None = None, use_chunk_allocator: _bool | None = None,
    use_fast_idct: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Decodes a window of each image to HWC, with the same result as `fn.slice` on the full image.

    Devices: cpu, mixed.

    Args:
        encoded: Encoded images: the bytes of JPEG, PNG, BMP, TIFF, PNM, PFM, JPEG 2000, WebP, GIF and other files.
        anchor: Positions at which the windows begin, on the CPU.
        shape_input: Extents of the windows, on the CPU.
        adjust_orientation (bool, default True): Rotate and flip the image according to its EXIF orientation.
        affine (bool, default None): Accepted for compatibility; memory is managed automatically.
        axes (int or list of int or DataNode, default None): Axes to slice, in the order of the other arguments; negative ones count from the last. By default `axis_names` defines them.
        axis_names (str, default 'WH'): Axes to slice, as letters of the layout; all axes if empty.
        cache_batch_copy (bool, default True): Copy the kept results of a batch at once, instead of one after another.
        cache_debug (bool, default False): Log what the cache has done when the pipeline is closed.
        cache_size (int, default 0): With device='mixed': megabytes of the GPU's memory in which results are kept for later epochs, with the same bits. All decoders of the process with the same size, threshold and type share it.
        cache_threshold (int, default 0): Size in bytes that a result must exceed to be kept.
        cache_type (str, default ''): Which results are kept: with 'threshold', the default, those larger than `cache_threshold`, until the cache is full; with 'largest', the largest of the first epoch that fit. They are stored in the second epoch.
        device_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        device_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the output. Integers are scaled to its range, for FLOAT from 0 to 1. The values of float files (TIFF, PFM) are kept as FLOAT; for other dtypes, they are clipped to 0 to 1, with a warning, and scaled.
        end (int or list of int or DataNode, default None): Element after the last along each axis.
        host_memory_padding (int, default None): Accepted for compatibility; memory is managed automatically.
        host_memory_padding_jpeg2k (int, default None): Accepted for compatibility; memory is managed automatically.
        hw_decoder_load (float, default 0.65): 0 disables the JPEG engine of the GPU. With other values, the engine, if there is one, decodes all baseline JPEGs without EXIF rotation, and CUDA decodes the others.
        hybrid_huffman_threshold (int, default None): Accepted for compatibility; memory is managed automatically.
        jpeg_fancy_upsampling (bool, default False): Interpolate the chroma of JPEGs with device='mixed'; slower, but closer to the CPU, which always does this.
        memory_stats (bool, default None): Accepted for compatibility; memory is managed automatically.
        normalized_anchor (bool, default True): The anchor input, if float, is a fraction of the extent.
        normalized_shape (bool, default True): The shape input, if float, is a fraction of the extent.
        output_type (DALIImageType, default DALIImageType.RGB): Colour model of the output: RGB, BGR, GRAY, YCbCr (BT.601, 16 to 235) or ANY_DATA (that of the file). With device='mixed', the last two are decoded on the CPU.
        palette_indices (bool, default False): Decode an image with a palette to one channel with its indices, as PIL does, instead of its colors: in masks, these are the classes. Images without a palette are decoded as usual, with a warning if `dtype` scales their values: pass UINT16 for masks of 16 bits. Needs GRAY or ANY_DATA. DALI doesn't have this argument.
        preallocate_height_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        preallocate_width_hint (int, default None): Accepted for compatibility; memory is managed automatically.
        rel_end (float or list of float or DataNode, default None): Like `end`, as a fraction of the extent.
        rel_shape (float or list of float or DataNode, default None): Like `shape`, as a fraction of the extent.
        rel_start (float or list of float or DataNode, default None): Like `start`, as a fraction of the extent.
        shape (int or list of int or DataNode, default None): Extent along each axis.
        split_stages (bool, default None): Accepted for compatibility; memory is managed automatically.
        start (int or list of int or DataNode, default None): First element along each axis.
        use_chunk_allocator (bool, default None): Accepted for compatibility; memory is managed automatically.
        use_fast_idct (bool, default False): Decode JPEGs on the CPU with a faster, less accurate inverse DCT.
        device (str): device of the operator; by default that of its inputs.
    """

def inflate(
    data: Nodes | ConstantLike, /, *, algorithm: Str = 'LZ4', check_output_size: _bool = False,
    chunk_offsets: Ints | DataNode | None = None, chunk_sizes: Ints | DataNode | None = None,
    dtype: DALIDataType = DALIDataType.UINT8, layout: str = '', sequence_axis_name: str = 'F',
    shape: Ints | DataNode, **common: Unpack[Common],
) -> Nodes:
    """Decompresses arrays.

    A sample is one compressed block, or several blocks of arrays with the same shape and dtype: then `chunk_offsets` or
    `chunk_sizes` is required, and the output has the blocks along a new first dimension. The missing end of an array is
    filled with zeros.

    Devices: cpu, gpu.

    Args:
        data: Compressed data, 1-D uint8.
        algorithm (str, default 'LZ4'): Format of the blocks: LZ4, without a frame.
        check_output_size (bool, default False): Accepted for compatibility; sizes are always checked.
        chunk_offsets (int or list of int or DataNode, default None): Start of each block; without `chunk_sizes`, a block ends where the next one begins.
        chunk_sizes (int or list of int or DataNode, default None): Size of each block; without `chunk_offsets`, a block begins where the previous one ends.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the arrays.
        layout (layout str, default ''): Layout of an array.
        sequence_axis_name (layout str, default 'F'): Letter of the dimension of the blocks, put before `layout`.
        shape (int or list of int or DataNode): Shape of an array.
        device (str): device of the operator; by default that of its inputs.
    """

def numpy(
    encoded: Nodes | ConstantLike, /, *, dtype: DALIDataType | None = None, **common: Unpack[Common],
) -> Nodes:
    """Decodes arrays in the format of .npy files. It rejects Python objects, so no code in a file runs.

    Devices: cpu.

    Args:
        encoded: Contents of .npy files, 1-D uint8.
        dtype (DALIDataType, default None): Dtype to convert the output to, as `fn.cast` does; by default that of the file.
        device (str): device of the operator; by default that of its inputs.
    """

def video(
    encoded: Nodes | ConstantLike, /, *, affine: _bool = True, build_index: _bool = True,
    cache_batch_copy: _bool = True, cache_debug: _bool = False, cache_size: Int = 0, cache_threshold: Int = 0,
    cache_type: Literal['', 'threshold', 'largest'] = '', end_frame: Int | DataNode | None = None,
    fill_value: Ints = (0,), frames: Ints | DataNode | None = None,
    pad_mode: Literal['none', 'constant', 'edge', 'repeat', 'reflect_1001', 'symmetric', 'reflect_101', 'reflect'] = 'constant',
    sequence_length: Int | DataNode | None = None, start_frame: Int | DataNode | None = None,
    stride: Int | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Decodes frames of videos to FHWC, RGB.

    The input is the bytes of MP4, Matroska, WebM, AVI and other files. By default all frames are decoded. `frames` selects
    single frames; `start_frame`, `end_frame` or `sequence_length`, and `stride` select a range. Frames are numbered in
    display order, from 0. The output has exactly the selected frames, independent of the keyframes of the video.
    With device='mixed', the CPU reads the container and NVDEC decodes on the GPU; the CPU decodes what NVDEC doesn't
    support.

    Devices: cpu, mixed.

    Args:
        encoded: Encoded videos: the bytes of one file per sample.
        affine (bool, default True): Accepted for compatibility; see `set_affinity` of the pipeline.
        build_index (bool, default True): Accepted for compatibility; the index is always built.
        cache_batch_copy (bool, default True): Copy the kept results of a batch at once, instead of one after another.
        cache_debug (bool, default False): Log what the cache has done when the pipeline is closed.
        cache_size (int, default 0): With device='mixed': megabytes of the GPU's memory in which results are kept for later epochs, with the same bits. All decoders of the process with the same size, threshold and type share it.
        cache_threshold (int, default 0): Size in bytes that a result must exceed to be kept.
        cache_type (str, default ''): Which results are kept: with 'threshold', the default, those larger than `cache_threshold`, until the cache is full; with 'largest', the largest of the first epoch that fit. They are stored in the second epoch.
        end_frame (int or DataNode, default None): Frame after the last frame of a range.
        fill_value (int or list of int, default (0,)): Colour for 'constant': one value per channel, or one for all.
        frames (int or list of int or DataNode, default None): Numbers of frames, in any order. A number may be repeated.
        pad_mode (str, default 'constant'): Replacement of frames after the end: 'constant' for `fill_value`, 'edge' or 'repeat' for the last frame, 'reflect_1001' or 'symmetric' for the frames backwards with the last one repeated, 'reflect_101' or 'reflect' for the frames backwards without repetition. With 'none', ranges are cut, and missing `frames` raise an error.
        sequence_length (int or DataNode, default None): Length of a range, instead of `end_frame`.
        start_frame (int or DataNode, default None): First frame of a range; by default 0.
        stride (int or DataNode, default None): Distance between frames of a range; by default 1.
        device (str): device of the operator; by default that of its inputs.
    """

