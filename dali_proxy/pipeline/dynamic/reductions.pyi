# Written by `python -m docs.stubs`.

"""Operators of `dali_proxy.pipeline.dynamic.reductions`."""

from builtins import bool as _bool
from dali_proxy.pipeline._annotations import Array, Arrays, Data, Dtype, Int
from dali_proxy.pipeline._annotations import Ints, Str
from dali_proxy.pipeline._dynamic.devices import Device


__all__ = ['max', 'mean', 'mean_square', 'min', 'rms', 'std_dev', 'sum', 'variance']

def max(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    keep_dims: _bool = False, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes maxima along axes; NaN is ignored. `fn.reductions.max` describes the arguments."""

def mean(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: Dtype | None = None, keep_dims: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes means along axes. `fn.reductions.mean` describes the arguments."""

def mean_square(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: Dtype | None = None, keep_dims: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes means of squares along axes. `fn.reductions.mean_square` describes the arguments."""

def min(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    keep_dims: _bool = False, device: Device | str | None = None, batch_size: int | None = None,
) -> Arrays:
    """Computes minima along axes; NaN is ignored. `fn.reductions.min` describes the arguments."""

def rms(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: Dtype | None = None, keep_dims: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes roots of the means of squares along axes. `fn.reductions.rms` describes the arguments."""

def std_dev(
    data: Arrays | Data, mean: Array | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    ddof: Int = 0, keep_dims: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes roots of the means of the squared differences from a given mean along axes. `fn.reductions.std_dev` describes the arguments."""

def sum(
    data: Arrays | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    dtype: Dtype | None = None, keep_dims: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes sums along axes. `fn.reductions.sum` describes the arguments."""

def variance(
    data: Arrays | Data, mean: Array | Data, /, *, axes: Ints | None = None, axis_names: Str | None = None,
    ddof: Int = 0, keep_dims: _bool = False, device: Device | str | None = None,
    batch_size: int | None = None,
) -> Arrays:
    """Computes means of the squared differences from a given mean along axes. `fn.reductions.variance` describes the arguments."""

