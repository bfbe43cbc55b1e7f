"""Imports every operator and reader, so that they are registered, with the old names of operators."""

from pipeline._catalog.aliases import register_aliases
from pipeline._declaration.registry import all_schemas
from pipeline._graph.nodes import constant_node
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
    sequence_rearrange,
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
from pipeline._operators.boxes import (
    bb_flip,
    bbox_paste,
    box_encoder,
    coord_flip,
    coord_transform,
    random_bbox_crop,
    random_mask_pixel,
    random_object_bbox,
    select_masks,
    ssd_random_crop,
    transforms,
)
from pipeline._operators.color import (
    brightness_contrast,
    clahe,
    color_space_conversion,
    color_twist_hsv,
    debayer,
    equalize,
    lookup_table,
)
from pipeline._operators.decoding import audio as audio_decoder
from pipeline._operators.decoding import dump_image, inflate, inputs_video, io_file_read, numpy_file, peek_image_shape
from pipeline._operators.decoding import image as image_decoder
from pipeline._operators.decoding import video as video_decoder
from pipeline._operators.effects import (
    erase,
    filter,
    gaussian_blur,
    grid_mask,
    jpeg_compression_distortion,
    laplacian,
    median_blur,
    morphology,
    noise,
)
from pipeline._operators.geometry import (
    bbox_rotate,
    crop,
    crop_mirror_normalize,
    displacements,
    flip,
    multi_paste,
    optical_flow,
    pad,
    paste,
    random_crop_generator,
    random_resized_crop,
    remap,
    resize,
    resize_crop_mirror,
    roi_random_crop,
    rotate,
    slice,
    tensor_resize,
    warp_affine,
    warp_perspective,
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

register_aliases()

__all__ = ["all_schemas", "constant_node", "fill_namespace", "make_class", "make_function"]
