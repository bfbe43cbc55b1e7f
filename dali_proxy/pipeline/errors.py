"""The exceptions of the package. All errors that users can see derive from `PipelineError`.

Errors also derive from the types that NVIDIA DALI raises for the same mistake (`TypeError`, `ValueError`, `KeyError`
and others), so that scripts that catch those types work unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dali_proxy.pipeline._secrets import redacted

__all__ = [
    "ArgumentIndexError",
    "ArgumentMismatchError",
    "ArgumentOverflowError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "BuildError",
    "DecodeError",
    "DeviceError",
    "FrameworkArgumentError",
    "GraphError",
    "InputError",
    "InputTypeError",
    "MissingInputError",
    "MissingOutputError",
    "MissingSizeError",
    "NoOutputsError",
    "OperatorError",
    "OperatorIndexError",
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
    """Base class of all errors that this package raises on purpose. Their texts don't show the secrets of URLs."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(redacted(each) if isinstance(each, str) else each for each in arguments))


class GraphError(PipelineError):
    """The graph is invalid. Raised while the graph is described, or when it is built."""


class ArgumentTypeError(GraphError, TypeError):
    """An operator received an unknown argument, or an argument of the wrong type."""


class ArgumentValueError(GraphError, ValueError):
    """An operator received an argument with an invalid value."""


class ArgumentMismatchError(ArgumentTypeError, ArgumentValueError):
    """A value can't be converted to the type of the argument, or the number of inputs is wrong.

    It is both a `TypeError` and a `ValueError`, because either would fit.
    """


class ArgumentIndexError(ArgumentValueError, IndexError):
    """An operator received an axis that its samples don't have."""


class FrameworkArgumentError(ArgumentMismatchError, AssertionError):
    """An iterator, or a function for tensors of torch, received an argument that it can't use."""


class ArgumentOverflowError(ArgumentValueError, OverflowError):
    """A Python integer doesn't fit into the 32 bits of a graph constant."""


class UnknownArgumentError(ArgumentMismatchError, KeyError):
    """A keyword or a dictionary key is unknown or missing."""

    __str__ = PipelineError.__str__  # KeyError would show the message in quotes


class NoOutputsError(ArgumentTypeError, NotImplementedError):
    """The graph of a pipeline has no outputs: the pipeline function returned nothing, or no graph was defined."""


class BuildError(PipelineError):
    """A valid graph can't run on this machine: a GPU, library or file is missing."""


class MissingSizeError(BuildError, ArgumentMismatchError):
    """A pipeline can't run, because it has no batch size or number of threads."""


class DeviceError(BuildError):
    """The device or its driver library is missing."""


class InputError(PipelineError):
    """Data doesn't match the input of the pipeline that it is fed to: name, dtype, ndim or batch size."""


class InputTypeError(InputError, TypeError):
    """Samples of a batch differ in dtype, number of dimensions or layout, or aren't arrays."""


class RaggedError(PipelineError, ValueError):
    """A batch can't be one array, because its samples differ in shape or aren't contiguous."""


class SampleIndexError(PipelineError, IndexError):
    """A sample index is out of range for the batch."""


class MissingInputError(InputError, IndexError):
    """A batch can't run, because an input of the pipeline has no data for it."""


class MissingOutputError(InputError, IndexError):
    """A source returned fewer values than it has outputs."""


class UnknownInputError(InputError, KeyError):
    """Data was fed to an input that the pipeline doesn't have."""

    __str__ = PipelineError.__str__  # KeyError would show the message in quotes


class WorkerError(PipelineError):
    """A worker process of parallel external sources or Python functions ended, or couldn't be started."""


class DecodeError(PipelineError):
    """Encoded data can't be decoded; the message gives the reason."""


class SerializationError(PipelineError):
    """A pipeline can't be serialized, or bytes aren't a serialized pipeline."""


@dataclass(frozen=True)
class SampleFailure:
    """The failure of one sample of a batch.

    Attributes:
        sample: position in the batch.
        error: original exception.
    """

    sample: int
    error: BaseException


class OperatorError(PipelineError):
    """An operator failed while a batch ran. `__cause__` is the original exception.

    Attributes:
        operator: display name of the operator, such as ``fn.decoders.image (name='images')``.
        location: line of the user's code that called the operator, ``file:line``, or an empty string.
        failures: failed samples; empty if the operator failed for the full batch.
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
    def from_failures(cls, failures: Sequence[SampleFailure]) -> OperatorError:
        """Return the error of a batch with failed samples, with the message of the first failure."""
        first = min(failures, key=lambda failure: failure.sample).error
        reason = str(first) if isinstance(first, PipelineError) else f"{type(first).__name__}: {first}"
        ordered = tuple(sorted(failures, key=lambda failure: failure.sample))
        error = cls.type_for(first)(reason, failures=ordered)
        error.__cause__ = first
        return error

    @staticmethod
    def type_for(cause: BaseException | type[BaseException]) -> type[OperatorError]:
        """Return the class of the error for a cause or its type: that for a `ValueError` is also a `ValueError`."""
        kind = cause if isinstance(cause, type) else type(cause)
        if not issubclass(kind, ValueError):
            return OperatorError
        return OperatorIndexError if issubclass(kind, IndexError) else OperatorValueError

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_operator_error, (type(self), str(self), self.operator, self.location, self.failures))


class OperatorValueError(OperatorError, ValueError):
    """An operator failed because of an invalid value: a layout, a shape, a division by zero."""


class OperatorIndexError(OperatorValueError, IndexError):
    """An operator failed because its samples don't have an axis that it was given."""


def _rebuild_operator_error(
    kind: type[OperatorError], message: str, operator: str, location: str, failures: tuple[SampleFailure, ...]
) -> OperatorError:
    return kind(message, operator=operator, location=location, failures=failures)


class SourceError(OperatorError):
    """The source of an `external_source` failed. `__cause__` is the source's exception, also from a worker process.

    If possible, the error also derives from the type of its cause: ``except KeyError`` catches the `KeyError` of a
    source, as it would for a direct call of the source.
    """

    __str__ = PipelineError.__str__

    def like(self, cause: type[BaseException]) -> SourceError:
        """Return this error as an instance of `cause`, too; itself if that isn't possible."""
        if issubclass(SourceError, cause) or not issubclass(cause, Exception) or issubclass(cause, StopIteration):
            return self  # an error that is a StopIteration would end loops silently
        try:
            both = type(cause.__name__, (SourceError, cause), {"__module__": cause.__module__})
            error: SourceError = both(str(self), operator=self.operator, location=self.location, failures=self.failures)
        except TypeError:  # the constructor needs more than a message, or the classes can't be combined
            return self
        return error

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_source_error, (str(self), self.operator, self.location, self.failures))


def _rebuild_source_error(
    message: str, operator: str, location: str, failures: tuple[SampleFailure, ...]
) -> SourceError:
    return SourceError(message, operator=operator, location=location, failures=failures)
