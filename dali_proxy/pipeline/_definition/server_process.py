"""Whether this process was started to run a pipeline, or is the user's."""

from __future__ import annotations

_is_server = False


def declare_server_process() -> None:
    """Declare that this process only runs a pipeline, and not the user's script."""
    global _is_server
    _is_server = True


def in_server_process() -> bool:
    """Return whether this process only runs a pipeline. If not, functions may share objects with the user's script."""
    return _is_server
