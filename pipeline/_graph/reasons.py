"""Says why something failed, for the messages of errors that have another one as their cause."""

from __future__ import annotations

from pipeline._graph.location import SourceLocation
from pipeline.errors import PipelineError

__all__ = ["raised_at", "reason_of", "said_by"]


def reason_of(error: BaseException) -> str:
    """Return what an error says; of a foreign one also its type, and the line of the user's code that raised it."""
    return str(error) if isinstance(error, PipelineError) else said_by(error) + raised_at(error)


def said_by(error: BaseException) -> str:
    """Return the type of a foreign error and what it says; its text is made by foreign code, which may fail too."""
    try:
        text = str(error)
    except Exception as failure:  # noqa: BLE001 - the first error is the one to report
        text = f"(its __str__ raised {type(failure).__name__})"
    return f"{type(error).__name__}: {text}"


def raised_at(error: BaseException) -> str:
    """Return a line for messages that names the line of the user's code that raised an error; empty if it was ours."""
    location = SourceLocation.of_error(error)
    return f"\n  raised at {location}" if location.line else ""
