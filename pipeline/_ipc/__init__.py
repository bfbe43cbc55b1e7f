"""Between processes: shared memory without names, an authenticated channel, messages with a fixed schema."""

from __future__ import annotations
