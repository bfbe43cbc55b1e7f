"""`Command`: one subcommand of ``dali-proxy``, and how they are found."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

_COMMANDS = "dali_proxy._cli.commands"


class CommandError(Exception):
    """An error that ends the command with one message.

    Args:
        message: what is wrong, and what to do.
        status: the exit status: 1 for a failure, 2 for wrong arguments.
    """

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True)
class Command:
    """A subcommand. A module of `dali_proxy._cli.commands` that assigns one to `COMMAND` adds it, under its own name.

    Importing such a module must be cheap: `execute` imports what it needs.

    Attributes:
        purpose: What it does, in the imperative and without a period.
        execute: Runs it with the parsed options. Returns the exit status; see `main` for their meanings.
        add_arguments: Adds its arguments to its parser.
        description: The text of ``--help``, with its line breaks; by default the purpose.
        usage: The usage, if argparse's isn't right.
        handles_interrupts: Whether Ctrl-C and errors of imports are the command's own affair.
    """

    purpose: str
    execute: Callable[[argparse.Namespace], int]
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    description: str = ""
    usage: str | None = None
    handles_interrupts: bool = False


def find_commands() -> dict[str, Command]:
    """Return all subcommands by name, sorted."""
    package = importlib.import_module(_COMMANDS)
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return {name: importlib.import_module(f"{_COMMANDS}.{name}").COMMAND for name in names}
