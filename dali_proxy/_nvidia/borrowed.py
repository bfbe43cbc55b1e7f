"""A pipeline of NVIDIA's package as our iterators use one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline._operator_api.request import TensorList
from pipeline._operators.user_code.nvidia_pipeline import own_tensors
from pipeline.errors import PipelineError

__all__ = ["BorrowedPipeline"]


class BorrowedPipeline:
    """Has those methods of `Pipeline` that iterators call.

    Its outputs are copies, so that they stay valid as long as they are held: DALI's own are overwritten by its next
    runs.

    Args:
        theirs: an `nvidia.dali.Pipeline`.
    """

    def __init__(self, theirs: Any) -> None:
        self._theirs = theirs
        self.max_batch_size: int = theirs.max_batch_size

    def build(self) -> None:
        """Get ready to run."""
        self._theirs.build()

    def schedule_run(self) -> None:
        """Start a batch, if there is data."""
        self._theirs.schedule_run()

    def share_outputs(self) -> tuple[TensorList, ...]:
        """Return the next batch.

        Raises:
            StopIteration: the data has ended.
            PipelineError: the batch failed, and with it the pipeline: NVIDIA's can't go on.
        """
        try:
            outputs = self._theirs.share_outputs()
        except StopIteration:
            raise
        except Exception as error:
            raise PipelineError(f"NVIDIA DALI: {type(error).__name__}: {error}") from error
        made = tuple(own_tensors(output) for output in outputs)
        self._theirs.release_outputs()
        return made

    def release_outputs(self) -> None:
        """Do nothing: what was shared are copies."""

    def reset(self) -> None:
        """Begin the next epoch, if the data has ended."""
        self._theirs.reset()

    def empty(self) -> bool:
        """Return whether no batch is under way."""
        return bool(self._theirs.empty())

    def reader_meta(self, name: str) -> dict[str, Any]:
        """Return what a reader reads.

        Raises:
            PipelineError: there is no such reader.
        """
        found: dict[str, dict[str, Any]] = self._theirs.reader_meta()
        if name not in found:
            raise PipelineError(f"the pipeline has no reader {name!r}; its readers are {sorted(found)}")
        return found[name]

    def checkpoint(self, notes: Mapping[str, int] | None = None) -> bytes:
        """Refuse.

        Raises:
            PipelineError: always: DALI's checkpoints have no place for what an iterator has to keep.
        """
        raise PipelineError("an iterator over a pipeline of NVIDIA's package has no checkpoints")
