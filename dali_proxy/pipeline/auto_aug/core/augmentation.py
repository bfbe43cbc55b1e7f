"""Operations with a magnitude, for automatic augmentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from dali_proxy.pipeline._definition.conditional import called
from dali_proxy.pipeline._graph import DataNode
from dali_proxy.pipeline.auto_aug.core.magnitudes import SignedBin, coin, take
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

__all__ = ["Augmentation", "augmentation"]

Array = npt.NDArray[Any]


class _Unchanged:
    """Marks arguments that keep their value."""


class Augmentation:
    """An operation on a batch, with a parameter derived from a magnitude. The decorator `augmentation` creates it.

    Args:
        op: function of the batch and the parameter.
        mag_range: lowest and highest magnitude, or an array with the magnitude of each bin.
        randomly_negate: whether magnitudes are negated for about half of the samples.
        mag_to_param: function that converts a magnitude to a parameter.
        param_device: device of the parameter: "cpu", "gpu", or "auto" for the device of the batch.
        name: name of the operation; by default that of `op`.

    Raises:
        ArgumentTypeError: `op` doesn't accept a batch and a parameter.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        mag_range: tuple[float, float] | Array | None = None,
        randomly_negate: bool | None = None,
        mag_to_param: Callable[[float], npt.ArrayLike] | None = None,
        param_device: str | None = None,
        name: str | None = None,
    ) -> None:
        self._op = op
        self._given: dict[str, Any] = {
            "mag_range": mag_range,
            "mag_to_param": mag_to_param,
            "randomly_negate": randomly_negate,
            "param_device": param_device,
            "name": name,
        }
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        positional = [each for each in inspect.signature(op).parameters.values() if each.kind in kinds]
        if len(positional) < 2:
            raise ArgumentTypeError(
                f"{op} takes {len(positional)} positional arguments; an augmentation takes two: samples and a parameter"
            )

    @property
    def op(self) -> Callable[..., Any]:
        """The function of a batch, a parameter and further arguments."""
        return self._op

    @property
    def mag_range(self) -> tuple[float, float] | Array | None:
        """Lowest and highest magnitude, or the magnitudes of all bins; None for an operation without a magnitude."""
        mag_range: tuple[float, float] | Array | None = self._given["mag_range"]
        return mag_range

    @property
    def randomly_negate(self) -> bool:
        """Whether magnitudes are negated for about half of the samples."""
        return bool(self._given["randomly_negate"])

    @property
    def mag_to_param(self) -> Callable[[float], npt.ArrayLike]:
        """The function that converts a magnitude to a parameter."""
        return self._given["mag_to_param"] or np.asarray

    @property
    def param_device(self) -> str:
        """Device of the parameter: "cpu", "gpu" or "auto"."""
        return str(self._given["param_device"] or "cpu")

    @property
    def name(self) -> str:
        """Name of the operation in policies."""
        return str(self._given["name"] or getattr(self._op, "__name__", type(self._op).__name__))

    def augmentation(
        self,
        mag_range: Any = _Unchanged,
        randomly_negate: Any = _Unchanged,
        mag_to_param: Any = _Unchanged,
        param_device: Any = _Unchanged,
        name: Any = _Unchanged,
        augmentation_cls: type[Augmentation] | None = None,
    ) -> Augmentation:
        """Return the same operation with other arguments; omitted arguments keep their values."""
        changes = {
            "mag_range": mag_range,
            "randomly_negate": randomly_negate,
            "mag_to_param": mag_to_param,
            "param_device": param_device,
            "name": name,
        }
        changed = {key: value for key, value in changes.items() if value is not _Unchanged}
        return (augmentation_cls or type(self))(self._op, **{**self._given, **changed})

    def __call__(
        self,
        data: Any,
        *,
        magnitude_bin: int | DataNode | SignedBin | None = None,
        num_magnitude_bins: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Apply the operation.

        Args:
            data: batch of samples.
            magnitude_bin: index of the magnitude: a number, a batch of numbers, or a result of `signed_bin`.
            num_magnitude_bins: number of magnitudes in the range.
            **kwargs: further arguments of the operation; arguments that it doesn't have are ignored.

        Raises:
            ArgumentValueError: a bin is needed, or a further argument, or the bin is none of the bins.
        """
        extra = self.extra_arguments()
        missing = [each.name for each in extra if each.default is each.empty and each.name not in kwargs]
        if missing:
            raise ArgumentValueError(
                f"the augmentation {self.name!r} needs the named arguments {', '.join(missing)}: pass them in the call"
            )
        used = {each.name: kwargs[each.name] for each in extra if each.name in kwargs}
        return called(self._op)(data, self._parameter(data, magnitude_bin, num_magnitude_bins), **used)

    def extra_arguments(self) -> list[inspect.Parameter]:
        """Return what the operation takes besides the batch and the parameter."""
        return list(inspect.signature(self._op).parameters.values())[2:]

    def _get_magnitudes(self, num_magnitude_bins: int) -> Array | None:
        """Return the magnitude of each bin; None for an operation without one.

        Raises:
            ArgumentValueError: the range is invalid, or the number of magnitudes differs from the number of bins.
        """
        mag_range = self.mag_range
        if mag_range is None:
            return None
        if isinstance(mag_range, np.ndarray):
            if len(mag_range) != num_magnitude_bins:
                raise ArgumentValueError(
                    f"the augmentation {self.name!r} has {len(mag_range)} magnitudes, but it is called with "
                    f"num_magnitude_bins={num_magnitude_bins}"
                )
            return mag_range
        if len(mag_range) != 2:
            raise ArgumentValueError(
                f"`mag_range` of the augmentation {self.name!r} must be (low, high) or an array of magnitudes, "
                f"not {mag_range!r}"
            )
        return np.linspace(mag_range[0], mag_range[1], num_magnitude_bins)

    def _parameter(self, data: Any, chosen: int | DataNode | SignedBin | None, bins: int | None) -> Any:
        if self.mag_range is None:
            return None
        if chosen is None or bins is None:
            absent = "magnitude_bin" if chosen is None else "num_magnitude_bins"
            raise ArgumentValueError(f"the augmentation {self.name!r} has magnitudes, so its call needs {absent!r}")
        magnitudes = self._get_magnitudes(bins)
        assert magnitudes is not None
        sign: DataNode | None = None
        if isinstance(chosen, SignedBin):
            sign = chosen.random_sign
            chosen = chosen.magnitude_bin
        if not self.randomly_negate:
            parameter = take(self._map_mags_to_params(magnitudes), chosen)
        else:
            sign = coin() if sign is None else sign
            if not isinstance(chosen, DataNode) and not 0 <= chosen < bins:
                raise ArgumentValueError(f"magnitude bin {chosen} is not one of the {bins} bins")
            both = np.concatenate([self._map_mags_to_params(magnitudes), self._map_mags_to_params(-magnitudes)])
            parameter = take(both, sign * bins + chosen)
        on_gpu = self.param_device == "gpu" or (self.param_device == "auto" and getattr(data, "device", "") == "gpu")
        return parameter.gpu() if on_gpu else parameter

    def _map_mags_to_params(self, magnitudes: Array) -> Array:
        rows = [np.asarray(self.mag_to_param(magnitude)) for magnitude in magnitudes]
        if len({(row.shape, row.dtype) for row in rows}) > 1:
            raise ArgumentValueError(
                f"`mag_to_param` of the augmentation {self.name!r} returns arrays of different shapes or dtypes"
            )
        parameters = np.stack(rows)
        narrow = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}.get(parameters.dtype)
        return parameters if narrow is None else parameters.astype(narrow)

    def __repr__(self) -> str:
        given = [f"{key}={value!r}" for key, value in self._given.items() if value is not None]
        return f"Augmentation({', '.join([repr(self._op), *given])})"


@overload
def augmentation(function: Callable[..., Any]) -> Augmentation: ...
@overload
def augmentation(
    function: None = None,
    *,
    mag_range: tuple[float, float] | Array | None = None,
    randomly_negate: bool | None = None,
    mag_to_param: Callable[[float], npt.ArrayLike] | None = None,
    param_device: str | None = None,
    name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Callable[[Callable[..., Any]], Augmentation]: ...
def augmentation(
    function: Callable[..., Any] | None = None,
    *,
    mag_range: tuple[float, float] | Array | None = None,
    randomly_negate: bool | None = None,
    mag_to_param: Callable[[float], npt.ArrayLike] | None = None,
    param_device: str | None = None,
    name: str | None = None,
    augmentation_cls: type[Augmentation] | None = None,
) -> Any:
    """Decorate an operation, so that automatic augmentation can choose it and its magnitude.

    Args:
        function: function of a batch and a parameter that applies operators and returns a batch. It may have further
            arguments; `apply_rand_augment` and similar functions pass keyword arguments on to them.
        mag_range: lowest and highest magnitude, between which the bins are evenly spaced, or an array with the
            magnitude of each bin. Without it the parameter is None.
        randomly_negate: negate the magnitude for about half of the samples.
        mag_to_param: function that converts a magnitude to the parameter, an array; by default the parameter is the
            magnitude.
        param_device: device of the parameter: "cpu", "gpu", or "auto" for the device of the batch.
        name: name of the augmentation; by default that of the function.
        augmentation_cls: class of the result.

    Example:
        >>> from dali_proxy import fn
        >>> @augmentation(mag_range=(0, 40))
        ... def grain(data, stddev):
        ...     return fn.noise.gaussian(data, stddev=stddev)
        >>> grain.name
        'grain'
    """

    def decorate(decorated: Callable[..., Any]) -> Augmentation:
        return (augmentation_cls or Augmentation)(
            decorated, mag_range, randomly_negate, mag_to_param, param_device, name
        )

    return decorate if function is None else decorate(function)
