"""The exception tree of the package: every error that a user can cause or meet derives from `PipelineError`.

Errors of a graph also derive from `TypeError` or `ValueError` where Python users expect those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "ArgumentTypeError",
    "ArgumentValueError",
    "BuildError",
    "DecodeError",
    "DeviceError",
    "GraphError",
    "InputError",
    "OperatorError",
    "PipelineError",
    "SampleFailure",
    "SerializationError",
]


class PipelineError(RuntimeError):
    """Base of all errors that this package raises on purpose."""


class GraphError(PipelineError):
    """A graph that can't work, found while the user describes it (or when it is built)."""


class ArgumentTypeError(GraphError, TypeError):
    """An operator got an argument that it doesn't know, or one of the wrong type."""


class ArgumentValueError(GraphError, ValueError):
    """An operator got an argument whose value it can't use."""


class BuildError(PipelineError):
    """A graph that is well formed can't run here: a missing GPU, library or file."""


class DeviceError(BuildError):
    """The device or a library that drives it is missing."""


class InputError(PipelineError):
    """Data fed to an input of a pipeline doesn't fit it: name, dtype, ndim or batch size."""


class DecodeError(PipelineError):
    """Encoded data that can't be decoded; the message gives the reason."""


class SerializationError(PipelineError):
    """A pipeline that can't be turned to bytes, or bytes that are no pipeline."""


@dataclass(frozen=True)
class SampleFailure:
    """What went wrong with one sample of a batch.

    Attributes:
        sample: position in the batch.
        error: the exception as it happened.
    """

    sample: int
    error: BaseException


class OperatorError(PipelineError):
    """An operator failed while a batch ran. The cause is kept as `__cause__`.

    Attributes:
        operator: the operator's display name, such as ``fn.decoders.image (name='images')``.
        location: the user's line that made it, ``file:line``, or an empty string.
        failures: the samples that failed; empty when the operator failed for the batch as a whole.
    """

    def __init__(
        self,
        message: str,
        *,
        operator: str = "",
        location: str = "",
        failures: tuple[SampleFailure, ...] = (),
    ) -> None:
        super().__init__(message)
        self.operator = operator
        self.location = location
        self.failures = failures

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_operator_error, (str(self), self.operator, self.location, self.failures))


def _rebuild_operator_error(
    message: str, operator: str, location: str, failures: tuple[SampleFailure, ...]
) -> OperatorError:
    return OperatorError(message, operator=operator, location=location, failures=failures)
