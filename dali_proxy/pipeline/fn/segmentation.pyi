# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.segmentation`."""

from builtins import bool as _bool
from typing import Literal
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode


__all__ = ['random_mask_pixel', 'random_object_bbox', 'select_masks']

def random_mask_pixel(
    mask: Nodes | ConstantLike, /, *, foreground: Int | DataNode = 0, threshold: Float | DataNode = 0.0,
    value: Int | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Draws a pixel of a mask: one of the foreground, or any.

    The output is the position of the pixel, INT64, with an index for each dimension of the mask. All pixels of the
    foreground have the same probability; if there are none, all pixels of the mask.

    Devices: cpu.

    Args:
        mask: Masks of any shape.
        foreground (int or DataNode, default 0): Nonzero draws from the foreground; 0 from all pixels.
        threshold (float or DataNode, default 0.0): The foreground has values above it.
        value (int or DataNode, default None): The foreground has this value; can't be used together with `threshold`.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def random_object_bbox(
    map: Nodes | ConstantLike, /, *, background: Int | DataNode = 0, cache_objects: _bool = False,
    class_weights: Floats | DataNode | None = None, classes: Ints | DataNode | None = None,
    foreground_prob: Float | DataNode = 1.0,
    format: Literal['anchor_shape', 'start_end', 'box'] = 'anchor_shape', ignore_class: _bool = False,
    k_largest: Int | None = None, output_class: _bool = False, threshold: Ints | DataNode | None = None,
    **common: Unpack[Common],
) -> list[Nodes]:
    """Draws an object of a segmentation map, and returns its bounding box.

    With the probability `foreground_prob`, a class is drawn, then one of its objects: connected regions with the label of
    the class. Otherwise, and if no object is large enough, the box is the whole map. A class without a sufficiently large
    object isn't drawn. The outputs are INT32: the box, as `format` says, and with `output_class` its label.

    Devices: cpu.

    Args:
        map: Integers of any shape: a label for each pixel.
        background (int or DataNode, default 0): Label of the background; by default 0, or another number if `classes` has 0.
        cache_objects (bool, default False): Accepted for compatibility; objects are found again.
        class_weights (float or list of float or DataNode, default None): Relative probabilities of `classes`, or of the labels 1, 2 and so on; by default they are equal.
        classes (int or list of int or DataNode, default None): Labels of objects; by default all except `background`.
        foreground_prob (float or DataNode, default 1.0): Probability of the box of an object, 0 to 1.
        format (str, default 'anchor_shape'): "anchor_shape" and "start_end" return two outputs; "box" returns start and end in one output.
        ignore_class (bool, default False): Draw from the objects of all classes together; can't be used together with `classes`, `class_weights` and `output_class`.
        k_largest (int, default None): Draw only from this many boxes with the largest volumes.
        output_class (bool, default False): Add an output: the label, or `background` for the whole map.
        threshold (int or list of int or DataNode, default None): Smallest extents of a box: one for all axes or one per axis.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def select_masks(
    mask_ids: Nodes | ConstantLike, polygons: Input, vertices: Input, /, *, reindex_masks: _bool = False,
    **common: Unpack[Common],
) -> list[Nodes]:
    """Selects the polygons of masks, in the order of `mask_ids`.

    Polygons and vertices have the form in which `fn.readers.coco` returns them. The outputs are the chosen polygons and
    their vertices.

    Devices: cpu.

    Args:
        mask_ids: INT32 of shape (K,): masks to select, each of them once.
        polygons: INT32 of shape (P, 3): a polygon's mask, the index of its first vertex, and the index after its last.
        vertices: Coordinates of the vertices, of shape (V, n) and any dtype.
        reindex_masks (bool, default False): Number the masks in the order of `mask_ids`: 0, 1, and so on.
        device (str): device of the operator; by default that of its inputs.
    """

