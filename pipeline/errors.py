"""The exception tree of the package: every error that a user can cause or meet derives from `PipelineError`.

Errors also derive from the types that NVIDIA DALI raises for the same mistake (`TypeError`, `ValueError`, `KeyError`
and so on), so that scripts which catch those work here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "ArgumentMismatchError",
    "ArgumentOverflowError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "BuildError",
    "DecodeError",
    "DeviceError",
    "GraphError",
    "InputError",
    "InputTypeError",
    "MissingInputError",
    "MissingOutputError",
    "MissingSizeError",
    "NoOutputsError",
    "OperatorError",
    "OperatorValueError",
    "PipelineError",
    "RaggedError",
    "SampleFailure",
    "SampleIndexError",
    "SerializationError",
    "SourceError",
    "UnknownArgumentError",
    "UnknownInputError",
    "WorkerError",
]


class PipelineError(RuntimeError):
    """Base of all errors that this package raises on purpose."""


class GraphError(PipelineError):
    """A graph that can't work, found while the user describes it (or when it is built)."""


class ArgumentTypeError(GraphError, TypeError):
    """An operator got an argument that it doesn't know, or one of the wrong type."""


class ArgumentValueError(GraphError, ValueError):
    """An operator got an argument whose value it can't use."""


class ArgumentMismatchError(ArgumentTypeError, ArgumentValueError):
    """A value that can't become what an argument needs, or a wrong number of inputs.

    Which of `TypeError` and `ValueError` fits is a matter of taste, so it is both.
    """


class ArgumentOverflowError(ArgumentValueError, OverflowError):
    """A Python integer that doesn't fit into the 32 bits that a constant of a graph has."""


class UnknownArgumentError(ArgumentMismatchError, KeyError):
    """A keyword, or a key of a dict, that is unknown or missing."""

    __str__ = PipelineError.__str__  # a KeyError would show the quoted message


class NoOutputsError(ArgumentTypeError, NotImplementedError):
    """A pipeline whose graph has no outputs: nothing was returned, or nobody described it."""


class BuildError(PipelineError):
    """A graph that is well formed can't run here: a missing GPU, library or file."""


class MissingSizeError(BuildError, ArgumentMismatchError):
    """A pipeline without a batch size or a number of threads is to run."""


class DeviceError(BuildError):
    """The device or a library that drives it is missing."""


class InputError(PipelineError):
    """Data fed to an input of a pipeline doesn't fit it: name, dtype, ndim or batch size."""


class InputTypeError(InputError, TypeError):
    """Samples of one batch that differ in dtype, number of dimensions or layout, or that are no samples."""


class RaggedError(PipelineError, ValueError):
    """A batch whose samples differ in shape, or lie in different places, where one array is needed."""


class SampleIndexError(PipelineError, IndexError):
    """A batch does not have so many samples."""


class MissingInputError(InputError, IndexError):
    """A batch was to run, and an input of the pipeline has no data for it."""


class MissingOutputError(InputError, IndexError):
    """A source gave fewer values than it has outputs."""


class UnknownInputError(InputError, KeyError):
    """Data for an input that the pipeline doesn't have."""

    __str__ = PipelineError.__str__  # a KeyError would show the quoted message


class WorkerError(PipelineError):
    """A worker process of a parallel external source ended, or could not be started."""


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

    @classmethod
    def of_samples(cls, failures: Sequence[SampleFailure]) -> OperatorError:
        """Return the error of a batch of which samples failed: it says what the first of them says."""
        first = min(failures, key=lambda failure: failure.sample).error
        reason = str(first) if isinstance(first, PipelineError) else f"{type(first).__name__}: {first}"
        ordered = tuple(sorted(failures, key=lambda failure: failure.sample))
        made = cls.type_for(first)(reason, failures=ordered)
        made.__cause__ = first
        return made

    @staticmethod
    def type_for(cause: BaseException) -> type[OperatorError]:
        """Return the class of the error that an operator's failure becomes: a ValueError stays one."""
        return OperatorValueError if isinstance(cause, ValueError) else OperatorError

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_operator_error, (type(self), str(self), self.operator, self.location, self.failures))


class OperatorValueError(OperatorError, ValueError):
    """An operator failed because of a value that it got: a layout, a shape, a division by zero."""


def _rebuild_operator_error(
    kind: type[OperatorError], message: str, operator: str, location: str, failures: tuple[SampleFailure, ...]
) -> OperatorError:
    return kind(message, operator=operator, location=location, failures=failures)


class SourceError(OperatorError):
    """The source of an `external_source` failed. The cause, in a worker process or in this one, is `__cause__`.

    What is raised also derives from the type of the cause, where that is possible: ``except KeyError`` catches the
    `KeyError` of a source, as it does where the source is called directly.
    """

    __str__ = PipelineError.__str__

    def like(self, cause: type[BaseException]) -> SourceError:
        """Return this error as one that also is a `cause`; itself where that can't be."""
        if issubclass(SourceError, cause) or not issubclass(cause, Exception):
            return self
        try:
            both = type(cause.__name__, (SourceError, cause), {"__module__": cause.__module__})
            made: SourceError = both(str(self), operator=self.operator, location=self.location, failures=self.failures)
        except TypeError:  # its constructor needs more than a message, or the two can't be one class
            return self
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_source_error, (str(self), self.operator, self.location, self.failures))


def _rebuild_source_error(
    message: str, operator: str, location: str, failures: tuple[SampleFailure, ...]
) -> SourceError:
    return SourceError(message, operator=operator, location=location, failures=failures)
