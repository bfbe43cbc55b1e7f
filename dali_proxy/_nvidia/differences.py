"""Differences from NVIDIA DALI, for ``dali-proxy check`` and for tables of the documentation."""

from __future__ import annotations

#: By operator, or by a group of operators. A sentence with names of arguments in backquotes is about calls that pass
#: one of them (or the value beside it); one with constants is about scripts that use these. ``dali-proxy check`` lists
#: such sentences, and those that begin with "Results differ". It lists the others with ``--all``.
DIFFERENCES = {
    "all": "Dtypes that DALI refuses are often accepted (float16 and float64, bool, wide integers); arguments per "
    "sample may have any dtype that can be converted. A failure names the sample and the user's line, and the next "
    "batch runs.",
    "audio_resample, decoders.audio, readers.nemo_asr": "Resampling to a lower rate removes the frequencies that "
    "this rate can't represent; DALI folds them to lower ones. With `antialias=False`, which is the default in scripts "
    "that import `nvidia.dali`, the numbers are DALI's.",
    "cast": "NaN becomes 0 in integers of 32 and 64 bits; DALI gives the smallest one. Wide integers are rounded "
    "once to FLOAT16; DALI rounds to FLOAT first.",
    "cat, stack": "Inputs of different layouts are refused; DALI uses the first input's, or none. A layout that only "
    "some inputs have applies to all. The extents of inputs without elements add up, too; DALI ignores such inputs.",
    "color_space_conversion": "A conversion to the same colour space returns the images unchanged; DALI refuses it.",
    "constant": "FLOAT64 is accepted.",
    "crop": "Samples of five dimensions are accepted; DALI declares them, but fails.",
    "decoders.audio": "Decodes MP3 as well. With `sample_rate=0`, the second output is the rate of the file, not 0.",
    "decoders.image": "The maximum in the header of a PNM is white; DALI ignores it. Decodes GIF, WebP with EXIF, and "
    "grey and alpha images as ANY_DATA; DALI refuses these or ends "
    "the process.",
    "decoders.image_crop, decoders.image_slice": "A window has the same pixels as in the whole image. DALI decodes a "
    "window of only the first column of a JPEG without its neighbours, which changes its colours.",
    "debayer": "On the GPU, the algorithms are those of OpenCV, except `vng_ocv`; `default_npp` is accepted, but is "
    "`bilinear_ocv`: NVIDIA's green values, which depend on the correlation of colours, are not documented.",
    "decoders.inflate": "On the CPU, too; DALI has it on the GPU only.",
    "decoders.numpy": "Accepts arrays in Fortran order, which DALI decodes only if there is a GPU, and big-endian "
    "arrays and version 2.0 of the format, which DALI refuses.",
    "erase": "Without a layout, all dimensions are erased, including the last one. Fill values (`fill_value`) are "
    "clamped to the dtype.",
    "experimental.readers.fits": "On the CPU, without a GPU, too; values are scaled as the header says.",
    "experimental.readers.video": "H.264, HEVC, AV1 and MPEG-4 on the CPU, too. In a `file_list`, a range without an "
    "end, or with an end after the video's, extends to the end of the video; DALI ignores such a file. `labels=[]` "
    "numbers the files; DALI refuses it. `image_type` may be BGR and GRAY as well.",
    "expand_dims, squeeze": "Axes that don't exist are refused; DALI's `squeeze` ignores them, and negative axes.",
    "gaussian_blur": "FLOAT16 samples are summed in float32; DALI is off by up to 0.045 for values up to 100.",
    "mel_filter_bank, mfcc, power_spectrum, spectrogram, to_decibels": "All dtypes are accepted, and computed in "
    "float32; DALI needs FLOAT.",
    "hue, saturation, hsv, color_twist": "Images without 3 channels are refused; DALI's results are undefined.",
    "jpeg_compression_distortion": "Results differ on the GPU: they are those of a file that libjpeg writes "
    "and reads, as on the CPU.",
    "noise.*": "The distributions are DALI's; the numbers are other ones. `salt_val` and `pepper_val` are clamped; "
    "DALI's wrap around. `noise.shot` with `factor=0` changes nothing, as DALI documents; DALI's CPU version returns "
    "zeros.",
    "nonsilent_region": "Sums are precise, so `reset_interval` has no effect; DALI's moving sum in single precision "
    "may miss the end of a region.",
    "normalize": "Negative axes are accepted, and means and deviations without dimensions count as numbers.",
    "one_hot": "`on_value` and `off_value` are clamped to the dtype; DALI's wrap around. BOOL and FLOAT16 are "
    "accepted.",
    "crop, crop_mirror_normalize, pad, paste, slice": "Fill values (`fill_value`, `fill_values`) are clamped to "
    "the dtype; DALI's values beyond it are undefined: on the CPU, they often wrap around.",
    "per_frame": "Any argument may differ from frame to frame, not only those that DALI lists. F must be the first "
    "letter of a layout; DALI also accepts CFHW, in `gaussian_blur`. `warp_affine` doesn't repeat one image for a "
    "sequence of matrices.",
    "permute_batch": "Samples lose their `source_info`.",
    "power_spectrum": "Negative axes count from the end; in DALI, all of them are the last axis.",
    "preemphasis_filter": 'With "reflect", the predecessor of an only element is this element; DALI reads beyond it. '
    "Samples without elements are accepted; they end DALI's process.",
    "python_function, dl_tensor_python_function, torch_python_function": "With `batch_processing`, a tuple of another "
    "length than `num_outputs` is an error. With one output, DALI drops all but the first.",
    "random.*, batch_permutation": "The distributions are DALI's; the numbers are other ones: Philox numbers, "
    "computed from seed, operator, batch and sample, and don't depend on threads or prefetching.",
    "readers.caffe2": "Sparse labels work, and their second output has the indices or the weights; DALI declares this "
    "output, but fails.",
    "readers.numpy": "On the GPU, files are read into the host's memory and copied; DALI can read them through GDS.",
    "readers.video": "Codecs may differ from file to file, and frame numbers and timestamps don't need labels; DALI "
    "refuses both. Frame rates may vary; DALI often fails with such a video, even with `skip_vfr_check`. In a "
    "`file_list`, a start at the exact time of a frame selects that frame; DALI, which calculates in float32, often "
    "selects the next one.",
    "readers.mxnet, readers.tfrecord": "Without `index_path`, files are scanned.",
    "readers.tfrecord": "Missing values are zeros; in DALI, they are undefined. Values of a type other than requested "
    "raise an error. A missing string is an empty array.",
    "reductions.*": "FLOAT16, FLOAT64 and BOOL are accepted. The minimum of infinities and NaN, or of an empty set, is "
    "infinity; DALI returns the largest finite number. A mean whose shape doesn't fit is refused; DALI reads beyond "
    "it.",
    "reinterpret, reshape": "Extents of 0 are accepted if sizes agree. Without `layout`, a shape with a different "
    "number of dimensions has no layout; DALI 2.4 fails if the shape comes from an input or differs per sample.",
    "resize": "With INTERP_NN and a region (`roi_start`), a position exactly between two pixels may select the other "
    "one (in 1 of 100 regions with integer coordinates). For a region (`roi_start`) beyond the image, the edge pixels "
    "are repeated; DALI reads memory outside of it. If only one axis uses INTERP_NN, DALI shifts regions "
    "(`roi_start`) by one. INTERP_GAUSSIAN "
    "differs by up to 0.04 of the range if a tap lies exactly at the filter's end, which DALI includes or not, "
    "depending on rounding. `save_attrs=False` is accepted.",
    "resize_crop_mirror": "`mirror` flips the axes that DALI documents in all layouts; DALI does so only in HWC and "
    "DHWC.",
    "rotate": "`axis` is refused for images and their sequences; DALI ignores it.",
    "rotate, warp_affine": "A `size` per sample that isn't an integer is rounded.",
    "box_encoder": "Labels may have any integer dtype. An empty list of anchors, or a scale of 0, raises an error.",
    "dump_image": "Files are binary PPM and PGM; DALI writes the values as text.",
    "experimental.dilate, experimental.erode, experimental.median_blur, experimental.remap, jitter": "They run on the "
    "CPU; DALI's run on the GPU only. `median_blur` accepts odd sizes only.",
    "experimental.warp_perspective": "Planar images may have a fill value for each channel, and images more than 4 "
    "channels.",
    "optical_flow": "Results differ: they are computed on the CPU by OpenCV, because no package reaches the GPU's "
    "optical flow engine from Python ([decisions](decisions-gpu.md#optical-flow)).",
    "grid_mask": "The layout says which axes are height and width; DALI takes the first two. Erased NaNs are 0.",
    "multi_paste": "Sequences are accepted; DALI declares them, but fails on the CPU.",
    "segmentation.*": "Results differ if a mask has several polygons: all are selected; DALI keeps the last. "
    "Negative class weights raise an error.",
    "tensor_resize": "Any number of axes may be resized; DALI resizes up to three that are adjacent. With three "
    "dimensions and more, DALI doesn't resample a first or last axis whose extent stays the same, if regions of all "
    "samples differ from the whole axis by less than a pixel, as after rounding.",
    "water, sphere": "A constant `mask=0` returns the image unchanged; DALI's CPU version ignores a constant. "
    "`fill_value` is clamped; DALI's wraps around.",
    "transforms.rotation": "An axis of length zero raises an error.",
}

