"""Batches that a user declared for a GPU and that are on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Collection, Sequence
from typing import Any, TypeVar, cast

from dali_proxy.pipeline.tensors.base import TensorListBase
from dali_proxy.pipeline.tensors.cpu import TensorCPU, TensorListCPU

__all__ = ["MovedTensorListCPU", "as_on_gpu"]

_Batch = TypeVar("_Batch", bound=TensorListBase)
_OnCpu = TypeVar("_OnCpu", bound=TensorListCPU)


class MovedTensorListCPU(TensorListCPU):
    """A batch on the CPU with the interface of a batch on a GPU: `at` returns tensors, whose `shape` is a method."""

    __slots__ = ()

    @classmethod
    def over(cls, batch: TensorListCPU) -> MovedTensorListCPU:
        """Return a batch over the same memory."""
        return _with_class(batch, cls)

    def at(self, index: int) -> TensorCPU:  # type: ignore[override]
        """Return a sample."""
        return self[index]

    def as_cpu(self) -> TensorListCPU:
        """Return a batch over the same memory, with the interface of the CPU."""
        return _with_class(self, TensorListCPU)


def _with_class(batch: TensorListCPU, cls: type[_OnCpu]) -> _OnCpu:
    result: Any = copy.copy(batch)
    result.__class__ = cls
    return cast(_OnCpu, result)


def as_on_gpu(outputs: Sequence[_Batch], numbers: Collection[int]) -> tuple[_Batch, ...]:
    """Return outputs of a pipeline, those with the given numbers with the interface of a batch on a GPU."""
    return tuple(
        MovedTensorListCPU.over(output) if number in numbers and isinstance(output, TensorListCPU) else output  # type: ignore[misc]
        for number, output in enumerate(outputs)
    )
