"""Transport of samples to the server and of results back."""

from __future__ import annotations
