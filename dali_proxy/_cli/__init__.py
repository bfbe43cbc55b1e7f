"""The command ``dali-proxy``: its command line, and a module for each subcommand."""

from __future__ import annotations

from dali_proxy._cli.command_line import main

__all__ = ["main"]
