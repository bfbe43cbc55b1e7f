# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.readers`."""

from builtins import bool as _bool
from typing import Any, Literal
from dali_proxy.pipeline._annotations import Array, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints, Str, Strs
from dali_proxy.pipeline._dynamic.readers import Reader
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType


__all__ = [
    'COCO', 'Caffe', 'Caffe2', 'File', 'MXNet', 'NemoAsr', 'Numpy', 'Sequence', 'TFRecord', 'Video',
    'VideoResize', 'Webdataset',
]

class Caffe(Reader):
    """Reads images and labels from LMDB databases of Caffe. `fn.readers.caffe` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, dont_use_mmap: _bool = False, image_available: _bool = True,
        initial_fill: Int = 1024, label_available: _bool = True, lazy_init: _bool = False, num_shards: Int = 1,
        pad_last_batch: _bool = False, path: Strs, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
        read_ahead: _bool = False, shard_id: Int = 0, skip_cached_images: _bool = False,
        stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
        bytes_per_sample_hint: Ints | None = None, preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

class Caffe2(Reader):
    """Reads images, labels and other arrays from LMDB databases of Caffe2. `fn.readers.caffe2` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, additional_inputs: Int = 0, bbox: _bool = False,
        dont_use_mmap: _bool = False, image_available: _bool = True, initial_fill: Int = 1024,
        label_type: Int = 0, lazy_init: _bool = False, num_labels: Int = 1, num_shards: Int = 1,
        pad_last_batch: _bool = False, path: Strs, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
        read_ahead: _bool = False, shard_id: Int = 0, skip_cached_images: _bool = False,
        stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
        bytes_per_sample_hint: Ints | None = None, preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

class COCO(Reader):
    """Reads images and their annotated objects from a dataset in COCO's format. `fn.readers.coco` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, annotations_file: Str | None = None,
        avoid_class_remapping: _bool = False, dont_use_mmap: _bool = False, dump_meta_files: _bool | None = None,
        dump_meta_files_path: Str | None = None, file_root: Str | None = None, image_ids: _bool = False,
        images: Strs | None = None, include_iscrowd: _bool = True, initial_fill: Int = 1024,
        lazy_init: _bool = False, ltrb: _bool = False, masks: _bool | None = None,
        meta_files_path: Str | None = None, num_shards: Int = 1, pad_last_batch: _bool = False,
        pixelwise_masks: _bool = False, polygon_masks: _bool = False, prefetch_queue_depth: Int = 1,
        preprocessed_annotations: Str | None = None, random_shuffle: _bool = False, ratio: _bool = False,
        read_ahead: _bool = False, save_img_ids: _bool | None = None,
        save_preprocessed_annotations: _bool = False, save_preprocessed_annotations_dir: Str | None = None,
        shard_id: Int = 0, shuffle_after_epoch: _bool = False, shuffle_after_epoch_seed: Int = 0,
        size_threshold: Float = 0.1, skip_cached_images: _bool = False, skip_empty: _bool = False,
        stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
        bytes_per_sample_hint: Ints | None = None, preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

class File(Reader):
    """Reads files and their labels. `fn.readers.file` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, case_sensitive_filter: _bool = False,
        dir_filters: Strs | None = None, dont_use_mmap: _bool = False, file_filters: Strs = ...,
        file_list: Str | None = None, file_root: Str | None = None, files: Strs | None = None,
        initial_fill: Int = 1024, labels: Ints | None = None, lazy_init: _bool = False, num_shards: Int = 1,
        pad_last_batch: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
        read_ahead: _bool = False, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
        shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
        tensor_init_bytes: Int = 1048576, bytes_per_sample_hint: Ints | None = None, preserve: _bool = False,
        seed: Int = -1,
    ) -> None: ...

