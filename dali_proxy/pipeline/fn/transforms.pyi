# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.transforms`."""

from builtins import bool as _bool
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input, Int
from dali_proxy.pipeline._annotations import Nodes
from dali_proxy.pipeline._graph.nodes import DataNode


__all__ = ['combine', 'crop', 'rotation', 'scale', 'shear', 'translation']

def combine(
    input_0: Nodes | ConstantLike, input_1: Input, /, *inputs: Input, reverse_order: _bool = False,
    **common: Unpack[Common],
) -> Nodes:
    """Combines transforms into one that applies them in the order of the inputs.

    Devices: cpu.

    Args:
        input_0: Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**.
        input_1: As `input_0`.
        inputs: Further inputs, as `input_0`.
        reverse_order (bool, default False): Apply the last transform first.
        device (str): device of the operator; by default that of its inputs.
    """

def crop(
    input: Nodes | ConstantLike | None = None, /, *, absolute: _bool = False,
    from_end: Floats | DataNode = (1.0,), from_start: Floats | DataNode = (0.0,),
    reverse_order: _bool = False, to_end: Floats | DataNode = (1.0,), to_start: Floats | DataNode = (0.0,),
    **common: Unpack[Common],
) -> Nodes:
    """Returns a transform that maps one box to another, for example a window to the whole image.

    With an input, the result applies the input's transform first, then this one.

    Devices: cpu.

    Args:
        input: Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**.
        absolute (bool, default False): Swap corners whose start is larger than their end.
        from_end (float or list of float or DataNode, default (1.0,)): Upper corner of the first box.
        from_start (float or list of float or DataNode, default (0.0,)): Lower corner of the first box.
        reverse_order (bool, default False): Apply the input's transform after this one, not before it.
        to_end (float or list of float or DataNode, default (1.0,)): Upper corner of the second box.
        to_start (float or list of float or DataNode, default (0.0,)): Lower corner of the second box.
        device (str): device of the operator; by default that of its inputs.
    """

def rotation(
    input: Nodes | ConstantLike | None = None, /, *, angle: Float | DataNode,
    axis: Floats | DataNode | None = None, center: Floats | DataNode | None = None,
    reverse_order: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Returns a transform that rotates points: from x to y in the plane, about an axis in space.

    With an input, the result applies the input's transform first, then this one.

    Devices: cpu.

    Args:
        input: Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**.
        angle (float or DataNode): Angle in degrees.
        axis (float or list of float or DataNode, default None): Rotation axis in space: x, y and z, not all zero.
        center (float or list of float or DataNode, default None): Point that the transform doesn't move; the origin by default.
        reverse_order (bool, default False): Apply the input's transform after this one, not before it.
        device (str): device of the operator; by default that of its inputs.
    """

def scale(
    input: Nodes | ConstantLike | None = None, /, *, center: Floats | DataNode | None = None,
    ndim: Int | None = None, reverse_order: _bool = False, scale: Floats | DataNode, **common: Unpack[Common],
) -> Nodes:
    """Returns a transform that multiplies coordinates.

    With an input, the result applies the input's transform first, then this one.

    Devices: cpu.

    Args:
        input: Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**.
        center (float or list of float or DataNode, default None): Point that the transform doesn't move; the origin by default.
        ndim (int, default None): Number of dimensions, for a single factor without an input.
        reverse_order (bool, default False): Apply the input's transform after this one, not before it.
        scale (float or list of float or DataNode): Factors, one per dimension.
        device (str): device of the operator; by default that of its inputs.
    """

def shear(
    input: Nodes | ConstantLike | None = None, /, *, angles: Floats | DataNode | None = None,
    center: Floats | DataNode | None = None, reverse_order: _bool = False,
    shear: Floats | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Returns a transform that shears: it adds multiples of the other coordinates to each coordinate.

    With an input, the result applies the input's transform first, then this one.

    Devices: cpu.

    Args:
        input: Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**.
        angles (float or list of float or DataNode, default None): Alternative to `shear`: degrees, whose tangents are the factors.
        center (float or list of float or DataNode, default None): Point that the transform doesn't move; the origin by default.
        reverse_order (bool, default False): Apply the input's transform after this one, not before it.
        shear (float or list of float or DataNode, default None): Factors: xy, yx; in space xy, xz, yx, yz, zx, zy.
        device (str): device of the operator; by default that of its inputs.
    """

def translation(
    input: Nodes | ConstantLike | None = None, /, *, offset: Floats | DataNode, reverse_order: _bool = False,
    **common: Unpack[Common],
) -> Nodes:
    """Returns a transform that moves points.

    With an input, the result applies the input's transform first, then this one.

    Devices: cpu.

    Args:
        input: Matrices, float32 of shape (n, n + 1), or sequences of them with the layout F**.
        offset (float or list of float or DataNode): Distances, one per dimension.
        reverse_order (bool, default False): Apply the input's transform after this one, not before it.
        device (str): device of the operator; by default that of its inputs.
    """

