# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.random`."""

from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float, Floats, Input
from dali_proxy.pipeline._annotations import Ints, Nodes
from dali_proxy.pipeline._graph.nodes import DataNode
from dali_proxy.pipeline.types import DALIDataType


__all__ = ['beta', 'choice', 'coin_flip', 'normal', 'uniform']

def beta(
    shape_like: Nodes | ConstantLike | None = None, /, *, alpha: Float | DataNode = 1.0,
    beta: Float | DataNode = 1.0, dtype: DALIDataType | None = None, shape: Ints | DataNode | None = None,
    **common: Unpack[Common],
) -> Nodes:
    """Draws numbers between 0 and 1 from a beta distribution.

    Devices: cpu.

    Args:
        shape_like: Samples whose shapes the output gets, instead of `shape`.
        alpha (float or DataNode, default 1.0): First parameter of the distribution, positive.
        beta (float or DataNode, default 1.0): Second parameter of the distribution, positive.
        dtype (DALIDataType, default None): Dtype of the output: FLOAT or FLOAT64. Numbers are rounded and clamped to it.
        shape (int or list of int or DataNode, default None): Shape of the samples; scalars by default.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def choice(
    a: Nodes | ConstantLike, shape_like: Input | None = None, /, *, p: Floats | DataNode | None = None,
    shape: Ints | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Draws elements of an array. The output has the dtype of the elements.

    Devices: cpu.

    Args:
        a: Elements, along the first dimension; or an integer n, to draw from 0 to n - 1.
        shape_like: Samples whose shapes the output gets, instead of `shape`.
        p (float or list of float or DataNode, default None): Probability of each element; by default all are equal.
        shape (int or list of int or DataNode, default None): Shape of the samples; scalars by default.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def coin_flip(
    shape_like: Nodes | ConstantLike | None = None, /, *, dtype: DALIDataType | None = None,
    probability: Float | DataNode = 0.5, shape: Ints | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Draws 1 with a given probability, else 0.

    The GPU version returns the same numbers.

    Devices: cpu, gpu.

    Args:
        shape_like: Samples whose shapes the output gets, instead of `shape`.
        dtype (DALIDataType, default None): Dtype of the output: INT32, UINT8 or BOOL. Numbers are rounded and clamped to it.
        probability (float or DataNode, default 0.5): Probability of 1.
        shape (int or list of int or DataNode, default None): Shape of the samples; scalars by default.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def normal(
    shape_like: Nodes | ConstantLike | None = None, /, *, dtype: DALIDataType | None = None,
    mean: Float | DataNode = 0.0, shape: Ints | DataNode | None = None, stddev: Float | DataNode = 1.0,
    **common: Unpack[Common],
) -> Nodes:
    """Draws numbers from a normal distribution. The GPU version returns the same numbers, except with `shape_like` and the dtype FLOAT: then each device returns those that its `noise.gaussian` adds to that input with the same seed.

    Devices: cpu, gpu.

    Args:
        shape_like: Samples whose shapes the output gets, instead of `shape`.
        dtype (DALIDataType, default None): Dtype of the output: FLOAT, FLOAT64 or an integer. Numbers are rounded and clamped to it.
        mean (float or DataNode, default 0.0): Mean of the distribution.
        shape (int or list of int or DataNode, default None): Shape of the samples; scalars by default.
        stddev (float or DataNode, default 1.0): Standard deviation of the distribution.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def uniform(
    shape_like: Nodes | ConstantLike | None = None, /, *, dtype: DALIDataType | None = None,
    range: Floats | DataNode = (-1.0, 1.0), shape: Ints | DataNode | None = None,
    values: Floats | DataNode | None = None, **common: Unpack[Common],
) -> Nodes:
    """Draws numbers from a uniform distribution over a half-open range, or over a list of values.

    The GPU version returns the same numbers.

    Devices: cpu, gpu.

    Args:
        shape_like: Samples whose shapes the output gets, instead of `shape`.
        dtype (DALIDataType, default None): Dtype of the output: FLOAT, FLOAT64 or an integer. Numbers are rounded and clamped to it.
        range (float or list of float or DataNode, default (-1.0, 1.0)): Range of the numbers, from range[0] to below range[1].
        shape (int or list of int or DataNode, default None): Shape of the samples; scalars by default.
        values (float or list of float or DataNode, default None): Values to draw from, instead of `range`.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

