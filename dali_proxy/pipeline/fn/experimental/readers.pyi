# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.experimental.readers`."""

from builtins import bool as _bool
from typing import Any, Literal, overload
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, Int
from dali_proxy.pipeline._annotations import Ints, Str, Strs
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIImageType


__all__ = ['fits', 'video']

def fits(
    *, dont_use_mmap: _bool = False, dtypes: Any = None, file_filter: Str = '*.fits',
    file_list: Str | None = None, file_root: Str | None = None, files: Strs | None = None,
    hdu_indices: Ints = (2,), initial_fill: Int = 1024, lazy_init: _bool = False, num_shards: Int = 1,
    pad_last_batch: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
    read_ahead: _bool = False, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
    shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
    tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> Any:
    """Reads images from FITS files, as arrays of any number of dimensions.

    The files come from `file_root` and the folders directly below it, or from `file_list` or `files`. Each output is one
    unit (HDU) of a file. Compressed images are decompressed, and values are scaled as their header says.

    Devices: cpu, gpu.

    Args:
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        dtypes (object, default None): Dtype to convert each output to, as `fn.cast` does; by default that of the file.
        file_filter (str, default '*.fits'): Glob pattern of file names in `file_root`.
        file_list (str, default None): Text file with a path on each line. Paths are relative to `file_root`, by default to the folder of this text file.
        file_root (str, default None): Folder of the files; or the folder that `files` and `file_list` are relative to.
        files (str or list of str, default None): Paths of the files.
        hdu_indices (int or list of int, default (2,)): HDU of each output, counted from 1: 1 is the primary HDU, and 2 is the one after it.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        shuffle_after_epoch (bool, default False): Shuffle the whole dataset before each epoch, then divide it into shards. Can't be combined with `random_shuffle` or `stick_to_shard`.
        shuffle_after_epoch_seed (int, default 0): Seed of `shuffle_after_epoch`. All shards need the same seed. With the default, the order is the same in every run.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

@overload
def video(*, enable_timestamps: Literal[True], **arguments: Any) -> list[DataNode]: ...
@overload
def video(
    *, dont_use_mmap: _bool = False, enable_frame_num: Literal['none', 'scalar', 'sequence'] = 'none',
    enable_timestamps: Literal[False] = False, file_list: Str | None = None,
    file_list_format: Literal['frames', 'timestamps'] = 'timestamps', file_list_include_end: _bool = True,
    file_list_rounding: Literal['start_down_end_up', 'start_up_end_down', 'all_up', 'all_down'] = 'start_down_end_up',
    file_root: Str | None = None, filenames: Strs | None = None, fill_value: Ints = (0,),
    image_type: DALIImageType = DALIImageType.RGB, initial_fill: Int = 1024, labels: Ints | None = None,
    lazy_init: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False,
    pad_mode: Literal['none', 'constant', 'edge', 'repeat', 'reflect_1001', 'symmetric', 'reflect_101', 'reflect'] = 'none',
    prefetch_queue_depth: Int = 1, random_shuffle: _bool = False, read_ahead: _bool = False,
    sequence_length: Int, shard_id: Int = 0, skip_cached_images: _bool = False, step: Int = -1,
    stick_to_shard: _bool = False, stride: Int = 1, tensor_init_bytes: Int = 1048576,
    uniform_sample: _bool = False, **common: Unpack[Common],
) -> DataNode:
    """Reads sequences of frames from videos, FHWC, like `fn.readers.video` but with different arguments.

    A complete sequence needs `sequence_length * stride` frames of its video, including the frames that `stride` skips
    after its last frame. `pad_mode` determines how an incomplete sequence at the end of a video is handled. The outputs
    are the frames, uint8, and, on request, labels, frame numbers and time stamps, in this order.

    Devices: cpu, gpu.

    Args:
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        enable_frame_num (str, default 'none'): Return frame numbers as an additional int32 output. 'scalar' or True returns the number of the first frame, shape (1,). 'sequence' returns the number of every frame, -1 for padding.
        enable_timestamps (bool, default False): Return the time of each frame in seconds as an additional float64 output, -1 for padding.
        file_list (str, default None): Text file with `path label [start [end]]` on each line. Paths are relative to the folder of this text file.
        file_list_format (str, default 'timestamps'): Unit of start and end in `file_list`: 'timestamps' in seconds, or 'frames'. Negative frame numbers count from the end. The end is exclusive.
        file_list_include_end (bool, default True): Accepted for compatibility; the end is exclusive.
        file_list_rounding (str, default 'start_down_end_up'): Rounding of a start or an end that lies between two frames.
        file_root (str, default None): Folder with one subfolder of videos per label, in the order of their names; or a folder of videos, which all get label 0.
        filenames (str or list of str, default None): Paths of the videos.
        fill_value (int or list of int, default (0,)): Color for `pad_mode='constant'`: one value, or one per channel.
        image_type (DALIImageType, default DALIImageType.RGB): Color space of the output: RGB, BGR, GRAY, or YCbCr as stored in the video.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        labels (int or list of int, default None): Labels of `filenames`, returned as an additional output. With an empty list, videos are numbered.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        pad_mode (str, default 'none'): Padding of an incomplete sequence at the end of a video. 'none' leaves the sequence out. 'constant' fills it with `fill_value`. 'edge' or 'repeat' repeats the last frame. 'reflect_1001' or 'symmetric' continues with the frames in reverse order, including the last one; 'reflect_101' or 'reflect', excluding it.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        sequence_length (int): Number of frames in a sequence.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        step (int, default -1): Distance between the starts of consecutive sequences, in frames. If it isn't positive, `sequence_length * stride` is used.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        stride (int, default 1): Distance between consecutive frames of a sequence.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        uniform_sample (bool, default False): Return one sequence per video, whose frames are evenly spaced from the first to the last. Frames of a short video are repeated. Then `stride`, `step` and `pad_mode` have no effect.
        device (str): device of the operator; by default that of its inputs.
    """

