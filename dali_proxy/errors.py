"""Exceptions of the torch side. All derive from `ProxyError`, which derives from `pipeline.errors.PipelineError`."""

from __future__ import annotations

from typing import Any

from dali_proxy.pipeline._secrets import redacted
from dali_proxy.pipeline.errors import InputError, PipelineError

__all__ = [
    "BatchError",
    "BatchSizeError",
    "NameTakenError",
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
    """The server isn't running: it wasn't started yet, or it was stopped."""


class ServerDiedError(ProxyError):
    """The server ended while a caller waited for it; the message says how."""


class NameTakenError(ProxyError):
    """A server with this name is running: attach to it, or choose another name."""


class WorkerDiedError(ProxyError):
    """A worker of a loader ended before its batches were complete; the message says which worker, and how."""


class StaleReferenceError(ProxyError):
    """A placeholder's data is gone: it was discarded, or belongs to another process or start of the server."""


class ProxyCallError(ProxyError, TypeError, ValueError):
    """The proxy was called with a wrong number of inputs, or with wrong names."""


class SampleTypeError(ProxyError, InputError, TypeError):
    """A pipeline can't read a sample's input; the message names the input."""


class BatchSizeError(ProxyError, InputError, ValueError):
    """A batch has more samples than the pipeline's maximum."""


class PlaceholderError(ProxyError, TypeError):
    """A placeholder was used like data."""


class PlaceholderAttributeError(PlaceholderError, AttributeError):
    """An attribute that only data has (`shape`, `dtype` and so on) was read from a placeholder."""


class RemoteError(ProxyError):
    """Replaces an exception of the server whose type can't be rebuilt here, with the same text."""


class BatchError(ProxyError):
    """A batch failed in the server. The loop gets this error in place of the batch; the next batch isn't affected.

    `__cause__` is the original exception if it could be rebuilt here, else a `RemoteError`.

    Attributes:
        operator: the operator that failed, as the user wrote it, or an empty string.
        source_line: the user's line that created the operator (``file:line``), or an empty string.
        samples: positions in the batch of the samples that failed; empty if the batch failed as a whole.
        dataset_indices: dataset indices of these samples, as the sampler drew them; empty if they are unknown.
        sample_names: names of these samples, if the proxy was called with `sample_name`; else empty.
        paths: files of these samples, if inputs of the pipeline are paths for `fn.io.file.read` or `fn.io.video`; else
            empty. Of several files of a sample, those that its error names, or all. URLs don't show passwords and
            queries.
        worker: the worker that submitted the batch, such as ``"worker 1 (pid 4711)"``.
        remote_traceback: traceback in the server, as text.
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
        self.remote_traceback = redacted(remote_traceback)

    @property
    def dataset_index(self) -> Any:
        """Dataset index of the first sample that failed, as the sampler drew it; None if unknown."""
        return self.dataset_indices[0] if self.dataset_indices else None

    def __reduce__(self) -> tuple[Any, ...]:
        return (BatchError, (str(self),), self.__dict__)
