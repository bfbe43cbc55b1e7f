"""How samples reach the server and results come back."""

from __future__ import annotations
