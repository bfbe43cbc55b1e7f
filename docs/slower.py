"""Why some operators are slower than NVIDIA DALI's. docs/operators-speed.md has the table."""

from __future__ import annotations

_FEW = (
    "It takes microseconds per sample. Python's work for a batch, and for the array of each sample, takes longer than "
    "the arithmetic. A pipeline that also decodes images takes a hundred times as long."
)
_WINDOW = (
    "nvImageCodec's CPU decoder skips the rows and columns outside of the window, as in DALI. Python reads the header "
    "of each image and passes the image to it."
)
_TABLE = (
    "OpenCV maps bytes by a table of 256 values, in 0.3 ms per image. Its multiplication takes half of that time, but "
    "rounds ties to even numbers; DALI doesn't."
)
_READERS = (
    "It copies each file from the operating system's cache. DALI maps the files instead (`dont_use_mmap`), and leaves "
    "it to the next operator to load them."
)
_BUILDS = "Both libraries call OpenCV. Its wheel for Python takes longer than the build in DALI."

#: On the CPU, by operator.
ON_CPU: dict[str, str] = {
    "batch_permutation": _FEW,
    "bb_flip": _FEW,
    "bbox_paste": _FEW,
    "bbox_rotate": _FEW,
    "brightness": _TABLE,
    "brightness_contrast": _TABLE,
    "color_space_conversion": (
        "To grey: three products per pixel in float32, as on the GPU, take 0.3 ms per image. OpenCV's conversion in "
        "integers takes 0.09 ms, and one value of 900 differs by 1. Other conversions are faster than DALI's."
    ),
    "contrast": _TABLE,
    "coord_flip": _FEW,
    "coord_transform": _FEW,
    "debayer": _BUILDS,
    "decoders.audio": (
        "One second of FLAC takes 0.5 ms, 0.35 ms of it in the libsndfile of soundfile's wheel, and the rest in the "
        "callbacks by which it opens and reads the file. DALI takes 0.25 ms."
    ),
    "decoders.image": "PNG: OpenCV takes 4.7 ms per image of 500 KB, pillow 5.3. JPEG is as fast as DALI's.",
    "decoders.image_crop": _WINDOW,
    "decoders.image_slice": _WINDOW,
    "decoders.numpy": _FEW,
    "equalize": (
        "OpenCV's histograms of three channels take 0.6 ms per image, and its tables for three channels 0.8 ms."
    ),
    "experimental.warp_perspective": _BUILDS,
    "full": _FEW,
    "full_like": _FEW,
    "lookup_table": _FEW,
    "mel_filter_bank": _FEW,
    "multi_paste": _FEW,
    "nonsilent_region": _FEW,
    "one_hot": _FEW,
    "peek_image_shape": _FEW,
    "preemphasis_filter": _FEW,
    "random_bbox_crop": _FEW,
    "random_crop_generator": _FEW,
    "readers.coco": _READERS,
    "readers.file": _READERS,
    "readers.numpy": _READERS,
    "readers.sequence": _READERS,
    "readers.webdataset": _READERS,
    "resize": (
        "Only nearest neighbour: NumPy selects rows in 0.02 ms per image, and then copies pixels of three bytes one by "
        "one, in 0.2 ms. All filters are faster than DALI's."
    ),
    "roi_random_crop": _FEW,
    "segmentation.select_masks": _FEW,
    "sequence_rearrange": (
        "The copies take 2 of 2.8 ms of processor time per batch, as much as all of DALI's work. The rest is Python."
    ),
    "shapes": _FEW,
    "spectrogram": (
        "OpenCV transforms the windows. NumPy multiplies them by their factors before, and squares, adds and "
        "transposes after: a pass over memory each."
    ),
    "transforms.combine": _FEW,
    "transforms.crop": _FEW,
    "transforms.rotation": _FEW,
    "transforms.scale": _FEW,
    "transforms.shear": _FEW,
    "transforms.translation": _FEW,
}

_HOST = (
    "A batch costs the host 0.3 to 1 ms of Python: NumPy makes the tables that kernels read (addresses, shapes, "
    "windows, numbers of each sample), CuPy copies and launches, threads pass the batch on. DALI's C++ takes 0.1 to "
    "0.2 ms. This time doesn't grow with the images, and in a pipeline the decoding of other batches hides it. We "
    "found it by running the same cases with a stub instead of CuPy that does nothing, so that only Python is left. On "
    "one core of another machine, this takes 0.57 times as long as the whole did here (the median), and more if the "
    "whole takes more (correlation: 0.85). Also, times differ by up to a factor of two from round to round, because of "
    "the host's threads. Times that the GPU itself limits (`resize`, Lanczos) stay within 1 %."
)
_EACH = "As above, with more Python: it computes arguments or shapes sample by sample, in 5 to 30 microseconds each."
_DRAWN = (
    "When this was measured, one thread of NumPy drew the numbers on the CPU; then they were copied. Now the GPU draws "
    "them, and a batch costs the host Python, as above."
)

_HOST_ALONE = """
audio_resample bb_flip brightness brightness_contrast cast cast_like cat color_space_conversion color_twist constant
contrast coord_flip coord_transform copy crop crop_mirror_normalize element_extract equalize experimental.remap
external_source flip gaussian_blur get_property grid_mask hsv hue jitter jpeg_compression_distortion lookup_table
mel_filter_bank mfcc noise.gaussian noise.salt_and_pepper noise.shot nonsilent_region normalize one_hot permute_batch
preemphasis_filter random.coin_flip random_resized_crop reductions.max reductions.mean reductions.mean_square
reductions.min reductions.rms reductions.std_dev reductions.sum reductions.variance saturation shapes slice
spectrogram sphere stack to_decibels transpose warp_affine water
"""
_BY_SAMPLE = """
erase expand_dims experimental.warp_perspective fast_resize_crop_mirror filter laplacian multi_paste pad paste
reinterpret reshape resize_crop_mirror rotate sequence_rearrange squeeze tensor_resize
"""

#: On the GPU, by operator.
ON_GPU: dict[str, str] = {
    **dict.fromkeys(_HOST_ALONE.split(), _HOST),
    **dict.fromkeys(_BY_SAMPLE.split(), _EACH),
    "decoders.image_slice": (
        "Its rounds took 3.7, 4.8 and 9.6 ms, DALI's 3.5. Both use nvImageCodec, whose threads share the cores with "
        "ours. `decoders.image_crop` decodes windows in the same way, and is as fast as DALI's."
    ),
    "random.normal": _DRAWN,
    "random.uniform": _DRAWN,
    "resize": (
        "Lanczos: 4.4 ms in every round, so the GPU is the limit. The kernel computes the weights, with sines, for "
        "every pixel that it makes, instead of once for each column and row. The other filters: Python, as above."
    ),
}