class MXNet(Reader):
    """Reads images and labels from RecordIO files of MXNet. `fn.readers.mxnet` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, dont_use_mmap: _bool = False, index_path: Strs | None = None,
        initial_fill: Int = 1024, lazy_init: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False,
        path: Strs, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False, read_ahead: _bool = False,
        shard_id: Int = 0, shuffle_after_epoch: _bool = False, shuffle_after_epoch_seed: Int = 0,
        skip_cached_images: _bool = False, stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
        use_o_direct: _bool = False, bytes_per_sample_hint: Ints | None = None, preserve: _bool = False,
        seed: Int = -1,
    ) -> None: ...

class NemoAsr(Reader):
    """Reads speech and its transcripts, as listed by manifests of NVIDIA NeMo. `fn.readers.nemo_asr` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, antialias: _bool = True, dont_use_mmap: _bool = False,
        downmix: _bool = True, dtype: DALIDataType = DALIDataType.FLOAT, initial_fill: Int = 1024,
        lazy_init: _bool = False, manifest_filepaths: Strs, max_duration: Float = 0.0, min_duration: Float = 0.0,
        normalize_text: _bool | None = None, num_shards: Int = 1, pad_last_batch: _bool = False,
        prefetch_queue_depth: Int = 1, quality: Float = 50.0, random_shuffle: _bool = False,
        read_ahead: _bool = False, read_idxs: _bool = False, read_sample_rate: _bool = True,
        read_text: _bool = True, sample_rate: Float = -1.0, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
        shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
        tensor_init_bytes: Int = 1048576, bytes_per_sample_hint: Ints | None = None, preserve: _bool = False,
        seed: Int = -1,
    ) -> None: ...

class Numpy(Reader):
    """Reads arrays from .npy files, or regions of them. `fn.readers.numpy` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, cache_header_information: _bool = False,
        dont_use_mmap: _bool = False, file_filter: Str = '*.npy', file_list: Str | None = None,
        file_root: Str | None = None, files: Strs | None = None, fill_value: Float = 0.0,
        initial_fill: Int = 1024, lazy_init: _bool = False, num_shards: Int = 1,
        out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape'] = 'error',
        pad_last_batch: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
        read_ahead: _bool = False, register_buffers: _bool = True, rel_roi_end: Floats | Array | None = None,
        rel_roi_shape: Floats | Array | None = None, rel_roi_start: Floats | Array | None = None,
        roi_axes: Ints = (), roi_end: Ints | Array | None = None, roi_shape: Ints | Array | None = None,
        roi_start: Ints | Array | None = None, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
        shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
        tensor_init_bytes: Int = 1048576, use_o_direct: _bool = False, bytes_per_sample_hint: Ints | None = None,
        preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

class Sequence(Reader):
    """Reads sequences of frames from image files. `fn.readers.sequence` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, dont_use_mmap: _bool = False, file_root: Str,
        image_type: DALIImageType = DALIImageType.RGB, initial_fill: Int = 1024, lazy_init: _bool = False,
        num_shards: Int = 1, pad_last_batch: _bool = False, prefetch_queue_depth: Int = 1,
        random_shuffle: _bool = False, read_ahead: _bool = False, sequence_length: Int, shard_id: Int = 0,
        skip_cached_images: _bool = False, step: Int = 1, stick_to_shard: _bool = False, stride: Int = 1,
        tensor_init_bytes: Int = 1048576, bytes_per_sample_hint: Ints | None = None, preserve: _bool = False,
        seed: Int = -1,
    ) -> None: ...

