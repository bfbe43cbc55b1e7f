# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.random`."""

from typing import Any
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Dtype, Float, Floats
from dali_proxy.pipeline._annotations import Ints
from dali_proxy.pipeline._dynamic.devices import Device

from dali_proxy.pipeline._dynamic.randomness import RNG as RNG
from dali_proxy.pipeline._dynamic.randomness import SampleRNG as SampleRNG
from dali_proxy.pipeline._dynamic.randomness import get_default_rng as get_default_rng
from dali_proxy.pipeline._dynamic.randomness import set_seed as set_seed

__all__ = ['RNG', 'SampleRNG', 'beta', 'choice', 'coin_flip', 'get_default_rng', 'normal', 'set_seed', 'uniform']

def beta(
    shape_like: Arrays | Data | None = None, /, *, alpha: Float | Array = 1.0, beta: Float | Array = 1.0,
    dtype: Dtype | None = None, shape: Ints | Array | None = None, device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> Any:
    """Draws numbers between 0 and 1 from a beta distribution. `fn.random.beta` describes the arguments."""

def choice(
    a: Arrays | Data, shape_like: Array | Data | None = None, /, *, p: Floats | Array | None = None,
    shape: Ints | Array | None = None, device: Device | str | None = None, batch_size: int | None = None,
    rng: RNG | None = None,
) -> Arrays:
    """Draws elements of an array. `fn.random.choice` describes the arguments."""

def coin_flip(
    shape_like: Arrays | Data | None = None, /, *, dtype: Dtype | None = None,
    probability: Float | Array = 0.5, shape: Ints | Array | None = None, device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> Any:
    """Draws 1 with a given probability, else 0. `fn.random.coin_flip` describes the arguments."""

def normal(
    shape_like: Arrays | Data | None = None, /, *, dtype: Dtype | None = None, mean: Float | Array = 0.0,
    shape: Ints | Array | None = None, stddev: Float | Array = 1.0, device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> Any:
    """Draws numbers from a normal distribution. `fn.random.normal` describes the arguments."""

def uniform(
    shape_like: Arrays | Data | None = None, /, *, dtype: Dtype | None = None,
    range: Floats | Array = (-1.0, 1.0), shape: Ints | Array | None = None,
    values: Floats | Array | None = None, device: Device | str | None = None, batch_size: int | None = None,
    rng: RNG | None = None,
) -> Any:
    """Draws numbers from a uniform distribution over a half-open range, or over a list of values. `fn.random.uniform` describes the arguments."""

