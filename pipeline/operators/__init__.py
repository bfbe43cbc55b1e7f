"""Operators: a registry, and one module per family that declares and implements them."""

from pipeline.operators import (
    arithmetic,
    brightness_contrast,
    cast,
    color_space_conversion,
    color_twist,
    constant,
    copying,
    crop,
    crop_mirror_normalize,
    decoders,
    erase,
    external_source,
    file_read,
    flip,
    gaussian_blur,
    get_property,
    nvidia_pipeline,
    pad,
    paste,
    peek_image_shape,
    random_crop,
    random_numbers,
    resize,
    shapes,
    slicing,
    subscript,
    transfer,
    transforms,
    transpose,
)
from pipeline.operators.functions import class_name, fill_namespace, make_class, make_function
from pipeline.operators.registry import all_schemas
from pipeline.readers import file as file_reader
from pipeline.readers import sequence as sequence_reader

#: Modules whose import fills the registry.
FAMILIES = (
    arithmetic,
    brightness_contrast,
    cast,
    color_space_conversion,
    color_twist,
    constant,
    copying,
    crop,
    crop_mirror_normalize,
    decoders,
    erase,
    external_source,
    file_read,
    file_reader,
    flip,
    gaussian_blur,
    get_property,
    nvidia_pipeline,
    pad,
    paste,
    peek_image_shape,
    random_crop,
    random_numbers,
    resize,
    sequence_reader,
    shapes,
    slicing,
    subscript,
    transfer,
    transforms,
    transpose,
)

__all__ = ["FAMILIES", "all_schemas", "class_name", "fill_namespace", "make_class", "make_function"]
