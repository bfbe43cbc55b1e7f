# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.io`."""

from typing import Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Int
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIImageType

from dali_proxy.pipeline.fn.io import file as file

__all__ = ['file', 'video']

def video(
    source: Nodes | ConstantLike, /, *, fill_value: Ints = (0,), frames: Ints | DataNode | None = None,
    image_type: DALIImageType = DALIImageType.RGB,
    pad_mode: Literal['none', 'constant', 'edge', 'repeat', 'reflect_1001', 'symmetric', 'reflect_101', 'reflect'] = 'none',
    pool_bytes: Int = 1073741824, times: Floats | DataNode | None = None, tolerance: Float | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Returns single frames of videos, FHWC, for datasets that ask for frames at random.

    The input is the path or the URL of a video, or the content of its file. Pass either
    `frames` or `times`. All samples of all batches of the process share a pool of decoded frames: frames that other samples
    need, or will need as far as it is known, are decoded together, once, beginning at a key frame. A server knows all
    samples that its workers have sent. The pool doesn't change the results, nor their order.

    Frames are numbered in display order, from 0. They have the size in which they were encoded; the rotation in a file
    isn't applied. Files that are replaced or changed are read again. The content of a file, in place of its path, is
    decoded for its sample only. With device='mixed', NVDEC decodes, and frames and pool are on the GPU; the CPU decodes
    what NVDEC doesn't support, and groups of pictures for which NVDEC is too busy.

    Devices: cpu, mixed.

    Args:
        source: Paths or URLs, or the contents of files. Pass a path to a proxy, or to the function in `dynamic`, as a string, a `Path` or its bytes.
        fill_value (int or list of int, default (0,)): Color for 'constant': one value per channel, or one for all.
        frames (int or list of int or DataNode, default None): Numbers of frames, in any order. A number may be repeated.
        image_type (DALIImageType, default DALIImageType.RGB): Color space of the output: RGB, BGR, GRAY or YCbCr.
        pad_mode (str, default 'none'): Replacement of frames before the start and after the end: an error by default, or as in `fn.decoders.video`.
        pool_bytes (int, default 1073741824): Largest size of the pool. All operators of a process share one pool for each device, and the largest value counts.
        times (float or list of float or DataNode, default None): Presentation times in seconds, in place of `frames`. Each selects the frame with the nearest time, the earlier one of two.
        tolerance (float, default None): Largest distance between a time and the nearest frame, in seconds; beyond it, the batch raises an error.
        device (str): device of the operator; by default that of its inputs.
    """

