"""Exceptions of the torch side. All derive from `ProxyError`, and so from `pipeline.errors.PipelineError`."""

from __future__ import annotations

from typing import Any

from pipeline.errors import InputError, PipelineError

__all__ = [
    "BatchError",
    "BatchSizeError",
    "PlaceholderAttributeError",
    "PlaceholderError",
    "ProxyCallError",
    "ProxyError",
    "RemoteError",
    "SampleTypeError",
    "ServerClosedError",
    "ServerDiedError",
    "StaleReferenceError",
    "WorkerDiedError",
]


class ProxyError(PipelineError):
    """Base of all errors of the torch side."""


class ServerClosedError(ProxyError):
    """The server isn't running: not started yet, or stopped."""


class ServerDiedError(ProxyError):
    """The server went away while somebody waited for it; the message says how."""


class WorkerDiedError(ProxyError):
    """A worker of a loader ended while its batches were wanted; the message says which, and how."""


class StaleReferenceError(ProxyError):
    """A placeholder whose data is gone: of an earlier start of the server, of another process, or discarded."""


class ProxyCallError(ProxyError, TypeError):
    """The proxy was called with a wrong number of inputs, or with wrong names."""


class SampleTypeError(ProxyError, InputError, TypeError):
    """A sample's input is nothing that a pipeline can read; the message names the input."""


class BatchSizeError(ProxyError, InputError, ValueError):
    """A batch has more samples than the pipeline's maximum."""


class PlaceholderError(ProxyError, TypeError):
    """A placeholder was used as if it were data already."""


class PlaceholderAttributeError(PlaceholderError, AttributeError):
    """An attribute that only data has (`shape`, `dtype` and so on) was asked of a placeholder."""


class RemoteError(ProxyError):
    """Stands for an exception of the server whose type can't be rebuilt here; its text is kept."""


class BatchError(ProxyError):
    """A batch failed in the server. It is raised where the batch would have come; the next batch is not affected.

    `__cause__` is the exception that happened in the server, where it could be rebuilt, else a `RemoteError`.

    Attributes:
        operator: the operator that failed, as the user wrote it, or an empty string.
        source_line: the user's line that made the operator (``file:line``), or an empty string.
        samples: positions in the batch of the samples that failed; empty when the batch failed as a whole.
        dataset_indices: dataset indices of these samples, as the sampler drew them; empty when they are not known.
        sample_names: names of these samples, where the proxy was called with `sample_name`; else empty.
        paths: files of these samples, where an input of the pipeline is a path for `fn.io.file.read`; else empty.
        worker: who submitted the batch, such as ``"worker 1 (pid 4711)"``.
        remote_traceback: the traceback of the server, as text.
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str = "",
        source_line: str = "",
        samples: tuple[int, ...] = (),
        dataset_indices: tuple[Any, ...] = (),
        sample_names: tuple[str, ...] = (),
        paths: tuple[str, ...] = (),
        worker: str = "",
        remote_traceback: str = "",
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.source_line = source_line
        self.samples = samples
        self.dataset_indices = dataset_indices
        self.sample_names = sample_names
        self.paths = paths
        self.worker = worker
        self.remote_traceback = remote_traceback

    @property
    def dataset_index(self) -> Any:
        """Dataset index of the first sample that failed, as the sampler drew it; None if unknown."""
        return self.dataset_indices[0] if self.dataset_indices else None

    def __reduce__(self) -> tuple[Any, ...]:
        return (BatchError, (str(self),), self.__dict__)
