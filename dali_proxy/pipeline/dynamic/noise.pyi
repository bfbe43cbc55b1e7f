# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.noise`."""

from builtins import bool as _bool
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Float
from dali_proxy.pipeline._dynamic.devices import Device
from dali_proxy.pipeline._dynamic.randomness import RNG


__all__ = ['gaussian', 'salt_and_pepper', 'shot']

def gaussian(
    data: Arrays | Data, /, *, mean: Float | Array = 0.0, stddev: Float | Array = 1.0,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> Arrays:
    """Adds an independent, normally distributed random number to each value. `fn.noise.gaussian` describes the arguments."""

def salt_and_pepper(
    data: Arrays | Data, /, *, pepper_val: Float | Array | None = None, per_channel: _bool = False,
    prob: Float | Array = 0.05, salt_val: Float | Array | None = None, salt_vs_pepper: Float | Array = 0.5,
    device: Device | str | None = None, batch_size: int | None = None, rng: RNG | None = None,
) -> Arrays:
    """Replaces randomly chosen values by the value of salt or of pepper. `fn.noise.salt_and_pepper` describes the arguments."""

def shot(
    data: Arrays | Data, /, *, factor: Float | Array = 20.0, device: Device | str | None = None,
    batch_size: int | None = None, rng: RNG | None = None,
) -> Arrays:
    """Replaces each value by factor * Poisson(value / factor), like a detector that counts events. `fn.noise.shot` describes the arguments."""

