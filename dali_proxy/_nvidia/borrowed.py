"""An adapter of NVIDIA's pipelines for the iterators of this project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dali_proxy.pipeline._operator_api.request import TensorList
from dali_proxy.pipeline._operators.user_code.nvidia_pipeline import own_tensors
from dali_proxy.pipeline.errors import PipelineError


class BorrowedPipeline:
    """Provides the methods of `Pipeline` that iterators call.

    Its outputs are copies, so they stay valid while the user holds them; DALI's next runs overwrite the originals.
    """

    def __init__(self, nvidia: Any) -> None:
        self._nvidia = nvidia
        self.max_batch_size: int = nvidia.max_batch_size

    def build(self) -> None:
        """Build the pipeline."""
        self._nvidia.build()

    def schedule_run(self) -> None:
        """Start a batch if there is data."""
        self._nvidia.schedule_run()

    def share_outputs(self) -> tuple[TensorList, ...]:
        """Return the next batch.

        Raises:
            StopIteration: the data has ended.
            PipelineError: the batch failed; NVIDIA's pipeline can't continue after that.
        """
        try:
            outputs = self._nvidia.share_outputs()
        except StopIteration:
            raise
        except Exception as error:
            raise PipelineError(f"NVIDIA DALI: {type(error).__name__}: {error}") from error
        copies = tuple(own_tensors(output) for output in outputs)
        self._nvidia.release_outputs()
        return copies

    def release_outputs(self) -> None:
        """Do nothing: the outputs are copies."""

    def reset(self) -> None:
        """Begin the next epoch if the data has ended."""
        self._nvidia.reset()

    def empty(self) -> bool:
        """Return whether no batch is running."""
        return bool(self._nvidia.empty())

    def reader_meta(self, name: str) -> dict[str, Any]:
        """Return the metadata of a reader.

        Raises:
            PipelineError: there is no such reader.
        """
        found: dict[str, dict[str, Any]] = self._nvidia.reader_meta()
        if name not in found:
            raise PipelineError(f"the pipeline has no reader {name!r}; its readers are {sorted(found)}")
        return found[name]

    def checkpoint(self, notes: Mapping[str, int] | None = None) -> bytes:
        """Raise an error.

        Raises:
            PipelineError: always, because DALI's checkpoints can't store the state of an iterator.
        """
        raise PipelineError("an iterator over a pipeline of NVIDIA's package has no checkpoints")
