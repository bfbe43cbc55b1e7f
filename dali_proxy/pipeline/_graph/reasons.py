"""Formats the cause of an error for its message."""

from __future__ import annotations

from dali_proxy.pipeline._graph.location import SourceLocation
from dali_proxy.pipeline.errors import PipelineError


def reason_of(error: BaseException) -> str:
    """Return the message of an error; for a foreign error also its type, and the user's line that raised it."""
    return str(error) if isinstance(error, PipelineError) else said_by(error) + raised_at(error)


def said_by(error: BaseException) -> str:
    """Return the type and the message of a foreign error. Foreign code formats the message, and may fail, too."""
    try:
        text = str(error)
    except Exception as failure:  # noqa: BLE001 - the first error is the one to report
        text = f"(its __str__ raised {type(failure).__name__})"
    return f"{type(error).__name__}: {text}"


def raised_at(error: BaseException) -> str:
    """Return a line for messages that names the user's line that raised an error; empty if our code raised it."""
    location = SourceLocation.from_error(error)
    return f"\n  raised at {location}" if location.line else ""