#: Arguments that differ from DALI's, by name, or by operator and name: our version.
ARGUMENTS = {
    "axes": "width and height by default, which are the same axes",
    "batch_processing": "True by default, as in DALI's function, despite its schema",
    "contrast_center": "half of the dtype's range by default, as DALI's documentation says",
    "index_path": "optional: without it, the files are scanned",
    "mag_filter": "`interp_type` by default, as DALI does",
    "min_filter": "`interp_type` by default, as DALI does",
    "missing_component_behavior": '"empty" by default, as DALI\'s documentation says',
    "pad_mode": "one for all samples",
    "random_aspect_ratio": "(3/4, 4/3) by default; DALI's has fewer digits",
    "squeeze.axes": "the same for all samples; DALI fails if they differ",
}

#: Differences that aren't those of operators and can change the results of a script: subject, DALI's behaviour, ours.
BEHAVIOUR = (
    (
        "iterators, DROP with `pad_last_batch`, if some shards have one batch more than others",
        "the next epoch begins with the padding of the dropped batch",
        "every epoch begins with the first sample of its shard",
    ),
    ("iterators, `len()` with FILL and no padding", "batches of the first epoch", "batches of the current epoch"),
    (
        "iterators, `iter()` in the middle of an epoch, without `reader_name` and `size`",
        "starts again without a `StopIteration`",
        "continues the epoch",
    ),
    ("`feed_ndarray` into a tensor with strides", "writes as if it were contiguous", "copies element by element"),
    (
        "random numbers",
        "its own",
        "others of the same distributions, computed from seed, operator, epoch, batch and sample",
    ),
    (
        "`Pipeline.serialize`",
        "protobuf, read by all of DALI's interfaces",
        "a different format, which only dali-proxy reads",
    ),
    ("`Pipeline.checkpoint`", "DALI's format", "a different format"),
)

