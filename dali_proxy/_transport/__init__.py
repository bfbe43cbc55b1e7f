"""The way of samples to the server and of results back: messages, addresses, result slots."""

from __future__ import annotations
