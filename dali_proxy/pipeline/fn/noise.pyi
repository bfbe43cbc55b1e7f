# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.fn.noise`."""

from builtins import bool as _bool
from typing_extensions import Unpack
from dali_proxy.pipeline._annotations import Common, ConstantLike, Float
from dali_proxy.pipeline._annotations import Nodes
from dali_proxy.pipeline._graph.nodes import DataNode


__all__ = ['gaussian', 'salt_and_pepper', 'shot']

def gaussian(
    data: Nodes | ConstantLike, /, *, mean: Float | DataNode = 0.0, stddev: Float | DataNode = 1.0,
    **common: Unpack[Common],
) -> Nodes:
    """Adds an independent, normally distributed random number to each value.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape: integers or FLOAT. The output has their shape and dtype.
        mean (float or DataNode, default 0.0): Mean of the distribution.
        stddev (float or DataNode, default 1.0): Standard deviation of the distribution.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def salt_and_pepper(
    data: Nodes | ConstantLike, /, *, pepper_val: Float | DataNode | None = None, per_channel: _bool = False,
    prob: Float | DataNode = 0.05, salt_val: Float | DataNode | None = None,
    salt_vs_pepper: Float | DataNode = 0.5, **common: Unpack[Common],
) -> Nodes:
    """Replaces randomly chosen values by the value of salt or of pepper.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape: integers or FLOAT. The output has their shape and dtype.
        pepper_val (float or DataNode, default None): Value of pepper; by default the dtype's smallest, or -1.0 for FLOAT.
        per_channel (bool, default False): Replace the channels of a pixel independently. Otherwise the layout must have C; without a layout, C is the last dimension.
        prob (float or DataNode, default 0.05): Probability that a value is replaced.
        salt_val (float or DataNode, default None): Value of salt; by default the dtype's largest, or 1.0 for FLOAT.
        salt_vs_pepper (float or DataNode, default 0.5): Probability that a replaced value is salt.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

def shot(data: Nodes | ConstantLike, /, *, factor: Float | DataNode = 20.0, **common: Unpack[Common]) -> Nodes:
    """Replaces each value by factor * Poisson(value / factor), like a detector that counts events.

    Devices: cpu, gpu.

    Args:
        data: Samples of any shape: integers or FLOAT. The output has their shape and dtype.
        factor (float or DataNode, default 20.0): Value of one event; 0 doesn't change samples.
        device (str): device of the operator; by default that of its inputs.
        seed (int, default -1): Seed of the operator's random numbers; by default derived from the pipeline's.
    """