#: The other ones: the results of a script that runs with DALI stay the same.
IMPROVEMENTS = (
    ("server, where it runs", "a thread of the training process", 'a separate process; a thread with `mode="thread"`'),
    (
        "server, `deterministic`",
        "makes the order of execution the same in every run",
        "accepted; results never depend on the number or the speed of the workers",
    ),
    (
        "proxy, inputs",
        "arrays",
        "also `bytes`, numbers, PIL images, tensors on the CPU; for `io.file.read`, a path as `str` or `Path`",
    ),
    ("proxy, several calls for a sample", "an error of the worker", "work"),
    ("proxy, use of a placeholder in the dataset", "`AttributeError`", "`PlaceholderError`, which says what to do"),
    ("loader, `num_workers=0`", "an error", "works"),
    (
        "loader, a batch larger than the pipeline's `batch_size`",
        "the server's thread ends, and the loop waits forever",
        "`BatchSizeError`",
    ),
    (
        "loader, a batch that fails",
        "`RuntimeError`, and the next batch follows",
        "`BatchError`, a `RuntimeError` with dataset indices; `on_error` can skip or replace the sample",
    ),
    ("loader, the server ends", "the loop waits", "`ServerDiedError` within seconds, or a restart"),
    ("`DALIPipelineRunRef`", "a class", "doesn't exist; batches and samples have `BatchRef` and `SampleRef`"),
    (
        "iterators, `len()` without `reader_name` and `size`, with `last_batch_padded` and batches of one sample",
        "an error",
        "0, as with other batches",
    ),
    (
        "iterators, `reader_name` with FILL",
        "the same as here, although its documentation says that FILL becomes PARTIAL",
        "FILL stays FILL, so all batches have one size: pass `LastBatchPolicy.PARTIAL` for each sample once",
    ),
    (
        "iterators, `dynamic_shape=False`",
        "the same as here, although its documentation says that another shape is an error",
        "shapes may change from batch to batch",
    ),
    (
        "iterators, `last_batch_padded=True` with `reader_name`",
        "an error, although its documentation says that the argument is overwritten",
        "the reader decides, whatever `last_batch_padded` says",
    ),
    (
        "`_size` of iterators, `Pipeline.epoch_size`, if a reader pads shards of different sizes",
        "the same as here: the size of the largest shard, times the number of shards for `epoch_size`",
        "so every process counts the same number of batches; `reader_meta` has the size of the data set",
    ),
    (
        "`dump_image`",
        "isn't run unless an output needs it, although its documentation says that it needs a current pipeline",
        "always runs; outside of a pipeline, a call is an error",
    ),
    (
        "iterators, `reset()` before the first batch, if an epoch has only one batch",
        "the first epoch then has two batches",
        "does nothing",
    ),
    (
        "iterators, DROP if no batch is full",
        "an error when the iterator is created; empty epochs with `prepare_first_batch=False`",
        "an error when the iterator is created",
    ),
    (
        "iterators, data that ends before `size`",
        "the iterator can't be reset",
        "the epoch ends, and `reset()` starts the next one",
    ),
    ("iterators, a batch that fails", "ends the pipeline", "is left out, and the next ones follow"),
    ("`DALIRaggedIterator`, PARTIAL, and COO samples that aren't 1-D", "`AttributeError`, or torch's errors", "work"),
    ("`feed_ndarray` and iterators, uint16 to uint64", "`KeyError`", "torch's types of these names"),
    (
        "tensors of iterators and `to_torch_tensor(copy=False)`",
        "valid until the next run",
        "valid as long as they live",
    ),
    (
        "errors of operators",
        "name the operator and the line",
        "also name the sample, its file and the user's function; the pipeline continues with the next batch",
    ),
    (
        "environment variables",
        "many",
        "`DALI_MAX_IMAGE_SIZE` and `DALI_AFFINITY_MASK`; `backend` reports those of buffers; others have no effect",
    ),
    (
        "samples of more than 4 GiB, decoded or read",
        "work, if the memory suffices",
        "are refused; `DALI_PROXY_MAX_SAMPLE_BYTES` sets the limit",
    ),
    ("a script without a GPU", "needs other arguments", "`--device cpu` or `DALI_PROXY_DEVICE=cpu`"),
)

