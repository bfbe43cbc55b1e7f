"""Imports every operator and reader, so that they are registered, with the old names of operators."""

from pipeline._catalog.aliases import register_aliases
from pipeline._declaration.registry import all_schemas
from pipeline._operator_api.functions import class_name, fill_namespace, make_class, make_function
from pipeline._operators.arrays import (
    arithmetic,
    cast,
    element_extract,
    get_property,
    merge,
    normalize,
    one_hot,
    per_frame,
    reductions,
    shapes,
    subscript,
    table_row,
    transpose,
)
from pipeline._operators.arrays import cat_stack as joining
from pipeline._operators.arrays import constant_value as constant
from pipeline._operators.arrays import copy as copying
from pipeline._operators.arrays import copy_to_device as transfer
from pipeline._operators.arrays import full as filling
from pipeline._operators.arrays import permute_batch as batch_order
from pipeline._operators.arrays import reshape as reshaping
from pipeline._operators.boxes import bb_flip, coord_flip, coord_transform, random_bbox_crop, transforms
from pipeline._operators.color import brightness_contrast, color_space_conversion, lookup_table
from pipeline._operators.color import color_twist_hsv as color_twist
from pipeline._operators.color import equalize as byte_map
from pipeline._operators.decoding import image as decoders
from pipeline._operators.decoding import inputs_video as video_input
from pipeline._operators.decoding import io_file_read as file_read
from pipeline._operators.decoding import numpy_file as numpy_format
from pipeline._operators.decoding import peek_image_shape
from pipeline._operators.decoding import video as video_decoder
from pipeline._operators.effects import erase, filter, gaussian_blur, noise
from pipeline._operators.effects import jpeg_compression_distortion as jpeg_distortion
from pipeline._operators.geometry import (
    crop,
    crop_mirror_normalize,
    flip,
    pad,
    paste,
    random_resized_crop,
    resize,
    resize_crop_mirror,
    rotate,
    warp_affine,
)
from pipeline._operators.geometry import random_crop_generator as random_crop
from pipeline._operators.geometry import slice as slicing
from pipeline._operators.random import normal_beta_choice as random_distributions
from pipeline._operators.random import uniform_coin_flip as random_numbers
from pipeline._operators.user_code import external_source, nvidia_pipeline, python_function
from pipeline._readers import coco as coco_reader
from pipeline._readers import file as file_reader
from pipeline._readers import numpy_files as numpy_reader
from pipeline._readers import sequence as sequence_reader
from pipeline._readers import video as video_reader
from pipeline._readers import video_experimental as experimental_video_reader
from pipeline._readers import video_resize as video_resize_reader
from pipeline._readers import webdataset as webdataset_reader

#: Modules whose import fills the registry.
FAMILIES = (
    arithmetic,
    batch_order,
    bb_flip,
    brightness_contrast,
    byte_map,
    cast,
    coco_reader,
    color_space_conversion,
    color_twist,
    constant,
    coord_flip,
    coord_transform,
    copying,
    crop,
    crop_mirror_normalize,
    decoders,
    element_extract,
    erase,
    experimental_video_reader,
    external_source,
    file_read,
    file_reader,
    filling,
    filter,
    flip,
    gaussian_blur,
    get_property,
    joining,
    jpeg_distortion,
    lookup_table,
    merge,
    noise,
    normalize,
    numpy_format,
    numpy_reader,
    nvidia_pipeline,
    one_hot,
    pad,
    paste,
    peek_image_shape,
    per_frame,
    python_function,
    random_bbox_crop,
    random_crop,
    random_distributions,
    random_numbers,
    random_resized_crop,
    reductions,
    reshaping,
    resize,
    resize_crop_mirror,
    rotate,
    sequence_reader,
    shapes,
    slicing,
    subscript,
    table_row,
    transfer,
    transforms,
    transpose,
    video_decoder,
    video_input,
    video_reader,
    video_resize_reader,
    warp_affine,
    webdataset_reader,
)

register_aliases()

__all__ = ["FAMILIES", "all_schemas", "class_name", "fill_namespace", "make_class", "make_function"]
