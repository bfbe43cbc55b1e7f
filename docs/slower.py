"""Why some operators are slower than NVIDIA DALI's. docs/operators-speed.md has the table."""

from __future__ import annotations

_FEW = (
    "Microseconds a sample: what Python needs for a batch, and to make an array of each sample, is more than the "
    "arithmetic. A pipeline that also decodes pictures takes a hundred times as long."
)
_WINDOW = (
    "libjpeg-turbo decodes whole pictures here, since its Python binding can't skip the rows outside of a window. "
    "Windows of most of the picture cost the same on both sides (`decoders.image_random_crop`)."
)
_TABLE = (
    "OpenCV takes bytes through a table of 256 values, in 0.3 ms a picture. Its multiplication takes half of "
    "that, and rounds ties to even numbers, which DALI does not."
)
_READERS = (
    "A file is opened, read and closed by Python, a system call each, and becomes an array; less than 0.1 ms a sample, "
    "while others are decoded."
)

#: On the CPU, by operator.
ON_CPU: dict[str, str] = {
    "batch_permutation": _FEW,
    "bb_flip": _FEW,
    "brightness": _TABLE,
    "brightness_contrast": _TABLE,
    "color_space_conversion": (
        "To grey: three products a pixel in float32, as on the GPU, 0.3 ms a picture. OpenCV's conversion in whole"
        " numbers takes 0.09 ms, and one value of 900 differs by 1. Other conversions are faster than DALI's."
    ),
    "contrast": _TABLE,
    "coord_flip": _FEW,
    "coord_transform": _FEW,
    "decoders.image": "PNG: 4.7 ms a picture of 500 KB by OpenCV; pillow takes 5.3. JPEG is as fast as DALI's.",
    "decoders.image_crop": _WINDOW,
    "decoders.image_slice": _WINDOW,
    "decoders.numpy": _FEW,
    "equalize": (
        "OpenCV's histograms of three channels take 0.6 ms a picture, and its tables for three channels 0.8 ms."
    ),
    "full": _FEW,
    "full_like": _FEW,
    "lookup_table": _FEW,
    "normalize": (
        "Vectors: some thirty calls of NumPy a sample. Planes: sums, squares of differences and the result are a "
        "pass over memory each."
    ),
    "one_hot": _FEW,
    "peek_image_shape": "Headers of files are read in Python: 6 microseconds a picture.",
    "random_bbox_crop": (
        "Windows of a whole batch are drawn together, in some forty calls of NumPy for each 4 to 32 windows a "
        "sample; that takes 2 ms a batch."
    ),
    "random_crop_generator": _FEW,
    "readers.coco": _READERS,
    "readers.file": _READERS,
    "readers.numpy": _READERS,
    "readers.sequence": _READERS,
    "readers.webdataset": _READERS,
    "resize": (
        "Only to the nearest pixel: NumPy picks rows in 0.02 ms a picture, and then copies pixels of three bytes "
        "one by one, in 0.2 ms. All filters are faster than DALI's."
    ),
    "shapes": _FEW,
    "transforms.combine": _FEW,
    "transforms.crop": _FEW,
    "transforms.rotation": _FEW,
    "transforms.scale": _FEW,
    "transforms.shear": _FEW,
    "transforms.translation": _FEW,
}

_HOST = (
    "A batch costs the host 0.3 to 1 ms of Python: NumPy makes the tables that kernels read (addresses, shapes, "
    "windows, numbers of each sample), CuPy copies and launches, threads hand the batch over. DALI's C++ takes 0.1 to "
    "0.2 ms. It doesn't grow with the pictures, and in a pipeline it lies behind the decoding of other batches. Found "
    "by running the same cases with a stub in CuPy's place that does nothing, so that only Python is left: on one of "
    "the cores of another machine, that takes 0.57 times as long as the whole did here (the median), more where the "
    "whole takes more (correlation: 0.85). Besides, times differ by up to twice from round to round, as threads of the "
    "host make them; what the GPU itself bounds (`resize`, Lanczos) stays within 1 %."
)
_EACH = (
    "As above, and more of it: arguments or shapes are worked out sample by sample, in 5 to 30 microseconds of Python "
    "each."
)
_DRAWN = (
    "Numbers are drawn on the CPU, by one thread of NumPy, and then copied. One number a sample takes 0.5 ms; matrices "
    "of 100 x 100, 640,000 numbers a batch, 7 ms (uniform) and 15 ms (normal). Of these the copy is no part to speak "
    "of: with that stub, they take about as long."
)

_HOST_ALONE = """
bb_flip
brightness brightness_contrast cast cast_like cat color_space_conversion color_twist constant contrast coord_flip
coord_transform copy crop crop_mirror_normalize element_extract equalize external_source flip gaussian_blur get_property
hsv hue jpeg_compression_distortion lookup_table noise.gaussian noise.salt_and_pepper noise.shot normalize one_hot
permute_batch random.coin_flip random_resized_crop reductions.max reductions.mean reductions.mean_square reductions.min
reductions.rms reductions.std_dev reductions.sum reductions.variance saturation shapes slice stack transpose warp_affine
"""
_BY_SAMPLE = """
erase expand_dims fast_resize_crop_mirror filter pad paste reinterpret reshape resize_crop_mirror rotate squeeze
"""

#: On the GPU, by operator.
ON_GPU: dict[str, str] = {
    **dict.fromkeys(_HOST_ALONE.split(), _HOST),
    **dict.fromkeys(_BY_SAMPLE.split(), _EACH),
    "decoders.image_slice": (
        "Its rounds took 3.7, 4.8 and 9.6 ms, those of DALI 3.5. Both have nvImageCodec decode, whose threads share "
        "the cores with ours; `decoders.image_crop` decodes windows in the same way, and is as fast as DALI's."
    ),
    "random.normal": _DRAWN,
    "random.uniform": _DRAWN,
    "resize": (
        "Lanczos: 4.4 ms in every round, so it is the GPU. The kernel works out the weights, with sines, for every "
        "pixel that it makes, instead of once for each column and row. The other filters: Python, as above."
    ),
}