#: Public names that are missing or don't work, by module, and the reasons.
MISSING = {
    "backend": {
        "ExternalContextCheckpoint": "an internal part of checkpoints: use `Pipeline.checkpoint`",
        "OpSchema.AppendKwargsSection, CalculateOutputDType, CalculateOutputLayout, CalculateOutputNDim, "
        "CanUseAutoInputDox, DeprecatedArgInfo, GetCallDox, GetCallSignatureInputs, GetSupportedLayouts, HasCallDox, "
        "SupportsInPlace, SupportsVolumetric": "operators don't declare this",
        "OpSpec.AddArgEmptyList, InferOutputMetadata, InputDesc, OutputDesc": "operators don't declare this",
        "Pipeline, PipelineDebug": "the executor in C++: use `nvidia.dali.Pipeline`",
        "SharedMem": "an internal part of parallel external sources",
    },
    "experimental.dynamic": {
        "DeviceLike": "a type for annotations in DALI's own code",
        "EvalContext.cache_results, cached_results": "reserved for future use in DALI",
        "ExternalSource.captured": "an internal part of `capture`",
        "ThreadPool.device_id": "threads belong to no GPU",
        "capture": "`dynamic.trace` compiles a function instead, and readers read ahead in any case",
    },
    "experimental.torchvision": {
        "*.adjust_fill, adjust_padding, adjust_size, arg_rules, input_rules, preprocess_data, verify_args, verify_data":
        "internal steps of transforms",
        "Resize.calculate_target_size_dynamic_mode, calculate_target_size_pipeline_mode, infer_effective_size, "
        "int_to_interpolation_mode, interpolation_modes, normalize_interpolation, not_supported_interpolation_modes, "
        "validate_interpolation": "internal steps of the transform",
    },
    "ops": {
        "PythonFunction.check_outputs, current_stream, function_wrapper_batch, function_wrapper_per_sample": "internal "
        "steps of the operator",
        "Reload, register_cpu_op, register_gpu_op, python_op_factory": "for plugins in C++: declare operators as in "
        "[A new operator](new-operator.md)",
    },
    "plugin.pytorch": {"TorchPythonFunction.torch_wrapper": "an internal step of the operator"},
    "plugin_manager": {"load_library, load_directory": "exist, but raise an error: a plugin needs DALI's executor"},
    "sysconfig": {"get_compile_flags, get_include_dir, get_include_flags, get_link_flags": "exist, but raise an "
        "error: there is no C++ interface"},
    "tensors": {"PipelineBatchAdapter, PipelineTensorAdapter": "internal parts of `format_batch` and `format_tensor`"},
}  # fmt: skip
