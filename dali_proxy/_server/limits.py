"""What sizes and times a server can keep to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dali_proxy._transport.origin import MAX_SAMPLES
from pipeline.errors import ArgumentValueError, MissingSizeError

if TYPE_CHECKING:
    from pipeline import Pipeline

__all__ = ["check_limits", "check_sizes"]

_LARGEST_BATCH = MAX_SAMPLES // 2  # two numbers, at least, say where a sample lies


def check_sizes(pipeline: Pipeline) -> None:
    """Refuse a pipeline for which nobody has said how large its batches are, or how many threads it has.

    Raises:
        MissingSizeError: it is one.
        ArgumentValueError: its batches are larger than a message can describe.
    """
    for name, size in (("batch_size", pipeline.max_batch_size), ("num_threads", pipeline.num_threads)):
        if size < 1:
            raise MissingSizeError(f"DALIServer: the pipeline has no {name}: pass {name}= (1 or more) to it")
    if pipeline.max_batch_size > _LARGEST_BATCH:
        raise ArgumentValueError(
            f"DALIServer: the pipeline has a batch_size of {pipeline.max_batch_size}: a server takes {_LARGEST_BATCH} "
            "at most"
        )


def check_limits(timeout: float | None, **sizes: int) -> None:
    """Refuse what no server can keep to.

    Args:
        timeout: seconds, or None.
        **sizes: numbers of bytes, by the names of their arguments.

    Raises:
        ArgumentValueError: one of them is 0, negative or no number.
    """
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ArgumentValueError(f"DALIServer: {name} must be a number of bytes, 1 or more, not {size!r}")
    if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
        raise ArgumentValueError(f"DALIServer: timeout must be seconds, more than 0, or None, not {timeout!r}")
