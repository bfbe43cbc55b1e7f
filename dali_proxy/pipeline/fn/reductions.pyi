# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.reductions`."""

from builtins import bool as _bool
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Input, Int
from dali_proxy.pipeline._annotations import Ints, Nodes, Str
from dali_proxy.pipeline.types import DALIDataType


__all__ = ['max', 'mean', 'mean_square', 'min', 'rms', 'std_dev', 'sum', 'variance']

def max(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes maxima along axes; NaN is ignored.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

def mean(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: DALIDataType | None = None, keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes means along axes.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        dtype (DALIDataType, default None): Dtype of the result; by default 64-bit integers for sums of integers, else FLOAT. Integer sums wrap around, and integer means are truncated.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

def mean_square(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: DALIDataType | None = None, keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes means of squares along axes.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        dtype (DALIDataType, default None): Dtype of the result; by default 64-bit integers for sums of integers, else FLOAT. Integer sums wrap around, and integer means are truncated.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

def min(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes minima along axes; NaN is ignored.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

def rms(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: DALIDataType | None = None, keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes roots of the means of squares along axes.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        dtype (DALIDataType, default None): Dtype of the result; by default 64-bit integers for sums of integers, else FLOAT. Integer sums wrap around, and integer means are truncated.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

def std_dev(
    data: Nodes | ConstantLike, mean: Input, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    ddof: Int = 0, keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes roots of the means of the squared differences from a given mean along axes.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        mean: Means: one per sample, or one per element of the output.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        ddof (int, default 0): Subtracted from the number of elements in the divisor.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

def sum(
    data: Nodes | ConstantLike, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: DALIDataType | None = None, keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes sums along axes.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        dtype (DALIDataType, default None): Dtype of the result; by default 64-bit integers for sums of integers, else FLOAT. Integer sums wrap around, and integer means are truncated.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

def variance(
    data: Nodes | ConstantLike, mean: Input, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    ddof: Int = 0, keep_dims: _bool = False, **common: Unpack[Common],
) -> Nodes:
    """Computes means of the squared differences from a given mean along axes.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape.
        mean: Means: one per sample, or one per element of the output.
        axes (int or list of int, default None): Indices of the axes; negative ones count from the end. All axes by default.
        axis_names (str, default None): Layout letters of the axes, instead of `axes`.
        ddof (int, default 0): Subtracted from the number of elements in the divisor.
        keep_dims (bool, default False): Keep the axes, with an extent of 1.
        device (str): device of the operator; by default that of its inputs.
    """

