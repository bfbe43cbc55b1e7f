# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.ops.experimental.readers`."""

from builtins import bool as _bool
from typing import Any, Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, Int
from dali_proxy.pipeline._annotations import Ints, Str, Strs
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline._operator_api.operator_class import OperatorClass
from dali_proxy.pipeline.types import DALIImageType


__all__ = ['Fits', 'Video']

class Fits(OperatorClass):
    """Reads images from FITS files, as arrays of any number of dimensions. `fn.experimental.readers.fits` describes the arguments."""
    def __init__(
        self, *, dont_use_mmap: _bool = False, dtypes: Any = None, file_filter: Str = '*.fits',
        file_list: Str | None = None, file_root: Str | None = None, files: Strs | None = None,
        hdu_indices: Ints = (2,), initial_fill: Int = 1024, lazy_init: _bool = False, num_shards: Int = 1,
        pad_last_batch: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
        read_ahead: _bool = False, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
        shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
        tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
    ) -> None: ...
    def __call__(self, **arguments: Any) -> Any: ...

class Video(OperatorClass):
    """Reads sequences of frames from videos, FHWC, like `fn.readers.video` but with different arguments. `fn.experimental.readers.video` describes the arguments."""
    def __init__(
        self, *, dont_use_mmap: _bool = False, enable_frame_num: Literal['none', 'scalar', 'sequence'] = 'none',
        enable_timestamps: _bool = False, file_list: Str | None = None,
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
    ) -> None: ...
    def __call__(self, **arguments: Any) -> DataNode: ...

