"""Where operators differ from NVIDIA DALI's on purpose, or because they must. docs/operators.md has the table."""

from __future__ import annotations

#: By operator, or by what several have in common.
DIFFERENCES = {
    "all": "Dtypes that DALI refuses are often taken (float16 and float64, bool, wide integers); arguments per sample "
    "may have any dtype that converts. A failure names the sample and the user's line, and the next batch goes on.",
    "cast": "NaN becomes 0 in integers of 32 and 64 bits; DALI gives the smallest one. FLOAT16 of wide integers is "
    "rounded once; DALI rounds to FLOAT before.",
    "cat, stack": "Inputs of different layouts are refused; DALI takes the first input's, or none. A layout that only "
    "some inputs have counts for all. The extents of inputs without elements add up, too; DALI leaves such inputs out.",
    "color_space_conversion": "Nothing to convert hands pictures on; DALI refuses it.",
    "constant": "FLOAT64 is taken.",
    "crop": "Samples of five dimensions are taken; DALI declares them and fails.",
    "decoders.image": "GIF, WebP with EXIF, and grey and alpha pictures as ANY_DATA, that DALI refuses or ends the "
    "process at. On the mixed device, files of 16 bits have 8 of them, whatever the dtype.",
    "decoders.image_crop, decoders.image_slice": "The same pixels as of the whole picture; DALI decodes a window of "
    "only the first column of a JPEG without its neighbours, which changes its colours.",
    "decoders.numpy": "Takes arrays in Fortran order, which DALI decodes only where there is a GPU, and big-endian "
    "ones and version 2.0 of the format, which it refuses.",
    "erase": "Without a layout all dimensions are erased, also the last. Fill values are clamped to the dtype.",
    "experimental.readers.video": "H.264, HEVC, AV1 and MPEG-4 on the CPU, too. In a `file_list`, a range without an "
    "end, or with one behind the video's, goes on to the end of the video; DALI leaves such a file out. `labels=[]` "
    "numbers the files; DALI refuses it. `image_type` may be BGR and GRAY as well.",
    "expand_dims, squeeze": "Axes that are not there are refused; DALI's `squeeze` ignores them, and negative ones.",
    "gaussian_blur": "FLOAT16 samples are summed in float32; DALI is off by up to 0.045 of values to 100.",
    "hue, saturation, hsv, color_twist": "Pictures without 3 channels are refused; DALI's results are undefined.",
    "jpeg_compression_distortion": "The GPU makes the pixels of a file that libjpeg writes and reads, as the CPU does.",
    "noise.*": "The distributions are DALI's, the numbers are not. `salt_val` and `pepper_val` are clamped; DALI's "
    "wrap around. `noise.shot` with factor=0 changes nothing, as DALI documents; its CPU gives zeros.",
    "normalize": "Negative axes are taken, and means and deviations without dimensions as numbers.",
    "one_hot": "`on_value` and `off_value` are clamped to the dtype; DALI's wrap around. BOOL and FLOAT16 are taken.",
    "pad, paste": "Fill values are clamped to the dtype; DALI's are undefined beyond it.",
    "per_frame": "Any argument may differ from frame to frame, not only those that DALI lists. F must be the first "
    "letter of a layout; DALI also takes CFHW, in `gaussian_blur`. `warp_affine` doesn't repeat one picture for a "
    "sequence of matrices.",
    "permute_batch": "Samples keep no `source_info`.",
    "random.*, batch_permutation": "The distributions are DALI's, the numbers are not: they are Philox by seed, "
    "operator, batch and sample, and don't depend on threads or prefetching.",
    "readers.coco": "Annotations are read from their JSON file. Arguments that write or read preprocessed ones, in a "
    "format of DALI's own, are refused.",
    "readers.numpy": "On the GPU, files are read into the host's memory and copied; DALI can read them by way of GDS.",
    "readers.video": "Codecs may differ from file to file, and frame numbers and timestamps don't need labels; DALI "
    "refuses both. Frame rates may vary; DALI often fails at such a video, with `skip_vfr_check` as well. In a "
    "`file_list`, a start at the very time of a frame takes that frame; DALI, which calculates in float32, often takes "
    "the next one.",
    "reductions.*": "FLOAT16, FLOAT64 and BOOL are taken. The minimum of infinities and NaN, or of nothing, is "
    "infinity; DALI gives the largest finite number. A mean whose shape doesn't fit is refused; DALI reads beyond it.",
    "reinterpret, reshape": "Extents of 0 are taken where sizes agree. Without `layout`, a shape with another number "
    "of dimensions has none; DALI 2.4 fails where it comes from an input or per sample.",
    "resize": "With INTERP_NN and a region, a position exactly between two pixels may fall to the other one (in 1 of "
    "100 regions with whole coordinates), and a region beyond the picture repeats its edge, where DALI reads memory "
    "outside. Where only one axis takes the nearest pixel, DALI shifts regions by one. INTERP_GAUSSIAN differs by up "
    "to 0.04 of the range where a tap lies exactly at the filter's end, which DALI counts or not by rounding. "
    "`save_attrs=False` may be given.",
    "resize_crop_mirror": "`mirror` flips the axes that DALI documents in all layouts; DALI does so only in HWC and "
    "DHWC.",
    "rotate, warp_affine": "A size per sample that isn't whole is rounded.",
    "transforms.rotation": "An axis of length zero is an error.",
}

#: Arguments that differ from DALI's, by name, or operator and name: what is here instead.
ARGUMENTS = {
    "axes": "width and height, which is the same",
    "batch_processing": "True by default, as DALI's function does whatever its schema says",
    "contrast_center": "half of the dtype's range by default, as DALI's documentation says",
    "mag_filter": "`interp_type` by default, as DALI does",
    "min_filter": "`interp_type` by default, as DALI does",
    "missing_component_behavior": '"empty" by default, as DALI\'s documentation says',
    "pad_mode": "one for all samples",
    "random_aspect_ratio": "4/3, of which DALI's is the beginning",
    "squeeze.axes": "the same for all samples; DALI's fails where they are not",
}
