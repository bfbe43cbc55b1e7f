"""The choice of an operation for each sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dali_proxy.pipeline._graph import DataNode
from dali_proxy.pipeline._graph.selecting import select as select_branch
from dali_proxy.pipeline.auto_aug.core.augmentation import Augmentation
from dali_proxy.pipeline.errors import UnknownArgumentError

__all__ = ["refuse_unused", "select"]


def select(ops: Sequence[Callable[..., Any]], selected_op_idx: DataNode, *op_args: Any, **op_kwargs: Any) -> Any:
    """Apply one of several operations to each sample, like ``ops[selected_op_idx](*op_args, **op_kwargs)``.

    Samples with the same index run together. An operation runs only for the samples that selected it.

    Args:
        ops: operations.
        selected_op_idx: batch of integers on the CPU, from 0 to below the number of operations.
        *op_args: arguments of the operations; data nodes are reduced to the samples that selected the operation.
        **op_kwargs: keyword arguments, treated in the same way.
    """
    if len(ops) == 1:
        return ops[0](*op_args, **op_kwargs)
    return select_branch(selected_op_idx, [partial(op, *op_args, **op_kwargs) for op in ops])


def refuse_unused(augmentations: Sequence[Augmentation], kwargs: Mapping[str, Any], caller: str) -> None:
    """Check that at least one augmentation has each keyword argument.

    Raises:
        UnknownArgumentError: no augmentation has an argument.
    """
    used = {each.name for augmentation in augmentations for each in augmentation.extra_arguments()}
    unknown = sorted(set(kwargs) - used)
    if unknown:
        raise UnknownArgumentError(f"{caller}: none of the augmentations has the argument {unknown[0]!r}")
