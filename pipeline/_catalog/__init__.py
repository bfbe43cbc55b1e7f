"""Imports every operator and reader, so that they are registered, with the old names of operators."""

from pipeline._catalog.aliases import register_aliases
from pipeline._declaration.registry import all_schemas
from pipeline._operator_api.functions import fill_namespace, make_class, make_function
from pipeline._operators.arrays import (
    arithmetic,
    cast,
    cat_stack,
    constant,
    constant_value,
    copy,
    copy_to_device,
    element_extract,
    expand_dims,
    full,
    get_property,
    merge,
    normalize,
    one_hot,
    ones,
    per_frame,
    permute_batch,
    reductions,
    reinterpret,
    reshape,
    shapes,
    split,
    squeeze,
    subscript,
    table_row,
    transpose,
    truth,
    zeros,
)
from pipeline._operators.audio import (
    audio_resample,
    mel_filter_bank,
    mfcc,
    nonsilent_region,
    power_spectrum,
    preemphasis_filter,
    spectrogram,
    to_decibels,
)
from pipeline._operators.boxes import bb_flip, coord_flip, coord_transform, random_bbox_crop, transforms
from pipeline._operators.color import (
    brightness_contrast,
    color_space_conversion,
    color_twist_hsv,
    equalize,
    lookup_table,
)
from pipeline._operators.decoding import audio as audio_decoder
from pipeline._operators.decoding import image as image_decoder
from pipeline._operators.decoding import inflate, inputs_video, io_file_read, numpy_file, peek_image_shape
from pipeline._operators.decoding import video as video_decoder
from pipeline._operators.effects import erase, filter, gaussian_blur, jpeg_compression_distortion, noise
from pipeline._operators.geometry import (
    crop,
    crop_mirror_normalize,
    flip,
    pad,
    paste,
    random_crop_generator,
    random_resized_crop,
    resize,
    resize_crop_mirror,
    rotate,
    slice,
    warp_affine,
)
from pipeline._operators.random import beta, choice, coin_flip, normal, uniform
from pipeline._operators.user_code import external_source, nvidia_pipeline, python_function
from pipeline._readers import caffe as caffe_reader
from pipeline._readers import caffe2 as caffe2_reader
from pipeline._readers import coco as coco_reader
from pipeline._readers import file as file_reader
from pipeline._readers import fits as fits_reader
from pipeline._readers import mxnet as mxnet_reader
from pipeline._readers import nemo_asr as nemo_asr_reader
from pipeline._readers import numpy_files as numpy_reader
from pipeline._readers import sequence as sequence_reader
from pipeline._readers import tfrecord as tfrecord_reader
from pipeline._readers import video as video_reader
from pipeline._readers import video_experimental as experimental_video_reader
from pipeline._readers import video_resize as video_resize_reader
from pipeline._readers import webdataset as webdataset_reader

#: Modules whose import fills the registry.
FAMILIES = (
    arithmetic,
    audio_decoder,
    audio_resample,
    bb_flip,
    beta,
    brightness_contrast,
    caffe2_reader,
    caffe_reader,
    cast,
    cat_stack,
    choice,
    coco_reader,
    coin_flip,
    color_space_conversion,
    color_twist_hsv,
    constant,
    constant_value,
    coord_flip,
    coord_transform,
    copy,
    copy_to_device,
    crop,
    crop_mirror_normalize,
    element_extract,
    equalize,
    erase,
    expand_dims,
    experimental_video_reader,
    external_source,
    file_reader,
    filter,
    fits_reader,
    flip,
    full,
    gaussian_blur,
    get_property,
    image_decoder,
    inflate,
    inputs_video,
    io_file_read,
    jpeg_compression_distortion,
    lookup_table,
    mel_filter_bank,
    merge,
    mfcc,
    mxnet_reader,
    nemo_asr_reader,
    noise,
    nonsilent_region,
    normal,
    normalize,
    numpy_file,
    numpy_reader,
    nvidia_pipeline,
    one_hot,
    ones,
    pad,
    paste,
    peek_image_shape,
    per_frame,
    permute_batch,
    power_spectrum,
    preemphasis_filter,
    python_function,
    random_bbox_crop,
    random_crop_generator,
    random_resized_crop,
    reductions,
    reinterpret,
    reshape,
    resize,
    resize_crop_mirror,
    rotate,
    sequence_reader,
    shapes,
    slice,
    spectrogram,
    split,
    squeeze,
    subscript,
    table_row,
    tfrecord_reader,
    to_decibels,
    transforms,
    transpose,
    truth,
    uniform,
    video_decoder,
    video_reader,
    video_resize_reader,
    warp_affine,
    webdataset_reader,
    zeros,
)

register_aliases()

__all__ = ["FAMILIES", "all_schemas", "fill_namespace", "make_class", "make_function"]
