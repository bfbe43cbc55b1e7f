"""Forms of outputs whose samples differ in shape: a list of tensors, a nested tensor or a padded tensor."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import torch

from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

Ragged = Literal["list", "nested", "pad"]

_FORMS = ("list", "nested", "pad")


def check_ragged(ragged: Any) -> Ragged | None:
    """Return `ragged` if it is one of the forms or None.

    Raises:
        ArgumentValueError: `ragged` is neither.
    """
    if ragged is not None and ragged not in _FORMS:
        raise ArgumentValueError(f'ragged must be "list", "nested" or "pad", not {ragged!r}')
    checked: Ragged | None = ragged
    return checked


def formed(samples: list[torch.Tensor], ragged: Ragged) -> Any:
    """Convert samples that differ in shape to a form.

    Args:
        samples: tensors of one dtype, device and number of dimensions.
        ragged: "list" for the same list, without a copy; "nested" for a nested tensor, with the layout
            ``torch.jagged`` if the samples differ in one dimension, else ``torch.strided``; "pad" for one tensor of
            shape ``[N, ...]``, as large as the largest sample in each dimension, with zeros after the smaller ones.

    Raises:
        ArgumentTypeError: torch doesn't support such nested tensors of this dtype.

    Example:
        >>> formed([torch.ones(1), torch.ones(3)], "pad")
        tensor([[1., 0., 0.],
                [1., 1., 1.]])
    """
    if ragged == "nested":
        return _nested(samples)
    if ragged == "pad":
        return _padded(samples)
    return samples


def _nested(samples: list[torch.Tensor]) -> torch.Tensor:
    lengths = zip(*(sample.shape for sample in samples), strict=True)
    layout = torch.jagged if sum(len(set(each)) > 1 for each in lengths) == 1 else torch.strided
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*nested tensors is in prototype stage")
            return torch.nested.as_nested_tensor(samples, layout=layout)
    except NotImplementedError as error:
        raise ArgumentTypeError(
            f"torch has no nested tensors of {samples[0].dtype} whose samples differ in more than one dimension: "
            'use ragged="list" or "pad", or cast in the pipeline'
        ) from error


def _padded(samples: list[torch.Tensor]) -> torch.Tensor:
    largest = [max(lengths) for lengths in zip(*(sample.shape for sample in samples), strict=True)]
    padded = samples[0].new_zeros((len(samples), *largest))
    for row, sample in zip(padded, samples, strict=True):
        row[tuple(slice(length) for length in sample.shape)] = sample
    return padded
