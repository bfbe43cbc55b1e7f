"""Says why something failed, for the messages of errors that have another one as their cause."""

from __future__ import annotations

from pipeline._graph.location import SourceLocation
from pipeline.errors import PipelineError

__all__ = ["raised_at", "reason_of"]


def reason_of(error: BaseException) -> str:
    """Return what an error says; of a foreign one also its type, and the line of the user's code that raised it."""
    return str(error) if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}{raised_at(error)}"


def raised_at(error: BaseException) -> str:
    """Return a line for messages that names the line of the user's code that raised an error; empty if it was ours."""
    location = SourceLocation.of_error(error)
    return f"\n  raised at {location}" if location.line else ""
