"""Communication between processes: shared memory without names, authenticated channels, messages with a schema."""

from __future__ import annotations
