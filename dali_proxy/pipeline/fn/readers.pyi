# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.readers`."""

from builtins import bool as _bool
from typing import Any, Literal, overload
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints, Str, Strs
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIDataType, DALIImageType, DALIInterpType


__all__ = [
    'caffe', 'caffe2', 'coco', 'file', 'mxnet', 'nemo_asr', 'numpy', 'sequence', 'tfrecord', 'video',
    'video_resize', 'webdataset',
]

def caffe(
    *, dont_use_mmap: _bool = False, image_available: _bool = True, initial_fill: Int = 1024,
    label_available: _bool = True, lazy_init: _bool = False, num_shards: Int = 1,
    pad_last_batch: _bool = False, path: Strs, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
    read_ahead: _bool = False, shard_id: Int = 0, skip_cached_images: _bool = False,
    stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> list[DataNode]:
    """Reads images and labels from LMDB databases of Caffe.

    The outputs are the bytes of an encoded image, 1-D uint8, or the pixels of a raw image, in the order of the database,
    of shape (height, width, channels); and its label, int32 of shape (1,), or (0,) if the entry has none.

    Devices: cpu.

    Args:
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        image_available (bool, default True): Return images.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        label_available (bool, default True): Return labels.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        path (str or list of str): Paths of the databases: folders with a file data.mdb.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

def caffe2(
    *, additional_inputs: Int = 0, bbox: _bool = False, dont_use_mmap: _bool = False,
    image_available: _bool = True, initial_fill: Int = 1024, label_type: Int = 0, lazy_init: _bool = False,
    num_labels: Int = 1, num_shards: Int = 1, pad_last_batch: _bool = False, path: Strs,
    prefetch_queue_depth: Int = 1, random_shuffle: _bool = False, read_ahead: _bool = False,
    shard_id: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
    tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> list[DataNode]:
    """Reads images, labels and other arrays from LMDB databases of Caffe2.

    The outputs follow in this order:

    - the bytes of an encoded image, 1-D uint8, or the pixels of a raw image of shape (height, width, channels);
    - the label, int32 or float32: of shape (1,), or (`num_labels`,) with sparse labels, which have a second output: their
      indices, or weights if they have any;
    - `additional_inputs` arrays, 1-D int32 or float32;
    - a box, of shape (4,).

    Devices: cpu.

    Args:
        additional_inputs (int, default 0): Number of further arrays.
        bbox (bool, default False): Return boxes.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        image_available (bool, default True): Return images.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        label_type (int, default 0): Type of the labels: 0 for one integer, 1 for indices of labels, 2 for a vector, 3 for indices of labels and their weights, 4 for no label.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_labels (int, default 1): Number of labels, for types 1 and 3.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        path (str or list of str): Paths of the databases: folders with a file data.mdb.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

def coco(
    *, annotations_file: Str | None = None, avoid_class_remapping: _bool = False,
    dont_use_mmap: _bool = False, dump_meta_files: _bool | None = None,
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
    stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> list[DataNode]:
    """Reads images and their annotated objects from a dataset in COCO's format.

    The first three outputs are the bytes of the image file, 1-D uint8; the boxes of the objects, float32 of shape (M, 4),
    as x, y, width and height; and their labels, int32 of shape (M,), with categories numbered from 1. Optional outputs
    follow in this order:

    - `polygon_masks`: polygons, int32 of shape (P, 3), as object, first vertex and end; and vertices, float32 of shape
      (V, 2).
    - `pixelwise_masks`: the label of each pixel, int32 of shape (height, width, 1). Pixels without an object are 0. Where
      objects overlap, the largest label counts.
    - `image_ids`: the id of the image, int32 of shape (1,).

    Images are sorted by id. Objects whose outlines are run lengths have no polygons.

    Devices: cpu.

    Args:
        annotations_file (str, default None): Path of the JSON file with the annotations.
        avoid_class_remapping (bool, default False): Use the ids of the categories as labels.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        dump_meta_files (bool, default None): Deprecated name of `save_preprocessed_annotations`.
        dump_meta_files_path (str, default None): Deprecated name of `save_preprocessed_annotations_dir`.
        file_root (str, default None): Folder that the paths of the images are relative to.
        image_ids (bool, default False): Return the id of each image.
        images (str or list of str, default None): Paths of the images to read, as in the annotation file, in this order.
        include_iscrowd (bool, default True): Include objects that are marked as crowds.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        ltrb (bool, default False): Return boxes as left, top, right and bottom.
        masks (bool, default None): Deprecated: `polygon_masks`, but counted in coordinates, 2 per vertex.
        meta_files_path (str, default None): Deprecated name of `preprocessed_annotations`.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        pixelwise_masks (bool, default False): Return the label of each pixel.
        polygon_masks (bool, default False): Return polygons and vertices.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        preprocessed_annotations (str, default None): Folder with annotations that `save_preprocessed_annotations` wrote, here or in NVIDIA DALI, instead of `annotations_file`. They are read faster. `include_iscrowd` has no effect on them; other arguments that select or convert objects are errors.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        ratio (bool, default False): Return boxes and vertices relative to the image's width and height.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        save_img_ids (bool, default None): Deprecated name of `image_ids`.
        save_preprocessed_annotations (bool, default False): Write the selected images and objects.
        save_preprocessed_annotations_dir (str, default None): Folder to write them to.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        shuffle_after_epoch (bool, default False): Shuffle the whole dataset before each epoch, then divide it into shards. Can't be combined with `random_shuffle` or `stick_to_shard`.
        shuffle_after_epoch_seed (int, default 0): Seed of `shuffle_after_epoch`. All shards need the same seed. With the default, the order is the same in every run.
        size_threshold (float, default 0.1): Smallest width and height of an object, in pixels.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        skip_empty (bool, default False): Skip images without objects.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

def file(
    *, case_sensitive_filter: _bool = False, dir_filters: Strs | None = None, dont_use_mmap: _bool = False,
    file_filters: Strs = ..., file_list: Str | None = None, file_root: Str | None = None,
    files: Strs | None = None, initial_fill: Int = 1024, labels: Ints | None = None, lazy_init: _bool = False,
    num_shards: Int = 1, pad_last_batch: _bool = False, prefetch_queue_depth: Int = 1,
    random_shuffle: _bool = False, read_ahead: _bool = False, shard_id: Int = 0,
    shuffle_after_epoch: _bool = False, shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False,
    stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> list[DataNode]:
    """Reads files and their labels.

    The files come from the folders directly below `file_root`, or from `file_list` or `files`. With `file_root`, folders
    and files are sorted by name, and the label of a file is the index of its folder. The outputs are the bytes of the
    file, 1-D uint8, and its label, int32 of shape (1,).

    If a file can't be read, its batch fails; the next batch is read as usual.

    Devices: cpu.

    Args:
        case_sensitive_filter (bool, default False): Match the patterns case-sensitively.
        dir_filters (str or list of str, default None): Glob patterns: the name of a folder must match one of them; by default all folders are read.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        file_filters (str or list of str, default ('*.jpg', '*.jpeg', '*.png', '*.bmp', '*.tif', '*.tiff', '*.pnm', '*.ppm', '*.pgm', '*.pbm', '*.jp2', '*.webp', '*.flac', '*.ogg', '*.wav')): Glob patterns: the name of a file must match one of them.
        file_list (str, default None): Text file with a path and a non-negative label on each line. Paths are relative to `file_root`, by default to the folder of this text file.
        file_root (str, default None): Folder with one subfolder per label; or the folder that the paths in `files` and `file_list` are relative to.
        files (str or list of str, default None): Paths of the files.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        labels (int or list of int, default None): Labels of `files`; by default their positions in the list.
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

def mxnet(
    *, dont_use_mmap: _bool = False, index_path: Strs | None = None, initial_fill: Int = 1024,
    lazy_init: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False, path: Strs,
    prefetch_queue_depth: Int = 1, random_shuffle: _bool = False, read_ahead: _bool = False,
    shard_id: Int = 0, shuffle_after_epoch: _bool = False, shuffle_after_epoch_seed: Int = 0,
    skip_cached_images: _bool = False, stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
    use_o_direct: _bool = False, **common: Unpack[Common],
) -> list[DataNode]:
    """Reads images and labels from RecordIO files of MXNet.

    The outputs are the bytes of the image file, 1-D uint8; and its labels, float32, 1-D.

    An index file has a line with key and offset for each record. Records are read in the order of the file.

    Devices: cpu.

    Args:
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        index_path (str or list of str, default None): For each file, the index file with the offsets of its records. By default, the files are scanned when the reader is created.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        path (str or list of str): Paths of the files.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        shuffle_after_epoch (bool, default False): Shuffle the order of the files before each epoch, then divide their records into shards. Can be combined with `random_shuffle`, but not with `stick_to_shard`.
        shuffle_after_epoch_seed (int, default 0): Seed of `shuffle_after_epoch`. All shards need the same seed. With the default, the order is the same in every run.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        use_o_direct (bool, default False): Accepted for compatibility; files are read through the cache.
        device (str): device of the operator; by default that of its inputs.
    """

def nemo_asr(
    *, antialias: _bool = True, dont_use_mmap: _bool = False, downmix: _bool = True,
    dtype: DALIDataType = DALIDataType.FLOAT, initial_fill: Int = 1024, lazy_init: _bool = False,
    manifest_filepaths: Strs, max_duration: Float = 0.0, min_duration: Float = 0.0,
    normalize_text: _bool | None = None, num_shards: Int = 1, pad_last_batch: _bool = False,
    prefetch_queue_depth: Int = 1, quality: Float = 50.0, random_shuffle: _bool = False,
    read_ahead: _bool = False, read_idxs: _bool = False, read_sample_rate: _bool = True,
    read_text: _bool = True, sample_rate: Float = -1.0, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
    shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
    tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> list[DataNode]:
    """Reads speech and its transcripts, as listed by manifests of NVIDIA NeMo.

    Each line of a manifest is a JSON object with the path of an audio file as "audio_filepath", and optionally the "offset"
    and the "duration" in seconds of a segment of this file, and its "text". Other lines are skipped with a warning.

    The outputs are the signal, of shape (samples,), or (samples, channels) without `downmix`; the sample rate of the file,
    float32 without dimensions; the text in UTF-8, 1-D uint8; and the index of the entry in its manifest, int64 of
    shape (1,). Entries that `min_duration` and `max_duration` exclude aren't counted.

    Devices: cpu.

    Args:
        antialias (bool, default True): Remove frequencies above half of the lower sample rate. With False, and by default in scripts that import `nvidia.dali`, they are folded to lower frequencies, as in DALI.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        downmix (bool, default True): Return the mean of the channels.
        dtype (DALIDataType, default DALIDataType.FLOAT): Dtype of the signals: INT16, INT32, or FLOAT from -1 to 1.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        manifest_filepaths (str or list of str): Paths of the manifests.
        max_duration (float, default 0.0): Longest duration in seconds; 0 for any.
        min_duration (float, default 0.0): Shortest duration in seconds; 0 for any.
        normalize_text (bool, default None): Deprecated and ignored.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        quality (float, default 50.0): Quality from 0 to 100: the filter has 3 lobes on each side at 0, 16 at 50 and 64 at 100.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        read_idxs (bool, default False): Return indices of entries.
        read_sample_rate (bool, default True): Return sample rates.
        read_text (bool, default True): Return texts.
        sample_rate (float, default -1.0): Sample rate to resample to, in hertz; by default that of the file.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        shuffle_after_epoch (bool, default False): Shuffle the whole dataset before each epoch, then divide it into shards. Can't be combined with `random_shuffle` or `stick_to_shard`.
        shuffle_after_epoch_seed (int, default 0): Seed of `shuffle_after_epoch`. All shards need the same seed. With the default, the order is the same in every run.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

def numpy(
    *, cache_header_information: _bool = False, dont_use_mmap: _bool = False, file_filter: Str = '*.npy',
    file_list: Str | None = None, file_root: Str | None = None, files: Strs | None = None,
    fill_value: Float = 0.0, initial_fill: Int = 1024, lazy_init: _bool = False, num_shards: Int = 1,
    out_of_bounds_policy: Literal['error', 'pad', 'constant', 'trim_to_shape'] = 'error',
    pad_last_batch: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
    read_ahead: _bool = False, register_buffers: _bool = True, rel_roi_end: Floats | DataNode | None = None,
    rel_roi_shape: Floats | DataNode | None = None, rel_roi_start: Floats | DataNode | None = None,
    roi_axes: Ints = (), roi_end: Ints | DataNode | None = None, roi_shape: Ints | DataNode | None = None,
    roi_start: Ints | DataNode | None = None, shard_id: Int = 0, shuffle_after_epoch: _bool = False,
    shuffle_after_epoch_seed: Int = 0, skip_cached_images: _bool = False, stick_to_shard: _bool = False,
    tensor_init_bytes: Int = 1048576, use_o_direct: _bool = False, **common: Unpack[Common],
) -> DataNode:
    """Reads arrays from .npy files, or regions of them.

    The files come from `file_root` and the folders directly below it, or from `file_list` or `files`. All arrays of a
    batch must have the same dtype and number of dimensions. For a region, only the part of the file that contains it is
    read.

    Devices: cpu, gpu.

    Args:
        cache_header_information (bool, default False): Accepted for compatibility.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        file_filter (str, default '*.npy'): Glob pattern of file names in `file_root`.
        file_list (str, default None): Text file with a path on each line. Paths are relative to `file_root`, by default to the folder of this text file.
        file_root (str, default None): Folder of the files; or the folder that `files` and `file_list` are relative to.
        files (str or list of str, default None): Paths of the files.
        fill_value (float, default 0.0): Value of elements outside of the array.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        out_of_bounds_policy (str, default 'error'): Policy for windows that exceed the data: 'error' raises an error, 'pad' (or 'constant') uses `fill_values` outside, 'trim_to_shape' cuts the window off.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        register_buffers (bool, default True): Accepted for compatibility.
        rel_roi_end (float or list of float or DataNode, default None): End of the region along each axis. Given as fractions of the array's extents.
        rel_roi_shape (float or list of float or DataNode, default None): Extents of the region along each axis. Given as fractions of the array's extents.
        rel_roi_start (float or list of float or DataNode, default None): Start of the region along each axis. Given as fractions of the array's extents.
        roi_axes (int or list of int, default ()): Axes of the region; all of them by default.
        roi_end (int or list of int or DataNode, default None): End of the region along each axis.
        roi_shape (int or list of int or DataNode, default None): Extents of the region along each axis.
        roi_start (int or list of int or DataNode, default None): Start of the region along each axis.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        shuffle_after_epoch (bool, default False): Shuffle the whole dataset before each epoch, then divide it into shards. Can't be combined with `random_shuffle` or `stick_to_shard`.
        shuffle_after_epoch_seed (int, default 0): Seed of `shuffle_after_epoch`. All shards need the same seed. With the default, the order is the same in every run.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        use_o_direct (bool, default False): Accepted for compatibility.
        device (str): device of the operator; by default that of its inputs.
    """

def sequence(
    *, dont_use_mmap: _bool = False, file_root: Str, image_type: DALIImageType = DALIImageType.RGB,
    initial_fill: Int = 1024, lazy_init: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False,
    prefetch_queue_depth: Int = 1, random_shuffle: _bool = False, read_ahead: _bool = False,
    sequence_length: Int, shard_id: Int = 0, skip_cached_images: _bool = False, step: Int = 1,
    stick_to_shard: _bool = False, stride: Int = 1, tensor_init_bytes: Int = 1048576,
    **common: Unpack[Common],
) -> DataNode:
    """Reads sequences of frames from image files.

    Each folder directly below `file_root` is a stream. The images in it are its frames, sorted by name. All frames of a
    sequence come from one stream; incomplete sequences at the end of a stream are left out. The output is FHWC uint8. All
    frames of a sequence must have the same size.

    Devices: cpu.

    Args:
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        file_root (str): Folder with one subfolder per stream.
        image_type (DALIImageType, default DALIImageType.RGB): Color space of the output: RGB, BGR, GRAY or ANY_DATA.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        sequence_length (int): Number of frames in a sequence.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        step (int, default 1): Distance between the starts of consecutive sequences, in frames.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        stride (int, default 1): Distance between consecutive frames of a sequence.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

def tfrecord(
    *, dont_use_mmap: _bool = False, features: Any, index_path: Strs | None = None, initial_fill: Int = 1024,
    lazy_init: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False, path: Strs,
    prefetch_queue_depth: Int = 1, random_shuffle: _bool = False, read_ahead: _bool = False,
    shard_id: Int = 0, shuffle_after_epoch: _bool = False, shuffle_after_epoch_seed: Int = 0,
    skip_cached_images: _bool = False, stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
    use_o_direct: _bool = False, **common: Unpack[Common],
) -> Any:
    """Reads features of TensorFlow's examples from TFRecord files.

    The result is a dictionary with an output for each feature. The output of a `FixedLenFeature` has the feature's shape,
    and zeros in place of missing values. The output of a `VarLenFeature` has one dimension for the number of items,
    followed by the dimensions of the feature's partial shape, which is that of one item. A string is 1-D uint8. If an
    example lacks a feature, the output is a single 0 without dimensions, or an empty array for a string.

        features = fn.readers.tfrecord(
            path="train.tfrecord",
            features={
                "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
            },
        )
        images = fn.decoders.image(features["image/encoded"])

    An index file has one line for each record, with its offset and its size.

    Devices: cpu.

    Args:
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        features (object): Features to extract: a dictionary by name.
        index_path (str or list of str, default None): For each file, the index file with the offsets of its records. By default, the files are scanned when the reader is created.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        path (str or list of str): Paths of the files.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        shuffle_after_epoch (bool, default False): Shuffle the order of the files before each epoch, then divide their records into shards. Can be combined with `random_shuffle`, but not with `stick_to_shard`.
        shuffle_after_epoch_seed (int, default 0): Seed of `shuffle_after_epoch`. All shards need the same seed. With the default, the order is the same in every run.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        use_o_direct (bool, default False): Accepted for compatibility; files are read through the cache.
        device (str): device of the operator; by default that of its inputs.
    """

@overload
def video(*, enable_timestamps: Literal[True], **arguments: Any) -> list[DataNode]: ...
@overload
def video(
    *, additional_decode_surfaces: Int = 2, channels: Int = 3, dont_use_mmap: _bool = False,
    dtype: DALIDataType = DALIDataType.UINT8,
    enable_frame_num: Literal['none', 'scalar', 'sequence'] = 'none',
    enable_timestamps: Literal[False] = False, file_list: Str | None = None,
    file_list_frame_num: _bool = False, file_list_include_preceding_frame: _bool = False,
    file_root: Str | None = None, filenames: Strs | None = None,
    image_type: DALIImageType = DALIImageType.RGB, initial_fill: Int = 1024, labels: Ints | None = None,
    lazy_init: _bool = False, normalized: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False,
    pad_sequences: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
    read_ahead: _bool = False, sequence_length: Int, shard_id: Int = 0, skip_cached_images: _bool = False,
    skip_vfr_check: _bool = False, step: Int = -1, stick_to_shard: _bool = False, stride: Int = 1,
    tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> DataNode:
    """Reads sequences of frames from videos, FHWC.

    Supports MP4, Matroska, WebM, AVI and other containers, with constant or variable frame rate. A sequence has
    `sequence_length` frames of one video. An incomplete sequence at the end of a video is left out, unless
    `pad_sequences` is set. Frames are located by their time stamps, so that a sequence contains exactly the requested
    frames. The outputs are the frames and, on request, labels, frame numbers and time stamps, in this order.

    Devices: cpu, gpu.

    Args:
        additional_decode_surfaces (int, default 2): Accepted for compatibility; FFmpeg decides.
        channels (int, default 3): Accepted for compatibility; `image_type` decides.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the frames: UINT8 or FLOAT.
        enable_frame_num (str, default 'none'): Return frame numbers as an additional int32 output. 'scalar' or True returns the number of the first frame, shape (1,). 'sequence' returns the number of every frame, -1 for padding. Has no effect with `file_root`.
        enable_timestamps (bool, default False): Return the time of each frame in seconds as an additional float64 output, -1 for padding. Has no effect with `file_root`.
        file_list (str, default None): Text file with `path label [start [end]]` on each line. Paths are relative to the folder of this text file.
        file_list_frame_num (bool, default False): Read start and end in `file_list` as frame numbers instead of seconds. Negative numbers count from the end. The end is exclusive.
        file_list_include_preceding_frame (bool, default False): Round a start between two frames down and an end up, instead of the start up and the end down.
        file_root (str, default None): Folder with one subfolder of videos per label, in the order of their names; or a folder of videos, which all get label 0.
        filenames (str or list of str, default None): Paths of the videos.
        image_type (DALIImageType, default DALIImageType.RGB): Color space of the output: RGB, BGR, GRAY, or YCbCr as stored in the video.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        labels (int or list of int, default None): Labels of `filenames`, returned as an additional output. With an empty list, videos are numbered.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        normalized (bool, default False): Scale values to the range from 0 to 1; needs dtype=FLOAT.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        pad_sequences (bool, default False): Return the incomplete sequence at the end of each video, too, and fill it with black frames.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        sequence_length (int): Number of frames in a sequence.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        skip_vfr_check (bool, default False): Accepted for compatibility; frame rates may vary.
        step (int, default -1): Distance between the starts of consecutive sequences, in frames. If it isn't positive, `sequence_length * stride` is used.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        stride (int, default 1): Distance between consecutive frames of a sequence.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

def video_resize(
    *, additional_decode_surfaces: Int = 2, antialias: _bool = True, channels: Int = 3,
    dont_use_mmap: _bool = False, dtype: DALIDataType = DALIDataType.UINT8,
    enable_frame_num: Literal['none', 'scalar', 'sequence'] = 'none', enable_timestamps: _bool = False,
    file_list: Str | None = None, file_list_frame_num: _bool = False,
    file_list_include_preceding_frame: _bool = False, file_root: Str | None = None,
    filenames: Strs | None = None, image_type: DALIImageType = DALIImageType.RGB, initial_fill: Int = 1024,
    interp_type: DALIInterpType | DataNode = DALIInterpType.INTERP_LINEAR, labels: Ints | None = None,
    lazy_init: _bool = False, mag_filter: DALIInterpType | DataNode | None = None,
    max_size: Floats | None = None, min_filter: DALIInterpType | DataNode | None = None,
    minibatch_size: Int = 32, mode: Literal['default', 'stretch', 'not_larger', 'not_smaller'] = 'default',
    normalized: _bool = False, num_shards: Int = 1, pad_last_batch: _bool = False,
    pad_sequences: _bool = False, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False,
    read_ahead: _bool = False, resize_longer: Float | DataNode = 0.0, resize_shorter: Float | DataNode = 0.0,
    resize_x: Float | DataNode = 0.0, resize_y: Float | DataNode = 0.0, resize_z: Float | DataNode = 0.0,
    roi_end: Floats | DataNode | None = None, roi_relative: _bool = False,
    roi_start: Floats | DataNode | None = None, sequence_length: Int, shard_id: Int = 0,
    size: Floats | DataNode | None = None, skip_cached_images: _bool = False, skip_vfr_check: _bool = False,
    step: Int = -1, stick_to_shard: _bool = False, stride: Int = 1, subpixel_scale: _bool = True,
    temp_buffer_hint: Int = 0, tensor_init_bytes: Int = 1048576, **common: Unpack[Common],
) -> DataNode:
    """Reads sequences of frames from videos, FHWC, and resizes them.

    Combines `fn.readers.video` with `fn.resize` of its first output, and accepts the arguments of both. `dtype` and `name`
    apply to the reader.

    Devices: cpu, gpu.

    Args:
        additional_decode_surfaces (int, default 2): Accepted for compatibility; FFmpeg decides.
        antialias (bool, default True): Widen filters in proportion to the scale along axes that shrink.
        channels (int, default 3): Accepted for compatibility; `image_type` decides.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        dtype (DALIDataType, default DALIDataType.UINT8): Dtype of the frames: UINT8 or FLOAT.
        enable_frame_num (str, default 'none'): Return frame numbers as an additional int32 output. 'scalar' or True returns the number of the first frame, shape (1,). 'sequence' returns the number of every frame, -1 for padding. Has no effect with `file_root`.
        enable_timestamps (bool, default False): Return the time of each frame in seconds as an additional float64 output, -1 for padding. Has no effect with `file_root`.
        file_list (str, default None): Text file with `path label [start [end]]` on each line. Paths are relative to the folder of this text file.
        file_list_frame_num (bool, default False): Read start and end in `file_list` as frame numbers instead of seconds. Negative numbers count from the end. The end is exclusive.
        file_list_include_preceding_frame (bool, default False): Round a start between two frames down and an end up, instead of the start up and the end down.
        file_root (str, default None): Folder with one subfolder of videos per label, in the order of their names; or a folder of videos, which all get label 0.
        filenames (str or list of str, default None): Paths of the videos.
        image_type (DALIImageType, default DALIImageType.RGB): Color space of the output: RGB, BGR, GRAY, or YCbCr as stored in the video.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        interp_type (DALIInterpType or DataNode, default DALIInterpType.INTERP_LINEAR): Filter for shrinking and growing axes.
        labels (int or list of int, default None): Labels of `filenames`, returned as an additional output. With an empty list, videos are numbered.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        mag_filter (DALIInterpType or DataNode, default None): Filter for axes that grow; by default `interp_type`.
        max_size (float or list of float, default None): Largest size of the output in pixels: one for all axes, or one per axis.
        min_filter (DALIInterpType or DataNode, default None): Filter for axes that shrink; by default `interp_type`.
        minibatch_size (int, default 32): Accepted for compatibility.
        mode (str, default 'default'): 'default' scales axes without a size by the geometric mean of the other axes' factors; 'stretch' keeps their size; 'not_larger' and 'not_smaller' keep the aspect ratio and use the smallest or the largest factor.
        normalized (bool, default False): Scale values to the range from 0 to 1; needs dtype=FLOAT.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        pad_sequences (bool, default False): Return the incomplete sequence at the end of each video, too, and fill it with black frames.
        prefetch_queue_depth (int, default 1): Number of batches to read ahead of the pipeline.
        random_shuffle (bool, default False): Draw samples at random from a buffer that is filled in order. Readers with fast random access also shuffle all entries first, in the same way in every run and shard.
        read_ahead (bool, default False): Accepted for compatibility; a whole entry is always read.
        resize_longer (float or DataNode, default 0.0): Longer side of the output in pixels; keeps the aspect ratio.
        resize_shorter (float or DataNode, default 0.0): Shorter side of the output in pixels; keeps the aspect ratio.
        resize_x (float or DataNode, default 0.0): Width of the output in pixels; if 0, `mode` sets it.
        resize_y (float or DataNode, default 0.0): Height of the output in pixels; if 0, `mode` sets it.
        resize_z (float or DataNode, default 0.0): Depth of the output in voxels; if 0, `mode` sets it.
        roi_end (float or list of float or DataNode, default None): End of the region; an end before the start flips the axis.
        roi_relative (bool, default False): `roi_start` and `roi_end` are fractions of the input's extents.
        roi_start (float or list of float or DataNode, default None): Start of the region to resize, in pixels, in the order of `size`.
        sequence_length (int): Number of frames in a sequence.
        shard_id (int, default 0): Index of the shard that the first epoch reads.
        size (float or list of float or DataNode, default None): Size of the output in pixels, (height, width) or (depth, height, width). For an axis of size 0, `mode` sets the size. A negative number flips the axis.
        skip_cached_images (bool, default False): Accepted for compatibility; decoders don't cache images.
        skip_vfr_check (bool, default False): Accepted for compatibility; frame rates may vary.
        step (int, default -1): Distance between the starts of consecutive sequences, in frames. If it isn't positive, `sequence_length * stride` is used.
        stick_to_shard (bool, default False): Read the same shard in every epoch, instead of advancing to the next shard.
        stride (int, default 1): Distance between consecutive frames of a sequence.
        subpixel_scale (bool, default True): If the output's size was rounded, adapt the region of the input so that the scale stays exact.
        temp_buffer_hint (int, default 0): Accepted for compatibility.
        tensor_init_bytes (int, default 1048576): Accepted for compatibility; buffers are sized automatically.
        device (str): device of the operator; by default that of its inputs.
    """

def webdataset(
    *, case_sensitive_extensions: _bool = True, dont_use_mmap: _bool = False, dtypes: Any = None, ext: Strs,
    index_paths: Strs | None = None, initial_fill: Int = 1024, lazy_init: _bool = False,
    missing_component_behavior: Str = 'empty', num_shards: Int = 1, pad_last_batch: _bool = False,
    paths: Strs, prefetch_queue_depth: Int = 1, random_shuffle: _bool = False, read_ahead: _bool = False,
    shard_id: Int = 0, shuffle_after_epoch: _bool = False, shuffle_after_epoch_seed: Int = 0,
    skip_cached_images: _bool = False, stick_to_shard: _bool = False, tensor_init_bytes: Int = 1048576,
    **common: Unpack[Common],
) -> Any:
    """Reads samples of several files from tar archives.

    The files of a sample are adjacent in the archive, and their paths are the same up to the first dot of the file name;
    the extension follows it. Each output is one of these files, 1-D, with the dtype in `dtypes`.

    Without `index_paths`, the reader scans the archives when it is created.

    Devices: cpu.

    Args:
        case_sensitive_extensions (bool, default True): Match extensions case-sensitively.
        dont_use_mmap (bool, default False): Accepted for compatibility; files are never mapped.
        dtypes (object, default None): Dtype of each output; UINT8 by default.
        ext (str or list of str): For each output, its possible extensions, such as "jpg;png".
        index_paths (str or list of str, default None): For each archive, the index file with the offsets of its samples.
        initial_fill (int, default 1024): Size of the buffer of `random_shuffle`, in entries. The buffer doesn't read them.
        lazy_init (bool, default False): List the dataset when the first batch starts, not when the pipeline is built.
        missing_component_behavior (str, default 'empty'): Handling of samples that lack a file: "empty" returns an empty array, "skip" leaves the sample out, "error" raises an error.
        num_shards (int, default 1): Number of shards that the dataset is divided into: one for each GPU or process.
        pad_last_batch (bool, default False): Fill the last batch of an epoch by repeating its last sample, instead of with samples of the next epoch. Shards of different sizes then have the same number of batches. The last batch of a smaller shard may contain only repetitions.
        paths (str or list of str): Paths of the archives.
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

