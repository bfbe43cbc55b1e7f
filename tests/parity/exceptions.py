"""What the parity tests leave out, and why."""

from __future__ import annotations

#: Operators without a case.
EXCEPTIONS: dict[str, str] = {}

#: Arguments that no case draws, by operator.
UNDRAWN: dict[str, set[str]] = {}
