"""What a pipeline tells about the data sets that it reads."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, overload

from pipeline._executor import Executor
from pipeline.errors import ArgumentTypeError, PipelineError

__all__ = ["ReportsReaders"]


class ReportsReaders:
    """The part of a pipeline that reports its readers. Asking builds the pipeline."""

    @property
    @abstractmethod
    def executor(self) -> Executor:
        """The executor of the pipeline, which makes the readers."""

    @overload
    def reader_meta(self, name: None = None) -> dict[str, dict[str, int]]: ...
    @overload
    def reader_meta(self, name: str) -> dict[str, int]: ...
    def reader_meta(self, name: str | None = None) -> Any:
        """Return what a reader tells about its data.

        The keys are `epoch_size`, samples in the data set; `epoch_size_padded`, the same with the padding that makes
        all shards equal; `number_of_shards`; `shard_id`; `pad_last_batch`; `stick_to_shard`.

        Args:
            name: of the reader; None for a dict of all readers by name.

        Raises:
            PipelineError: the pipeline has no reader of that name.
        """
        metas = {reader: meta.as_dict() for reader, meta in self.executor.readers.metas.items()}
        if name is None:
            return metas
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a reader must be named by a str, not {type(name).__name__}")
        if name not in metas:
            known = ", ".join(map(repr, metas)) or "none"
            raise PipelineError(f"the pipeline has no reader {name!r}; its readers are: {known}")
        return metas[name]

    @overload
    def epoch_size(self, name: None = None) -> dict[str, int]: ...
    @overload
    def epoch_size(self, name: str) -> int: ...
    def epoch_size(self, name: str | None = None) -> Any:
        """Return the number of samples of an epoch, with the padding that makes all shards equal.

        Args:
            name: of the reader; None for a dict of all readers by name.

        Raises:
            PipelineError: the pipeline has no reader of that name.
        """
        if name is None:
            return {reader: meta["epoch_size_padded"] for reader, meta in self.reader_meta().items()}
        return self.reader_meta(name)["epoch_size_padded"]
