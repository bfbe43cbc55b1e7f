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

#: On the GPU, by operator.
ON_GPU: dict[str, str] = {}