class TFRecord(Reader):
    """Reads features of TensorFlow's examples from TFRecord files. `fn.readers.tfrecord` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, dont_use_mmap: _bool = False, features: Any,
        index_path: Strs | None = None, initial_fill: Int = 1024, lazy_init: _bool = False, num_shards: Int = 1,
        pad_last_batch: _bool = False, path: Strs, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
        read_ahead: _bool = False, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
        shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
        tensor_init_bytes: Int = 1048576, use_o_direct: _bool = False, bytes_per_sample_hint: Ints | None = None,
        preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

class Video(Reader):
    """Reads sequences of frames from videos, FHWC. `fn.readers.video` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, additional_decode_surfaces: Int = 2, channels: Int = 3,
        dont_use_mmap: _bool = False, dtype: DALIDataType = DALIDataType.UINT8,
        enable_frame_num: Literal['none', 'scalar', 'sequence'] = 'none', enable_timestamps: _bool = False,
        file_list: Str | None = None, file_list_frame_num: _bool = False,
        file_list_include_preceding_frame: _bool = False, file_root: Str | None = None,
        filenames: Strs | None = None, image_type: DALIImageType = DALIImageType.RGB, initial_fill: Int = 1024,
        labels: Ints | None = None, lazy_init: _bool = False, normalized: _bool = False, num_shards: Int = 1,
        pad_last_batch: _bool = False, pad_sequences: _bool = False, prefetch_queue_depth: Int = 1,
        random_shuffle: _bool = False, read_ahead: _bool = False, sequence_length: Int, shard_id: Int = 0,
        skip_cached_images: _bool = False, skip_vfr_check: _bool = False, step: Int = -1,
        stick_to_shard: _bool = False, stride: Int = 1, tensor_init_bytes: Int = 1048576,
        bytes_per_sample_hint: Ints | None = None, preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

class VideoResize(Reader):
    """Reads sequences of frames from videos, FHWC, and resizes them. `fn.readers.video_resize` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, additional_decode_surfaces: Int = 2, antialias: _bool = True,
        channels: Int = 3, dont_use_mmap: _bool = False, dtype: DALIDataType = DALIDataType.UINT8,
        enable_frame_num: Literal['none', 'scalar', 'sequence'] = 'none', enable_timestamps: _bool = False,
        file_list: Str | None = None, file_list_frame_num: _bool = False,
        file_list_include_preceding_frame: _bool = False, file_root: Str | None = None,
        filenames: Strs | None = None, image_type: DALIImageType = DALIImageType.RGB, initial_fill: Int = 1024,
        interp_type: DALIInterpType | Array = DALIInterpType.INTERP_LINEAR, labels: Ints | None = None,
        lazy_init: _bool = False, mag_filter: DALIInterpType | Array | None = None,
        max_size: Floats | None = None, min_filter: DALIInterpType | Array | None = None,
        minibatch_size: Int = 32, mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
        normalized: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False,
        pad_sequences: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
        read_ahead: _bool = False, resize_longer: Float | Array = 0.0, resize_shorter: Float | Array = 0.0,
        resize_x: Float | Array = 0.0, resize_y: Float | Array = 0.0, resize_z: Float | Array = 0.0,
        roi_end: Floats | Array | None = None, roi_relative: _bool = False,
        roi_start: Floats | Array | None = None, sequence_length: Int, shard_id: Int = 0,
        size: Floats | Array | None = None, skip_cached_images: _bool = False, skip_vfr_check: _bool = False,
        step: Int = -1, stick_to_shard: _bool = False, stride: Int = 1, subpixel_scale: _bool = True,
        temp_buffer_hint: Int = 0, tensor_init_bytes: Int = 1048576, bytes_per_sample_hint: Ints | None = None,
        preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

class Webdataset(Reader):
    """Reads samples of several files from tar archives. `fn.readers.webdataset` describes the arguments."""
    def __init__(
        self, max_batch_size: int | None = None, name: str | None = None, device: Any = None, *,
        enable_checkpointing: _bool = False, case_sensitive_extensions: _bool = True,
        dont_use_mmap: _bool = False, dtypes: Any = None, ext: Strs, index_paths: Strs | None = None,
        initial_fill: Int = 1024, lazy_init: _bool = False, missing_component_behavior: Str = 'empty',
        num_shards: Int = 1, pad_last_batch: _bool = False, paths: Strs, prefetch_queue_depth: Int = 1,
        random_shuffle: _bool = False, read_ahead: _bool = False, shard_id: Int = 0,
        shuffle_after_epoch: _bool = False, shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False,
        stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
        bytes_per_sample_hint: Ints | None = None, preserve: _bool = False, seed: Int = -1,
    ) -> None: ...

