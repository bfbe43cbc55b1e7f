"""Errors about arguments and samples contain NVIDIA DALI's words, because scripts search for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import PipelineError
from tests.pipeline.operators.both import Graph, run_dali, run_ours

SIGNAL = [np.ones(600, np.float32)]
TABLE = [np.ones((20, 30), np.float32)]
IMAGE = [np.zeros((20, 30, 3), np.uint8)]
BOX = [np.array([[0, 0, 0.5, 1]], np.float32)]
LABELS = [np.array([1, 2], np.int32)]
MATRIX = [np.eye(2, 3, dtype=np.float32)]
MAP = [np.array([[0, 1], [1, 2]], np.int32)]
MASKS = [
    [np.array([5], np.int32)],
    [np.array([[0, 0, 3], [1, 3, 6]], np.int32)],
    [np.zeros((6, 2), np.float32)],
]

ERRORS: dict[str, tuple[list[Any], Graph]] = {
    "The `in_idx` must be in range": ([IMAGE], lambda fn, _, x: fn.multi_paste(x, in_ids=[3], output_size=[9, 9])),
    "Got output anchor: 0 x 0, pasted region shape: 20 x 30, output shape: 9 x 9, for the region at index 0": (
        [IMAGE],
        lambda fn, _, x: fn.multi_paste(x, in_ids=[0], output_size=[9, 9]),
    ),
    "Selected mask_id 5 is not present in the input": (MASKS, lambda fn, _, *x: fn.segmentation.select_masks(*x)),
    "``k_largest`` must be at least 1; got 0": (
        [MAP],
        lambda fn, _, x: fn.segmentation.random_object_bbox(x, k_largest=0),
    ),
    'Invalid output format: "foo"': ([MAP], lambda fn, _, x: fn.segmentation.random_object_bbox(x, format="foo")),
    'Argument "threshold" expected shape 2 but got 3 values': (
        [MAP],
        lambda fn, _, x: fn.segmentation.random_object_bbox(x, threshold=[1, 2, 3]),
    ),
    "classes.shape = {2} weights.shape = {1}": (
        [MAP],
        lambda fn, _, x: fn.segmentation.random_object_bbox(x, classes=[1, 2], class_weights=[1.0]),
    ),
    "Number of labels must match number of boxes. Got: 2 and 1": (
        [BOX, LABELS],
        lambda fn, _, x, labels: fn.bbox_rotate(x, labels, angle=3.0, input_shape=[9, 9]),
    ),
    "Unknown mode: foo": ([BOX], lambda fn, _, x: fn.bbox_rotate(x, angle=3.0, input_shape=[9, 9], mode="foo")),
    "Anchors size must be divisible by 4, actual value = 3": (
        [BOX, LABELS],
        lambda fn, _, x, labels: fn.box_encoder(x, labels, anchors=[0.0, 0.0, 1.0]),
    ),
    "Expected criteria <= 1, actual value = 2.000000": (
        [BOX, LABELS],
        lambda fn, _, x, labels: fn.box_encoder(x, labels, anchors=[0.0, 0.0, 1.0, 1.0], criteria=2.0),
    ),
    "axis not present in the layout. Got: `AB`": (
        [TABLE],
        lambda fn, _, x: fn.mel_filter_bank(fn.reshape(x, layout="AB")),
    ),
    "sample rate should be > 0": ([TABLE], lambda fn, _, x: fn.mel_filter_bank(x, sample_rate=0.0)),
    "ratio of less than 1 is not supported": ([IMAGE], lambda fn, _, x: fn.paste(x, ratio=0.5, fill_value=1)),
    "Unsupported input type: int64": ([[IMAGE[0].astype(np.int64)]], lambda fn, _, x: fn.hue(x, hue=3.0)),
    "Exactly one method of specifying size must be used": ([IMAGE], lambda fn, _, x: fn.resize(x)),
    "Missing argument ``axes`` or ``axis_names``": ([TABLE], lambda fn, _, x: fn.squeeze(x)),
    "Unexpected input data type. Expected float, got: int32": (
        [MAP],
        lambda fn, _, x: fn.transforms.scale(x, scale=[1.0]),
    ),
    "expected to be a 2D tensor with dimensions (ndim, ndim+1) representing an affine transform": (
        [TABLE],
        lambda fn, _, x: fn.transforms.scale(x, scale=[1.0]),
    ),
    "The input describes a 2D transform but other arguments suggest a 3D transform": (
        [MATRIX],
        lambda fn, _, x: fn.transforms.translation(x, offset=[1, 2, 3]),
    ),
    "Shear matrix must have D*(D-1) elements": ([MATRIX], lambda fn, _, x: fn.transforms.shear(x, shear=[1.0])),
    "One and only one of the following arguments is expected: ``shear`` or ``angles``": (
        [MATRIX],
        lambda fn, _, x: fn.transforms.shear(x),
    ),
    "Unexpected layout: xy": ([SIGNAL], lambda fn, _, x: fn.spectrogram(x, layout="xy")),
    "number of filters should be > 0": ([TABLE], lambda fn, _, x: fn.mel_filter_bank(x, nfilter=0)),
    "Axis 10 is out of bounds [0,2)": ([TABLE], lambda fn, _, x: fn.mfcc(x, axis=10)),
    "No resampling factor specified!": ([SIGNAL], lambda fn, _, x: fn.audio_resample(x)),
    "Need one of ``scales`` or ``sizes``, but not both": ([TABLE], lambda fn, _, x: fn.tensor_resize(x)),
    "Arguments `axes` and `axis_names` are mutually exclusive": (
        [TABLE],
        lambda fn, _, x: fn.tensor_resize(x, sizes=[1], axes=[0], axis_names="A"),
    ),
    'specify values for arguments: "clip_limit", "tiles_x", "tiles_y"': ([IMAGE], lambda fn, _, x: fn.clahe(x)),
}


@pytest.mark.parity
@pytest.mark.parametrize("words", ERRORS)
def test_words_are_those_of_dali(words: str) -> None:
    feeds, graph = ERRORS[words]
    layouts = ["HWC"] if feeds[0] is IMAGE else []
    with pytest.raises((RuntimeError, ValueError, TypeError)) as theirs:
        run_dali(graph, *feeds, layouts=layouts)
    assert words in " ".join(str(theirs.value).split())
    with pytest.raises(PipelineError) as ours:
        run_ours(graph, *feeds, layouts=layouts)
    assert words in str(ours.value)
